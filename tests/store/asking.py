"""A question over cells, as the tests of a store put it."""

from __future__ import annotations

from cleave.pipeline import DEFAULTS, Options, Result
from cleave.session import Silent
from cleave.sql.plan import QueryPlan
from cleave.sql.planner import plan_query
from cleave.store.answer import answer
from cleave.store.cellwise import StoredPlan, stored_plan
from cleave.store.kept import KeptTotals
from cleave.store.stored import Stored
from cleave.transport.deadline import Deadline
from tests.functional.processes import HANGS


def planned(stored: Stored, sql: str, *, cloud_only: bool = False) -> StoredPlan:
    kept = KeptTotals(stored.manifest, "a plain aggregate is computed from rows")
    plan = plan_query(sql, stored.schema, "trial", cloud_only=cloud_only, kept=kept)
    assert isinstance(plan, QueryPlan)
    return stored_plan(plan, kept, stored.manifest)


def ask(stored: Stored, sql: str, options: Options = DEFAULTS, *, cloud_only: bool = True) -> Result:
    """`cloud_only`: no row is read for it."""
    plan = planned(stored, sql, cloud_only=cloud_only)
    return answer(stored, plan, options, Deadline(HANGS), Silent(), lambda _: None, lambda _: ())
