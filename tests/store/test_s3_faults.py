"""S3 fails in every way it can, at any request of any command: the old table or the new, and a clear error in time."""

from __future__ import annotations

import contextlib
import random
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace

import pytest
from botocore.config import Config
from botocore.stub import Stubber

from cleave.ask.options import Access
from cleave.ask.session import Session
from cleave.ask.stored import StoredSource
from cleave.ckks.owner_key import OwnerKey
from cleave.deadline import Deadline, OutOfTime, Stopped
from cleave.maintain.alter import Alteration
from cleave.maintain.alter import alter_columns as alter
from cleave.maintain.changes import delete_rows as delete
from cleave.maintain.changes import update_rows as update
from cleave.maintain.derive import derive_expression as derive
from cleave.objects import s3
from cleave.objects.locate import Bounded, Stores
from cleave.objects.s3 import Bucket
from cleave.objects.storage import StoreError
from cleave.store import put as putting
from cleave.store.compacting import compact
from cleave.store.dropping import drop
from cleave.store.seen_versions import SeenVersions
from cleave.store.tables import Tables
from cleave.table.progress import Silent
from cleave.table.table import Table
from cleave_shared.errors import CheckFailed, CleaveError, CleaveWarning, InputError, ServiceError
from tests.campaign import FACTOR, FULL, sampled
from tests.store.conftest import BUCKET, aws_session
from tests.store.made import loaded
from tests.store.proxy import KINDS, WAITS, Proxy
from tests.store.test_faults import CSV, SCHEMA

SUM = "SELECT COUNT(*), SUM(bill) FROM trial"
MEDIAN = "SELECT MEDIAN(age) FROM trial"
COMMANDS = ["put", "append", "upsert", "derive", "drop", "delete", "update", "alter", "compact"]
EXPECTED = {  # copies of the rows, and measures
    "put": (1, 2),
    "append": (2, 2),
    "upsert": (1, 2),
    "derive": (1, 3),
    "drop": (0, 0),
    "delete": (0, 2),
    "update": (1, 2),
    "alter": (1, 3),
    "compact": (2, 2),
}
SECONDS = 0.25  # of a query where a store keeps it waiting


@pytest.fixture
def proxy(s3_endpoint: str) -> Iterator[Proxy]:
    with Proxy(s3_endpoint) as started:
        yield started


