"""Totals of a table with a limited number of rows per person, and every value moved into its clamp.

The columns that a release needs are read once, into a DuckDB on this machine. Each row gets 64 random bits from the
operating system. Of each person the rows with the lowest bits are used. They are chosen in the whole table, so rows
outside all cells count too.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import product

import numpy as np

from cleave.disclosure.noise import Clamp, Statistic
from cleave.sql.plan import Argument
from cleave.sql.rejoin import Texts
from cleave.sql.split import units
from cleave.store.contributors import contributor_in
from cleave.store.manifest import Segment
from cleave.store.reader import Opened
from cleave.store.rows import Rows
from cleave.store.schemas import load_stored_schema
from cleave.store.tables import Tables
from cleave.table.duck import create_of_texts, identifier, literal
from cleave.table.schema import Schema
from cleave.table.table import Table

_ROWS, _CELLS, _DRAWS = "gathered", "cells", "draws"
_RANDOM_BYTES = 8


@dataclass(frozen=True, slots=True)
class NoisyReading:
    """`values`: of each column of `by`; cells are their combinations, in the order of `itertools.product`."""

    by: tuple[str, ...]
    values: tuple[Texts, ...]
    entity: tuple[str, ...]
    clamps: tuple[Clamp, ...]
    most_rows: int


def kept_totals(
    tables: Tables, opened: Opened, reading: NoisyReading, statistics: Sequence[Statistic]
) -> tuple[list[int], ...]:
    """By statistic, the total of each cell without noise. Raises CheckFailed, StoreError."""
    schema = load_stored_schema(opened.manifest)
    with closing(Rows(tables, opened)) as rows, rows.new_table(schema.only(())) as gathered:
        work = _Gathering(rows, schema, gathered, reading)
        for segment in opened.manifest.segments:
            work.add(segment)
        return work.totals(statistics)


class _Gathering:
    def __init__(self, rows: Rows, schema: Schema, gathered: Table, reading: NoisyReading) -> None:
        self._rows = rows
        self._schema = schema
        self._gathered = gathered
        self._reading = reading
        people = [f"p{place} {self._type(name)}" for place, name in enumerate(reading.entity)]
        values = [f"v{place} BIGINT" for place, _ in enumerate(reading.clamps)]
        columns = ", ".join([*people, "cell INTEGER", "draw UBIGINT NOT NULL", *values])
        gathered.connection.execute(f"CREATE TABLE {_ROWS} ({columns})")

    def _type(self, name: str) -> str:
        column = self._schema.find(name)
        return "VARCHAR" if column is None else column.type

    def add(self, segment: Segment) -> None:
        """Read one segment, and give each row random bits."""
        reading = self._reading
        entity = [each for each in reading.entity if self._schema.find(each) is not None]
        names = {*reading.by, *entity, *(each.name for each in reading.clamps)}
        with self._rows.table(names, segments=[segment]) as table:
            self._create_cells(table)
            bits = np.frombuffer(secrets.token_bytes(_RANDOM_BYTES * segment.rows), np.uint64)
            table.connection.register(_DRAWS, {"draw": bits})
            try:
                table.connection.execute(self._insert(table, segment))
            finally:
                table.connection.unregister(_DRAWS)

    def _create_cells(self, table: Table) -> None:
        """Create a table of the cells: number, and values as text."""
        keys = list(product(*self._reading.values))
        columns: list[tuple[str, str, Sequence[str | None]]] = [
            (f"k{place}", "VARCHAR", [key[place] for key in keys]) for place in range(len(self._reading.by))
        ]
        columns.append(("cell", "INTEGER", [str(number) for number in range(len(keys))]))
        create_of_texts(table.connection, _CELLS, columns)

    def _insert(self, table: Table, segment: Segment) -> str:
        reading = self._reading
        people = [
            literal(contributor_in(segment)) if self._schema.find(each) is None else f"taken.{identifier(each)}"
            for each in reading.entity
        ]
        same = " AND ".join(
            f"CAST(taken.{identifier(name)} AS VARCHAR) IS NOT DISTINCT FROM cells.k{place}"
            for place, name in enumerate(reading.by)
        )
        values = [self._clamped(each) for each in reading.clamps]
        there = " AND ".join(f"{each} IS NOT NULL" for each in people)
        return (
            f"INSERT INTO {self._gathered.home}.main.{_ROWS} "
            f"SELECT {', '.join([*people, 'cells.cell', 'taken.draw', *values])} "
            f"FROM (FROM {table.relation} POSITIONAL JOIN {_DRAWS}) AS taken "
            f"LEFT JOIN {_CELLS} ON ({same or 'TRUE'}) WHERE {there}"
        )

    def _clamped(self, clamp: Clamp) -> str:
        """SQL of a value in units within its clamp, NULL for NULL."""
        column = self._schema.column(clamp.name)
        sql = f"taken.{identifier(column.name)}"
        value, _ = units(Argument(sql, column.type, column.decimals, (column.name,)))
        return (
            f"CASE WHEN {sql} IS NOT NULL THEN CAST(greatest({clamp.low}, least({clamp.high}, {value})) AS BIGINT) END"
        )

    def totals(self, statistics: Sequence[Statistic]) -> tuple[list[int], ...]:
        reading = self._reading
        people = ", ".join(f"p{place}" for place, _ in enumerate(reading.entity))
        each = (
            f"SELECT *, row_number() OVER (PARTITION BY {people} ORDER BY draw) AS place FROM {_ROWS} "
            f"QUALIFY place <= {reading.most_rows}"
        )
        figures = ", ".join(_SQL[of.part].format(f"v{of.measure}") for of in statistics)
        sql = f"SELECT cell, {figures} FROM ({each}) WHERE cell IS NOT NULL GROUP BY cell"
        cells = math.prod(map(len, reading.values))
        totals = tuple([0] * cells for _ in statistics)
        for cell, *row in self._gathered.connection.execute(sql).fetchall():
            for number, value in enumerate(row):
                totals[number][cell] = int(value or 0)
        return totals


_SQL = {
    "rows": "count(*)",
    "count": "count({0})",
    "sum": "sum(CAST({0} AS HUGEINT))",
    "square": "sum(CAST({0} AS HUGEINT) * CAST({0} AS HUGEINT))",
}
