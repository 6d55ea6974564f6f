"""A session over a stored table scans where that takes less than fetching rows, unless it must not."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import duckdb
import pytest

from cleave.local.embedded import embedded_services
from cleave.model.operations import Operation
from cleave.session import Access, Silent
from cleave.sql.plan import LocalPlan
from cleave.store import scan as scanning
from cleave.store.cellwise import StoredPlan
from cleave.store.folder import Folder
from cleave.store.locate import Stores
from cleave.store.memory import Memory
from cleave.store.packing_key import PackingKeys
from cleave.store.put import put
from cleave.store.services import Services
from cleave.store.session import StoredSession, open_tables
from cleave.store.stored import Stored
from cleave.store.verify import verify_packing_key
from cleave.table.schema import load_schema
from cleave.table.table import open_table
from cleave_shared.errors import QueryRefused, ServiceError
from tests.conftest import no_passphrase
from tests.store.timed import prefer, take
from tests.store.trial import check

ROWS = 160_000
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
        tables, key = open_tables(self.stores(), Access(key_file, no_passphrase), self.memory())
        with open_table([folder / "trial.parquet"], load_schema(folder / "trial.schema.toml")) as table:
            put(tables, self.stores(), key, table, "trial", ["ward"], Silent(), scan=True)

    def stores(self) -> Stores:
        return Stores(Folder(self.folder / "s"), Folder(self.folder / "p"))

    def memory(self) -> Memory:
        return Memory(self.folder / "tables.json")

    def packing_key_is(self) -> str:
        """What `cleave verify` says of it."""
        stores = self.stores()
        tables, key = open_tables(stores, Access(self.key_file, no_passphrase), self.memory())
        stored = Stored(tables, tables.open("trial"), key)
        return next((each.reason for each in verify_packing_key(stores, tables.folder("trial"), stored)), "")

    def key_files(self) -> list[Path]:
        """Of what services pack results with: keys and the note that tells of one."""
        found = (self.folder / "s" / "keys").rglob("*")
        return [each for each in found if each.is_file() and (len(each.name) == 32 or each.name == "head")]

    def session(self, *, scan: bool = True, services: bool = True) -> StoredSession:
        access = Access(self.key_file, no_passphrase)
        embedded = embedded_services if services else None
        return self.stack.enter_context(
            StoredSession("trial", self.stores(), access, memory=self.memory(), embedded=embedded, scan=scan)
        )


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory, key_file: Path) -> Iterator[Opened]:
    with ExitStack() as stack:
        yield Opened(tmp_path_factory.mktemp("scanned"), key_file, stack)


BY_DAY = "SELECT day % 2 AS odd, SUM(bill), AVG(age), COUNT(*) FROM trial WHERE day < 200 GROUP BY odd ORDER BY odd"


def test_a_scan_is_asked_where_it_takes_less(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    prefer(monkeypatch, "scan")
    session = opened.session()
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
    assert isinstance(plan, LocalPlan) or plan.fetches
    with pytest.raises(QueryRefused):
        session.plan(BY_DAY, cloud_only=True)


def test_many_groups_are_fetched_instead(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    """How many there are is told by the plain service alone."""
    take(monkeypatch, {Operation.FETCH: 1.0, Operation.MULTIPLY: 1e-3})
    sql = "SELECT bed, SUM(bill) FROM trial GROUP BY bed ORDER BY bed"
    session = opened.session()
    plan = session.plan(sql)
    assert isinstance(plan, StoredPlan)
    assert plan.scans
    answer = session.ask(plan)
    assert [column.source for column in answer.result.columns] == ["key", "local"]
    check(answer.result.rows, answer.result.bounds, opened.oracle.execute(sql).fetchall())
    few = "SELECT day // 60 AS d, SUM(bill) FROM trial GROUP BY d ORDER BY d"
    only = session.plan(few, cloud_only=True)
    answer = session.ask(only)
    check(answer.result.rows, answer.result.bounds, opened.oracle.execute(few).fetchall())


def test_too_many_groups_are_refused_where_no_row_may_be_fetched(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scanning, "MOST_RESULTS", 100)
    session = opened.session()
    plan = session.plan("SELECT bed, SUM(bill) FROM trial GROUP BY bed", cloud_only=True)
    with pytest.raises(QueryRefused, match="groups take"):
        session.ask(plan)


def test_the_plan_tells_what_a_scan_tells(opened: Opened) -> None:
    session = opened.session()
    description = session.describe(session.plan(BY_DAY, cloud_only=True))
    assert any("--no-scan" in lesson for lesson in description.leakage.sensitive)
    assert any("which of its rows are in which group" in lesson for lesson in description.leakage.plain)
    fetched = opened.session(scan=False)
    told = fetched.describe(fetched.plan(BY_DAY)).leakage
    assert not any("--no-scan" in lesson for lesson in told.sensitive)


MANY = "SELECT day // 6 AS d, SUM(bill), SUM(age), COUNT(*) FROM trial GROUP BY d ORDER BY d"


def test_services_of_this_process_pack_nothing(opened: Opened) -> None:
    session = opened.session()
    answer = session.ask(session.plan(MANY, cloud_only=True))
    check(answer.result.rows, answer.result.bounds, opened.oracle.execute(MANY).fetchall())
    assert not (opened.folder / "s" / "keys").exists()


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the services were not in this process, where sums come back one by one."""
    monkeypatch.setattr(Services, "elsewhere", True)


