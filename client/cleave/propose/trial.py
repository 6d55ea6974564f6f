"""Trial of a proposal: the whole file is read by its types, and what may change is written back as text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from decimal import Decimal, InvalidOperation

import duckdb

from cleave.propose.detect import Facts
from cleave.table.cast import FieldCast, cast
from cleave.table.duck import connect_reading, identifier, private
from cleave.table.inputs import Frame, Input
from cleave.table.schema import Column, CsvDialect, Kind, Schema
from cleave.table.table import Table
from cleave.table.typed_reading import TypedReading
from cleave.table.types import ZONED

_BATCH = 10  # columns of one query: DuckDB plans hundreds of aggregates slowly
_ROWS = 10_000
_UTC = re.compile(r".*(?:Z|[+-]00(?::?00)?)")


def written_back(text: Table, facts: Facts, dialect: CsvDialect) -> Facts:
    """`facts` with the first field that comes back as another text, if there is one. `text` is the file as text.

    A number may come back with other zeros and signs, a moment in UTC with another spelling. All other types refuse
    what they would change.
    """
    if facts.type not in ("DOUBLE", ZONED):
        return facts
    name = identifier(facts.name)
    value = _text_of(name, facts, dialect)
    rows = text.connection.execute(
        f"SELECT field, back FROM (SELECT {name} AS field, {value} AS back FROM {text.relation}) WHERE back <> field"
    )
    while pairs := rows.fetchmany(_ROWS):
        for field, back in pairs:
            if facts.type == ZONED and not _UTC.fullmatch(field.strip()):
                note = "written back in UTC, so zones are not kept"
            elif facts.type == "DOUBLE" and _number(field, facts, dialect) != Decimal(back):
                note = "a number comes back with other digits"
            else:
                continue
            return replace(facts, note="; ".join(filter(None, (facts.note, note))), changed=(field, back))
    return facts


def _text_of(name: str, facts: Facts, dialect: CsvDialect) -> str:
    """SQL of DuckDB's text of a value; NULL where the field cannot be read."""
    read = cast(name, Column(facts.name, Kind.LOCAL, facts.type, unit=facts.unit, format=facts.format), dialect)
    return f"CASE WHEN NOT ({read.unreadable}) THEN CAST({read.value} AS VARCHAR) END"


def _number(field: str, facts: Facts, dialect: CsvDialect) -> Decimal | None:
    """The number that is written in a field, None for a limit such as `<5`."""
    bare = re.sub(r"\s", "", field.replace(facts.unit, "") if facts.unit else field)
    if bare.startswith("(") or bare.endswith("-"):
        bare = f"-{bare.strip('()-')}"
    if dialect.thousands:
        bare = bare.replace(dialect.thousands.strip(), "")
    if dialect.censored == "limit":
        bare = bare.lstrip("<>=≤≥")
    try:
        return Decimal(bare.replace(dialect.decimal, "."))
    except InvalidOperation:
        return None


def as_same_text(text: Table, facts: Facts, dialect: CsvDialect) -> Facts:
    """`facts` of a column that its source states to be text: text, unless DuckDB writes each value like its field."""
    if facts.type == "VARCHAR":
        return facts
    name = identifier(facts.name)
    value = _text_of(name, facts, dialect)
    (changed,) = text.connection.execute(
        f"SELECT count(*) FROM {text.relation} WHERE {value} IS DISTINCT FROM {name}"
    ).fetchall()[0]
    return replace(facts, type="VARCHAR", note="", unit="", format=None) if changed else facts


def unreadable_rows(
    text: Table, sources: Sequence[Input | Frame], columns: Sequence[Column], dialect: CsvDialect, *, typed: bool
) -> list[int]:
    """By column, how many rows a reading under this schema refuses. `typed`: the sources state types."""
    if not typed:
        casts = [cast(identifier(column.name), column, dialect) for column in columns]
        return _refused(text.connection, text.relation, casts)
    counts = [0] * len(columns)
    for source in sources:
        opened = private() if isinstance(source, Frame) else closing(connect_reading())
        with opened as connection:
            reading = TypedReading(connection, source, Schema(tuple(columns), dialect))
            casts = reading.casts
            with reading.rows() as rows:
                refused = _refused(connection, rows, casts)
        counts = [before + more for before, more in zip(counts, refused, strict=True)]
    return counts


def _refused(connection: duckdb.DuckDBPyConnection, rows: str, casts: Sequence[FieldCast]) -> list[int]:
    counts: list[int] = []
    for start in range(0, len(casts), _BATCH):
        figures = ", ".join(f"count(*) FILTER (WHERE {each.unreadable})" for each in casts[start : start + _BATCH])
        counts += connection.execute(f"SELECT {figures} FROM {rows}").fetchall()[0]
    return counts
