"""Answer of a query: values, the bound of each, and the decisions that the bounds leave open.

For programs it becomes `Records`: named and typed columns, from which files, frames and cursors are built. A column
that comes from ciphertexts is followed by NAME_bound: how far the value may be from the exact one (0: exact, NULL: no
bound is known). No digit beyond its bound is there. Where the bounds leave something undecided, a column `undecided` at
the end says what. Where figures are hidden, a column `hidden` names their columns. After bounds, a last column
`scanned` names the columns that are sums of a scan.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import duckdb

from cleave.sql.plan import Output, Source
from cleave.table.duck import connect_reading, create_of_texts
from cleave.table.reading import unique_names
from cleave.text import figures

FAULTS_ONLY = (
    "added up by a scan, which is checked against faults, not against a sensitive service that lies and sets the sums"
)


@dataclass(frozen=True, slots=True)
class ResultTable:
    """The answer: `rows` hold Python values (int, float, Decimal, bool, None; other types as DuckDB's text).

    `bounds`: the largest distance to the exact value of the query over the data, None where there is none (it may be of
    any size, or the value is no number). `exact` True: what the type holds for that exact value, correctly rounded,
    bound 0. None in both: a key, or doubles of plain columns alone, which come out as DuckDB happens to add them up.

    `undecided` marks the cells that depend on a decision the bounds do not settle, `doubts` names for every row the
    clauses that may leave it out. Both may be empty, which means none. `warnings` says it in sentences.

    `hidden` marks the cells that need a total which is withheld: they are None, and so are their bounds.

    `scanned`: the sums behind it are those of a scan, which `FAULTS_ONLY` is true of. `note`: a further footnote.
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
        """Footnote to an answer that is checked against less than others, or is as of an earlier time; else ""."""
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

    def source(self, column: int) -> Source:
        """Return where the figures of a column come from; of no figure where all of them are hidden."""
        rows = len(self.rows)
        all_hidden = rows and all(self.is_hidden(row, column) for row in range(rows))
        return "hidden" if all_hidden else self.columns[column].source

    def doubts_of(self, row: int) -> tuple[str, ...]:
        return self.doubts[row] if self.doubts else ()


Form = Literal["text", "parquet", "arrow"]

# Arrow and Parquet hand these out as bytes, or lose a part of them. Their text has all of it.
_AS_TEXT = re.compile(r"\b(?:BIGNUM|BIT|GEOMETRY|TIME WITH TIME ZONE|TIME_NS|UNION|VARIANT)\b")
# Neither has integers of 128 bits: DuckDB would write them as doubles.
_WIDE = re.compile(r"\bU?HUGEINT\b")
_WIDEST = "DECIMAL(38,0)"
# SQL of whether the format holds an INTERVAL v as it is. Arrow counts nanoseconds in 64 bits; Parquet has no sign and
# counts milliseconds.
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
    """Names and types of the columns of `records`. `more`: those that come last."""
    columns = []
    for column, type_ in zip(outputs, types, strict=True):
        columns.append((column.name, type_))
        if bounds and column.source == "encrypted":
            columns.append((f"{column.name}_bound", "DOUBLE"))
    columns += ((each, "VARCHAR") for each in more)
    return list(zip(unique_names([name for name, _ in columns]), (type_ for _, type_ in columns), strict=True))


def records(result: ResultTable, *, bounds: bool = True, more: Sequence[str] | None = None) -> Records:
    """`bounds`: with columns of them. `more`: which of `undecided`, `hidden` and `scanned` come last; None: those that
    say something.
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
            if column.source == "encrypted":
                shown = figures.published(value, bound, exact)
                row += shown if bounds else shown[:1]
            else:
                row.append(value)
        said = {"undecided": mark or None, "hidden": _hidden(result, place) or None, "scanned": scanned}
        rows.append([*row, *(said[name] for name in more)])
    return Records(tuple(name for name, _ in columns), [type_ for _, type_ in columns], rows)


def _marks(result: ResultTable, row: int) -> str:
    """List what is undecided in a row: the clauses that may not let it in, the columns whose values may be others."""
    cells = [column.name for place, column in enumerate(result.columns) if result.is_undecided(row, place)]
    return ", ".join([*result.doubts_of(row), *cells])


def _hidden(result: ResultTable, row: int) -> str:
    """List the columns that are hidden in a row."""
    return ", ".join(column.name for place, column in enumerate(result.columns) if result.is_hidden(row, place))


@contextmanager
def loaded(held: Records, form: Form) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a DuckDB with the table `answer` for the block, in types that `form` writes without a change.

    "text": every value as text, with all its digits. A column that `form` cannot hold is text too.
    """
    with closing(connect_reading()) as connection:
        columns = []
        for place, (name, type_) in enumerate(zip(held.names, held.types, strict=True)):
            values = [None if row[place] is None else figures.plain(row[place]) for row in held.rows]
            columns.append((name, _stored(connection, type_, values, form), values))
        create_of_texts(connection, "answer", columns)
        yield connection


def copied(held: Records, options: str, form: Form) -> bytes:
    """Return the bytes that DuckDB's COPY writes with `options`. CSV takes every value as text, so that decimals keep
    their digits.
    """
    memory = os.memfd_create("answer")
    try:
        with loaded(held, form) as connection:
            connection.execute(f"COPY answer TO '/proc/self/fd/{memory}' ({options}, USE_TMP_FILE false)")
        return os.pread(memory, os.fstat(memory).st_size, 0)
    finally:
        os.close(memory)


def csv_of(result: ResultTable) -> bytes:
    """Return the answer as CSV, bounds and marks included."""
    return copied(records(result), "FORMAT csv, HEADER true", "text")


def _stored(connection: duckdb.DuckDBPyConnection, type_: str, values: list[str | None], form: Form) -> str:
    """The type in which `form` has `values`, DuckDB's text of `type_`."""
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
