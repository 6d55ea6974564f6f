"""Make, renew and revoke the releases of a table, as its owner.

A release is a version of the table: the head of the table is its one commit point, and with it comes the ledger of all
that was ever released. The analysts' heads follow, and each is replaced only by a newer one. A command that was
stopped in between is finished by the next. Until an analyst's head names the new totals, the old ones stay.
"""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cleave.ckks.public_key import PublicKey, public_side, read_public_key
from cleave.disclosure.renewal import CellValue, MeasureSums, chosen, released
from cleave.objects.storage import ConflictError, replaced
from cleave.share.release import (
    KEY_BYTES,
    MOST_HEAD,
    MOST_ROWS,
    SUITE,
    ReleasedTotals,
    ReleaseHead,
    place_of,
    public_of,
    read_head,
    seal_key,
    seal_totals,
)
from cleave.sql.rejoin import Texts
from cleave.store.cells import Cells
from cleave.store.contributors import MIN_GROUP
from cleave.store.manifest import Analyst, Manifest, Measure, Object, Release, new_id, now
from cleave.store.measures import columns_of
from cleave.store.reader import Opened
from cleave.store.schemas import load_stored_schema
from cleave.store.tables import Tables
from cleave.sums.stored import Stored
from cleave_shared.errors import CheckFailed, InputError, KeyFileError

LEAST = 3  # rows of a cell: two values follow from their sum and that of their squares
MOST_ANALYSTS = 256
_DIGITS = len(str(MOST_ROWS))
_TRIES = 8


@dataclass(frozen=True, slots=True)
class Ledger:
    """Values released of a table so far, by key of the cell; of 0 rows where they are released no more.

    `key`: of the newest totals. `cells`: the id of the cells whose numbers the values have. `left`: how many rows had
    left the table before its first release.
    """

    key: bytes
    cells: str
    by: tuple[str, ...]
    measures: tuple[Measure, ...]
    times: dict[int, str]  # when each release was made
    values: dict[Texts, CellValue]
    left: int

    @property
    def shown(self) -> dict[Texts, CellValue]:
        """Values that the release has."""
        return {key: each for key, each in self.values.items() if each.rows}

    def dump(self) -> bytes:
        values = self.values.values()
        content = {
            "key": self.key.hex(),
            "cells": self.cells,
            "by": self.by,
            "measures": [each.model_dump() for each in self.measures],
            "times": self.times,
            "left": self.left,
            "keys": list(self.values),
            "values": [[each.cell, each.rows, each.gone, each.number, each.steps, each.way] for each in values],
            "sums": [[self._texts(number, of) for number, of in enumerate(each.measures)] for each in values],
        }
        return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()

    def _texts(self, measure: int, sums: MeasureSums | None) -> list[str]:
        """Texts of a measure, as long for all cells: 1 where it is shown, and its totals."""
        digits = {each.part: len(str(each.limit * MOST_ROWS)) for each in columns_of([self.measures[measure]])}
        of = sums or MeasureSums()
        parts = (("count", of.count), ("sum", of.sum), ("square", of.square))
        return [str(int(sums is not None)), *(f"{total:0{digits.get(part, _DIGITS)}d}" for part, total in parts)]


def _sums(stored: list[Any] | None) -> MeasureSums | None:
    """Read what `Ledger._texts` wrote; Cleave 1.0 wrote three numbers, or nothing."""
    if stored is None or stored[0] == "0":
        return None
    return MeasureSums(*map(int, stored[-3:]))


def load_ledger(content: bytes) -> Ledger:
    """Read what `dump` wrote; it was sealed by the owner."""
    fields = json.loads(content)
    values = {
        tuple(key): CellValue(cell, rows, gone, tuple(map(_sums, sums)), number, steps, way)
        for key, (cell, rows, gone, number, steps, way), sums in zip(
            fields["keys"], fields["values"], fields["sums"], strict=True
        )
    }
    measures = tuple(map(Measure.model_validate, fields["measures"]))
    times = {int(number): at for number, at in fields["times"].items()}
    left = fields.get("left", 0)  # Cleave 1.0 did not say
    return Ledger(bytes.fromhex(fields["key"]), fields["cells"], tuple(fields["by"]), measures, times, values, left)


