"""Stores that answer wrongly: no wrong figure, and no lost table whose command ended well.

`WRONGS` says for each wrong answer how commands end. After each one a healthy store shows the table's rows, which are
compared with a list of what they must be.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from botocore.config import Config
from botocore.stub import Stubber

from cleave.ask.options import Access
from cleave.ask.session import Session
from cleave.ask.stored import StoredSource
from cleave.ckks.owner_key import OwnerKey
from cleave.ckks.public_key import public_side
from cleave.maintain import readers
from cleave.maintain.changes import delete_rows as delete
from cleave.maintain.changes import update_rows as update
from cleave.maintain.pull import find_damage as verify
from cleave.objects import s3
from cleave.objects.locate import Folder, Stores
from cleave.objects.retention import Retention
from cleave.objects.storage import ConflictError, NotStoredError, StoreError, replaced
from cleave.store import attempts
from cleave.store import put as putting
from cleave.store.dropping import drop
from cleave.store.moving import close_as_moved
from cleave.store.newest import DiscardedError
from cleave.store.seen_versions import SeenVersions
from cleave.store.tables import Tables
from cleave.store.views import views_in
from cleave.sums.stored import Stored
from cleave.table.progress import Silent
from cleave.table.schema import load_schema
from cleave.table.stream import open_table
from cleave.table.table import Table
from cleave_shared import limits
from cleave_shared.errors import CheckFailed, CleaveWarning, ServiceError
from tests.campaign import FULL
from tests.cli.runner import Cli, cli
from tests.store.conftest import BUCKET, aws_environment, aws_session, aws_session_in
from tests.store.contributing import World as Contributing
from tests.store.stub_s3 import HEAD, OBJECT, PAGE, Stub, Wrong
from tests.store.test_faults import CSV, SCHEMA

__all__ = ["cli"]
Row = tuple[str, int, Decimal, str]
ROWS: list[Row] = [
    ("A", 61, Decimal("12.50"), "Ada"),
    ("B", 47, Decimal("99.00"), "Bo"),
    ("A", 33, Decimal("7.25"), "Cy"),
]
PREFIX = "wrong"
NAMES = ("ward", "age", "bill", "name")
SQL = f"SELECT {', '.join(NAMES)} FROM trial ORDER BY ALL"
SUMS = "SELECT ward, COUNT(*), SUM(bill), AVG(age) FROM trial GROUP BY ward ORDER BY ward"
EXPECTED: dict[str, list[Row] | None] = {  # None: no table
    "put": ROWS,
    "append": ROWS * 2,
    "delete": [row for row in ROWS if row[0] != "A"],
    "update": [(ward, age, bill, name.upper()) for ward, age, bill, name in ROWS],
    "drop": None,
    "query": ROWS,
}
WRITERS = ("put", "append", "delete", "update")
# How a command ends. `refused`: an error, and the table is as it was. `told`: an error, and it may be as it is to be.
# `lost`: an error, and the store itself has written over the head; every other object is there. `warned`: done, with a
# warning. All others are done.
REFUSED, TOLD, LOST, WARNED = "refused", "told", "lost", "warned"


def ends(writers: str = "", drop: str = "", query: str = "") -> dict[str, str]:
    return {**dict.fromkeys(WRITERS, writers), "drop": drop, "query": query}


# Wrong answer, and how commands end.
WRONGS: dict[str, tuple[Wrong, dict[str, str]]] = {
    "a head is answered by a page": (Wrong("put", "page", HEAD), ends(REFUSED, REFUSED)),
    "a head is answered by a page with a tag": (Wrong("put", "page with a tag", HEAD), ends(REFUSED, REFUSED)),
    "a head is answered by an error of status 200": (Wrong("put", "error body", HEAD), ends(REFUSED, REFUSED)),
    "a head is confirmed and not stored": (Wrong("put", "nothing", HEAD), ends(REFUSED, REFUSED)),
    "a head is stored in half": (Wrong("put", "half", HEAD), ends(LOST, LOST)),
    "a head is read as it was before": (Wrong("put", "stale read", HEAD), ends(TOLD, TOLD)),
    "objects are answered by a page": (Wrong("put", "page with a tag", OBJECT), ends(REFUSED)),
    "objects are confirmed and not stored": (Wrong("put", "nothing", OBJECT), ends(REFUSED)),
    "objects are stored in half": (Wrong("put", "half", OBJECT), ends(REFUSED)),
    "no write is allowed": (Wrong("put", "forbidden"), ends(REFUSED, REFUSED)),
    "a write is answered without an end": (Wrong("put", "endless answer"), ends(REFUSED, REFUSED)),
    "a write is refused without an end": (Wrong("put", "endless error"), ends(REFUSED, REFUSED)),
    "If-Match is ignored": (Wrong("put", "no If-Match"), ends(REFUSED, REFUSED)),
    "If-None-Match is ignored": (Wrong("put", "no If-None-Match"), ends(REFUSED, REFUSED)),
    "conditions are not known": (Wrong("put", "unknown condition"), ends(REFUSED, REFUSED)),
    "conditions fail with another code": (Wrong("put", "another code"), ends()),
    "lists miss half of the keys": (Wrong("list", "misses keys"), ends("", TOLD) | {"delete": REFUSED}),
    "lists miss one key": (Wrong("list", "misses a key"), ends("", TOLD) | {"delete": REFUSED}),
    "lists count more than they name": (Wrong("list", "miscounts"), ends(REFUSED, REFUSED)),
    "lists are of another folder": (Wrong("list", "another folder"), ends(REFUSED, REFUSED)),
    "lists are a page": (Wrong("list", "page"), ends(REFUSED, REFUSED)),
    "lists are an error of status 200": (Wrong("list", "error body"), ends(REFUSED, REFUSED)),
    "lists go on for ever": (Wrong("list", "endless list"), ends(REFUSED, REFUSED)),
    "lists have the same token again": (Wrong("list", "the same token"), ends(REFUSED, REFUSED)),
    "a page of a list has no end": (Wrong("list", "endless answer"), ends(REFUSED, REFUSED)),
    "deletions are answered by errors": (Wrong("delete", "errors"), ends(WARNED, TOLD)),
    "no deletion is allowed": (Wrong("delete", "forbidden"), ends(WARNED, TOLD)),
    "deletions are answered by a page": (Wrong("delete", "page"), ends(WARNED, TOLD)),
    "deletions are answered by an error of status 200": (Wrong("delete", "error body"), ends(WARNED, TOLD)),
    "deletions are answered without an end": (Wrong("delete", "endless answer"), ends(WARNED, TOLD)),
    "deletions of other names are confirmed": (Wrong("delete", "other names"), ends(WARNED, TOLD)),
    "half of the deletions are confirmed": (Wrong("delete", "half of it"), ends(WARNED, TOLD)),
    "deletions are confirmed and not made": (Wrong("delete", "nothing"), ends("", TOLD)),
    "reads are a page": (Wrong("get", "page with a tag"), ends(REFUSED, TOLD, REFUSED)),
    "reads are a page of status 404": (Wrong("get", "page of 404"), ends(REFUSED, REFUSED, REFUSED)),
    "reads are cut off": (Wrong("get", "cut off"), ends(REFUSED, REFUSED, REFUSED)),
    "reads are half of the object": (Wrong("get", "half"), ends(REFUSED, "", REFUSED)),
    "reads of objects are half of them": (Wrong("get", "half", OBJECT), ends(REFUSED, "", REFUSED)),
    "reads are refused without an end": (Wrong("get", "endless error"), ends(REFUSED, REFUSED, REFUSED)),
}
CASES = [
    pytest.param(name, command, marks=() if place == at % len(told) and at % 2 == 0 else pytest.mark.slow)
    for at, (name, (_, how)) in enumerate(WRONGS.items())
    for told in ([command for command, end in how.items() if end] or [*how],)
    for place, command in enumerate(told + [each for each in how if each not in told])
    if FULL or place == at % len(told) or (at + place) % 6 == 0  # the others in a campaign
]


@pytest.fixture(scope="module")
def stub() -> Iterator[Stub]:
    with Stub() as started:
        yield started


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    folder = tmp_path_factory.mktemp("rows")
    (folder / "trial.csv").write_text(CSV)
    (folder / "trial.schema.toml").write_text(SCHEMA)
    return open_table([folder / "trial.csv"], load_schema(folder / "trial.schema.toml"))


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is tried twice; a list may have few names; no store was tried before."""
    quick = Config(connect_timeout=5, read_timeout=5, retries={"mode": "standard", "total_max_attempts": 1})
    monkeypatch.setattr(s3, "_CONFIG", s3._CONFIG.merge(quick))
    monkeypatch.setattr(s3, "_tried", set())
    monkeypatch.setattr(attempts, "SECONDS", 0.1)
    monkeypatch.setattr(limits, "MAX_LISTED_NAMES", 1000)


