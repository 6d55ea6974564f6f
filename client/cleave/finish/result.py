"""The answer of a query: values, their bounds, and decisions that the bounds leave open.

Programs get `Records`: named and typed columns, from which files, frames and cursors are made. After each column from
ciphertexts comes a column NAME_bound: the largest distance from the exact value (0: exact, NULL: unknown). No value has
digits beyond its bound. Further columns come last if needed: `undecided` names open decisions, `hidden` names columns
with hidden figures, `scanned` names columns with sums of a scan.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import duckdb

from cleave.sql.plan import FigureSource, Output
from cleave.table.duck import connect_reading, create_of_texts
from cleave.table.reading import unique_names
from cleave.text import figures

FAULTS_ONLY = (
    "added up by a scan, which is checked against faults, not against a sensitive service that lies and sets the sums"
)


@dataclass(frozen=True, slots=True)
class ResultTable:
    """The answer. `rows` have Python values (int, float, Decimal, bool, None) and, for other types, DuckDB's text.

    `bounds`: the largest distance from the query's exact value over the data; None if unknown, or if the value is no
    number. `exact` True: the exact value, correctly rounded to the type; its bound is 0. Both None: a key, or a
    value that DuckDB may have rounded.

    `undecided` marks cells that depend on an open decision. `doubts` lists, for each row, the clauses that may exclude
    it. Both may be empty, which means none. `warnings` has the same as sentences.

    `hidden` marks cells that need a withheld total: they are None, and so are their bounds. `scanned`: sums come from a
    scan, see `FAULTS_ONLY`. `note`: another footnote.
    """

    columns: list[Output]
    types: list[str]
    rows: list[list[Any]]
    bounds: list[list[float | None]]
    exact: list[list[bool | None]]
    undecided: list[list[bool]] = field(default_factory=list)
    doubts: list[tuple[str, ...]] = field(default_factory=list)
    hidden: list[list[bool]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    scanned: bool = False
    note: str = ""

    @property
    def trust(self) -> str:
        """Footnote of an answer with weaker checks, or of an earlier state of the data; else ""."""
        scanned = f"{', '.join(self.scanned_columns) or 'rows'}: {FAULTS_ONLY}" if self.scanned else ""
        return "; ".join(filter(None, (self.note, scanned)))

    @property
    def scanned_columns(self) -> list[str]:
        return [column.name for place, column in enumerate(self.columns) if self.is_scanned(place)]

    def is_scanned(self, column: int) -> bool:
        return self.scanned and self.columns[column].source == "encrypted"

    @property
    def is_decided(self) -> bool:
        return not any(map(any, self.undecided)) and not any(self.doubts)

    def is_undecided(self, row: int, column: int) -> bool:
        return bool(self.undecided) and self.undecided[row][column]

    def is_hidden(self, row: int, column: int) -> bool:
        return bool(self.hidden) and self.hidden[row][column]

    def source(self, column: int) -> FigureSource:
        """Where a column's figures come from; "hidden" if all are hidden."""
        rows = len(self.rows)
        all_hidden = rows and all(self.is_hidden(row, column) for row in range(rows))
        return "hidden" if all_hidden else self.columns[column].source

    def doubts_of(self, row: int) -> tuple[str, ...]:
        return self.doubts[row] if self.doubts else ()


_Form = Literal["text", "parquet", "arrow"]

# Arrow and Parquet return these as bytes or lose a part. Their text is complete.
_AS_TEXT = re.compile(r"\b(?:BIGNUM|BIT|GEOMETRY|TIME WITH TIME ZONE|TIME_NS|UNION|VARIANT)\b")
# Neither has 128-bit integers: DuckDB would write doubles.
_WIDE = re.compile(r"\bU?HUGEINT\b")
_WIDEST = "DECIMAL(38,0)"
# SQL that is true if the format can store an INTERVAL v unchanged. Arrow counts nanoseconds in 64 bits; Parquet has no
# sign and counts milliseconds.
_CLOCK = "(datepart('hour', v) * 3600000000 + datepart('minute', v) * 60000000 + datepart('microsecond', v))"
_INTERVALS = {
    "arrow": f"abs({_CLOCK}) < 9223372036854775",
    "parquet": f"least(datepart('year', v), datepart('month', v), datepart('day', v), {_CLOCK}) >= 0 "
    f"AND {_CLOCK} % 1000 = 0",
}


@dataclass(frozen=True, slots=True)
class Records:
    names: tuple[str, ...]
    types: list[str]
    rows: list[list[Any]]


