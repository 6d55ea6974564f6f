"""Check that all objects of a stored table are present and as they were written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from cleave.share.collect import news
from cleave.store.manifest import Object, Segment
from cleave.store.measures import columns_of
from cleave.store.vault import Purpose
from cleave.sums.stored import Stored
from cleave.table.progress import Progress
from cleave_shared.errors import CheckFailed


@dataclass(frozen=True, slots=True)
class Damage:
    """One object that is lost or damaged, and what of the table it holds."""

    what: str
    reason: str


def verify(stored: Stored, progress: Progress) -> list[Damage]:
    """Read and check every object of the table: its digest, and that what is sealed opens. Check its log too, and that
    each contributor's head bears its signature and is no older than what was taken in. Raises StoreError.
    """
    found: list[Damage] = []
    every = list(_objects(stored))
    advance = progress.stage("verify", sum(which.bytes for _, which, _ in every), "bytes")
    for what, which, check in every:
        try:
            check()
        except CheckFailed as failure:
            found.append(Damage(what, failure.message))
        advance(which.bytes)
    if not found:  # then every total must open as well: another key, or another's ciphertexts, would show
        stored.totals([(column.measure, column.part) for column in columns_of(stored.manifest.measures)])
    try:
        stored.tables.log(stored.opened)
    except CheckFailed as failure:
        found.append(Damage("the log", failure.message))
    for each in stored.manifest.contributors:
        try:
            news(stored.tables, stored.manifest, each)
        except CheckFailed as failure:
            found.append(Damage("the head of a contribution", failure.message))
    return found


def _objects(stored: Stored) -> Iterator[tuple[str, Object, Callable[[], object]]]:
    """All objects, what each holds, and what reads and checks it."""

    def sealed(purpose: Purpose, which: Object) -> tuple[Object, Callable[[], object]]:
        return which, lambda: stored.tables.unseal(stored.vault, purpose, which)

    def digested(which: Object, *, plain: bool = False) -> tuple[Object, Callable[[], object]]:
        return which, lambda: stored.tables.read(which, plain=plain)

    def column(segment: Segment, number: int) -> tuple[Object, Callable[[], object]]:
        return segment.columns[number].object, lambda: stored.rows.open_all(segment, number)

    manifest = stored.manifest
    yield "the CKKS secret", *sealed("ckks", manifest.secret)
    yield "the cells", *sealed("cells", manifest.cells)
    for number, segment in enumerate(manifest.segments, 1):
        place = f"segment {number} ({segment.rows:,} rows)"
        yield f"{place}: index", *sealed("cells", segment.index)
        for at, each in enumerate(manifest.sealed):
            yield f"{place}: column {each.name!r}", *column(segment, at)
        for totals in segment.totals:
            for lane, which in enumerate(totals.lanes):
                yield f"{place}: totals, lane {lane}", *digested(which)
        if segment.plain:
            yield f"{place}: plain columns", *digested(segment.plain, plain=True)
        if segment.scan:
            yield f"{place}: order of the rows for scans", *sealed("rows", segment.scan.order)
            for lane, objects in enumerate(segment.scan.lanes):
                for part, which in enumerate(objects):
                    yield f"{place}: rows for scans, lane {lane}, part {part}", *digested(which)
