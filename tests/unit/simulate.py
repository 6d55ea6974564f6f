"""Answers a query plan without services or encryption: the plain half in DuckDB, moments with fractions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import duckdb
import numpy as np

from cleave.aggregates.base import Estimate, Figure
from cleave.aggregates.columns import Real, Values
from cleave.aggregates.group import EncryptedAggregate
from cleave.ckks.columns import Columns
from cleave.finish import ResultTable, finish
from cleave.sql.plan import Argument, QueryPlan
from cleave.sql.planner import plan_query
from cleave.sql.rejoin import Groups, merge, regroup
from cleave.table.schema import Column, CsvDialect, Kind, Schema
from cleave_shared.requests import PlainResponse, TypedColumn

# What DuckDB's own float64 may lose of the tests' small, well-conditioned columns; tests.oracle bounds it for any.
DUCKDB_LOSS = 1e-12


def schema(**columns: str) -> Schema:
    """`name="encrypted BIGINT"`."""
    made = []
    for name, described in columns.items():
        kind, type_ = described.split(" ", 1)
        made.append(Column(name, Kind(kind), type_))
    return Schema(tuple(made), CsvDialect())


def simulate(
    sql: str, schema: Schema, connection: duckdb.DuckDBPyConnection, table: str, parts: int = 1
) -> ResultTable:
    """The answer to `sql` over `table`, its plain half asked in `parts` requests."""
    plan = plan_query(sql, schema, table)
    responses = ask_plain(plan, connection, parts)
    groups = merge(plan, responses)
    every, members = regroup(plan, groups, responses)
    return finish(plan, every, answer(plan, groups, connection, members))


def ask_plain(plan: QueryPlan, connection: duckdb.DuckDBPyConnection, parts: int = 1) -> list[PlainResponse]:
    (rows,) = connection.execute(f'SELECT count(*) FROM "{plan.table}"').fetchone()
    edges = [rows * part // parts for part in range(parts + 1)]
    return [_ask(plan, connection, start, stop) for start, stop in itertools.pairwise(edges)]


def _ask(plan: QueryPlan, connection: duckdb.DuckDBPyConnection, start: int, stop: int) -> PlainResponse:
    sent = ", ".join(f'"{name}"' for name in plan.plain_columns)
    aggregates = [part for each in plan.plain for part in each.parts]
    connection.execute(
        f"CREATE OR REPLACE TEMP TABLE sent AS SELECT {sent or '1 AS one'}, row_number() OVER () AS number "
        f'FROM "{plan.table}" WHERE rowid >= {start} AND rowid < {stop}'
    )
    keys = "".join(f", ({key}) AS k{i}" for i, key in enumerate(plan.keys))
    wanted = "".join(f", ({sql}) AS a{i}" for i, sql in enumerate(aggregates))
    grouped = f"GROUP BY {', '.join(f'({key})' for key in plan.keys)}" if plan.keys else ""
    connection.execute(
        f"CREATE OR REPLACE TEMP TABLE grouped AS SELECT min(number) AS first, count(*) AS size{keys}{wanted} "
        f"FROM sent WHERE {plan.where or 'true'} {grouped} ORDER BY first"
    )
    described = connection.execute("DESCRIBE grouped").fetchall()[1:]
    texts = ", ".join(f"CAST({name} AS VARCHAR)" for name, *_ in described)
    rows = connection.execute(f"SELECT {texts} FROM grouped ORDER BY first").fetchall()
    columns = [TypedColumn(type=each[1], values=[row[i] for row in rows]) for i, each in enumerate(described)]
    return PlainResponse(
        label="0" * 32,
        rows=stop - start,
        counts=[int(value or 0) for value in columns[0].values],
        keys=columns[1 : 1 + len(plan.keys)],
        aggregates=columns[1 + len(plan.keys) :],
    )


def answer(
    plan: QueryPlan, groups: Groups, connection: duckdb.DuckDBPyConnection, members: Sequence[tuple[int, ...]]
) -> list[list[Figure]]:
    """The figures of every group, from totals of the columns that would be encrypted; `members` are of `groups`."""
    of_row = _groups_of_rows(plan, groups, connection)
    selected = of_row >= 0
    values = [_values(argument, plan, connection, selected) for argument in plan.arguments]
    columns = Columns(
        [argument.domain for argument in plan.arguments],
        [EncryptedAggregate(each.aggregate, each.arguments) for each in plan.encrypted],
    )
    encoded = columns.encode([argument.sql for argument in plan.arguments], values)
    of_row = of_row[selected]
    moments = [
        columns.read(totals(columns, encoded, of_row == number), size) for number, size in enumerate(groups.counts)
    ]
    return columns.finished(columns.added([moments[place] for place in each]) for each in members)


def _groups_of_rows(plan: QueryPlan, groups: Groups, connection: duckdb.DuckDBPyConnection) -> np.ndarray:
    """The number of every row's group, -1 where it is not selected."""
    of_row = np.full(connection.execute(f'SELECT count(*) FROM "{plan.table}"').fetchone()[0], -1)
    for number, keys in enumerate(groups.keys):
        same = [
            f"({key}) IS NOT DISTINCT FROM CAST(? AS {type_})"
            for key, type_ in zip(plan.keys, groups.key_types, strict=True)
        ]
        where = " AND ".join([f"({plan.where or 'true'})", *same])
        rows = connection.execute(f'SELECT rowid FROM "{plan.table}" WHERE {where}', list(keys)).fetchall()
        of_row[[row for (row,) in rows]] = number
    return of_row


