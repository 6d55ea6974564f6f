"""Where and why a CSV cannot be read: file, line and column, never the value.

Only reached when loading has failed, so it may take its time and read the file again.
"""

from __future__ import annotations

import csv
import re
import zlib
from typing import Any

import duckdb

from cleave.table.cast import FieldCast, accounting_pattern, number_pattern, unit_pattern
from cleave.table.inputs import Input, unreadable
from cleave.table.schema import Column, CsvDialect, Schema
from cleave.table.source import Lines, column_names, duckdb_source, first_record, open_text, reader, undecodable
from cleave.table.types import INTEGERS, digits_of
from cleave_shared.errors import InputError

_BATCH = 10  # columns examined in one query: DuckDB plans hundreds of aggregates slowly
_INFINITE = re.compile(r"\s*[+-]?(inf|infinity|nan)\s*", re.IGNORECASE)


def explain(connection: duckdb.DuckDBPyConnection, source: Input, schema: Schema, casts: list[FieldCast]) -> InputError:
    """The first thing wrong with a file that DuckDB could not load: its encoding, else its structure, else a value."""
    names = column_names(source, schema.dialect)
    try:
        return (
            _malformed(source, schema.dialect, len(names))
            or _unreadable(connection, source, schema, casts, len(names))
            or InputError(f"{source}: cannot be read as CSV", hint="check [csv] in the schema")
        )
    except UnicodeError:
        return undecodable(source, schema.dialect.encoding)
    except (EOFError, OSError, zlib.error) as error:
        return unreadable(source, error)


def unread(source: Input, dialect: CsvDialect) -> InputError | None:
    """The error for a file of which no row was read although its header is not all of it; None where it is."""
    with open_text(source, dialect) as file:
        before = dialect.skip + (first_record(file, dialect).lines if dialect.header else 0)
        for number, text in enumerate(file, start=before + 1):
            if text.strip():
                return InputError(
                    f"{source}, line {number}: is read as no row, nor is any line after it",
                    hint="check [csv] in the schema: delimiter, quote, header and encoding",
                )
    return None


def line_of(source: Input, dialect: CsvDialect, row: int) -> int:
    """The line of the file (from 1) on which data row `row` (from 0) begins."""
    single = len(column_names(source, dialect)) == 1
    with open_text(source, dialect) as file:
        records = reader(file, dialect)
        to_skip = row + dialect.header
        first = line = dialect.skip + 1
        for fields in records:
            if fields or (single and line > first):  # DuckDB skips blank lines, but of one column they are NULLs
                if to_skip == 0:
                    return line
                to_skip -= 1
            line = records.line_num + first
    return line


def _malformed(source: Input, dialect: CsvDialect, width: int) -> InputError | None:
    with open_text(source, dialect) as file:
        lines = Lines(file)
        records = reader(lines, dialect)
        line, usual_end = dialect.skip + 1, None
        while True:
            try:
                fields = next(records, None)
            except csv.Error as error:
                if "field larger" in str(error):
                    return InputError(
                        f"{source}, line {line}: a field that begins here is longer than 8 MB",
                        hint="a quote may not be closed; longer fields are not supported",
                    )
                return InputError(
                    f"{source}, line {line}: a quoted field that begins here is not closed, or goes on after its quote",
                    hint='inside quotes a quote is written twice: "a ""b"" c"',
                )
            if fields is None:
                return None
            if fields and len(fields) != width and not (len(fields) == width + 1 and not fields[-1]):
                fields_read = f"{len(fields)} field{'s' if len(fields) > 1 else ''}"
                return InputError(
                    f"{source}, line {line}: has {fields_read}, the first record has {width}",
                    hint="a field with the delimiter in it needs quotes, and lines that are no records must go",
                )
            usual_end = usual_end or lines.end
            if lines.end and lines.end != usual_end:
                return InputError(
                    f"{source}, line {line}: ends in {_spell(lines.end)}, the lines before it in {_spell(usual_end)}",
                    hint="convert all line ends to one kind, for instance with dos2unix",
                )
            line = records.line_num + dialect.skip + 1