class InStub:
    """The table in the stub. `memory`: of the machine that makes changes."""

    def __init__(self, stub: Stub, key: OwnerKey, key_file: Path, table: Table, root: Path) -> None:
        self.stub, self.key, self.table = stub, key, table
        self.memory, self._key_file = SeenVersions(root / "tables.json"), key_file

    def stores(self) -> Stores:
        return Stores(*(s3.Bucket(aws_session(), BUCKET, f"{PREFIX}/{half}", self.stub.url) for half in "sp"))

    def tables(self) -> Tables:
        return Tables(self.stores(), self.key, self.memory)

    def run(self, command: str) -> Any:
        tables = self.tables()
        if command == "put":
            return putting.put(tables, self.table, "trial", ["ward"], Silent())
        if command == "append":
            return putting.append(tables, self.table, "trial", Silent())
        if command == "delete":
            done = delete(tables, "trial", "ward = 'A'", Silent(), yes=True)
            return done and done
        if command == "update":
            done = update(tables, "trial", {"name": "upper(name)"}, "age > 0", Silent())
            return done and done
        if command == "drop":
            return drop(tables, "trial")
        return self.ask(SQL), self.ask(SUMS)

    def ask(self, sql: str) -> list[list[object]]:
        access = Access(self._key_file)
        source = StoredSource("trial", self.stores(), access, memory=self.memory, seconds=60, cache=False)
        with Session(source) as session:
            return session.ask(session.plan(sql), seconds=60).result.rows

    def rows(self) -> list[Row] | None:
        """The rows by a healthy store, every object of which is as it was written; None where there is no table."""
        self.stub.arm(None)
        tables = self.tables()
        try:
            opened = tables.find("trial")
        except DiscardedError:
            opened = None  # a drop that is not finished
        except CheckFailed as error:
            if "was there and is gone" not in error.message:
                raise
            opened = None  # likewise
        if opened is None:
            return None
        with closing(Stored(tables, opened)) as stored, stored.rows.table(list(NAMES)) as rows:
            assert verify(stored, Silent()) == []
            return rows.connection.execute(f"SELECT {', '.join(NAMES)} FROM {rows.relation} ORDER BY ALL").fetchall()


