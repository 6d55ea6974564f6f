"""Views: what a reader of some columns may know of one version of a table.

With each version the owner writes a view for each reader, sealed under a key derived from the reader's registration. A
view has the keys of the reader's columns, and a manifest of these columns only: no measures, cells, contributors or
releases, and of other columns at most the names. So a reader follows every change, and gets new keys of its columns.

If rows are stored in another order than they were put, a reader also gets the column of row numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter, ValidationError

from cleave.ckks.owner_key import bytes_of, encoded
from cleave.store import pages
from cleave.store.heads import TableHead
from cleave.store.manifest import (
    ROW,
    Manifest,
    Object,
    Reader,
    Segment,
    SegmentPage,
    Segments,
    StoredModel,
    described,
    new_id,
)
from cleave.store.paged import Page
from cleave.store.reader import LostError, Objects, Opened
from cleave.store.schemas import load_stored_schema
from cleave.store.vault import Purpose, Vault, key_of_object, open_record, seal_record
from cleave.table.schema import Schema, dump_schema
from cleave_shared.errors import DAMAGED, CheckFailed
from cleave_shared.wire import Hex

MOST_READERS = 64
_KEY_BYTES = 32
_DIGITS = 40  # bytes of a number, as in manifests
_PLACES = TypeAdapter(dict[Hex, Object])
MOST_PLACES = 64 << 10  # bytes of the list of views


class View(StoredModel):
    """`keys` of columns by column id, in base64. `others`: names of columns that the reader has no keys of."""

    format: Literal[3] = 3
    manifest: Manifest
    keys: dict[Hex, Annotated[str, Field(pattern=r"^[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=$")]]
    others: tuple[str, ...] = ()

    @property
    def vault(self) -> ReaderVault:
        """The keys of the columns, to open their objects."""
        return ReaderVault({each: bytes_of(dict(self.keys), each, _KEY_BYTES) for each in self.keys})


class ReaderVault(Vault):
    """The keys of one reader's columns, by column id. It has no other key."""

    def __init__(self, columns: Mapping[str, bytes]) -> None:
        self._columns = columns

    def key_of(self, purpose: Purpose, name: str) -> bytes:  # noqa: ARG002 - whatever it is
        raise CheckFailed("stored", "a reader has keys of columns alone", hint=DAMAGED)

    def column_key(self, column: str) -> bytes:
        if column not in self._columns:
            raise CheckFailed("stored", "a reader has no key of this column", hint=DAMAGED)
        return self._columns[column]

    def pseudorandom(self, label: str, length: int) -> bytes:  # noqa: ARG002 - as above
        raise CheckFailed("stored", "a reader has keys of columns alone", hint=DAMAGED)


def places_of(manifest: Manifest, reader: Reader) -> list[int]:
    """Return the numbers of the sealed columns that a reader has keys of; ROW is one of them."""
    names = {*reader.columns, ROW}
    return [place for place, each in enumerate(manifest.sealed) if each.name in names]


@dataclass(frozen=True, slots=True)
class Views:
    """The views of one version. `places`: the object that lists them; None without readers. `views`: by reader id.
    `written`: objects that were written for them. `names`: of all their objects.
    """

    places: Object | None = None
    views: Mapping[str, View] = field(default_factory=dict)
    written: tuple[Object, ...] = ()
    names: frozenset[str] = frozenset()


def view_of(manifest: Manifest, reader: Reader, vault: Vault) -> View:
    """Return the view that `reader` gets of a version. `vault` has the owner's keys. Its pages are not stored yet."""
    schema = load_stored_schema(manifest)
    mine = schema.only(reader.columns)
    if {*schema.privacy.entity} <= {*mine.names}:
        mine = replace(mine, privacy=schema.privacy)
    places, plain = places_of(manifest, reader), bool(mine.plain)
    sealed = tuple(manifest.sealed[place] for place in places)
    shown = Manifest(  # names all that a reader sees: whatever else a manifest has is left at its default
        table=manifest.table,
        table_id=manifest.table_id,
        version=manifest.version,
        changed=manifest.changed,
        profile=manifest.profile,
        schema_toml=dump_schema(_shown(mine)),
        by=(),
        key=manifest.key if {*manifest.key} <= {*mine.names} else (),
        measures=(),
        sealed=sealed,
        secret=manifest.secret,
        cells=(),
        segments=Segments(
            (Page(None, partial(_segments_in, page, places, plain=plain)) for page in manifest.segments.pages),
            _segments(manifest.segments.last, places, plain=plain),
        ),
    )
    return View(
        manifest=shown,
        keys={each.id: encoded(vault.column_key(each.id)) for each in sealed},
        others=tuple(each for each in schema.names if each not in mine.names) if reader.names else (),
    )


def _shown(schema: Schema) -> Schema:
    """Return `schema` without reasons, because they may mention other columns."""
    columns = tuple(replace(each, reason="") for each in schema.columns)
    return replace(schema, columns=columns, derived=tuple(replace(each, reason="") for each in schema.derived))


