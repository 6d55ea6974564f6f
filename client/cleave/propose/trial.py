"""Try a proposal: read the whole file by its types, and write back as text what may change."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation

import duckdb

from cleave.propose.detect import ColumnFacts
from cleave.table.cast import FieldCast, cast
from cleave.table.duck import connect_reading, identifier, private
from cleave.table.inputs import Frame, Input, Names, open_inputs
from cleave.table.progress import Progress
from cleave.table.schema import Column, CsvDialect, Kind, Schema
from cleave.table.stream import open_table
from cleave.table.table import Table
from cleave.table.typed_reading import TypedReading, columns_of
from cleave.table.types import ZONED

_BATCH = 10  # columns of one query: DuckDB plans hundreds of aggregates slowly
_ROWS = 10_000
_UTC = re.compile(r".*(?:Z|[+-]00(?::?00)?)")


@dataclass(frozen=True, slots=True)
class Difference:
    """A field of a column, and the different text that it becomes. `note` says how they differ, without values."""

    column: str
    field: str
    back: str
    note: str

    def marked(self, column: Column) -> Column:
        """The column, marked unsure unless its reason tells of this already."""
        if self.note in column.reason:
            return column
        return replace(column, unsure=True, reason="; ".join(filter(None, (column.reason, self.note))))


def difference(text: Table, column: Column, dialect: CsvDialect, *, stated: bool = False) -> Difference | None:
    """The first field that comes back as another text. `text` is the file as text; `stated`: its source states that
    the column is text, so every letter counts, and NULL is another text.

    `text` is the file as text. `stated` means that the source itself calls the column text, so that every letter
    counts. Otherwise it is no difference if a number gets other zeros or signs, if a time is spelled in UTC, or if true
    and false become lower case. Types that are not examined here refuse values that they would change.
    """
    if column.type == "VARCHAR" or not (stated or column.type in ("BOOLEAN", "DOUBLE", ZONED)):
        return None
    name = identifier(column.name)
    rows = text.connection.execute(
        f"SELECT field, back FROM (SELECT {name} AS field, {_text_of(column, dialect)} AS back FROM {text.relation}) "
        f"WHERE back {'IS DISTINCT FROM' if stated else '<>'} field"
    )
    while pairs := rows.fetchmany(_ROWS):
        for field, back in pairs:
            if stated:
                note = "text that comes back otherwise"
            elif column.type == "BOOLEAN" and field.strip().lower() != back:
                note = "yes and no come back as true and false"
            elif column.type == ZONED and not _UTC.fullmatch(field.strip()):
                note = "written back in UTC, so zones are not kept"
            elif column.type == "DOUBLE" and _number(field, column, dialect) != Decimal(back):
                note = "a number comes back with other digits"
            else:
                continue
            return Difference(column.name, field, "NULL" if back is None else back, note)
    return None


def written_back(text: Table, facts: ColumnFacts, dialect: CsvDialect) -> ColumnFacts:
    """Return `facts` with the first field that becomes a different text, if there is one. `text` is the file
    as text.
    """
    first = difference(text, _declared(facts), dialect)
    if first is None:
        return facts
    return replace(facts, note="; ".join(filter(None, (facts.note, first.note))), changed=(first.field, first.back))


def tried(names: Names, schema: Schema, progress: Progress | None = None) -> tuple[Schema, list[Difference]]:
    """Read every row of the files under a schema that a person wrote, and write it back.

    Returns the differences, and the schema with each column that changes marked unsure, unless its reason tells this
    already. Raises InputError for a file that cannot be read or does not fit the schema.
    """
    inputs = open_inputs(names, schema.dialect)
    with open_table(inputs, schema, progress):
        pass  # which read all of it
    types: dict[str, str] = {}
    if inputs[0].format.states_types:
        with closing(connect_reading()) as connection:
            types = columns_of(connection, inputs[0])
    texts = {name.lower() for name, type_ in types.items() if type_ == "VARCHAR"}
    looked_at = [each for each in schema.columns if not types or each.name.lower() in texts]
    with open_table(inputs, as_text([each.name for each in schema.columns], schema.dialect), progress) as text:
        firsts = [difference(text, each, schema.dialect, stated=bool(types)) for each in looked_at]
    differences = {each.column: each for each in firsts if each is not None}
    columns = tuple(
        differences[each.name].marked(each) if each.name in differences else each for each in schema.columns
    )
    return replace(schema, columns=columns), list(differences.values())


def as_text(names: Sequence[str], dialect: CsvDialect) -> Schema:
    """Return a schema that reads every field as it is written."""
    return Schema(tuple(Column(name, Kind.LOCAL, "VARCHAR") for name in names), dialect)


def _declared(facts: ColumnFacts) -> Column:
    return Column(facts.name, Kind.LOCAL, facts.type, unit=facts.unit, format=facts.format)


def _text_of(column: Column, dialect: CsvDialect) -> str:
    """Return SQL for DuckDB's text of a value, which is NULL if the field cannot be read."""
    read = cast(identifier(column.name), column, dialect)
    return f"CASE WHEN NOT ({read.unreadable}) THEN CAST({read.value} AS VARCHAR) END"


def _number(field: str, column: Column, dialect: CsvDialect) -> Decimal | None:
    """Return the number that a field holds, or None for a limit such as "<5"."""
    bare = re.sub(r"\s", "", field.replace(column.unit, "") if column.unit else field)
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


def as_same_text(text: Table, facts: ColumnFacts, dialect: CsvDialect) -> ColumnFacts:
    """`facts` of a column that its source states to be text: text, unless DuckDB writes each value like its field."""
    if difference(text, _declared(facts), dialect, stated=True) is None:
        return facts
    return replace(facts, type="VARCHAR", note="", unit="", format=None)


def filled_rows(text: Table, columns: Sequence[Column], dialect: CsvDialect) -> list[int]:
    """Return how many rows have a value, by column."""
    counts: list[int] = []
    for start in range(0, len(columns), _BATCH):
        values = (cast(identifier(each.name), each, dialect).value for each in columns[start : start + _BATCH])
        figures = ", ".join(f"count({value})" for value in values)
        counts += text.connection.execute(f"SELECT {figures} FROM {text.relation}").fetchall()[0]
    return counts


def unreadable_rows(
    text: Table, sources: Sequence[Input | Frame], columns: Sequence[Column], dialect: CsvDialect, *, typed: bool
) -> list[int]:
    """Return how many rows this schema refuses, by column. `typed` says that the sources state types."""
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
