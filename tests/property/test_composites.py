"""Composites drawn from a grammar, decisions included: an answer holds the exact value, or says it does not know.

No encryption: the figures are the exact values moved by up to their bounds, often onto the edge of a decision.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from random import Random
from typing import Any

import duckdb
import pytest

from cleave.aggregates.base import Figure
from cleave.finish import ResultTable, finish
from cleave.sql.plan import QueryPlan
from cleave.sql.planner import plan_query
from cleave.sql.rejoin import Groups
from cleave_shared.errors import QueryRefused
from tests.campaign import FACTOR
from tests.property.composites import FINEST, Expression, Grammar, Unsure
from tests.unit.simulate import schema

SEEDS = 60 * FACTOR
QUICK = 20  # of them
AT_ONCE = 10  # expressions in one query
TABLE = schema(
    g="plain VARCHAR", x="encrypted DOUBLE", y="encrypted DOUBLE", i="encrypted BIGINT", d="encrypted DECIMAL(9,2)"
)
# SQL of the aggregate, its DuckDB type
LEAVES = (
    ("sum(x)", "DOUBLE"),
    ("avg(y)", "DOUBLE"),
    ("var_pop(x)", "DOUBLE"),
    ("sum(i)", "HUGEINT"),
    ("avg(i)", "DOUBLE"),
    ("sum(d)", "DECIMAL(38,2)"),
)
EDGES = [
    Fraction(0),
    Fraction(1),
    Fraction(7),
    Fraction(14),
    Fraction(5, 2),
    Fraction(1, 10),
    Fraction(-3),
    Fraction(100),
]
BOUNDS = [1e-12, 1e-9, 1e-3, 0.4, 3.0, math.inf]


@dataclass(frozen=True)
class Cell:
    truth: Fraction | None
    figure: Figure


def _leaf(place: int) -> Expression:
    return Expression(f"e{place}", "double" if LEAVES[place][1] == "DOUBLE" else "exact", lambda row: row[place])


def draw(random: Random, sql: str, type_: str) -> Cell:
    if random.random() < 0.08:
        return Cell(None, Figure(None, 0.0, exact=True))
    if type_ == "HUGEINT":
        whole = random.choice([0, 1, 7, 14, -3, 100, 10**20])
        return Cell(Fraction(whole), Figure(whole, 0.0, exact=True))
    if type_ != "DOUBLE":
        cents = Fraction(random.choice([0, 100, 250, 1005, -10, 12345]), 100)
        return Cell(cents, Figure(cents, 0.0, exact=True))
    truth = (
        random.choice(EDGES) if random.random() < 0.5 else Fraction(random.randint(-3000, 3000), random.randint(1, 60))
    )
    truth = abs(truth) if sql.startswith("var") else truth
    if sql == "avg(i)" or random.random() < 0.15:
        return Cell(truth, Figure(float(truth), 0.0, exact=True))
    bound = random.choice(BOUNDS)
    moved = float(truth) + (random.uniform(-0.99, 0.99) * bound if bound < math.inf else 5.0)
    moved = max(moved, 0.0) if sql.startswith("var") else moved
    slack = 1e-15 * abs(moved)  # of the float arithmetic of these very lines
    return Cell(truth, Figure(moved, bound + slack, exact=False))


@pytest.fixture(scope="module")
def counted() -> Iterator[Counter[str]]:
    counter: Counter[str] = Counter()
    yield counter
    print("\ncomposites:", dict(counter))  # noqa: T201 - the summary this test is for; pytest -s shows it


def answered(drawn: Sequence[Expression], rows: list[list[Cell]]) -> ResultTable:
    items = [re.sub(r"\be(\d)\b", lambda found: LEAVES[int(found[1])][0], each.sql) for each in drawn]
    return _asked(f"SELECT g, {', '.join(items)} FROM t GROUP BY g", rows)


def _groups(plan: QueryPlan, size: int) -> Groups:
    return Groups(
        key_types=plan.key_types,
        keys=[(str(number),) for number in range(size)],
        counts=[10] * size,
        plain=[()] * size,
        plain_types=(),
    )


def _called(plan: QueryPlan, number: int) -> str:
    each = plan.encrypted[number]
    name = next(name for name in ("SUM", "AVG", "VAR_POP") if name in each.aggregate.names)
    return f"{name.lower()}({plan.arguments[each.arguments[0]].sql.strip(chr(34))})"


def duckdbs(expression: Expression, row: list[Cell]) -> Any:
    """DuckDB's own value over the exact inputs, as far as its types hold them. Raises duckdb.Error."""
    columns = ", ".join(
        f"CAST({_text(cell.truth, type_)} AS {type_}) AS e{place}"
        for place, (cell, (_, type_)) in enumerate(zip(row, LEAVES, strict=True))
    )
    with duckdb.connect() as connection:
        ((value,),) = connection.execute(f"SELECT {expression.sql} FROM (SELECT {columns})").fetchall()
    return value


def _text(value: Fraction | None, type_: str) -> str:
    if value is None:
        return "NULL"
    if type_ == "DOUBLE":
        return f"'{float(value)!r}'"
    return f"'{value.numerator}'" if value.denominator == 1 else f"'{float(value):.2f}'"


