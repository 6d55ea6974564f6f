"""Opens one contributor's rows as the owner. Nothing in them is trusted before it is checked.

Sizes are compared before anything is read. One block of each column is opened at a time, and DuckDB's memory is
limited.

Values must have the one form that cleave.store.columns writes: within their bounds, zero for NULL, booleans 0 or 1,
texts valid UTF-8. Accepted rows are stored again under the owner's keys, so no query reads a contributor's bytes.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import duckdb
import numpy as np
from numpy.typing import NDArray

from cleave.sql.rejoin import Texts
from cleave.store import measures as of_measures
from cleave.store.cells import MOST_CELLS, longest_in, too_long
from cleave.store.columns import RecordBatches, bounds_of, sealed_column, value_of
from cleave.store.contribution import ContributedSegment, PartManifest
from cleave.store.manifest import SealedColumn
from cleave.store.sealed import ColumnBlock, ColumnPlace, cut, offsets_of, open_blocks, opened_bytes
from cleave.store.tables import Tables
from cleave.store.vault import key_of_object
from cleave.table.batches import RowBatch, batches, joined
from cleave.table.duck import identifier
from cleave.table.schema import Column, Schema
from cleave.table.table import Table, no_table, portable
from cleave.table.types import FLOATS, decimals_of
from cleave_shared import limits
from cleave_shared.duckdb_errors import failed
from cleave_shared.errors import CheckFailed

if TYPE_CHECKING:
    from nanoarrow.c_array import CArray


_DAY = 86_400_000_000  # microseconds
_RANGES = {  # of DuckDB's values, in days and microseconds; it cannot show values outside
    "DATE": (-(2**31) + 2, 2**31 - 2),
    "TIME": (0, _DAY),
}
_MOMENTS = (-9_223_372_022_400_000_000, 2**63 - 2)
_INFINITE = {"DATE": 2**31 - 1, "TIMESTAMP": 2**63 - 1, "TIMESTAMP WITH TIME ZONE": 2**63 - 1}  # and their negatives


class ContributedRows:
    """The rows of one part, in its contributor's folder."""

    def __init__(self, tables: Tables, part: PartManifest, schema: Schema, folder: str) -> None:
        """Raises CheckFailed for a part with other columns than the table's, or with names of foreign objects."""
        self._tables = tables
        self.part = part
        self._schema = schema
        self._columns = {each.name: each for each in schema.columns}
        wanted = [_format(sealed_column(each)) for each in schema.columns]
        if [_format(each) for each in part.columns] != wanted:
            raise _wrong("it has not the columns of the table")
        names = [each.object.name for segment in part.segments for each in segment.columns]
        if len(set(names)) != len(names) or any(not name.startswith(f"{folder}/") for name in names):
            raise _wrong("it names objects that are not its own")
        for segment in part.segments:
            if not 0 < segment.rows <= of_measures.SEGMENT_ROWS or len(segment.columns) != len(part.columns):
                raise _wrong("a segment of it has not the rows or columns of a segment")
            for number, stored in enumerate(segment.columns):
                if sum(self._place(segment, number).sizes(stored.lengths)) != stored.object.bytes:
                    raise _wrong("an object of it is not as large as its rows")
            if sum(each.bytes for each in segment.parts()) > limits.MAX_OBJECT_BYTES:  # all are read at once
                raise _wrong(f"the objects of a segment of it take more than {limits.MAX_OBJECT_BYTES:,} bytes")

    def keys(self, by: Sequence[str]) -> Iterator[set[Texts]]:
        """For each segment, the combinations of values of the `by` columns in its rows.

        It checks every column, so all of a part is checked before anything is written. Raises CheckFailed, StoreError.
        """
        texts = ", ".join(f"CAST({identifier(name)} AS VARCHAR)" for name in by)
        most = MOST_CELLS + 1  # more are too many in any case
        for segment in self.part.segments:
            with self.table(segment) as table:
                if not by:
                    yield {()}
                    continue
                ((*longest,),) = table.connection.execute(f"SELECT {longest_in(by)} FROM {table.relation}").fetchall()
                if long := too_long(by, longest):
                    raise _wrong(f"a value of by column {long[0]!r} has more than {limits.MAX_KEY_BYTES:,} bytes")
                distinct = f"SELECT DISTINCT {texts} FROM {table.relation} LIMIT {most}"
                yield set(table.connection.execute(distinct).fetchall())

    def batches(self, names: Sequence[str]) -> Iterator[RowBatch]:
        """Columns of its rows, in order. Raises CheckFailed, StoreError."""
        selected = ", ".join(portable(self._columns[name]) for name in names)
        for segment in self.part.segments:
            with self.table(segment) as table:
                yield joined(list(batches(table.connection, f"SELECT {selected} FROM {table.relation}")))

    @contextmanager
    def table(self, segment: ContributedSegment) -> Iterator[Table]:
        """The checked rows of a segment, in order. Raises CheckFailed, StoreError."""
        columns, name = self.part.columns, self._schema.table or "contributed"
        opening = [self._opening(segment, number) for number in range(len(columns))]
        if sum(each.bytes for each in opening) > limits.MAX_SEGMENT_BYTES:
            raise _wrong(f"the rows of a segment of it take more than {limits.MAX_SEGMENT_BYTES:,} bytes")
        with no_table(name, self._schema, segment.rows, limits.SEGMENT_MEMORY) as table, _within_memory():
            connection = table.connection

            def batches_of(stream: RecordBatches) -> Iterator[CArray]:
                for block in range(opening[0].place.blocks):
                    yield stream.make([each.block(block) for each in opening])

            opened = RecordBatches(columns, connection, batches_of)
            connection.register("opened", opened)
            try:
                for each in columns:
                    _require_intervals(connection, each)
                selected = ", ".join(
                    f"{value_of(each, identifier(each.name))} AS {identifier(each.name)}" for each in columns
                )
                connection.execute(f"CREATE TABLE {table.relation} AS SELECT {selected} FROM opened")
            except duckdb.Error as error:  # its message may quote values
                if opened.failure is not None:
                    raise opened.failure from None
                raise _wrong(f"its rows cannot be read ({failed(error).why})") from None
            finally:
                connection.unregister("opened")
                opened.close()
            del opening[:]
            yield table

    def _opening(self, segment: ContributedSegment, number: int) -> _Opening:
        stored, place = segment.columns[number], self._place(segment, number)
        sealed = cut(self._tables.read(stored.object), place.sizes(stored.lengths))
        key = key_of_object(bytes.fromhex(self.part.key), stored.object.name)
        return _Opening(key, place, self._columns[place.column.name], sealed, opened_bytes(key, place, sealed))

    def _place(self, segment: ContributedSegment, number: int) -> ColumnPlace:
        name = segment.columns[number].object.name
        return ColumnPlace(self.part.table_id, name[-32:], segment.id, self.part.columns[number], segment.rows)


