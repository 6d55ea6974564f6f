"""A question over cells, as the tests of a store put it."""

from __future__ import annotations

from cleave.ask.choice import Chooser
from cleave.ask.session import Session, finished
from cleave.ask.source import DEFAULTS, Options, Result
from cleave.ask.stored import StoredSource
from cleave.ask.stored_sums import stored_sums
from cleave.ask.works import fetches
from cleave.processes.deadline import Deadline
from cleave.sql.plan import QueryPlan
from cleave.sql.planner import plan_query
from cleave.sums.cellwise import KeptTotals, StoredPlan, stored_plan
from cleave.sums.stored import Stored
from tests.answering import question_of
from tests.functional.processes import HANGS


def planned(stored: Stored, sql: str, *, cloud_only: bool = False) -> StoredPlan:
    sums = KeptTotals(stored.manifest.measures, stored.manifest.by, "a plain aggregate is computed from rows")
    plan = plan_query(sql, stored.schema, "trial", cloud_only=cloud_only, sums=sums)
    assert isinstance(plan, QueryPlan)
    return stored_plan(plan, sums, stored.manifest.measures)


def ask(stored: Stored, sql: str, options: Options = DEFAULTS, *, cloud_only: bool = True) -> Result:
    """`cloud_only`: no row is read for it."""
    plan, question = planned(stored, sql, cloud_only=cloud_only), question_of(options, Deadline(HANGS))
    fetched = fetches({plan.table.lower(): stored}, plan, pad=options.pad)
    return finished(stored_sums(stored, plan, question, fetched, lambda _: None), question)


def chooser_of(session: Session) -> Chooser:
    """The ways of questions over the session's stored table."""
    assert isinstance(session.source, StoredSource)
    return session.source.chooser()