def shown_columns(
    outputs: Sequence[Output], types: Sequence[str], *, bounds: bool, more: Sequence[str] = ()
) -> list[tuple[str, str]]:
    """Names and types of the columns of `records`. `more`: the last columns."""
    columns = []
    for column, type_ in zip(outputs, types, strict=True):
        columns.append((column.name, type_))
        if bounds and column.has_bounds:
            columns.append((f"{column.name}_bound", "DOUBLE"))
    columns += ((each, "VARCHAR") for each in more)
    return list(zip(unique_names([name for name, _ in columns]), (type_ for _, type_ in columns), strict=True))


def records(result: ResultTable, *, bounds: bool = True, more: Sequence[str] | None = None) -> Records:
    """`bounds`: with NAME_bound columns. `more`: which of `undecided`, `hidden` and `scanned` come last; None: the ones
    that are not empty.
    """
    marks = [_marks(result, row) for row in range(len(result.rows))]
    scanned = ", ".join(result.scanned_columns) or "rows"
    there = {"undecided": any(marks), "hidden": any(map(any, result.hidden)), "scanned": bounds and result.scanned}
    more = [name for name, is_there in there.items() if is_there] if more is None else more
    columns = shown_columns(result.columns, result.types, bounds=bounds, more=more)
    rows = []
    for place, mark in enumerate(marks):
        row: list[Any] = []
        cells = zip(result.columns, result.rows[place], result.bounds[place], result.exact[place], strict=True)
        for column, value, bound, exact in cells:
            if column.has_bounds:
                shown = figures.published(value, bound, exact)
                row += shown if bounds else shown[:1]
            else:
                row.append(value)
        said = {"undecided": mark or None, "hidden": _hidden(result, place) or None, "scanned": scanned}
        rows.append([*row, *(said[name] for name in more)])
    return Records(tuple(name for name, _ in columns), [type_ for _, type_ in columns], rows)


def _marks(result: ResultTable, row: int) -> str:
    """List what is undecided in a row: clauses that may exclude it, and columns whose values may differ."""
    cells = [column.name for place, column in enumerate(result.columns) if result.is_undecided(row, place)]
    return ", ".join([*result.doubts_of(row), *cells])


def _hidden(result: ResultTable, row: int) -> str:
    return ", ".join(column.name for place, column in enumerate(result.columns) if result.is_hidden(row, place))


@contextmanager
def loaded(held: Records, form: _Form) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a DuckDB for the block, with the table "answer" in types that `form` can store unchanged.

    "text": every value is text, with all digits. In other forms a column that cannot be stored is text too.
    """
    with closing(connect_reading()) as connection:
        columns = []
        for place, (name, type_) in enumerate(zip(held.names, held.types, strict=True)):
            values = [None if row[place] is None else figures.plain(row[place]) for row in held.rows]
            columns.append((name, _stored(connection, type_, values, form), values))
        create_of_texts(connection, "answer", columns)
        yield connection


def copied(held: Records, options: str, form: _Form) -> bytes:
    """The bytes that DuckDB's COPY writes with `options`. For CSV use the form "text", so that decimals keep their
    digits.
    """
    memory = os.memfd_create("answer")
    try:
        with loaded(held, form) as connection:
            connection.execute(f"COPY answer TO '/proc/self/fd/{memory}' ({options}, USE_TMP_FILE false)")
        return os.pread(memory, os.fstat(memory).st_size, 0)
    finally:
        os.close(memory)


def csv_of(result: ResultTable) -> bytes:
    """The answer as CSV, with bounds and marks."""
    return copied(records(result), "FORMAT csv, HEADER true", "text")


def _stored(connection: duckdb.DuckDBPyConnection, type_: str, values: list[str | None], form: _Form) -> str:
    """The column type for `values` (DuckDB's text of `type_`) in `form`."""
    if form == "text" or _AS_TEXT.search(type_):
        return "VARCHAR"
    target = _WIDE.sub(_WIDEST, type_)
    if target == type_ and "INTERVAL" not in type_:
        return type_
    fits = _INTERVALS[form] if type_ == "INTERVAL" else str("INTERVAL" not in type_).lower()
    sql = f"SELECT bool_and({fits}), count(v) FROM (SELECT CAST(unnest(?::VARCHAR[]) AS {target}) AS v)"
    try:
        ((held, _),) = connection.execute(sql, [values]).fetchall()
    except duckdb.Error:  # 39 digits; its message may quote them
        return "VARCHAR"
    return target if held is None or held else "VARCHAR"