@dataclass(frozen=True, slots=True)
class ReleaseFacts:
    """A release that was made: `cells` that it has, `hidden` cells of fewer than `min_cell` rows, and how many cells
    an `older` value. `left_out`: measures. `place`: where it is stored. `fingerprint`: the owner's, and @ with the
    number: the least that an analyst's machine then accepts. `closed`: rows were deleted since the first release, so
    no rows that were added since are in it.
    """

    table: str
    number: int
    min_cell: int
    analysts: tuple[str, ...]
    cells: int
    hidden: int
    older: int
    left_out: tuple[str, ...]
    place: str
    fingerprint: str
    closed: bool = False


_IDENTITY = "an analyst makes an identity with `cleave analyst new` and sends the file that ends in .pub"


def read_analysts(paths: Sequence[Path]) -> dict[str, PublicKey]:
    """The public halves in files, by name: that of the file up to its first dot. Raises KeyFileError, InputError."""
    analysts: dict[str, PublicKey] = {}
    for path in paths:
        name, public = path.name.partition(".")[0], read_public_key(path, _IDENTITY)
        if public.invitation is not None:
            raise KeyFileError(f"{path}: this is an owner's key, exported for contributors", hint=_IDENTITY)
        if not name or name in analysts:
            raise InputError(f"{path}: two analysts cannot have one name", hint="an analyst has the name of its file")
        analysts[name] = public
    return analysts


def analysts_of(tables: Tables, table: str) -> tuple[str, ...]:
    """Fingerprints of the analysts of a table. Raises InputError where there is none of that name."""
    newest = tables.open(table).manifest.release
    return tuple(public_of(each).fingerprint for each in newest.analysts) if newest else ()


def release(tables: Tables, table: str, to: Mapping[str, PublicKey], least: int | None = None) -> ReleaseFacts:
    """Make a release for the analysts that there are, and for `to`. `least`: rows of a cell, as in all releases.

    Raises InputError for analysts or a least number of rows that do not go with what was released before.
    """
    opened = tables.open(table)
    newest = opened.manifest.release
    least = (newest.least if newest else MIN_GROUP) if least is None else least
    if least < LEAST:
        raise InputError(
            f"a cell of {least} rows is too small: at least {LEAST}",
            hint="two values follow from their sum and the sum of their squares",
        )
    if newest and newest.least != least:
        raise InputError(
            f"releases of table {table!r} have cells of at least {newest.least} rows",
            hint="leave --min-cell out: releases of two sizes together would show smaller cells",
        )
    analysts = _joined(table, newest.analysts if newest else (), to)
    if not analysts:
        raise InputError("no analyst is named", hint="--to carol.pub: what `cleave analyst new` wrote")
    keys = {each.box for each in analysts}
    revoked = tuple(each for each in (newest.revoked if newest else ()) if each.box not in keys)
    return _make(tables, opened, least, analysts, revoked, "release")


def revoke(tables: Tables, table: str, analyst: str) -> ReleaseFacts | None:
    """Make a release under a new key for all but `analyst`, a name or a fingerprint.

    None where it was revoked before: then what was left to do is done. Raises InputError for one that there is not.
    """
    opened = tables.open(table)
    newest = opened.manifest.release

    def is_named(each: Analyst) -> bool:
        return analyst in (each.name, public_of(each).fingerprint)

    gone = [each for each in (newest.analysts if newest else ()) if is_named(each)]
    if newest is None or not gone:
        if newest is not None and any(map(is_named, newest.revoked)):
            publish(tables, opened)
            tables.sweep(opened)
            return None
        names = ", ".join(each.name for each in newest.analysts) if newest else ""
        raise InputError(f"there is no analyst {analyst!r}", hint=f"analysts of this table: {names or 'none'}")
    left = tuple(each for each in newest.analysts if each not in gone)
    return _make(tables, opened, newest.least, left, (*newest.revoked, *gone), "revoke")


def _joined(table: str, existing: Sequence[Analyst], to: Mapping[str, PublicKey]) -> tuple[Analyst, ...]:
    """The analysts there are, and those to come. Raises InputError where a name is another's."""
    analysts = {each.name: each for each in existing}
    for name, public in to.items():
        previous = analysts.get(name)
        if previous is not None and public_of(previous) != public:
            raise InputError(
                f"there is another analyst {name!r}", hint="revoke that one first, or give the file another name"
            )
        if same := [each.name for each in analysts.values() if each.name != name and public_of(each) == public]:
            raise InputError(f"analyst {name!r} has the key of {same[0]!r}")
        if previous is None:
            box, signing = (base64.b64encode(each).decode() for each in (public.box, public.signing))
            analysts[name] = Analyst(name=name, box=box, signing=signing, place=place_of(public, table), added=now())
    if len(analysts) > MOST_ANALYSTS:
        raise InputError(f"a table has at most {MOST_ANALYSTS} analysts")
    return tuple(analysts.values())


