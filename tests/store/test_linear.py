"""Linear expressions over measures come from their totals; what is not surely exact does not."""

from __future__ import annotations

import pytest

from cleave.sql.plan import Argument
from cleave.sql.read import canonical, expression_of
from cleave.store.measures import unscaled
from cleave.sums.combination import linear
from tests.store.asking import planned
from tests.store.trial import World, check, truth

LINEAR = [
    "age + 1",
    "2 * age",
    "-age",
    "-(age - 3) * 4",
    "bill * 0.9",
    "bill - 0.005",
    "bill + age",
    "2 * bill - 3 * age + 0.25",
    "(bill + age) * 2 - bill",
    "age * age",
    "CAST(bill AS DECIMAL(38,2)) * bill",
    "3 * (CAST(bill AS DECIMAL(30,2)) * bill) + age - 1",
    "(2 * age) * (-3 * age) + age * age",
    "CAST(age AS HUGEINT) * age",
    "CAST(bill AS DECIMAL(20,4)) * bill - CAST(age AS DECIMAL(9,1))",
    "CAST(insured AS INTEGER) + age",
]
OTHERS = [
    "age * age * age",
    "(age + 1) * age",
    "CAST(bill AS INTEGER) * age",
    "TRY_CAST(age AS BIGINT) * age",
    "CAST(bill AS DOUBLE) * bill",
    "age ** 2",
    "age * age - age * age",
    "age * bill",
    "bill * bill",  # may not fit 18 digits
    "bill / 2",
    "age // 2",
    "weight + 1",
    "age - age",
    "abs(age)",
    "age + length(ward)",
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("expression", LINEAR)
def test_totals_of_linear_expressions_follow_from_those_of_columns(world: World, expression: str) -> None:
    world.put("ward")
    sql = f"SELECT ward, SUM({expression}) s, AVG({expression}) a, SUM({expression}) FILTER (WHERE ward < 'N') f "
    sql += f", COUNT({expression}) FROM trial GROUP BY ward ORDER BY ward"
    answer = world.ask(sql).result
    assert [column.source for column in answer.columns[1:]] == ["encrypted"] * 4
    check(answer.rows, answer.bounds, truth(sql))
    assert all(all(row) for row in [each[1:2] for each in answer.exact])


@pytest.mark.parametrize("expression", ["age + 1", "2 * age", "bill * 0.9 - 3", "5 - bill"])
def test_squares_follow_of_one_measure(world: World, expression: str) -> None:
    world.put("ward")
    sql = f"SELECT ward, VAR_POP({expression}), STDDEV({expression}) FROM trial GROUP BY ward ORDER BY ward"
    answer = world.ask(sql).result
    check(answer.rows, answer.bounds, truth(sql))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("expression", OTHERS)
def test_others_are_computed_from_rows(world: World, expression: str) -> None:
    world.put("ward")
    plan = planned(world.stored(), f"SELECT SUM({expression}) FROM trial")
    assert [each.source for each in plan.outputs] == ["local"]


def test_squares_of_two_measures_are_not(world: World) -> None:
    world.put("ward")
    plan = planned(world.stored(), "SELECT VAR_POP(bill + age), SUM(bill + age) FROM trial")
    assert [each.source for each in plan.outputs] == ["local", "encrypted"]


def test_a_step_that_may_not_fit_its_type_is_not(world: World) -> None:
    """DuckDB fails where it does not; a total would not."""
    world.put("ward")
    for expression in ("age * 9223372036854775807", "CAST(age AS TINYINT) + 1"):
        plan = planned(world.stored(), f"SELECT SUM({expression}) FROM trial")
        assert [each.source for each in plan.outputs] == ["local"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("nullable", "expression", "follows"),
    [
        ((False, False), "x + y", True),
        ((True, False), "x + y", False),
        ((False, True), "x + y", False),
        ((True, True), "x + y", False),
        ((True, True), "2 * x + 1", True),
        ((True, True), "x + x", True),
    ],
)
def test_a_sum_that_is_null_where_one_side_is(nullable: tuple[bool, bool], expression: str, follows: bool) -> None:
    """Its values are then fewer than those of either measure."""
    measures = [
        unscaled(name, Argument(name, "BIGINT", 0, (name,), lower=0, upper=9, nullable=may_be))
        for name, may_be in zip("xy", nullable, strict=True)
    ]
    known = {canonical(expression_of(name)): number for number, name in enumerate("xy")}
    found = linear(expression_of(expression), known, measures, lambda texts: ["BIGINT"] * len(texts))
    assert (found is not None) == follows