@dataclass(frozen=True, slots=True)
class _Opening:
    """A column of a segment whose blocks are opened one by one. `bytes`: of all of them, opened."""

    key: bytes
    place: ColumnPlace
    column: Column
    sealed: list[memoryview]
    bytes: int

    def block(self, number: int) -> ColumnBlock:
        """Open and check a block. Raises CheckFailed."""
        sealed = self.sealed[number : number + 1]
        (block,) = open_blocks(self.key, self.place, number, sealed, most=limits.MAX_SEGMENT_BYTES)
        _require_canonical(self.place.column, self.column, block)
        return block


@contextmanager
def _within_memory() -> Generator[None]:
    """Raise CheckFailed if rows need more memory than DuckDB may use for a segment."""
    try:
        yield
    except duckdb.OutOfMemoryException:  # its message may quote values
        raise _wrong(f"the rows of a segment of it take more than {limits.SEGMENT_MEMORY:,} bytes of memory") from None


def _format(column: SealedColumn) -> tuple[str, str, int, bool]:
    return (column.name, column.type, column.width, column.nullable)


def _require_canonical(column: SealedColumn, declared: Column, block: ColumnBlock) -> None:
    """Raises CheckFailed for a block with bytes that are no possible values of the column."""
    valid = np.ones(block.rows, np.bool_)
    if block.bitmap is not None:
        bits = np.unpackbits(np.frombuffer(block.bitmap, np.uint8), bitorder="little")
        valid, rest = bits[: block.rows].astype(np.bool_), bits[block.rows :]
        if rest.any():
            raise _wrong("a bitmap has bits beyond its rows")
    if block.lengths is not None:
        if block.lengths[~valid].any():
            raise _wrong("a text under NULL is not empty")
        _require_utf8(block)
        return
    raw = np.frombuffer(block.data, np.uint8).reshape(block.rows, column.width)
    if raw[~valid].any():
        raise _wrong("a value under NULL is not zero")
    if column.type in FLOATS:
        values = raw.reshape(-1).view(f"<f{column.width}").astype(np.float64)
        values = values[valid & ~np.isnan(values)]
        low = None if declared.lower is None else float(declared.lower)
        high = None if declared.upper is None else float(declared.upper)
        if (low is not None and (values < low).any()) or (high is not None and (values > high).any()):
            raise _wrong("a value is beyond its column's bounds")
        return
    of_type = _RANGES.get(declared.type, _MOMENTS)
    low_, high_ = of_type if decimals_of(declared.type) is None else bounds_of(declared)
    if column.width == 16:
        words = raw.reshape(-1).view("<i8").reshape(-1, 2)[valid]
        whole = [(int(high) << 64) | (int(low) & (1 << 64) - 1) for low, high in words]
        outside = any(not low_ <= each <= high_ for each in whole)
    else:
        integers: NDArray[np.int64] = raw.reshape(-1).view(f"<i{column.width}").astype(np.int64)[valid]
        if column.type in _INFINITE:
            integers = integers[np.abs(integers) != _INFINITE[column.type]]
        outside = bool(len(integers)) and not low_ <= int(integers.min()) <= int(integers.max()) <= high_
    if outside:
        raise _wrong("a value is beyond its column's bounds")


def _require_utf8(block: ColumnBlock) -> None:
    """Raise CheckFailed unless all texts together are UTF-8 and none begins inside a character."""
    assert block.lengths is not None  # noqa: S101 - the caller looked
    try:
        str(block.data, "utf-8")
    except UnicodeDecodeError:
        raise _wrong("a text is not UTF-8") from None
    starts = offsets_of(block.lengths)[:-1]
    data = np.frombuffer(block.data, np.uint8)
    if ((data[starts[block.lengths > 0]] & 0xC0) == 0x80).any():
        raise _wrong("a text is not UTF-8")


def _require_intervals(connection: duckdb.DuckDBPyConnection, column: SealedColumn) -> None:
    """Raises CheckFailed for intervals that are not in DuckDB's own text form."""
    if column.type != "INTERVAL":
        return
    name = identifier(column.name)
    other = f"CAST(TRY_CAST({name} AS INTERVAL) AS VARCHAR) IS DISTINCT FROM {name}"
    ((invalid,),) = connection.execute(f"SELECT count(*) FROM opened WHERE {name} IS NOT NULL AND {other}").fetchall()
    if invalid:
        raise _wrong("a value is no interval")


def _wrong(what: str) -> CheckFailed:
    return CheckFailed("stored", f"a part is not as contributors make them: {what}")
