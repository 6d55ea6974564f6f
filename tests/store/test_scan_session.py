"""A session over a stored table scans where rows are over the limit, unless it must not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from cleave.ask.choice import FETCH_LIMIT
from cleave.ask.session import Session
from cleave.ckks.owner_key import OwnerKey
from cleave.objects.locate import Folder
from cleave.sums import scan as scanning
from cleave_shared.errors import QueryRefused
from tests.lessons import too_long
from tests.store.trial import World, check

ROWS = 40_000
SCHEMA = """
[columns.ward]
kind = "plain"
type = "VARCHAR"
[columns.day]
kind = "plain"
type = "INTEGER"
[columns.bed]
kind = "plain"
type = "INTEGER"
[columns.bill]
kind = "encrypted"
type = "DECIMAL(9,2)"
lower = 0
upper = 1000
[columns.age]
kind = "encrypted"
type = "BIGINT"
lower = 0
upper = 127
nullable = true
"""


class Days(World):
    def __init__(self, folder: Path, key: OwnerKey, key_file: Path, stack: ExitStack) -> None:
        super().__init__(Folder(folder / "s"), key, folder, Folder(folder / "p"))
        self.key_file, self.stack = key_file, stack
        made = self.make(
            "SELECT 'ward ' || i % 5 AS ward, (i * 7919) % 365 AS day, (i * 31) % 997 AS bed, "
            "((i * 104729) % 100000 / 100)::DECIMAL(9,2) AS bill, CASE WHEN i % 11 > 0 THEN i % 97 END AS age "
            f"FROM range({ROWS}) r(i)",
            SCHEMA,
        )
        self.write(made, "ward", scan=True)

    def opened(self, *, limit: int = FETCH_LIMIT, **options: bool) -> Session:
        return self.stack.enter_context(self.session(self.key_file, fetch_limit=limit, **options))


@pytest.fixture(scope="module")
def days(tmp_path_factory: pytest.TempPathFactory, key: OwnerKey, key_file: Path) -> Iterator[Days]:
    with ExitStack() as stack:
        yield Days(tmp_path_factory.mktemp("scanned"), key, key_file, stack)


BY_DAY = "SELECT day % 2 AS odd, SUM(bill), AVG(age), COUNT(*) FROM trial WHERE day < 200 GROUP BY odd ORDER BY odd"


def test_a_scan_is_asked_where_rows_are_over_the_limit(days: Days) -> None:
    session = days.opened(limit=0)
    plan = session.plan(BY_DAY)
    assert plan.name == "scan"
    answer = session.ask(plan)
    assert [column.source for column in answer.result.columns] == ["key", "encrypted", "encrypted", "plain"]
    check(answer.result.rows, answer.result.bounds, days.oracle.execute(BY_DAY).fetchall())
    fetched = days.opened(scan=False)
    by_rows = fetched.ask(fetched.plan(BY_DAY))
    assert [column.source for column in by_rows.result.columns] == ["key", "local", "local", "local"]
    assert by_rows.result.rows == answer.result.rows
    assert answer.usage.sensitive_requests == 1
    assert by_rows.usage.sensitive_requests == 0


def test_totals_come_first(days: Days) -> None:
    plan = days.opened().plan("SELECT ward, SUM(bill) FROM trial GROUP BY ward")
    assert plan.name == "totals"


@pytest.mark.parametrize("given", [{"scan": False}, {"services": False}])
def test_no_scan_is_planned_where_none_may_be(days: Days, given: dict[str, bool]) -> None:
    session = days.opened(**given)
    plan = session.plan(BY_DAY)
    assert plan.name == "rows"
    with pytest.raises(QueryRefused):
        session.plan(BY_DAY, cloud_only=True)


def test_too_many_groups_are_refused_where_no_row_may_be_fetched(days: Days, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanning, "MOST_RESULTS", 100)
    session = days.opened()
    plan = session.plan("SELECT bed, SUM(bill) FROM trial GROUP BY bed", cloud_only=True)
    with pytest.raises(QueryRefused, match="groups are too many for a scan"):
        session.ask(plan)


def test_the_plan_tells_what_a_scan_tells(days: Days) -> None:
    session = days.opened()
    description = session.describe(session.plan(BY_DAY, cloud_only=True))
    assert any("--no-scan" in lesson for lesson in description.leakage.sensitive)
    assert any("which of its rows are in which group" in lesson for lesson in description.leakage.plain)
    assert not too_long(description.leakage)
    fetched = days.opened(scan=False)
    told = fetched.describe(fetched.plan(BY_DAY)).leakage
    assert not any("--no-scan" in lesson for lesson in told.sensitive)
