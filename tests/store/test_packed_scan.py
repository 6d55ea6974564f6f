"""Questions whose sums come back packed: as DuckDB answers them, over folder and S3, by a key that is stored once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, suppress
from types import SimpleNamespace
from typing import Any

import duckdb
import pytest

from cleave.pipeline import Result
from cleave.store.manifest import folder_of_keys
from cleave.store.packing_key import PackingKeys
from cleave.store.scan import ManyGroupsError
from cleave.store.storage import StoreError
from cleave_services import links
from cleave_services.sensitive import job
from cleave_shared import limits, wire
from cleave_shared.errors import WireError
from tests.conformance.queries import Query
from tests.conformance.tables import MACROS
from tests.store.campaign import FULL
from tests.store.scan_asking import Services, ask_plan, scan_plan
from tests.store.test_conformance import StoredTables
from tests.store.test_conformance import check as check_query
from tests.store.test_scan_conformance import ASKED, _plan
from tests.store.trial import World, check, truth

SQL = "SELECT ward, SUM(bill), AVG(age), COUNT(weight) FROM trial GROUP BY ward ORDER BY ward"
pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """However few sums there are."""
    monkeypatch.setattr(limits, "PACKED_RESULTS", 1)


class Packed(Services):
    """Keeps requests and answers of scans."""

    def __init__(self, stores: Any) -> None:
        self.seen: list[tuple[Any, Any]] = []
        super().__init__(stores, self._keep)

    def _keep(self, name: str, request: Any, reply: Any) -> Any:
        if name == "scan":
            self.seen.append((request, reply))
        return reply


def keys_of(world: World) -> PackingKeys:
    return PackingKeys(world.stores.sensitive, world.tables.folder("trial"), world.stored())


def stored_keys(world: World) -> list[str]:
    """Without the note that says which is the table's, and locks."""
    names = world.stores.sensitive.names(folder_of_keys(world.tables.folder("trial")))
    return [each for each in names if len(each.rpartition("/")[2]) == 32]


def ask(world: World, services: Services | None = None, sql: str = SQL) -> Result:
    stored = world.stored()
    return ask_plan(stored, services or Services(world.stores), scan_plan(stored, sql), keys=keys_of(world).key)


def test_packed_scans_answer_as_duckdb_does(world: World) -> None:
    world.put("insured", scan=True, appended=1)
    services = Packed(world.stores)
    answer = ask(world, services).result
    doubled = SQL.replace("FROM trial", "FROM (SELECT * FROM trial UNION ALL SELECT * FROM trial) trial")
    check(answer.rows, answer.bounds, truth(doubled))
    assert len(services.seen) == 2
    for request, reply in services.seen:
        assert request.pack is not None
        assert request.results * len(request.lanes) > 5
        assert [len(each) for each in reply.totals] == [1]
    first = stored_keys(world)
    assert len(first) == 1
    if not world.stores.sensitive.base.startswith("file:"):
        assert any(name.endswith(first[0]) for _, name, _ in links._warm._kept)
    world.put(append=True)  # which sweeps what no version names
    ask(world)
    assert stored_keys(world) == first
    world.tables.drop("trial")
    assert not stored_keys(world)


def test_a_note_that_is_damaged_is_written_anew(world: World) -> None:
    world.put("insured", scan=True)
    assert keys_of(world).key()
    head = f"{folder_of_keys(world.tables.folder('trial'))}/head"
    found = world.stores.sensitive.read_versioned(head)
    assert found
    world.stores.sensitive.replace(head, found[0][:-1] + b"x", found[1])
    made = keys_of(world).key()
    assert made
    assert keys_of(world).key() == made


def test_where_no_key_can_be_stored_sums_come_back_one_by_one(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.put("insured", scan=True)

    def refused(name: str, _content: bytes) -> None:
        raise StoreError(f"no right to write {name.partition('/')[0]}")

    monkeypatch.setattr(world.stores.sensitive, "write", refused)
    services = Packed(world.stores)
    answer = ask(world, services).result
    check(answer.rows, answer.bounds, truth(SQL))
    assert all(request.pack is None for request, _ in services.seen)


def test_a_service_takes_a_key_of_the_set_it_is_asked_about_and_no_other(world: World) -> None:
    world.put("insured", scan=True)
    services = Packed(world.stores)
    ask(world, services)
    (request, _) = services.seen[0]
    key = request.pack.key
    own = world.tables.folder("trial").removeprefix("tables/")
    elsewhere = [
        {"link": key.link.replace("/keys/", "/tables/")},
        {"link": key.link.replace("/keys/", "/results/")},
        {"link": key.link.replace(own, "f" * 32)},
        {"sha256": "0" * 64},
        {"link": request.lanes[0][0].link, "bytes": request.lanes[0][0].bytes, "sha256": request.lanes[0][0].sha256},
    ]
    for changes in elsewhere:
        pack = request.pack.model_copy(update={"key": key.model_copy(update=changes)})
        with pytest.raises(WireError, match="the packing key"):
            services.scan(request.model_copy(update={"pack": pack}))
    kept = SimpleNamespace(read=lambda *_args, **_kind: [wire.dump_frames(request)])
    step = SimpleNamespace(set=own, question=None, results=())
    with pytest.raises(WireError, match="one by one"):  # a job adds answers up, which packed ones do not allow
        job._call(step, kept, lambda **_: None)  # type: ignore[arg-type]
    for other in (
        {"levels": 9},
        {"levels": 0},
        {"levels": 4, "shift": 5},
        {"shift": -1},
        {"checks": [1]},
        {"checks": []},
    ):
        pack = request.pack.model_copy(update=other)
        with pytest.raises(WireError, match="pack"):
            services.scan(request.model_copy(update={"pack": pack}))


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory, key_file: Any) -> Iterator[StoredTables]:
    with ExitStack() as stack:
        oracle = stack.enter_context(duckdb.connect(config={"threads": 1}))
        oracle.execute(MACROS)
        yield StoredTables(tmp_path_factory.mktemp("packed"), key_file, oracle, stack, scan=True)


@pytest.mark.skipif(not FULL, reason="a campaign: make campaign")  # CLEAVE_CAMPAIGN
@pytest.mark.parametrize("query", ASKED[::3], ids=lambda query: query.name)
def test_conformance(stored: StoredTables, query: Query) -> None:
    plan, services = _plan(stored, query), Services(stored.stores())
    if plan is not None:
        table = stored.table(query.table)
        keys = PackingKeys(stored.stores().sensitive, table._tables.folder(query.table), table)
        with suppress(ManyGroupsError):  # as many as the rows have: a session fetches these then
            check_query(stored, query, ask_plan(table, services, plan, keys=keys.key).result)
