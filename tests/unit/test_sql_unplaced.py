"""Rows whose place the bounds leave open are marked ORDER BY, and no others."""

from __future__ import annotations

import itertools
import random

import pytest

from cleave.finish import finish
from cleave.finish.compare import GroupRanks, unplaced
from cleave.sql.plan import QueryPlan
from cleave.sql.planner import plan_query
from cleave.sql.rejoin import Groups
from cleave.table.schema import Schema
from tests.unit.simulate import schema
from tests.unit.test_sql_finish import exact, inexact


def truly_unplaced(rows: int, terms: list[GroupRanks]) -> set[int]:
    """Try every value of every row: those rows that come strictly before one shown above them, or after one below."""
    found = set()
    values = [
        list(itertools.product(*(range(term.low[row], term.high[row] + 1) for term in terms))) for row in range(rows)
    ]
    for one, other in itertools.combinations(range(rows), 2):
        if max(values[one]) > min(values[other]):
            found |= {one, other}
    return found


@pytest.mark.parametrize("terms", [1, 2, 3])
def test_marks_are_those_of_all_values_tried(terms: int) -> None:
    chance = random.Random(terms)
    for _ in range(150):
        rows = chance.randrange(1, 6)
        lows = [[chance.randrange(4) for _ in range(rows)] for _ in range(terms)]
        made = []
        for low in lows:
            high = [each + chance.choice([0, 0, 1, 2]) for each in low]
            made.append(GroupRanks(low, low, high))
        assert unplaced(range(rows), made) == truly_unplaced(rows, made)


@pytest.fixture(scope="module")
def table() -> Schema:
    return schema(g="plain VARCHAR", x="encrypted DOUBLE", i="encrypted BIGINT")


def marks(table: Schema, order: str, rows: list[list[object]]) -> list[tuple[str, ...]]:
    plan = plan_query(f"SELECT g FROM t GROUP BY g ORDER BY {order}", table, "t")
    assert isinstance(plan, QueryPlan)
    keys = [(chr(ord("a") + place),) for place in range(len(rows))]
    groups = Groups(("VARCHAR",), keys, [5] * len(rows), [()] * len(rows), ())
    result = finish(plan, groups, rows)
    assert result.is_decided == (not any(result.doubts))
    assert [warning.split(":")[0] for warning in result.warnings] == ["ORDER BY"] * any(result.doubts)
    return result.doubts


def test_an_order_the_bounds_leave_open_is_marked(table: Schema) -> None:
    near, far = inexact(2.0, 0.6), inexact(9.0, 0.6)
    assert marks(table, "sum(x)", [[near], [inexact(2.5, 0.6)], [far]]) == [("ORDER BY",), ("ORDER BY",), ()]
    assert marks(table, "sum(x) DESC", [[near], [far]]) == [(), ()]
    assert marks(table, "g, sum(x)", [[near], [near], [far]]) == [(), (), ()]
    assert marks(table, "sum(x) > 0, g", [[near], [near], [far]]) == [(), (), ()]


def test_equal_values_need_no_mark_unless_they_may_differ(table: Schema) -> None:
    assert marks(table, "sum(i)", [[exact(3)], [exact(3)], [exact(None)]]) == [(), (), ()]
    assert marks(table, "sum(x)", [[inexact(3.0, 1e-9)], [inexact(3.0, 1e-9)]]) == [("ORDER BY",)] * 2
    assert marks(table, "sum(i), sum(x)", [[exact(1), inexact(1.0, 1.0)], [exact(2), inexact(1.0, 1.0)]]) == [(), ()]
