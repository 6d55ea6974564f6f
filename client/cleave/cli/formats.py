"""An answer as a table, CSV, JSON, NDJSON, Markdown or Parquet.

In the formats for programs a column that comes from ciphertexts is followed by `NAME_bound`: how far the value may be
from the exact one (0: exact, NULL: no bound is known). No digit beyond its bound is written. Where the bounds leave
something undecided, a last column `undecided` says what.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cleave import figures
from cleave.cli import report
from cleave.cli.output import Format
from cleave.printable import printable
from cleave.table.duck import connect, identifier
from cleave.table.source import unique_names

if TYPE_CHECKING:
    from cleave.pipeline import Result
    from cleave.sql.finish import ResultTable


# Parquet has no integers of 128 bits: DuckDB would write them as doubles.
_STORED = {"HUGEINT": "DECIMAL(38,0)", "UHUGEINT": "DECIMAL(38,0)"}


def answer_bytes(answer: Result, chosen: Format, *, raw: bool = False) -> bytes:
    """The answer, every text ended by a line feed."""
    match chosen:
        case Format.TABLE:
            return f"{report.answer_text(answer)}\n".encode()
        case Format.JSON:
            return f"{report.answer_json(answer, raw=raw)}\n".encode()
        case Format.MARKDOWN:
            return f"{_markdown(answer)}\n".encode()
        case Format.NDJSON:
            return _ndjson(_records(answer.result, raw=raw)).encode()
        case Format.CSV:
            return _copied(_records(answer.result, raw=raw), "FORMAT csv, HEADER true", typed=False)
        case Format.PARQUET:
            return _copied(_records(answer.result, raw=raw), "FORMAT parquet, COMPRESSION zstd", typed=True)


@dataclass(frozen=True, slots=True)
class _Records:
    names: tuple[str, ...]
    types: list[str]
    rows: list[list[Any]]


def _records(result: ResultTable, *, raw: bool) -> _Records:
    names: list[str] = []
    types: list[str] = []
    for column, type_ in zip(result.columns, result.types, strict=True):
        names.append(column.name)
        types.append(type_)
        if column.source == "encrypted":
            names.append(f"{column.name}_bound")
            types.append("DOUBLE")
    marks = [_marks(result, row) for row in range(len(result.rows))]
    if any(marks):
        names.append("undecided")
        types.append("VARCHAR")
    rows = []
    for place, mark in enumerate(marks):
        row: list[Any] = []
        cells = zip(result.columns, result.rows[place], result.bounds[place], result.exact[place], strict=True)
        for column, value, bound, exact in cells:
            if column.source == "encrypted":
                row += (value, bound) if raw else figures.published(value, bound, exact)
            else:
                row.append(value)
        rows.append([*row, mark or None] if any(marks) else row)
    return _Records(unique_names(names), types, rows)


def _marks(result: ResultTable, row: int) -> str:
    """What is undecided of a row: the clauses that may not let it in, the columns whose values may be others."""
    cells = [column.name for place, column in enumerate(result.columns) if result.is_undecided(row, place)]
    return ", ".join([*result.doubts_of(row), *cells])


def _ndjson(records: _Records) -> str:
    return "".join(f"{report.dump(dict(zip(records.names, row, strict=True)))}\n" for row in records.rows)


def _markdown(answer: Result) -> str:
    headings, rows = report.cells(answer.result)

    def line(cells: Sequence[str]) -> str:
        return f"| {' | '.join(printable(cell).replace('|', chr(92) + '|') for cell in cells)} |"

    rule = ["---:" if heading.justify == "right" else "---" for heading in headings]
    return "\n".join([line([heading.name for heading in headings]), line(rule), *map(line, rows)])


def _copied(records: _Records, options: str, *, typed: bool) -> bytes:
    """What DuckDB writes, into a memory file. CSV takes every value as text, so that decimals keep their digits."""
    types = [_STORED.get(type_, type_) if typed else "VARCHAR" for type_ in records.types]
    columns = [
        [None if row[place] is None else figures.plain(row[place]) for row in records.rows]
        for place in range(len(types))
    ]
    selected = ", ".join(
        f"CAST(unnest(?::VARCHAR[]) AS {type_}) AS {identifier(name)}"
        for name, type_ in zip(records.names, types, strict=True)
    )
    memory = os.memfd_create("answer")
    try:
        with closing(connect(reads_files=True)) as connection:
            connection.execute(f"CREATE TABLE answer AS SELECT {selected}", columns)
            connection.execute(f"COPY answer TO '/proc/self/fd/{memory}' ({options}, USE_TMP_FILE false)")
        return os.pread(memory, os.fstat(memory).st_size, 0)
    finally:
        os.close(memory)
