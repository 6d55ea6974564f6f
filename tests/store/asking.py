"""A question over cells, as the tests of a store put it."""

from __future__ import annotations

from cleave.pipeline import DEFAULTS, Options, Result
from cleave.sql.plan import QueryPlan
from cleave.sql.planner import plan_query
from cleave.store.cellwise import Cellwise, over_cells
from cleave.store.stored import Stored


def ask(stored: Stored, sql: str, options: Options = DEFAULTS) -> Result:
    plan = plan_query(sql, stored.schema, "trial")
    assert isinstance(plan, QueryPlan)
    wanted = over_cells(plan, stored.manifest)
    assert isinstance(wanted, Cellwise), wanted
    return stored.ask_cells(wanted, options)