@pytest.mark.slow
@pytest.mark.usefixtures("elsewhere")
def test_many_sums_come_back_packed_by_a_key_that_is_stored_once(opened: Opened) -> None:
    keys = opened.folder / "s" / "keys"
    session = opened.session()
    few = session.plan(BY_DAY)
    session.ask(few)
    assert not keys.exists()  # no key is stored that no question needs
    answers = []
    for _ in range(2):
        answer = session.ask(session.plan(MANY, cloud_only=True))
        check(answer.result.rows, answer.result.bounds, opened.oracle.execute(MANY).fetchall())
        answers.append(answer)
        (stored,) = [each.name for each in keys.rglob("*") if len(each.name) == 32 and each.is_file()]
    assert all(each.usage.bytes_received < 700_000 for each in answers)  # one by one: 124 sums of 66 KB
    content = next(each for each in keys.rglob(stored) if each.is_file()).read_bytes()
    assert hashlib.sha256(content).hexdigest()[:32] == stored


def _flipped(content: bytes) -> bytes:
    at = len(content) // 2
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


@pytest.mark.slow
@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize("harm", [_flipped, lambda content: content[:-1], lambda _: None])
def test_a_packing_key_that_is_damaged_is_refused_and_made_anew(
    opened: Opened, harm: Callable[[bytes], bytes | None]
) -> None:
    session = opened.session()
    plan = session.plan(MANY, cloud_only=True)
    session.ask(plan)
    (path,) = [each for each in opened.key_files() if each.name != "head"]
    harmed = harm(path.read_bytes())
    path.unlink()
    if harmed is not None:
        path.write_bytes(harmed)
    assert opened.packing_key_is() == f"{'lost' if harmed is None else 'damaged'}; questions that need it make another"
    with pytest.raises(ServiceError, match="the packing key") as refused:
        session.ask(plan)
    assert refused.value.hint == "ask again: another is made"
    assert not path.exists()
    assert opened.packing_key_is() == "", "no key is no damage"
    answer = session.ask(plan)
    check(answer.result.rows, answer.result.bounds, opened.oracle.execute(MANY).fetchall())
    assert opened.packing_key_is() == ""
    (head,) = (opened.folder / "s" / "keys").rglob("head")
    whole = head.read_bytes()
    head.write_bytes(_flipped(whole))
    assert opened.packing_key_is().startswith("damaged")
    session.ask(plan)
    assert opened.packing_key_is() == ""
    assert len(opened.key_files()) == 2, "what it named is deleted"


@pytest.mark.slow
def test_of_two_packing_keys_made_at_once_one_is_kept(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever comes second uses the first's."""
    for each in opened.key_files():
        each.unlink()
    stores = opened.stores()
    tables, key = open_tables(stores, Access(opened.key_file, no_passphrase), opened.memory())
    stored = Stored(tables, tables.open("trial"), key)
    first, second = (PackingKeys(stores.sensitive, tables.folder("trial"), stored) for _ in range(2))
    write, made = stores.sensitive.write, []

    def late(name: str, content: bytes) -> None:
        write(name, content)
        monkeypatch.undo()
        made.append(first.key())

    monkeypatch.setattr(stores.sensitive, "write", late)
    assert second.key() == made[0] is not None
    assert sorted(each.name for each in opened.key_files()) == sorted([made[0].name.rpartition("/")[2], "head"])
    assert opened.packing_key_is() == ""