@pytest.fixture
def table() -> Table:
    return loaded(CSV, SCHEMA)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is tried twice and no socket waited for long, so that every fault comes through."""
    quick = Config(connect_timeout=5, read_timeout=5, retries={"mode": "standard", "total_max_attempts": 1})
    monkeypatch.setattr(s3, "_CONFIG", s3._CONFIG.merge(quick))


class World:
    """One table, seen through the proxy and past it."""

    def __init__(self, proxy: Proxy, endpoint: str, key: OwnerKey, key_file: Path, table: Table, root: Path) -> None:
        self.proxy, self.key, self.table, self.root = proxy, key, table, root
        self._endpoint, self._key_file = endpoint, key_file

    def stores(self, *, faulty: bool) -> Stores:
        endpoint = self.proxy.url if faulty else self._endpoint
        places = [s3.Bucket(aws_session(), BUCKET, f"{self.root.name}/{half}", endpoint) for half in "sp"]
        return Stores(*(Bounded(place, 10) for place in places))

    def tables(self, stores: Stores) -> Tables:
        return Tables(stores, self.key, SeenVersions(self.root / "tables.json"))

    def put(self, stores: Stores, key: Sequence[str] = ()) -> object:
        return putting.put(self.tables(stores), self.table, "trial", ["ward"], Silent(), key=key)

    def append(self, stores: Stores, *, again: bool = False) -> object:
        tables = self.tables(stores)
        return putting.append(tables, self.table, "trial", Silent(), again=again)

    def upsert(self, stores: Stores) -> object:
        tables = self.tables(stores)
        return putting.append(tables, self.table, "trial", Silent(), upsert=True, yes=True)

    def alter(self, stores: Stores) -> object:
        return alter(self.tables(stores), "trial", Alteration(add=["more BIGINT encrypted"]), Silent())

    def derive(self, stores: Stores) -> object:
        return derive(self.tables(stores), "trial", "bill * age", "weighted", Silent())

    def delete(self, stores: Stores) -> object:
        return delete(self.tables(stores), "trial", "ward IS NOT NULL", Silent())

    def update(self, stores: Stores) -> object:
        return update(self.tables(stores), "trial", {"name": "upper(name)"}, "age > 0", Silent())

    def compact(self, stores: Stores) -> object:
        tables = self.tables(stores)
        return compact(tables, "trial", Silent())

    def drop(self, stores: Stores) -> object:
        return drop(self.tables(stores), "trial")

    def ask(self, stores: Stores, sql: str, seconds: float = 60.0) -> list[list[object]]:
        memory = SeenVersions(self.root / "tables.json")
        access = Access(self._key_file)
        source = StoredSource("trial", stores, access, memory=memory, seconds=seconds, cache=False)
        with Session(source) as session:
            return session.ask(session.plan(sql), seconds=seconds).result.rows

    def state(self) -> tuple[int, int]:
        """Copies of the rows, and measures; (0, 0) where there is no table."""
        stores = self.stores(faulty=False)
        try:
            manifest = self.tables(stores).open("trial").manifest
        except (InputError, CheckFailed):  # not there, or told to be gone
            return 0, 0
        copies = manifest.rows // 3
        total = Decimal("118.75") * copies if copies else None
        assert self.ask(self.stores(faulty=False), SUM) == [[3 * copies, total]]
        return copies, len(manifest.measures)


@pytest.fixture
def world(proxy: Proxy, s3_endpoint: str, key: OwnerKey, key_file: Path, table: Table, tmp_path: Path) -> World:
    return World(proxy, s3_endpoint, key, key_file, table, tmp_path)


def told(work: Callable[[], object]) -> CleaveError | None:
    """How it failed: a store's error or a check's, with a hint and nothing of what S3 said. After a head it warns."""
    found: CleaveError | None = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CleaveWarning)
        try:
            work()
        except CleaveError as error:
            found = error
    if found is not None:
        assert isinstance(found, ServiceError | CheckFailed), found
        assert found.hint, found
        assert "canary" not in f"{found.message}{found.hint}"
    return found


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("rounds", sampled(0, 1, FACTOR))  # CLEAVE_CAMPAIGN
# quick appends: `test_a_store_that_keeps_us_waiting_is_left`, `test_what_passes_is_survived`
@pytest.mark.parametrize(
    "command", [pytest.param(each, marks=() if each == "put" else pytest.mark.slow) for each in COMMANDS]
)
def test_a_change_is_made_or_not(world: World, command: str, rounds: int) -> None:
    """Each kind of fault hits one of the commands, without rounds a third; in a campaign every one."""
    rng = random.Random(command)
    requests, failed = 12, 0
    kinds = KINDS * rounds if FULL else KINDS[COMMANDS.index(command) :: len(COMMANDS) * (3 - 2 * rounds)]
    for kind in kinds:
        with contextlib.suppress(InputError):  # there is none
            world.drop(world.stores(faulty=False))
        if command != "put":
            world.put(world.stores(faulty=False), key=["name"] if command == "upsert" else [])
        if command == "compact":
            world.append(world.stores(faulty=False))
        before = world.state()
        world.proxy.arm(kind, rng.randrange(requests), lasting=rng.random() < 0.3)
        stores = world.stores(faulty=True)
        error = told(lambda stores=stores: getattr(world, command)(stores))  # type: ignore[misc]
        stores.close()
        made = world.proxy.requests
        world.proxy.arm(None)
        after = world.state()
        expected = EXPECTED[command]
        assert after in (before, expected), (kind, before, after)
        if error is None:
            assert after == expected, kind
            requests = made
        failed += error is not None
    assert failed > len(kinds) // 4 or not rounds


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("sql", "every"), [(SUM, 4), *(pytest.param(*it, marks=pytest.mark.slow) for it in ((SUM, 1), (MEDIAN, 4)))]
)
def test_an_answer_is_right_or_none(world: World, sql: str, every: int) -> None:
    rng = random.Random(sql)
    world.put(world.stores(faulty=False))
    right = world.ask(world.stores(faulty=True), sql)
    requests = world.proxy.requests
    failed = 0
    for kind in KINDS if FULL else KINDS[::every]:
        for lasting in (False, True) if FULL else (rng.random() < 0.5,):
            at = rng.randrange(requests)
            world.proxy.arm(kind, at, lasting=lasting)
            error = told(lambda: _same(world.ask(world.stores(faulty=True), sql, 12 * SECONDS), right))
            failed += error is not None
            assert error is not None or not lasting or kind == "redirect", (kind, at)
    assert failed > 1


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    "lasting", [pytest.param(False, id="once"), pytest.param(True, id="lasting", marks=pytest.mark.slow)]
)
def test_no_step_of_a_question_outlasts_its_time(world: World, lasting: bool) -> None:
    """Opening, planning, answering: whichever request is kept waiting, the question's own time ends it."""
    world.put(world.stores(faulty=False))
    world.ask(world.stores(faulty=True), SUM)
    requests = world.proxy.requests
    assert requests >= 3
    for at in range(requests):
        _waited(world, "drip", at, lasting=lasting)
    world.proxy.arm(None)


