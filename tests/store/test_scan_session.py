"""A session over a stored table scans where rows are over the limit, unless it must not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import duckdb
import pytest

from cleave.ask.choice import FETCH_LIMIT
from cleave.ask.options import Access
from cleave.ask.session import Session
from cleave.ask.stored import StoredSource, open_tables
from cleave.local.embedded import embedded_services
from cleave.objects.locate import Folder, Stores
from cleave.sql.plan import LocalPlan
from cleave.store.put import put
from cleave.store.seen_versions import SeenVersions
from cleave.sums import scan as scanning
from cleave.sums.cellwise import StoredPlan
from cleave.table.progress import Silent
from cleave.table.schema import load_schema
from cleave.table.stream import open_table
from cleave_shared.errors import QueryRefused
from tests.conftest import no_passphrase
from tests.store.trial import check

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


class Opened:
    def __init__(self, folder: Path, key_file: Path, stack: ExitStack) -> None:
        self.folder, self.key_file, self.stack = folder, key_file, stack
        self.oracle = stack.enter_context(duckdb.connect())
        self.oracle.execute(
            f"CREATE TABLE trial AS SELECT 'ward ' || i % 5 AS ward, (i * 7919) % 365 AS day, (i * 31) % 997 AS bed, "
            f"((i * 104729) % 100000 / 100)::DECIMAL(9,2) AS bill, CASE WHEN i % 11 > 0 THEN i % 97 END AS age "
            f"FROM range({ROWS}) r(i)"
        )
        self.oracle.execute(f"COPY trial TO '{folder / 'trial.parquet'}' (FORMAT PARQUET)")
        (folder / "trial.schema.toml").write_text(SCHEMA)
        tables = open_tables(self.stores(), Access(key_file, no_passphrase), self.memory())
        with open_table([folder / "trial.parquet"], load_schema(folder / "trial.schema.toml")) as table:
            put(tables, table, "trial", ["ward"], Silent(), scan=True)

    def stores(self) -> Stores:
        return Stores(Folder(self.folder / "s"), Folder(self.folder / "p"))

    def memory(self) -> SeenVersions:
        return SeenVersions(self.folder / "tables.json")

    def session(self, *, scan: bool = True, services: bool = True, limit: int = FETCH_LIMIT) -> Session:
        access = Access(self.key_file, no_passphrase)
        embedded = embedded_services if services else None
        return self.stack.enter_context(
            Session(
                StoredSource(
                    *("trial", self.stores(), access),
                    memory=self.memory(),
                    embedded=embedded,
                    scan=scan,
                    fetch_limit=limit,
                )
            )
        )


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory, key_file: Path) -> Iterator[Opened]:
    with ExitStack() as stack:
        yield Opened(tmp_path_factory.mktemp("scanned"), key_file, stack)


BY_DAY = "SELECT day % 2 AS odd, SUM(bill), AVG(age), COUNT(*) FROM trial WHERE day < 200 GROUP BY odd ORDER BY odd"


def test_a_scan_is_asked_where_rows_are_over_the_limit(opened: Opened) -> None:
    session = opened.session(limit=0)
    plan = session.plan(BY_DAY)
    assert isinstance(plan, StoredPlan)
    assert plan.scans
    answer = session.ask(plan)
    assert [column.source for column in answer.result.columns] == ["key", "encrypted", "encrypted", "plain"]
    check(answer.result.rows, answer.result.bounds, opened.oracle.execute(BY_DAY).fetchall())
    fetched = opened.session(scan=False)
    by_rows = fetched.ask(fetched.plan(BY_DAY))
    assert [column.source for column in by_rows.result.columns] == ["key", "local", "local", "local"]
    assert by_rows.result.rows == answer.result.rows
    assert answer.usage.sensitive_requests == 1
    assert by_rows.usage.sensitive_requests == 0


def test_totals_come_first(opened: Opened) -> None:
    plan = opened.session().plan("SELECT ward, SUM(bill) FROM trial GROUP BY ward")
    assert isinstance(plan, StoredPlan)
    assert plan.over_cells
    assert not plan.scans


@pytest.mark.parametrize("given", [{"scan": False}, {"services": False}])
def test_no_scan_is_planned_where_none_may_be(opened: Opened, given: dict[str, bool]) -> None:
    session = opened.session(**given)
    plan = session.plan(BY_DAY)
    assert isinstance(plan, LocalPlan) or (isinstance(plan, StoredPlan) and plan.fetches)
    with pytest.raises(QueryRefused):
        session.plan(BY_DAY, cloud_only=True)


def test_too_many_groups_are_refused_where_no_row_may_be_fetched(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scanning, "MOST_RESULTS", 100)
    session = opened.session()
    plan = session.plan("SELECT bed, SUM(bill) FROM trial GROUP BY bed", cloud_only=True)
    with pytest.raises(QueryRefused, match="groups are too many for a scan"):
        session.ask(plan)


def test_the_plan_tells_what_a_scan_tells(opened: Opened) -> None:
    session = opened.session()
    description = session.describe(session.plan(BY_DAY, cloud_only=True))
    assert any("--no-scan" in lesson for lesson in description.leakage.sensitive)
    assert any("which of its rows are in which group" in lesson for lesson in description.leakage.plain)
    fetched = opened.session(scan=False)
    told = fetched.describe(fetched.plan(BY_DAY)).leakage
    assert not any("--no-scan" in lesson for lesson in told.sensitive)
