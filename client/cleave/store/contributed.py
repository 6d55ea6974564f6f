"""One contributor's segment as its owner opens it: nothing in it is believed before it was checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from cleave.ckks.public_key import open_sealed
from cleave.ckks.secret_key import SecretKey
from cleave.sql.rejoin import Texts
from cleave.store import measures as of_measures
from cleave.store.cells import Cells
from cleave.store.contribution import Contributed, require_sizes
from cleave.store.foreign_parquet import require_readable
from cleave.store.halves import half_of, is_text_in_parquet
from cleave.store.manifest import Count, Manifest, Measure, Object, Segment
from cleave.store.names import NUMBER
from cleave.store.stored_lanes import OBJECT_CHUNKS, lanes_of
from cleave.store.tables import Tables
from cleave.table.duck import identifier
from cleave.table.schema import Column, CsvDialect, Schema
from cleave.table.table import no_table
from cleave_shared import chunks, duckdb, limits
from cleave_shared.dataclass import dataclass
from cleave_shared.errors import CheckFailed

_SEALING_BYTES = 64 << 10  # of what compression and sealing may add to 4 MB that do not compress


@dataclass(frozen=True, slots=True)
class Facts:
    """Of a segment's cells: their keys, rows and totals (columns, cells); `measures` are those they are of."""

    keys: list[Texts]
    rows: list[int]
    totals: list[list[int]]
    measures: tuple[Measure, ...]


class _FactsMembers(BaseModel):
    model_config = ConfigDict(extra="forbid")

    keys: list[tuple[str | None, ...]]
    rows: list[Count]
    totals: list[list[Count]]


class _IndexMembers(BaseModel):
    model_config = ConfigDict(extra="ignore")  # the directory of chunks, which the owner makes anew

    cells: list[Count]
    rows: list[Count]


