"""ANY_VALUE and MODE depend on the order of rows: never exact. rowid is refused with its reason."""

from __future__ import annotations

import pytest

from cleave.sql.plan import QueryPlan
from cleave.sql.planner import plan_query
from cleave_shared.errors import QueryRefused
from tests.unit.simulate import schema

TABLE = schema(g="plain VARCHAR", v="plain BIGINT", n="encrypted INTEGER", s="sealed VARCHAR")


@pytest.mark.parametrize("call", ["any_value", "arbitrary", "mode"])
def test_what_is_arbitrary_is_not_exact(call: str) -> None:
    plan = plan_query(f"SELECT {call}(v), max(v), {call}(s), max(s), sum(n) FROM t GROUP BY g", TABLE, "t")
    assert isinstance(plan, QueryPlan)
    assert [each.exact for each in plan.plain] == [False, True]
    assert [each.exact for each in plan.local] == [False, True]


@pytest.mark.parametrize(
    "sql",
    ["SELECT rowid FROM t", "SELECT rowid, sum(n) FROM t GROUP BY rowid", "SELECT sum(n) FROM t WHERE t.rowid > 3"],
)
def test_rowid_is_refused_with_its_reason(sql: str) -> None:
    with pytest.raises(QueryRefused, match="rowid is no column"):
        plan_query(sql, TABLE, "t")
