"""The pages of a manifest's lists: segments, named appends, and handled parts of contributors.

A page of segments says in the manifest which combinations of plain by values its rows have, so that a question reads
only pages that it may need. Other by columns do not choose pages, because reads must not depend on their values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeVar

from pydantic import ValidationError

from cleave.store.manifest import Contributor, Manifest, Object, Segment, SegmentPage, Segments, StoredPage
from cleave.store.paged import Content, Page, Paged
from cleave_shared import limits
from cleave_shared.errors import DAMAGED, CheckFailed

T = TypeVar("T")

Pages = Mapping[str, Page[Any, Any]]  # by the name of the object


def stored(
    manifest: Manifest, seal: Callable[[bytes], Object], choosing: Callable[[Sequence[Segment]], str | None]
) -> Manifest:
    """`manifest` with all pages stored. `seal` writes the content of one. `choosing`: see `SegmentPage.cells`."""

    def write(items: tuple[object, ...], content: bytes) -> StoredPage:
        return StoredPage(object=seal(content), count=len(items))

    def write_segments(items: tuple[Segment, ...], content: bytes) -> SegmentPage:
        return SegmentPage(
            object=seal(content),
            count=len(items),
            rows=sum(each.rows for each in items),
            bytes=sum(each.bytes_of_parts() for each in items),
            columns=sum(each.bytes_of_columns() for each in items),
            plain=sum(each.plain.bytes for each in items if each.plain is not None),
            halves=sum(each.plain is not None for each in items),
            most_cells=max(each.cells for each in items),
            contributors=tuple(dict.fromkeys(each.contributor for each in items)),
            cells=choosing(items),
        )

    return _each_list(manifest, lambda of: of.written(write), manifest.segments.written(write_segments))


def opened(
    manifest: Manifest, read: Callable[[Object], bytes], extra: Literal["ignore", "forbid"], known: Pages
) -> Manifest:
    """`manifest` whose pages are read by `read` when they are first used. `known`: pages of another version.

    Reading one raises CheckFailed, StoreError.
    """

    def load(content: type[Content[T]], page: StoredPage) -> tuple[T, ...]:
        if page.object.bytes > limits.MAX_MANIFEST_BYTES:
            raise CheckFailed("stored", f"a page of a table has more than {limits.MAX_MANIFEST_BYTES:,} bytes")
        try:
            items = content.model_validate_json(read(page.object), extra=extra).items
        except ValidationError:
            raise _unfit() from None
        if len(items) != page.count:
            raise _unfit()
        return items

    def load_segments(page: SegmentPage) -> tuple[Segment, ...]:
        items = load(manifest.segments.CONTENT, page)
        if sum(each.rows for each in items) != page.rows:
            raise _unfit()
        return items

    def loading(of: Paged[Any, Any]) -> Paged[Any, Any]:
        return of.loading(lambda page: load(of.CONTENT, page), known)

    return _each_list(manifest, loading, manifest.segments.loading(load_segments, known))


def pages_of(manifest: Manifest) -> Pages:
    """The stored pages of all its lists."""
    parts = (each.parts for each in manifest.contributors)
    lists: list[Paged[Any, Any]] = [manifest.segments, manifest.batches, *parts]
    return {page.stored.name: page for each in lists for page in each.pages if page.stored is not None}


def unreadable(manifest: Manifest) -> dict[str, CheckFailed]:
    """The pages that are lost or damaged, by name, after all are read. Raises StoreError."""
    failures: dict[str, CheckFailed] = {}
    for name, page in pages_of(manifest).items():
        try:
            _ = page.items
        except CheckFailed as failure:
            failures[name] = failure
    return failures


def objects_of_pages(manifest: Manifest) -> list[Object]:
    """The objects of all pages of its lists."""
    return [page.stored.object for page in pages_of(manifest).values() if page.stored is not None]


def _each_list(manifest: Manifest, changed: Callable[[Any], Any], segments: Segments) -> Manifest:
    def of(contributor: Contributor) -> Contributor:
        return contributor.model_copy(update={"parts": changed(contributor.parts)})

    update = {"segments": segments, "batches": changed(manifest.batches)}
    return manifest.model_copy(update={**update, "contributors": tuple(map(of, manifest.contributors))})


def _unfit() -> CheckFailed:
    return CheckFailed("stored", "a page of a table is not what its manifest says", hint=DAMAGED)
