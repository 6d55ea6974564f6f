"""An answer as named and typed columns, for programs: what files, frames and cursors are made of.

A column that comes from ciphertexts is followed by `NAME_bound`: how far the value may be from the exact one (0: exact,
NULL: no bound is known). No digit beyond its bound is there. Where the bounds leave something undecided, a column
`undecided` at the end says what. After bounds, a last column `scanned` names the columns that are sums of a scan.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

from cleave import figures
from cleave.table.duck import connect_reading, create_of_texts
from cleave.table.source import unique_names
from cleave_shared.dataclass import dataclass

if TYPE_CHECKING:
    from cleave.sql.finish import ResultTable
    from cleave_shared import duckdb

# Neither Parquet nor Arrow has integers of 128 bits: DuckDB would write them as doubles.
_STORED = {"HUGEINT": "DECIMAL(38,0)", "UHUGEINT": "DECIMAL(38,0)"}


@dataclass(frozen=True, slots=True)
class Records:
    names: tuple[str, ...]
    types: list[str]
    rows: list[list[Any]]


def records(result: ResultTable, *, raw: bool, bounds: bool = True) -> Records:
    """`raw`: with every digit of a float64, also those its bound does not cover. `bounds`: with columns of them."""
    names: list[str] = []
    types: list[str] = []
    for column, type_ in zip(result.columns, result.types, strict=True):
        names.append(column.name)
        types.append(type_)
        if bounds and column.source == "encrypted":
            names.append(f"{column.name}_bound")
            types.append("DOUBLE")
    marks = [_marks(result, row) for row in range(len(result.rows))]
    marked = any(marks)
    if marked:
        names.append("undecided")
        types.append("VARCHAR")
    scanned = ", ".join(result.scanned_columns) or "rows"
    if told := bounds and result.scanned:
        names.append("scanned")
        types.append("VARCHAR")
    rows = []
    for place, mark in enumerate(marks):
        row: list[Any] = []
        cells = zip(result.columns, result.rows[place], result.bounds[place], result.exact[place], strict=True)
        for column, value, bound, exact in cells:
            if column.source == "encrypted":
                shown = (value, bound) if raw else figures.published(value, bound, exact)
                row += shown if bounds else shown[:1]
            else:
                row.append(value)
        rows.append([*row, *([mark or None] if marked else []), *([scanned] if told else [])])
    return Records(unique_names(names), types, rows)


def _marks(result: ResultTable, row: int) -> str:
    """What is undecided of a row: the clauses that may not let it in, the columns whose values may be others."""
    cells = [column.name for place, column in enumerate(result.columns) if result.is_undecided(row, place)]
    return ", ".join([*result.doubts_of(row), *cells])


@contextmanager
def loaded(held: Records, *, typed: bool) -> Iterator[duckdb.DuckDBPyConnection]:
    """A DuckDB with the table `answer`, good within the block. Not `typed`: values as text, with all their digits."""
    types = [_STORED.get(type_, type_) if typed else "VARCHAR" for type_ in held.types]
    columns = [
        (name, type_, [None if row[place] is None else figures.plain(row[place]) for row in held.rows])
        for place, (name, type_) in enumerate(zip(held.names, types, strict=True))
    ]
    with closing(connect_reading()) as connection:
        create_of_texts(connection, "answer", columns)
        yield connection
