"""Answers a query plan without services or encryption: the plain half in DuckDB, moments with fractions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import duckdb

from cleave.aggregates.base import ColumnFacts, Estimate, Figure, Moment
from cleave.sql.finish import ResultTable, finish
from cleave.sql.plan import Argument, QueryPlan
from cleave.sql.planner import plan_query
from cleave.sql.rejoin import Groups, merge
from cleave.table.schema import Column, CsvDialect, Kind, Schema
from cleave_shared.moments import FILTERED
from cleave_shared.wire import PlainResponse, TypedColumn


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
    groups = merge(plan, ask_plain(plan, connection, parts))
    return finish(plan, groups, answer(plan, groups, connection))


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
        f"CREATE OR REPLACE TEMP TABLE grouped AS SELECT min(number) AS first, count(*) AS size{keys}{wanted}, "
        f"list(number) AS numbers FROM sent WHERE {plan.where or 'true'} {grouped} ORDER BY first"
    )
    described = connection.execute("DESCRIBE grouped").fetchall()[1:-1]
    texts = ", ".join(f"CAST({name} AS VARCHAR)" for name, *_ in described)
    rows = connection.execute(f"SELECT {texts} FROM grouped ORDER BY first").fetchall()
    columns = [TypedColumn(type=each[1], values=[row[i] for row in rows]) for i, each in enumerate(described)]
    of_row = [FILTERED] * (stop - start)
    for group, (numbers,) in enumerate(connection.execute("SELECT numbers FROM grouped ORDER BY first").fetchall()):
        for number in numbers or ():
            of_row[number - 1] = group
    return PlainResponse(
        schema_hash="0" * 32,
        rows=stop - start,
        counts=[int(value or 0) for value in columns[0].values],
        keys=columns[1 : 1 + len(plan.keys)],
        aggregates=columns[1 + len(plan.keys) :],
        runs=[(group, sum(1 for _ in rows_of)) for group, rows_of in itertools.groupby(of_row)],
    )


def answer(plan: QueryPlan, groups: Groups, connection: duckdb.DuckDBPyConnection) -> list[list[Figure]]:
    of_row = [group for group, rows in groups.runs for _ in range(rows)]
    values = [_values(argument, plan, connection) for argument in plan.arguments]
    facts = [
        _facts(argument, [value for value, group in zip(column, of_row, strict=True) if group != FILTERED])
        for argument, column in zip(plan.arguments, values, strict=True)
    ]
    answers: list[list[Figure]] = []
    for number, size in enumerate(groups.counts):
        mine = [[v for v, group in zip(column, of_row, strict=True) if group == number] for column in values]
        moments = [_moments(column, fact, arg) for column, fact, arg in zip(mine, facts, plan.arguments, strict=True)]
        answers.append(
            [each.aggregate.finish(moments[each.argument], facts[each.argument], size) for each in plan.encrypted]
        )
    return answers


def _values(argument: Argument, plan: QueryPlan, connection: duckdb.DuckDBPyConnection) -> list[Fraction | None]:
    sql = argument.sql
    if argument.moments == {Moment.COUNT}:
        sql = f"CASE WHEN ({sql}) IS NOT NULL THEN 1 END"
    elif argument.type == "BOOLEAN":
        sql = f"CAST(({sql}) AS INTEGER)"
    rows = connection.execute(f'SELECT {sql} FROM "{plan.table}" ORDER BY rowid').fetchall()
    return [None if value is None else Fraction(value) for (value,) in rows]


def _facts(argument: Argument, values: Sequence[Fraction | None]) -> ColumnFacts:
    present = sorted(value for value in values if value is not None)
    sizes = [abs(value) for value in present if value]
    return ColumnFacts(
        type=argument.type,
        decimals=argument.decimals,
        centre=present[len(present) // 2] if present else Fraction(0),
        largest=float(max(sizes, default=0)),
        lowest=float(present[0]) if present else 0.0,
        smallest=float(min(sizes, default=0)),
    )


def _moments(values: Sequence[Fraction | None], facts: ColumnFacts, argument: Argument) -> dict[Moment, Estimate]:
    present = [value for value in values if value is not None]
    shifted = [value - facts.centre for value in present]
    logs = [Fraction(math.log(abs(value))) for value in present if value]
    made = {
        Moment.COUNT: Estimate(Fraction(len(present))),
        Moment.SUM: Estimate(sum(shifted, Fraction(0))),
        Moment.SQUARE: Estimate(sum((value * value for value in shifted), Fraction(0))),
        Moment.LOG: Estimate(sum(logs, Fraction(0)), Fraction(2.0**-52) * sum(map(abs, logs), Fraction(1))),
        Moment.NEGATIVE: Estimate(Fraction(sum(value < 0 for value in present))),
        Moment.ZERO: Estimate(Fraction(sum(value == 0 for value in present))),
    }
    return {moment: made[moment] for moment in argument.moments}


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
    if exact:
        return False
    if bound is not None:
        return abs(Fraction(value) - Fraction(truth)) <= Fraction(bound)
    return math.isclose(float(value), float(truth), rel_tol=1e-9)


def number(value: Any) -> Any:
    """DuckDB's Python value as `finish` gives it: text for what is no number."""
    return value if value is None or isinstance(value, int | float | Decimal | bool) else str(value)