def _segments_in(page: Page[Segment, SegmentPage], places: Sequence[int], *, plain: bool) -> tuple[Segment, ...]:
    return _segments(page.items, places, plain=plain)


def _segments(every: Iterable[Segment], places: Sequence[int], *, plain: bool) -> tuple[Segment, ...]:
    return tuple(_segment(each, places, plain=plain) for each in every)


def _segment(segment: Segment, places: Sequence[int], *, plain: bool) -> Segment:
    return Segment(  # as above
        id=segment.id,
        added=segment.added,
        rows=segment.rows,
        cells=1,
        index="",
        columns=tuple(segment.columns[place] for place in places),
        totals=(),
        plain=segment.plain if plain else None,
    )


def write_views(objects: Objects, folder: str, manifest: Manifest, vault: Vault, before: Opened | None = None) -> Views:
    """Seal and write a view for each reader. Pages of the version `before` that did not change are named again.

    Raises StoreError.
    """
    if not manifest.readers:
        return Views()
    old = read_views(objects, before).views if before is not None else {}
    written: list[Object] = []
    views, places = dict[str, View](), dict[str, Object]()

    def seal(reader: str, content: bytes) -> Object:
        name = f"{folder}/{new_id()}"
        sealed = seal_record(key_of_object(vault.view_key(reader), name), name, content, _DIGITS)
        objects.stores.sensitive.write(name, sealed)
        written.append(described(name, sealed))
        return written[-1]

    for reader in manifest.readers:
        view = view_of(manifest, reader, vault)
        if before is not None and reader.id in old:
            view = _with_old_pages(view, manifest, old[reader.id].manifest, before.manifest)
        shown = pages.stored(view.manifest, partial(seal, reader.id), lambda _: None)
        views[reader.id] = view.model_copy(update={"manifest": shown})
        places[reader.id] = seal(reader.id, views[reader.id].model_dump_json().encode())
    listed = objects.write(folder, _PLACES.dump_json(places))
    names = {each.name for each in (listed, *places.values())}.union(
        *(pages.pages_of(each.manifest) for each in views.values())
    )
    return Views(listed, views, (listed, *written), frozenset(names))


def _with_old_pages(view: View, manifest: Manifest, old: Manifest, before: Manifest) -> View:
    """`view` of `manifest` with the pages of a reader's earlier view of the version `before`, where they are equal."""
    shown = view.manifest
    if (shown.schema_toml, shown.sealed) != (old.schema_toml, old.sealed):
        return view
    theirs = {
        mine.stored.name: page
        for mine, page in zip(before.segments.pages, old.segments.pages, strict=True)
        if mine.stored
    }
    every = (
        theirs.get(mine.stored.name, page) if mine.stored is not None else page
        for mine, page in zip(manifest.segments.pages, shown.segments.pages, strict=True)
    )
    segments = Segments(every, shown.segments.last)
    return view.model_copy(update={"manifest": shown.model_copy(update={"segments": segments})})


def read_views(objects: Objects, opened: Opened) -> Views:
    """The views of a version that its owner opened. Lost or damaged ones are left out."""
    head = opened.head
    if head.views is None:
        return Views()
    names, views = {head.views.name}, dict[str, View]()
    with suppress(LostError):
        for reader, which in views_in(objects.read(head.views, cached=False)).items():
            names.add(which.name)
            with suppress(CheckFailed):
                views[reader] = open_view(opened.vault.view_key(reader), head, which, objects.read(which, cached=False))
                names |= pages.pages_of(views[reader].manifest).keys()
    return Views(head.views, views, (), frozenset(names))


def views_in(content: bytes) -> dict[str, Object]:
    """Return the objects of all views, by reader id, from the list that a head names. Raises CheckFailed."""
    try:
        return _PLACES.validate_json(content)
    except ValidationError:
        raise CheckFailed("stored", "the list of a table's views is damaged", hint=DAMAGED) from None


def view_in(content: bytes, reader: str) -> Object | None:
    """Return the object of a reader's view in such a list; None if it was revoked. Raises CheckFailed."""
    return views_in(content).get(reader)


def open_view(key: bytes, head: TableHead, which: Object, content: bytes) -> View:
    """Open the view `which`, sealed under `key`, of the version that `head` names. Raises CheckFailed."""
    failed = CheckFailed("stored", "a reader's view of a table is damaged, or of another version", hint=DAMAGED)
    try:
        record = open_record(key_of_object(key, which.name), which.name, content)
        view = View.model_validate_json(record, extra=head.extra)
    except ValidationError:
        raise failed from None
    manifest = view.manifest
    ids = {each.id for each in manifest.sealed}
    if (manifest.table_id, manifest.version) != (head.table_id, head.version) or ids != view.keys.keys():
        raise failed
    return view
