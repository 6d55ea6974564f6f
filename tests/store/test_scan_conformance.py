"""The conformance suite's questions answered by scans, wherever a scan answers any of their outputs.

The quick suite asks one question of each shape, the slow one one in six of the others, CLEAVE_CAMPAIGN all.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import duckdb
import pytest

from cleave.ask.plan import AnswerPlan
from cleave.sql.plan import QueryPlan
from cleave.sums.scan import ManyGroupsError
from cleave_shared.errors import QueryRefused
from tests.conformance.queries import QUERIES, Query
from tests.conformance.shapes import one_of_each
from tests.conformance.tables import MACROS
from tests.store.scan_asking import Services, ask_plan, scan_plan
from tests.store.test_conformance import StoredTables, check

ASKED = [query for query in QUERIES if query.other is None and "encrypted" in query.sources]


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory, key_file: Path) -> Iterator[StoredTables]:
    with ExitStack() as stack:
        oracle = stack.enter_context(duckdb.connect(config={"threads": 1}))
        oracle.execute(MACROS)
        yield StoredTables(tmp_path_factory.mktemp("scanned"), key_file, oracle, stack, scan=True)


def _plan(stored: StoredTables, query: Query) -> AnswerPlan | None:
    """None where no scan answers any of it."""
    try:
        plan = scan_plan(stored.table(query.table), query.sql, query.table, cloud_only=False)
    except QueryRefused:
        return None
    return plan if isinstance(plan.cut, QueryPlan) and plan.cut.encrypted else None


@pytest.mark.parametrize("query", one_of_each(ASKED, topics=False, every=6))
def test_is_answered_as_duckdb_answers(stored: StoredTables, query: Query) -> None:
    plan, services = _plan(stored, query), Services(stored.stores())
    if plan is not None:
        with suppress(ManyGroupsError):  # as many as the rows have: a session fetches these then
            check(stored, query, ask_plan(stored.table(query.table), services, plan).result)
        assert services.asked[0] == "select"


@pytest.mark.slow  # test_scan.py's questions are answered by scans, quick
def test_scans_answer_many_of_them(stored: StoredTables) -> None:
    some = ASKED[::6]
    assert sum(_plan(stored, query) is not None for query in some) > len(some) // 4