@pytest.mark.sampled(4, 4)
@pytest.mark.parametrize(
    "seed", [*range(QUICK), *(pytest.param(it, marks=pytest.mark.slow) for it in range(QUICK, SEEDS))]
)
def test_composites_hold_the_exact_value(counted: Counter[str], seed: int) -> None:
    random = Random(seed)
    grammar = Grammar([_leaf(place) for place in range(len(LEAVES))], random)
    drawn = [grammar.expression(random.randint(1, 3)) for _ in range(AT_ONCE)]
    drawn = [each for each in drawn if re.search(r"\be\d\b", each.sql)]
    rows = [[draw(random, sql, type_) for sql, type_ in LEAVES] for _ in range(8)]
    if not drawn:
        return
    try:
        result = answered(drawn, rows)
    except QueryRefused:  # an integer that is too large is an error in DuckDB as well
        counted["refused"] += 1
        return
    place_of = {int(row[0]): place for place, row in enumerate(result.rows)}
    for number, row in enumerate(rows):
        for column, expression in enumerate(drawn, 1):
            judge(expression, row, result, place_of[number], column, counted)


def judge(
    expression: Expression, row: list[Cell], result: ResultTable, place: int, column: int, counted: Counter[str]
) -> None:
    value, bound, exact = (each[place][column] for each in (result.rows, result.bounds, result.exact))
    undecided = result.is_undecided(place, column)
    counted["cells"] += 1
    counted["undecided"] += undecided
    counted["unknown"] += bound is None and not undecided
    said = f"{expression.sql} of {[cell.truth for cell in row]} = {value!r} +- {bound}, exact {exact}"
    try:
        truth = expression.truth([cell.truth for cell in row])
    except Unsure:
        counted["left to DuckDB"] += 1
        if exact and not (isinstance(value, float) and math.isfinite(value)):
            try:
                assert _alike(value, duckdbs(expression, row)), said
            except duckdb.Error:
                raise AssertionError(f"{said}, but DuckDB fails") from None
        return
    if bound is None or value is None or isinstance(value, bool) or isinstance(truth, bool) or truth is None:
        counted["decided"] += bool(exact)
        if exact:
            assert value == truth, f"{said}, truth {truth!r}"
        elif bound is not None:
            assert not isinstance(truth, bool), f"{said}, truth {truth!r}"
            assert truth is not None, f"{said}, truth NULL"
        return
    counted["numbers"] += 1
    slack = FINEST * abs(truth)
    if exact and isinstance(value, float):
        slack += abs(truth) / 2**53 + Fraction(2) ** -1075  # the nearest double
    assert abs(Fraction(value) - truth) <= Fraction(bound) + slack, f"{said}, truth {float(truth)!r}"


def _alike(value: Any, other: Any) -> bool:
    if isinstance(value, float) and isinstance(other, float) and math.isnan(value):
        return math.isnan(other)
    return bool(value == other)


@pytest.mark.sampled(10, 4)
@pytest.mark.parametrize("seed", range(20))
def test_having_and_limit_are_never_wrong_unmarked(seed: int) -> None:
    """Every row that belongs there is shown or gives way to a marked one; every unmarked row belongs there."""
    random = Random(seed)
    rows = [[draw(random, sql, type_) for sql, type_ in LEAVES] for _ in range(12)]
    level, descending = random.choice(EDGES), random.choice(["", " DESC"])
    sql = f"SELECT g FROM t GROUP BY g HAVING avg(y) >= {float(level)!r} OR sum(i) = 7"
    answer = _asked(sql, rows)
    belong = {
        number
        for number, row in enumerate(rows)
        if (row[3].truth == 7) or (row[1].truth is not None and row[1].truth >= level)
    }
    shown = {int(row[0]): doubts for row, doubts in zip(answer.rows, answer.doubts, strict=True)}
    assert belong <= shown.keys()
    assert {number for number, doubts in shown.items() if not doubts} <= belong

    limit, offset = random.randint(1, 6), random.randint(0, 3)
    keyed = [number for number, row in enumerate(rows) if row[0].truth is not None]
    keyed.sort(key=lambda number: (rows[number][0].truth * (-1 if descending else 1), str(number)))
    keyed += sorted((number for number, row in enumerate(rows) if row[0].truth is None), key=str)
    answer = _asked(f"SELECT g FROM t GROUP BY g ORDER BY sum(x){descending}, g LIMIT {limit} OFFSET {offset}", rows)
    assert len(answer.rows) == limit
    sure = {int(row[0]) for row, doubts in zip(answer.rows, answer.doubts, strict=True) if not doubts}
    assert sure <= set(keyed[offset : offset + limit])


def _asked(sql: str, rows: list[list[Cell]]) -> ResultTable:
    plan = plan_query(sql, TABLE, "t")
    names = [text for text, _ in LEAVES]
    order = [names.index(_called(plan, number)) for number in range(len(plan.encrypted))]
    return finish(plan, _groups(plan, len(rows)), [[row[place].figure for place in order] for row in rows])
