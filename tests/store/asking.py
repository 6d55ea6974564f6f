"""Questions over a stored table: over its cells alone, and in a session."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cleave.ask.choice import FETCH_LIMIT, WAYS
from cleave.ask.finishing import finished
from cleave.ask.options import Access
from cleave.ask.plan import AnswerPlan
from cleave.ask.question import DEFAULTS, Answer, Options
from cleave.ask.session import Session
from cleave.ask.stored import StoredSource, checks_of, usage_of
from cleave.ask.way import Site, WayContext
from cleave.ask.ways.answering import answered
from cleave.ask.ways.choosing import ways_of
from cleave.ask.ways.rows import RowsWay
from cleave.deadline import Deadline
from cleave.local.embedded import embedded_services
from cleave.objects.locate import Folder, Stores
from cleave.sql.plan import QueryPlan
from cleave.sql.planner import plan_query
from cleave.store.seen_versions import SeenVersions
from cleave.sums.needs import KeptTotals
from cleave.sums.stored import Stored
from cleave.table.lazy import LazyTable
from tests.answering import question_of
from tests.conftest import no_passphrase
from tests.functional.processes import HANGS


def planned(stored: Stored, sql: str, *, cloud_only: bool = False) -> AnswerPlan:
    sums = KeptTotals(stored.manifest.measures, stored.by, "a plain aggregate is computed from rows")
    cut = plan_query(sql, stored.schema, "trial", cloud_only=cloud_only, sums=sums)
    assert isinstance(cut, QueryPlan)
    return AnswerPlan(cut, ways_of(WAYS, cut, sums))


def site_of(stored: Stored, table: str = "trial", *, services: bool = True) -> Site:
    return Site(
        table,
        {table.lower(): stored},
        {},
        frozenset(),
        services=services,
        remote=False,
        scan=True,
        job=False,
        fetch_limit=FETCH_LIMIT,
    )


def stored_site(session: Session) -> Site:
    """The site of questions over the session's stored table."""
    assert isinstance(session.source, StoredSource)
    return session.source.site()


def rows_of(plan: AnswerPlan) -> RowsWay:
    return next(each for each in plan.ways if isinstance(each, RowsWay))


def ask(stored: Stored, sql: str, options: Options = DEFAULTS, *, cloud_only: bool = True) -> Answer:
    """`cloud_only`: no row is read for it."""
    return ask_plan(stored, planned(stored, sql, cloud_only=cloud_only), options)


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


def ask_plan(stored: Stored, plan: AnswerPlan, options: Options = DEFAULTS) -> Answer:
    question = question_of(options, Deadline(HANGS))
    sums = answered(plan, WayContext(site_of(stored, plan.table), question, stop=stored.stop))
    return finished(replace(sums, usage=usage_of(stored), checks=checks_of(stored)), question)


def reads_of(location: str, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The names of objects that are read from a folder from now on."""
    read: set[str] = set()
    of_folder = Folder.read

    def noted(folder: Folder, name: str, *args: Any, **options: Any) -> bytes:
        if folder.location == location:
            read.add(name)
        return of_folder(folder, name, *args, **options)

    monkeypatch.setattr(Folder, "read", noted)
    return read