def _make(
    tables: Tables, opened: Opened, least: int, analysts: tuple[Analyst, ...], revoked: tuple[Analyst, ...], what: str
) -> ReleaseFacts:
    manifest = opened.manifest
    newest, number, at = manifest.release, manifest.version + 1, now()
    past = _ledger(tables, opened, newest)
    schema = load_stored_schema(manifest)
    every = frozenset(each.name for each in schema.columns)  # what is not known to read less
    derived = {each.name.lower(): frozenset(each.columns) for each in schema.derived}
    reads = [
        derived.get(each.name.lower(), every) if each.derived else frozenset([each.name]) for each in manifest.measures
    ]
    numbers = chosen(reads, least)
    measures, columns = tuple(manifest.measures[each] for each in numbers), [reads[each] for each in numbers]
    cells = tables.cells(opened)
    before = past.left if past else cells.left
    closed = cells.left > before
    values = {
        key: value
        for key, each, old in _values(tables, opened, cells, numbers, past, measures, number)
        if (value := released(each, old, least, columns, closed=closed)) is not None
    }
    times = {**(past.times if past else {}), number: at}
    used = sorted({each.number for each in values.values() if each.rows})
    key, used_times = secrets.token_bytes(KEY_BYTES), {each: times[each] for each in used}
    ledger = Ledger(key, cells.id, manifest.by, measures, used_times, values, before)
    filled = sum(rows > 0 for rows in cells.rows)
    shown = ledger.shown.values()
    totals = _totals(manifest, ledger, hides=filled > len(shown))
    head = _head(tables, manifest.table_id, new_id(), number, least, None)
    folder = tables.folder(manifest.table)
    written = tables.write(folder, seal_totals(ledger.key, head, totals)) if analysts else None
    release = Release(
        id=head.release,
        number=number,
        at=at,
        least=least,
        ledger=tables.seal(folder, opened.vault, "release", ledger.dump()),
        totals=written,
        before=newest.totals if newest and what == "release" else None,
        analysts=analysts,
        revoked=revoked,
    )
    names = tuple(each.name for each in analysts)
    done = tables.commit(manifest.model_copy(update={"release": release}), opened, what, to=", ".join(names))
    publish(tables, done, ledger.key)
    tables.sweep(done)
    older = sum(each.number != number for each in shown)
    left_out = tuple(each.name for place, each in enumerate(manifest.measures) if place not in numbers)
    counts = len(shown), max(0, filled - len(shown)), older
    owner = f"{public_side(tables.key).fingerprint}@{number}"
    return ReleaseFacts(manifest.table, number, least, names, *counts, left_out, tables.places[0], owner, closed)


def _ledger(tables: Tables, opened: Opened, newest: Release | None) -> Ledger | None:
    """Raises InputError for one of another partition than the table has."""
    if newest is None:
        return None
    past = load_ledger(tables.unseal(opened.vault, "release", newest.ledger))
    if past.by != opened.manifest.by:
        raise InputError(
            f"table {opened.manifest.table!r} was released by {', '.join(past.by) or 'no columns'}, and is stored by "
            f"{', '.join(opened.manifest.by) or 'none'}",
            hint="totals of two partitions together could show fewer rows than --min-cell: go back with `cleave alter "
            "--by`, or store the table under another name",
        )
    return past


