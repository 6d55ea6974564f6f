"""Whether everything a stored table stands on is there and is what was written."""

from __future__ import annotations

from collections.abc import Iterator

from cleave.ckks.secret_key import SecretKey
from cleave.pipeline import Progress
from cleave.store.collect import news
from cleave.store.locate import Stores
from cleave.store.manifest import Manifest, Object
from cleave.store.stored import Stored
from cleave.store.tables import Opened, Tables
from cleave_shared.dataclass import dataclass
from cleave_shared.errors import CheckFailed


@dataclass(frozen=True, slots=True)
class Damage:
    """One object that is lost or damaged, and what of the table it holds."""

    what: str
    reason: str


def verify(tables: Tables, opened: Opened, stored: Stored, progress: Progress) -> list[Damage]:
    """Every object of the table, read and checked: its digest, and that what is sealed opens. Raises StoreError."""
    found: list[Damage] = []
    every = list(_objects(opened))
    advance = progress.stage("verify", sum(which.bytes for _, which, _ in every), "bytes")
    for what, which, kind in every:
        try:
            if kind == "sealed":
                tables.unseal(opened.vault, which)
            else:
                tables.read(which, plain=kind == "plain")
        except CheckFailed as failure:
            found.append(Damage(what, failure.message))
        advance(which.bytes)
    if not found:  # then every total must open as well: another key, or another's ciphertexts, would show
        parts = [(column.measure, column.part) for column in stored.columns()]
        stored.totals(parts)
    return found


def verify_heads(stores: Stores, key: SecretKey, manifest: Manifest) -> list[Damage]:
    """Whether each contributor's head bears its signature and is no older than what was taken in. Raises StoreError."""
    found = []
    for each in manifest.contributors:
        try:
            news(stores, key, manifest, each)
        except CheckFailed as failure:
            found.append(Damage("the head of a contribution", failure.message))
    return found


def _objects(opened: Opened) -> Iterator[tuple[str, Object, str]]:
    yield "the cells", opened.manifest.cells, "sealed"
    for number, segment in enumerate(opened.manifest.segments, 1):
        place = f"segment {number} ({segment.rows:,} rows)"
        yield f"{place}: index", segment.index, "sealed"
        for lane, objects in enumerate(segment.lanes):
            for part, each in enumerate(objects):
                yield f"{place}: encrypted rows, lane {lane}, part {part}", each, "ciphertext"
        for totals in segment.totals:
            for lane, each in enumerate(totals.lanes):
                yield f"{place}: totals, lane {lane}", each, "ciphertext"
        if segment.sealed:
            yield f"{place}: sealed columns", segment.sealed, "sealed"
        if segment.order:
            yield f"{place}: order of the rows", segment.order, "sealed"
        if segment.plain:
            yield f"{place}: plain columns", segment.plain, "plain"