def totals(columns: Columns, encoded: Sequence[np.ndarray], rows: np.ndarray) -> list[Estimate]:
    """The totals of `encoded` over `rows`, as a service without any noise would give them."""
    return [
        Estimate(sum((Fraction(value) for value in column[rows]), Fraction(0)))
        if isinstance(type_, Real)
        else Estimate(Fraction(sum(int(word) << (64 * i) for i, part in enumerate(column) for word in part[rows])))
        for type_, column in zip(columns.types, encoded, strict=True)
    ]


def _values(argument: Argument, plan: QueryPlan, connection: duckdb.DuckDBPyConnection, selected: np.ndarray) -> Values:
    sql = argument.sql
    if argument.counted:
        sql = f"CASE WHEN ({sql}) IS NOT NULL THEN 1 END"
    elif argument.type == "BOOLEAN":
        sql = f"CAST(({sql}) AS INTEGER)"
    rows = connection.execute(f'SELECT {sql} FROM "{plan.table}" ORDER BY rowid').fetchall()
    return values_of([value for (value,) in rows], None if argument.counted else argument.decimals, selected)


def values_of(values: Sequence[Any], decimals: int | None, selected: np.ndarray | None = None) -> Values:
    """Python's numbers as an argument's values; None is NULL."""
    valid = np.array([value is not None for value in values], bool)
    if decimals is None:
        numbers = np.array([0.0 if value is None else float(value) for value in values])
    else:
        units = [0 if value is None else int(Fraction(value) * 10**decimals) for value in values]
        small = all(-(1 << 63) <= unit < 1 << 63 for unit in units)
        numbers = (
            np.array(units, np.int64)
            if small
            else np.array([[unit >> shift & (1 << 64) - 1 for unit in units] for shift in (0, 64)], np.uint64)
        )
    if selected is not None:
        numbers, valid = numbers[..., selected], valid[selected]
    return Values(numbers, valid)


def differences(result: ResultTable, expected: Sequence[Sequence[Any]]) -> list[str]:
    """Where `result` is not what DuckDB says, or not within its bounds; rows are taken in order."""
    found = [] if len(result.rows) == len(expected) else [f"{len(result.rows)} rows, DuckDB has {len(expected)}"]
    for number, (ours, theirs) in enumerate(zip(result.rows, expected, strict=False)):
        for i, (value, truth) in enumerate(zip(ours, theirs, strict=True)):
            bound, exact = result.bounds[number][i], result.exact[number][i]
            if not _agrees(value, truth, bound, exact):
                found.append(f"row {number}, {result.columns[i].name}: {value!r} +- {bound}, exact {exact}; {truth!r}")
    return found


def _agrees(value: Any, truth: Any, bound: float | None, exact: bool | None) -> bool:
    if value is None or truth is None or isinstance(value, str | bool) or isinstance(truth, str | bool):
        return bool(value == truth)
    if value == truth or (math.isnan(value) and math.isnan(truth)):
        return True
    allowed = Fraction(DUCKDB_LOSS * abs(truth)) if isinstance(value, float) else 0
    if exact:  # correctly rounded; DuckDB's double has been rounded on the way
        return abs(Fraction(value) - Fraction(truth)) <= allowed
    if bound is not None:
        return abs(Fraction(value) - Fraction(truth)) <= Fraction(bound) + allowed
    return math.isclose(float(value), float(truth), rel_tol=1e-9)


def number(value: Any) -> Any:
    """DuckDB's Python value as `finish` gives it: text for what is no number."""
    return value if value is None or isinstance(value, int | float | Decimal | bool) else str(value)