_Members = TypeVar("_Members", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Unsealed:
    """What the contributor sealed, opened: `cells`, numbers of `facts`' cells, in the order of their `rows`."""

    facts: Facts
    cells: list[int]
    rows: list[int]
    order: bytes
    sealed: bytes | None


def unseal(
    tables: Tables,
    key: SecretKey,
    contributed: Contributed,
    measures: tuple[Measure, ...],
    manifest: Manifest,
    schema: Schema,
    folder: str,
) -> Unsealed:
    """Raises CheckFailed for a segment that is not whole, or is not what a writer of rows makes."""
    segment = contributed.segment
    _check_shape(contributed, manifest, schema, key, folder)

    def opened(which: Object, most: int) -> bytes:
        return open_sealed(key, which.name, tables.read(which), most)

    facts = _facts(opened(contributed.facts, limits.MAX_FACTS_BYTES), measures, len(manifest.by))
    _check_keys(facts.keys, [schema.column(name) for name in manifest.by])
    index = _index(opened(segment.index, limits.MAX_FACTS_BYTES), facts, segment)
    order = opened(segment.order, 4 * segment.rows) if segment.order else b""
    if len(order) != 4 * segment.rows or (np.sort(np.frombuffer(order, np.uint32)) != np.arange(segment.rows)).any():
        raise _wrong("the order of its rows is not one")
    sealed = opened(segment.sealed, limits.MAX_CONTRIBUTED_BYTES) if segment.sealed else None
    found = Unsealed(facts, index.cells, index.rows, order, sealed)
    if sealed is not None:
        check_half(sealed, "sealed", manifest, schema, found)
    return found


def keys_of(
    tables: Tables, key: SecretKey, contributed: Contributed, measures: tuple[Measure, ...], manifest: Manifest
) -> list[Texts]:
    """Return the keys of a segment's cells, of which only their number is checked. Raises CheckFailed."""
    content = open_sealed(key, contributed.facts.name, tables.read(contributed.facts), limits.MAX_FACTS_BYTES)
    return _facts(content, measures, len(manifest.by)).keys


def check_half(content: bytes, half: str, manifest: Manifest, schema: Schema, unsealed: Unsealed) -> None:
    """Whether the file of a segment's plain or sealed columns has just these, each of its type, and every row the by
    values of the cell it is in. Raises CheckFailed.
    """
    columns = [each for each in schema.columns if half_of(each) == half]
    wanted = [(each.name, "VARCHAR" if is_text_in_parquet(each) else each.type) for each in columns]
    shared = [(place, name) for place, name in enumerate(manifest.by) if name in {each.name for each in columns}]
    cells = np.empty(len(unsealed.order) // 4, np.int64)
    cells[np.frombuffer(unsealed.order, np.uint32)] = np.repeat(unsealed.cells, unsealed.rows)
    texts = "".join(f", CAST({identifier(name)} AS VARCHAR)" for _, name in shared)
    require_readable(content, len(cells))
    with no_table("contributed", Schema((), CsvDialect())) as table:
        try:
            table.take("contributed", content, one_thread=True)
            found = table.connection.execute("SELECT column_name, column_type FROM (DESCRIBE contributed)").fetchall()
            ((rows,),) = table.connection.execute("SELECT count(*) FROM contributed").fetchall()
            if found != wanted or rows != len(cells):
                raise _wrong("a file of its columns has others than the table, or another number of rows")
            table.connection.register("numbers", {NUMBER: cells})
            pairs = table.connection.execute(
                f"SELECT DISTINCT {identifier(NUMBER)}{texts} FROM contributed POSITIONAL JOIN numbers"
            ).fetchall()
        except duckdb.Error as error:  # its message may quote values
            raise _wrong(f"a file of its columns cannot be read ({type(error).__name__})") from None
    for cell, *values in pairs:
        if values != [unsealed.facts.keys[cell][place] for place, _ in shared]:
            raise _wrong("a row of it is in the cell of another")


def _check_shape(contributed: Contributed, manifest: Manifest, schema: Schema, key: SecretKey, folder: str) -> None:
    segment = contributed.segment
    if segment.contributor is not None or segment.sentinels is None or segment.totals:
        raise _wrong("it is not a contributor's")
    if not 0 < segment.rows <= of_measures.SEGMENT_ROWS:
        raise _wrong("its number of rows is not that of a segment")
    lanes = lanes_of(manifest, segment, key.profile)
    objects = -(-lanes.chunks(segment.rows) // OBJECT_CHUNKS)
    if [len(each) for each in segment.lanes] != [objects] * lanes.count:
        raise _wrong("its ciphertexts are not those of its rows")
    halves = {half_of(each) for each in schema.columns}
    parts = {"plain": segment.plain, "sealed": segment.sealed}
    if segment.order is None or any((part is not None) != (half in halves) for half, part in parts.items()):
        raise _wrong("it lacks a part, or has one too many")
    every = [segment.index, segment.order, contributed.facts, *parts.values()]
    every += [each for lane in segment.lanes for each in lane]
    names = [each.name for each in every if each is not None]
    if len(set(names)) != len(names) or any(not name.startswith(f"{folder}/") for name in names):
        raise _wrong("it names objects that are not its own")
    lane_bytes = chunks.head_bytes(OBJECT_CHUNKS) + OBJECT_CHUNKS * limits.RESULT_BYTES
    most = [(segment.index, limits.MAX_FACTS_BYTES), (contributed.facts, limits.MAX_FACTS_BYTES)]
    most += [(each, lane_bytes) for lane in segment.lanes for each in lane]
    most += [(part, limits.MAX_CONTRIBUTED_BYTES) for part in parts.values() if part is not None]
    require_sizes([*most, (segment.order, 4 * segment.rows + _SEALING_BYTES)])


def _facts(content: bytes, measures: tuple[Measure, ...], by: int) -> Facts:
    found = _read(_FactsMembers, content)
    columns = of_measures.columns_of(measures)
    if not len(found.keys) == len(found.rows) or 0 in found.rows or len(found.totals) != len(columns):
        raise _wrong("what it tells of its cells is not of as many cells, or columns")
    if any(len(key) != by for key in found.keys):
        raise _wrong("a key of its cells is not of the by columns")
    for column, of in zip(columns, found.totals, strict=True):
        if len(of) != len(found.rows) or any(t > column.limit * r for t, r in zip(of, found.rows, strict=True)):
            raise _wrong("a total of its cells is beyond its column's bounds")
    return Facts(found.keys, found.rows, found.totals, measures)


def _check_keys(keys: list[Texts], by: Sequence[Column]) -> None:
    """Each is DuckDB's own text of values of its types, so that the same cell never has two keys."""
    if len(set(keys)) != len(keys):
        raise _wrong("two of its cells have one key")
    if not by:
        return
    with no_table("contributed", Schema((), CsvDialect())) as table:
        Cells(keys, [1] * len(keys)).create(table.connection, "keys", NUMBER, list(enumerate(by)))
        texts = ", ".join(f"CAST({identifier(each.name)} AS VARCHAR)" for each in by)
        found = table.connection.execute(f"SELECT {texts} FROM keys ORDER BY {identifier(NUMBER)}").fetchall()
    if found != keys:
        raise _wrong("a key of its cells is not written as the table's are")


def _index(content: bytes, facts: Facts, segment: Segment) -> _IndexMembers:
    found = _read(_IndexMembers, content)
    if sorted(found.cells) != list(range(len(facts.keys))) or [facts.rows[cell] for cell in found.cells] != found.rows:
        raise _wrong("its index and its cells do not go together")
    if sum(found.rows) != segment.rows:
        raise _wrong("its index has another number of rows")
    return found


def _read(members: type[_Members], content: bytes) -> _Members:
    try:
        return members.model_validate_json(content, strict=True)
    except ValidationError:  # it quotes values
        raise _wrong("a sealed part of it cannot be read") from None


def _wrong(what: str) -> CheckFailed:
    return CheckFailed("stored", f"a segment is not as contributors make them: {what}")