def _spell(end: str) -> str:
    return {"\n": "LF", "\r\n": "CR LF", "\r": "CR"}.get(end, "something else")


def _unreadable(
    connection: duckdb.DuckDBPyConnection, source: Input, schema: Schema, casts: list[FieldCast], width: int
) -> InputError | None:
    """The first field that cannot be read. The file is read again for every few columns, never held as a whole."""

    def query(selected: str, where: str = "true") -> Any:
        with duckdb_source(source, schema.dialect, width) as fields:
            numbered = f"SELECT *, row_number() OVER () - 1 AS row_of_the_file FROM {fields}"
            return connection.execute(f"SELECT {selected} FROM ({numbered}) WHERE {where}").fetchall()[0]

    rows: list[int | None] = []
    near = None
    try:
        for start in range(0, len(casts), _BATCH):
            batch = casts[start : start + _BATCH]
            rows += query(", ".join(f"min(row_of_the_file) FILTER (WHERE {one.unreadable})" for one in batch))
    except duckdb.Error as error:
        near = re.search(r"on Line: (\d+)", str(error))
        if not near:
            return None
    if near:
        return InputError(f"{source}, near line {near[1]}: cannot be read as CSV", hint="check its quotes and length")
    first = min(((row, index) for index, row in enumerate(rows) if row is not None), default=None)
    if first is None:
        return None
    row, index = first
    column = schema.columns[index]
    names = [name.lower() for name in column_names(source, schema.dialect)]
    place = names.index(column.name.lower())
    (text,) = query(f"c{place}", f"row_of_the_file = {row}")
    problem, hint = _describe(text, column, schema.dialect)
    line = line_of(source, schema.dialect, row)
    return InputError(f"{source}, line {line}, column {column.name!r}: {problem}", hint=hint)


def _describe(text: str, column: Column, dialect: CsvDialect) -> tuple[str, str]:
    """Describe the fault of a field (message and hint, both without the field)."""
    general = "correct it, add its spelling to null_tokens under [csv] if it means NULL, or change the column's type"
    if _INFINITE.fullmatch(text):
        return (
            f"is infinite or not a number, which {column.type} in a column of kind {column.kind} cannot hold",
            'leave the field empty, add "nan" to null_tokens under [csv], or make the column local',
        )
    if column.unit:
        if not re.fullmatch(unit_pattern(column.unit), text):
            return f"is no number with the unit {column.unit!r}, which the schema states", "correct it, or the schema"
        text = re.sub(r"^([+(-])\s+", r"\1", text.replace(column.unit, "").strip())
    if column.format is not None:
        return f"is not a {column.type} written {column.format}, as the schema states", general
    if column.decimals is None or column.type == "BOOLEAN":
        return f"is not a {column.type} as [csv] in the schema describes them", general
    if not _is_number(text, dialect, None) or not re.search("[0-9]", text):
        return f"is not a number as [csv] in the schema writes them, {column.type} expected", general
    if "e" in text.lower():
        return "has an exponent, which may have cost digits", "write all digits, or change the type to DOUBLE"
    if not _is_number(text, dialect, column.decimals):
        if column.type in INTEGERS:
            return f"is not a whole number, {column.type} expected", "correct it, or declare decimals: DECIMAL(18,2)"
        decimals = f"{column.decimals} digit{'s' if column.decimals != 1 else ''} after the point"
        return f"has more than the declared {decimals}", "declare more, or change the type to DOUBLE"
    size = f"{digits_of(column.type)} digits" if digits_of(column.type) else f"{INTEGERS[column.type]} bits"
    return f"is too large for {column.type} ({size})", "widen the type, or for a long identifier use VARCHAR and sealed"


def _is_number(text: str, dialect: CsvDialect, decimals: int | None) -> bool:
    patterns = number_pattern(dialect, decimals), accounting_pattern(dialect, decimals)
    return any(re.fullmatch(one, text, re.ASCII) for one in patterns)