def _waited(world: World, kind: str, at: int, *, lasting: bool) -> OutOfTime:
    """How a question ends that is kept waiting, given time enough to come to request `at`, however slow the machine."""
    seconds = SECONDS
    while True:
        world.proxy.arm(kind, at, lasting=lasting)
        with pytest.raises(OutOfTime) as caught:  # what the proxy breaks off in the end is another error
            world.ask(world.stores(faulty=True), SUM, seconds)
        if world.proxy.requests > at:
            return caught.value
        seconds *= 2


def _same(found: object, right: object) -> None:
    assert found == right


@pytest.fixture
def brief_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """As often tried as it is configured, without the seconds between one try and the next."""
    pauses = SimpleNamespace(sleep=lambda seconds: time.sleep(min(seconds, 0.01)), time=time.time)
    monkeypatch.setattr("botocore.endpoint.time", pauses)


@pytest.mark.usefixtures("brief_pauses")
@pytest.mark.parametrize(
    "kind",
    [
        "reset after",
        *(pytest.param(each, marks=pytest.mark.slow) for each in ("slow down", "internal error", "reset", "cut")),
    ],
)
def test_what_passes_is_survived(world: World, kind: str) -> None:
    """As it is configured: S3 says SlowDown now and then, connections break, and a head is written all the same."""
    rng = random.Random(kind)
    world.proxy.arm(kind, rng.randrange(8))
    world.put(world.stores(faulty=True))
    world.proxy.arm(kind, rng.randrange(4))
    assert world.ask(world.stores(faulty=True), SUM) == [[3, Decimal("118.75")]]
    appended = 0
    for at in range(0 if FULL else rng.randrange(4), 20, 1 if FULL else 10):
        world.proxy.arm(kind, at)
        world.append(world.stores(faulty=True), again=True)
        appended += 1
        if world.proxy.requests <= at:
            break
    assert world.state()[0] == 1 + appended


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", WAITS[::-1])
def test_a_store_that_keeps_us_waiting_is_left(world: World, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it is configured, where no socket's own time-out would help: the query's time ends it."""
    world.put(world.stores(faulty=False))
    assert "--timeout" in str(_waited(world, kind, 1, lasting=True).hint)
    stores = world.stores(faulty=True)
    for store in (stores.sensitive, stores.plain):
        monkeypatch.setattr(store, "_seconds", SECONDS)
    with pytest.raises(StoreError, match=f"within {SECONDS} seconds"):
        world.append(stores)
    world.proxy.arm(None)
    assert world.state() == (1, 2)


def test_a_question_that_is_stopped_waits_no_longer(world: World) -> None:
    stores = world.stores(faulty=True)
    world.proxy.arm("hang", 0)
    deadline = Deadline(60)
    stores.limit(deadline)
    deadline.stop()
    with pytest.raises(Stopped):  # what the proxy breaks off in the end is another error
        stores.sensitive.read("t/a")


def test_a_list_that_goes_round_is_named_for_what_it_is(s3_endpoint: str) -> None:
    """Not for credentials, which nobody could mend."""
    store = Bucket(aws_session(), BUCKET, "round", s3_endpoint)
    page = {"IsTruncated": True, "NextContinuationToken": "again", "Contents": [{"Key": "round/t/a", "Size": 1}]}
    with Stubber(store._client) as stub:
        for _ in range(2):
            stub.add_response("list_objects_v2", page)
        with pytest.raises(StoreError, match="list of objects never ends") as caught:
            list(store.names("t"))
    assert "speaks S3" in str(caught.value.hint)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("kind", ["page", "empty"])
def test_an_answer_that_lists_nothing_is_no_list(world: World, kind: str) -> None:
    """Of status 200, as of a hotel's log-in page: nothing is deleted, and nothing is known to be absent."""
    store = world.stores(faulty=True).sensitive
    store.write("t/a", b"a")
    world.proxy.arm(kind, lasting=True)
    for work in (lambda: list(store.names("t")), lambda: store.delete(["t/a"])):
        error = told(work)
        assert error is not None
        assert "stand before it" in str(error.hint)