def _values(
    tables: Tables,
    opened: Opened,
    cells: Cells,
    numbers: Sequence[int],
    past: Ledger | None,
    measures: Sequence[Measure],
    number: int,
) -> Iterator[tuple[Texts, CellValue, CellValue | None]]:
    """List the cells that have rows, or had a value: key, value now, and the value that was released last."""
    manifest = opened.manifest
    parts = [(each.measure, each.part) for each in columns_of(manifest.measures) if each.measure in numbers]
    totals = Stored(tables, opened).totals(parts) if manifest.rows and parts else {}
    rows = cells.rows
    by_part = {part: entries.tolist() for part, entries in totals.items()}
    columns = [
        (by_part.get((each, "count"), rows), by_part.get((each, "sum"), rows), by_part.get((each, "square"), rows))
        for each in numbers
    ]
    places = [past.measures.index(each) if past and each in past.measures else None for each in measures]
    released = past.values if past else {}
    same = past is not None and past.cells == cells.id
    for cell, key in enumerate(cells.keys):
        if rows[cell]:
            sums = tuple(MeasureSums(count[cell], total[cell], square[cell]) for count, total, square in columns)
            value = CellValue(cell, rows[cell], cells.gone.get(cell, 0), sums, number)
            old = released.get(key)
            yield key, value, _moved(old if same else replace(old, cell=-1), places) if old else None
    filled = {key for key, left in zip(cells.keys, rows, strict=True) if left}
    for key, old in released.items():
        if key not in filled:
            yield key, CellValue(-1, 0, 0, (), number), _moved(old, places)


def _moved(value: CellValue, places: Sequence[int | None]) -> CellValue:
    """`value` with the measures that there are now; None for one that was not there as it is."""
    return replace(value, measures=tuple(None if place is None else value.measures[place] for place in places))


def _totals(manifest: Manifest, ledger: Ledger, *, hides: bool) -> ReleasedTotals:
    times = list(ledger.times.items())
    places = {number: place for place, (number, _) in enumerate(times)}
    values = list(ledger.shown.values())
    sums = [[each.measures[place] for each in values] for place in range(len(ledger.measures))]
    return ReleasedTotals(
        table=manifest.table,
        schema_toml=manifest.schema_toml,
        by=manifest.by,
        measures=ledger.measures,
        hides=hides,
        times=tuple(times),
        keys=tuple(ledger.shown),
        rows=tuple(each.rows for each in values),
        as_of=tuple(places[each.number] for each in values),
        shown=tuple(tuple(of is not None for of in each) for each in sums),
        counts=tuple(tuple(of.count if of else 0 for of in each) for each in sums),
        sums=tuple(tuple(of.sum if of else 0 for of in each) for each in sums),
        squares=tuple(tuple(of.square if of else 0 for of in each) for each in sums),
    )


def _head(
    tables: Tables, table_id: str, release_id: str, number: int, least: int, totals: Object | None
) -> ReleaseHead:
    """A head that is still to be signed, and has no key."""
    owner = public_side(tables.key)
    box, signing = (base64.b64encode(each).decode() for each in (owner.box, owner.signing))
    return ReleaseHead.model_construct(
        suite=SUITE,
        box=box,
        signing=signing,
        table_id=table_id,
        release=release_id,
        number=number,
        least=least,
        key="",
        totals=totals,
    )


def publish(tables: Tables, opened: Opened, key: bytes | None = None) -> None:
    """Write the head of each analyst, unless a newer one is there, and delete those of analysts that were revoked."""
    manifest = opened.manifest
    release = manifest.release
    if release is None:
        return
    store = tables.stores.sensitive
    store.delete([f"{each.place}/head" for each in release.revoked])
    if release.totals is None:
        return
    key = key or load_ledger(tables.unseal(opened.vault, "release", release.ledger)).key
    head = _head(tables, manifest.table_id, release.id, release.number, release.least, release.totals)
    for each in release.analysts:
        _publish(tables, manifest.table, each, head, key)


def _publish(tables: Tables, table: str, analyst: Analyst, head: ReleaseHead, key: bytes) -> None:
    store, public = tables.stores.sensitive, public_of(analyst)
    place = f"{analyst.place}/head"
    sealed = head.model_copy(update={"key": seal_key(key, head, public)})
    signature = tables.key.signing_key().sign(sealed.signed(public, table)).hex()
    content = sealed.model_copy(update={"signature": signature}).model_dump_json().encode()
    for left in reversed(range(_TRIES)):
        current = store.read_versioned(place, MOST_HEAD)
        if current is not None and _newest(current[0], public, table, head) >= head.number:
            return
        try:
            replaced(store, place, content, current[1] if current else None)
        except ConflictError:
            if not left:
                raise
            continue
        return


def _newest(content: bytes, analyst: PublicKey, table: str, mine: ReleaseHead) -> int:
    """The number of the head that is there; -1 for none that this owner wrote for this table."""
    try:
        head = read_head(content, analyst, table)
    except CheckFailed:
        return -1
    return head.number if (head.owner, head.table_id) == (mine.owner, mine.table_id) else -1
