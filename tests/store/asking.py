"""Questions over a stored table: over its cells alone, and in a session."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cleave.ask.choice import Chooser
from cleave.ask.options import Access
from cleave.ask.session import Session, finished
from cleave.ask.source import DEFAULTS, Options, Result
from cleave.ask.stored import StoredSource
from cleave.ask.stored_sums import stored_sums
from cleave.ask.works import fetches
from cleave.local.embedded import embedded_services
from cleave.objects.locate import Stores
from cleave.processes.deadline import Deadline
from cleave.sql.plan import QueryPlan
from cleave.sql.planner import plan_query
from cleave.store.seen_versions import SeenVersions
from cleave.sums.cellwise import KeptTotals, StoredPlan, stored_plan
from cleave.sums.stored import Stored
from cleave.table.lazy import LazyTable
from tests.answering import question_of
from tests.conftest import no_passphrase
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


def session_of(
    stores: Stores,
    key: Path | Access,
    memory: SeenVersions,
    name: str | None = "trial",
    others: Sequence[LazyTable] = (),
    *,
    services: bool = True,
    **options: Any,
) -> Session:
    """`services`: both are there, in this process; `options`: of StoredSource."""
    access = Access(key, no_passphrase) if isinstance(key, Path) else key
    embedded = embedded_services if services else None
    return Session(StoredSource(name, stores, access, others, memory=memory, embedded=embedded, **options))


def chooser_of(session: Session) -> Chooser:
    """The ways of questions over the session's stored table."""
    assert isinstance(session.source, StoredSource)
    return session.source.chooser()