@pytest.fixture(scope="module")
def filled(stub: Stub, key: OwnerKey, key_file: Path, table: Table, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The objects of the table, and what a machine remembers of it."""
    root = tmp_path_factory.mktemp("filled")
    stub.objects.clear()
    stub.arm(None)
    InStub(stub, key, key_file, table, root).run("put")
    return dict(stub.objects), (root / "tables.json").read_text()


@pytest.fixture
def world(
    filled: tuple[dict[str, bytes], str], stub: Stub, key: OwnerKey, key_file: Path, table: Table, tmp_path: Path
) -> InStub:
    stub.arm(None)
    stub.objects.clear()
    stub.objects.update(filled[0])
    (tmp_path / "tables.json").write_text(filled[1])
    return InStub(stub, key, key_file, table, tmp_path)


def emptied(world: InStub, tmp_path: Path) -> None:
    world.stub.objects.clear()
    (tmp_path / "tables.json").unlink()


def ended(work: Callable[[], object]) -> tuple[str, ServiceError | CheckFailed | None, Any]:
    """`error`, `warned` or nothing; the error, and the result."""
    failure: ServiceError | CheckFailed | None = None
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", CleaveWarning)
        try:
            result = work()
        except (ServiceError, CheckFailed) as error:
            failure, result = error, None
    if failure is not None:
        assert failure.hint
        assert "canary" not in f"{failure.message}{failure.hint}"
        return "error", failure, None
    return "warned" if said else "", None, result


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("name", "command"), CASES)
def test_no_wrong_figure_and_no_lost_table(world: InStub, tmp_path: Path, name: str, command: str) -> None:
    wrong, how = WRONGS[name]
    if command == "put":
        emptied(world, tmp_path)
    before, objects = None if command == "put" else ROWS, dict(world.stub.objects)
    world.stub.arm(wrong)
    end, error, result = ended(lambda: world.run(command))
    assert not world.stub.read_to_end
    kept = dict(world.stub.objects)
    if how[command] == LOST:
        assert end == "error"
        missing = {each for each in objects.keys() - kept.keys() if not each.endswith("/head")}
        assert not missing
        return
    rows = world.rows()
    if end != "error":
        assert end == ("warned" if how[command] == WARNED else ""), end
        assert how[command] in ("", WARNED), how[command]
        assert rows == (sorted(EXPECTED[command] or []) if command != "drop" else None)
        if command == "drop":
            assert not kept
        if command == "query":
            answers, sums = result
            assert [tuple(each) for each in answers] == sorted(ROWS)
            assert [[*each[:3]] for each in sums] == [["A", 2, Decimal("19.75")], ["B", 1, Decimal("99.00")]]
        return
    assert how[command] in (REFUSED, TOLD), f"{error}"
    expected = [sorted(before) if before else None]
    if how[command] == TOLD:
        expected.append(sorted(EXPECTED[command] or []) if command != "drop" else None)
    assert rows in expected, f"{error}"
    if command == "drop" and name.startswith("lists"):
        assert not kept or how[command] == REFUSED, "what the manifest names goes, listed or not"
    if how[command] == REFUSED and before:
        assert objects.keys() <= kept.keys(), "an old object was deleted"


@pytest.mark.parametrize("how", ["nothing", pytest.param("half", marks=pytest.mark.slow)])
@pytest.mark.parametrize("command", [pytest.param(each, marks=pytest.mark.slow) for each in WRITERS[1:]] + ["append"])
def test_any_one_write_that_is_not_kept_is_found(world: InStub, command: str, how: str) -> None:
    """Quick: the last ones of an append, which are the manifest, the log's page and the head."""
    start, memory = dict(world.stub.objects), world.memory._path.read_text()
    world.run(command)
    count = sum(what == "put" for what, _ in world.stub.asked)
    first = count - 5 if command == "append" and how == "nothing" else 0
    for at in range(first, count):
        s3._tried.clear()
        world.stub.objects.clear()
        world.stub.objects.update(start)
        world.memory._path.write_text(memory)
        world.stub.arm(Wrong("put", how, at=at))
        end, error, _ = ended(lambda: world.run(command))
        puts = [key for what, key in world.stub.asked if what == "put"]
        if end == "error" and how == "half" and puts[at].endswith("/head"):
            assert {each for each in start if not each.endswith("/head")} <= world.stub.objects.keys()
            continue
        rows, expected = world.rows(), sorted(EXPECTED[command] or [])
        assert rows == expected or (end == "error" and rows == sorted(ROWS)), (puts[at], error)
        tables = world.tables()
        assert tables.log(tables.open("trial"))


REASONS = {
    "no If-None-Match": "in spite of If-None-Match",
    "no If-Match": "in spite of If-Match",
    "unknown condition": "in spite of If-None-Match",
}


@pytest.mark.parametrize("how", REASONS)
def test_a_store_without_conditions_is_refused_by_name_and_reason(stub: Stub, how: str) -> None:
    stub.objects.clear()
    stub.arm(Wrong("put", how))
    store = s3.Bucket(aws_session(), BUCKET, "p", stub.url)
    for write in (lambda: store.write("t/a", b"a"), lambda: store.replace("t/head", b"a", None)):
        with pytest.raises(StoreError, match=f"store at 127.0.0.1 .*{REASONS[how]}") as caught:
            write()
        assert "docs/stored.md" in str(caught.value.hint)
        assert not stub.objects, "the probe is deleted, and nothing else is written"


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("answer", "known"),
    [
        (b'<VersioningConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/"/>', True),
        (b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>", False),
        (PAGE, False),
        (b"", False),
    ],
)
def test_what_does_not_speak_of_versions_may_keep_some(stub: Stub, answer: bytes, *, known: bool) -> None:
    stub.arm(None)
    stub.objects.clear()
    stub.objects[BUCKET] = answer
    assert s3.Bucket(aws_session(), BUCKET, "p", stub.url).retention() == (Retention(keeps=False) if known else None)


def test_a_store_is_tried_once_in_a_process(stub: Stub) -> None:
    stub.objects.clear()
    stub.arm(None)
    for name in ("a", "b"):
        s3.Bucket(aws_session(), BUCKET, "p", stub.url).write(f"t/{name}", b"a")
    puts = [key.rpartition("/")[2] for what, key in stub.asked if what == "put"]
    assert [each.partition(".")[0] for each in puts] == ["probe", "probe", "probe", "a", "b"]
    assert sorted(stub.objects) == [f"{BUCKET}/p/t/{name}" for name in "ab"]


def test_without_the_right_to_delete_a_store_is_tried_all_the_same(stub: Stub) -> None:
    stub.objects.clear()
    stub.arm(Wrong("delete", "forbidden"))
    s3.Bucket(aws_session(), BUCKET, "p", stub.url).write("t/a", b"a")
    assert f"{BUCKET}/p/t/a" in stub.objects


def test_aws_is_not_tried() -> None:
    store = s3.Bucket(aws_session_in("eu-west-1"), BUCKET, "p")
    with Stubber(store._client) as answers:
        answers.add_response("put_object", {"ETag": '"1"'})
        store.write("t/a", b"a")
        answers.assert_no_pending_responses()


def test_a_conflict_is_told_by_its_status(stub: Stub) -> None:
    stub.objects.clear()
    stub.arm(Wrong("put", "another code"))
    store = s3.Bucket(aws_session(), BUCKET, "p", stub.url)
    version = store.replace("t/head", b"1", None)
    store.replace("t/head", b"2", version)
    for expected in (version, None):
        with pytest.raises(ConflictError):
            store.replace("t/head", b"3", expected)


@pytest.fixture
def words(world: InStub, cli: Cli, key_file: Path, tmp_path: Path) -> tuple[object, ...]:
    """Options of commands on the table, on a machine that has not seen it."""
    cli.environment |= aws_environment(world.stub.url) | {"XDG_STATE_HOME": str(tmp_path / "state")}
    return "--store", f"s3://{BUCKET}/{PREFIX}/s,s3://{BUCKET}/{PREFIX}/p", "--key", key_file


@pytest.mark.parametrize("how", ["forbidden", pytest.param("errors", marks=pytest.mark.slow)])
def test_put_without_the_right_to_delete_says_what_is_committed(
    world: InStub, cli: Cli, words: tuple[object, ...], tmp_path: Path, how: str
) -> None:
    (tmp_path / "more.csv").write_text(CSV)
    put = ("put", tmp_path / "more.csv", "--table", "trial", "--append", *words)
    world.stub.arm(Wrong("delete", how))
    result = cli.run(*put)
    assert result.exit_code == 0, result.output
    assert "trial: version 2, 6 rows" in result.stderr
    assert "warning: the change is made, but older objects stay in the store" in result.stderr
    assert "stopped" not in result.stderr
    assert world.rows() == sorted(ROWS * 2)
    old = set(world.stub.objects)
    assert cli.run(*put, "--again").exit_code == 0, "and the next change deletes what stayed"
    assert len(old - world.stub.objects.keys()) > 2


def test_a_deletion_is_recorded_only_once_the_objects_are_gone(
    world: InStub, cli: Cli, words: tuple[object, ...], tmp_path: Path
) -> None:
    record, old = tmp_path / "erased.json", set(world.stub.objects)
    delete_it = (
        "delete",
        "trial",
        "--where",
        "ward = 'A'",
        "--yes",
        "--record",
        record,
        "--old-version-days",
        "1",
        *words,
    )
    world.stub.arm(Wrong("delete", "forbidden"))
    result = cli.run(*delete_it)
    assert result.exit_code == 6, result.output
    assert "version 2 is made, but older objects are still there" in result.stderr
    assert not record.exists()
    assert old <= world.stub.objects.keys()
    world.stub.arm(None)
    result = cli.run(*delete_it)
    assert result.exit_code == 0, result.output
    gone = {each["name"] for each in json.loads(record.read_text())["objects_gone"]}
    assert gone
    assert not [name for name in world.stub.objects if name.partition("/s/")[2] in gone]
    assert world.rows() == EXPECTED["delete"]


class Forgetful(Folder):
    """Folder that stores `kept` of a head."""

    def __init__(self, root: Path, kept: Callable[[bytes], bytes | None]) -> None:
        super().__init__(root)
        self._kept = kept

    def replace(self, name: str, content: bytes, expected: str | None) -> str:
        kept = self._kept(content) if name.endswith("/head") else content
        return super().replace(name, kept, expected) if kept is not None else "1"


@pytest.mark.parametrize("kept", [lambda _: None, lambda content: content[:-9]])
def test_a_folder_goes_the_same_way(
    key: OwnerKey, table: Table, tmp_path: Path, kept: Callable[[bytes], bytes | None]
) -> None:
    memory = SeenVersions(tmp_path / "tables.json")
    healthy = Tables(Stores(Folder(tmp_path / "s"), Folder(tmp_path / "p")), key, memory)
    putting.put(healthy, table, "trial", ["ward"], Silent())
    before = {path for path in tmp_path.glob("[sp]/**/*") if path.is_file()}
    head = healthy.stores.sensitive.read(f"{healthy.folder('trial')}/head")
    wrong = Tables(Stores(Forgetful(tmp_path / "s", kept), Folder(tmp_path / "p")), key, memory)
    with pytest.raises((StoreError, CheckFailed)):
        putting.append(wrong, table, "trial", Silent())
    assert before <= set(tmp_path.glob("[sp]/**/*"))
    Folder(tmp_path / "s").replace(f"{healthy.folder('trial')}/head", head, _version_of(healthy))
    assert healthy.open("trial").manifest.rows == 3


def _version_of(tables: Tables) -> str:
    found = tables.stores.sensitive.read_versioned(f"{tables.folder('trial')}/head")
    assert found is not None
    return found[1]


def test_a_contributors_head_is_read_back(tmp_path: Path, key_file: Path) -> None:
    world = Contributing(tmp_path, key_file)
    world.put("A,f,61,12.50,80,Ada\n")
    world.register("north")
    world.contribute("north", "B,m,47,99.00,70,Bo\n")
    before = set(world.sensitive().names(""))
    stores = Stores(Forgetful(tmp_path / "s", lambda _: None), Folder(tmp_path / "p"))
    with pytest.raises(StoreError, match="does not return what was written"):
        world.contribute("north", "C,m,33,7.25,70,Cy\n", replace=True, stores=stores)
    assert before <= set(world.sensitive().names(""))
    world.collect()
    assert world.open().manifest.rows == 2


def test_a_contributors_rows_stay_where_their_list_is_not_found(tmp_path: Path, key_file: Path) -> None:
    """A list that is gone means that the owner took the rows in, unless they are there."""

    class Hiding(Folder):
        def read(
            self, name: str, start: int = 0, stop: int | None = None, most: int = limits.MAX_OBJECT_BYTES
        ) -> bytes:
            if name == hidden:
                raise NotStoredError("not there")
            return super().read(name, start, stop, most)

    world = Contributing(tmp_path, key_file)
    world.put("A,f,61,12.50,80,Ada\n")
    world.register("north")
    hidden = world.contribute("north", "B,m,47,99.00,70,Bo\n").parts[0].names.name
    stores = Stores(Hiding(tmp_path / "s"), Folder(tmp_path / "p"))
    with pytest.warns(CleaveWarning, match="older objects stay"):
        world.contribute("north", "C,m,33,7.25,70,Cy\n", stores=stores)
    world.collect()
    assert world.open().manifest.rows == 3


def test_a_later_record_is_not_taken_for_a_lost_head(key: OwnerKey, table: Table, tmp_path: Path) -> None:
    """Another process may write on top of a head before it is read back."""
    stores = Stores(Folder(tmp_path / "s"), Folder(tmp_path / "p"))
    other = Tables(stores, key, SeenVersions(tmp_path / "other.json"))

    class Raced(Folder):
        def replace(self, name: str, content: bytes, expected: str | None) -> str:
            version = super().replace(name, content, expected)
            if name.endswith("/head"):
                other.record(other.open("trial"), "pull", 0)
            return version

    tables = Tables(Stores(Raced(tmp_path / "s"), Folder(tmp_path / "p")), key, SeenVersions(tmp_path / "tables.json"))
    opened = putting.put(tables, table, "trial", ["ward"], Silent())
    assert [each.what for each in other.log(other.open("trial"))] == ["put", "pull"]
    with pytest.raises(ConflictError):
        replaced(stores.sensitive, f"{other.folder('trial')}/head", b"{}", opened.head_etag)


def test_a_rotated_table_is_closed_only_where_its_objects_are_listed(world: InStub) -> None:
    tables = world.tables()
    opened = tables.open("trial")
    objects = dict(world.stub.objects)
    world.stub.arm(Wrong("list", "misses a key"))
    with pytest.raises(StoreError, match="does not list"):
        close_as_moved(tables, opened, "0" * 32)
    assert world.stub.objects == objects


def test_an_attempt_without_an_answer_keeps_what_its_head_names(
    key: OwnerKey, other_key: OwnerKey, table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The change finds itself in the log, and sweeps what its attempts wrote: not the views of readers."""
    monkeypatch.setattr(attempts, "SECONDS", 60.0)
    silent: list[str] = []  # what is not answered next

    class Silenced(Folder):
        def replace(self, name: str, content: bytes, expected: str | None) -> str:
            version = super().replace(name, content, expected)
            if name.endswith("/head") and "write" in silent:
                silent.remove("write")
                raise StoreError("no answer", status=503)
            return version

        def read_versioned(
            self, name: str, most: int = limits.MAX_HEAD_BYTES, earlier: tuple[bytes, str] | None = None
        ) -> tuple[bytes, str] | None:
            if name.endswith("/head") and silent == ["read"]:
                silent.remove("read")
                raise StoreError("no answer", status=503)
            return super().read_versioned(name, most, earlier)

    stores = Stores(Silenced(tmp_path / "s"), Folder(tmp_path / "p"))
    tables = Tables(stores, key, SeenVersions(tmp_path / "tables.json"))
    putting.put(tables, table, "trial", ["ward"], Silent())
    readers.add(tables, "trial", "carol", public_side(other_key), ["ward", "bill"], Silent(), yes=True)
    silent += ["write", "read"]
    putting.append(tables, table, "trial", Silent(), again=True)
    assert not silent
    opened = tables.open("trial")
    assert opened.manifest.rows == 6
    views = opened.head.views
    assert views is not None
    assert len(views_in(tables.read(views))) == 1
    with closing(Stored(tables, opened)) as stored:
        assert verify(stored, Silent()) == []
