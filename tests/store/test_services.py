"""A session over a stored table asks the services: in this process, over HTTP, as functions; each half its own."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from aws.serving import served
from cleave.ask.options import Access
from cleave.ask.session import Session
from cleave.ask.ways.choosing import READ_HERE_ANYWAY
from cleave.ask.ways.totals import TotalsWay
from cleave.ckks.owner_key import OwnerKey
from cleave.objects.locate import Folder, Stores
from cleave.store.seen_versions import SeenVersions
from cleave.transport.connect import Target
from cleave_services import links
from cleave_services.plain import calls as plain_calls
from cleave_services.sensitive import calls as sensitive_calls
from cleave_shared.errors import CheckFailed, ServiceError
from tests.conftest import no_passphrase
from tests.lessons import too_long
from tests.store.asking import session_of
from tests.store.trial import World, check, truth

SOURCES = {
    "SELECT ward, COUNT(*), SUM(bill), MAX(admitted), MIN(ward || 'x') FROM trial GROUP BY ward ORDER BY ward": (
        "key encrypted encrypted plain plain"
    ),
    "SELECT MEDIAN(admitted), COUNT(DISTINCT admitted) FROM trial WHERE ward <> 'Surgery'": "plain plain",
    "SELECT ward, MAX(admitted), MEDIAN(age), AVG(age) FROM trial GROUP BY ward ORDER BY ward": (
        "key plain local encrypted"
    ),
    "SELECT ward, MAX(admitted), COUNT(*) FROM trial GROUP BY ROLLUP (ward) ORDER BY ALL": "key plain encrypted",
}


SUMS = "SELECT ward, SUM(bill) FROM trial GROUP BY ward ORDER BY ward"


@pytest.fixture(autouse=True)
def totals_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """However few rows there are; of so small a table they would be less to read."""
    monkeypatch.setattr(TotalsWay, "worth", 1_000_000)


def halves(tmp_path: Path) -> Stores:
    return Stores(Folder(tmp_path / "sensitive"), Folder(tmp_path / "plain half"))


class Two(World):
    """Halves in two places, in two segments."""

    def __init__(self, key: OwnerKey, tmp_path: Path, *by: str, stores: Stores | None = None) -> None:
        stores = stores or halves(tmp_path)
        super().__init__(stores.sensitive, key, tmp_path, stores.plain)
        self.put(*by, appended=1)


def twice(sql: str) -> str:
    return sql.replace("FROM trial", "FROM (FROM trial UNION ALL FROM trial) AS trial", 1)


@pytest.fixture
def session(key: OwnerKey, key_file: Path, tmp_path: Path) -> Iterator[Callable[..., Session]]:
    opened = []

    def start(*by: str, target: Target | None = None, folder: Path | None = None) -> Session:
        """`folder`: of the halves, where they are put already."""
        if folder is None:
            Two(key, folder := tmp_path, *by)
        memory = SeenVersions(folder / "tables.json")
        opened.append(session_of(halves(folder), Access(key_file, no_passphrase, target), memory))
        return opened[-1]

    yield start
    for each in opened:
        each.close()


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory, key: OwnerKey) -> Iterator[tuple[Path, Target]]:
    """Folder of the halves, and a server that reads them."""
    folder = tmp_path_factory.mktemp("remote")
    Two(key, folder, "ward")
    with served(*(f"--store={folder / name}" for name in ("sensitive", "plain half"))) as (url, _):
        yield folder, Target(endpoint=url)


def test_each_output_comes_from_its_service(session: Callable[..., Session]) -> None:
    asked = session("ward")
    for sql, sources in SOURCES.items():
        answer = asked.ask(asked.plan(sql))
        here = sources.replace("plain", "local").split()  # a service in this process reads no less
        assert [column.source for column in answer.result.columns] == here, sql
        check(answer.result.rows, answer.result.bounds, truth(twice(sql)))
        assert answer.checks["totals"] == ("passed" if "SUM" in sql or "AVG" in sql else "not needed")


@pytest.mark.parametrize("sql", ["SELECT admitted, COUNT(*), MAX(ward) FROM trial GROUP BY admitted ORDER BY ALL"])
def test_groups_that_are_not_of_cells_are_the_plain_services(session: Callable[..., Session], sql: str) -> None:
    asked = session("ward")
    answer = asked.ask(asked.plan(sql, cloud_only=True))
    assert [column.source for column in answer.result.columns] == ["key", "plain", "plain"]
    check(answer.result.rows, answer.result.bounds, truth(twice(sql)))


def test_the_plain_service_of_this_process_is_asked_only_where_rows_are_not_fetched(
    session: Callable[..., Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would read what is read here, and takes a process of its own."""
    asked = session("ward")
    sql = "SELECT ward, COUNT(*), MAX(admitted) FROM trial WHERE admitted > '2025-01-02' GROUP BY ward ORDER BY ward"
    services = asked.describe(asked.plan(sql, cloud_only=True))
    monkeypatch.setattr(plain_calls, "aggregate", None)
    plan = asked.plan(sql)
    assert [way.name for way in plan.ways] == ["rows"]
    answer = asked.ask(plan)
    assert [column.source for column in answer.result.columns] == ["key", "local", "local"]
    assert answer.result.columns[2].reason == READ_HERE_ANYWAY
    check(answer.result.rows, answer.result.bounds, truth(twice(sql)))
    size = services.plain.bytes_down
    assert size == asked.describe(plan).plain.bytes_down
    for limit, name in ((size, "rows"), (size - 1, "plain service")):
        asked.source._fetch_limit = limit  # type: ignore[attr-defined]
        assert asked.plan(sql).name == name


def test_the_plain_service_never_hears_of_columns_that_are_not_plain(
    session: Callable[..., Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = session("ward", "insured")
    heard: list[str] = []
    real = links.TableLinks.read

    def read(self: links.TableLinks, objects: object) -> object:
        heard.extend(each.link for each in objects)  # type: ignore[attr-defined]
        return real(self, objects)  # type: ignore[arg-type]

    monkeypatch.setattr(links.TableLinks, "read", read)
    sql = "SELECT insured, MAX(admitted) FROM trial GROUP BY insured ORDER BY 1"
    answer = asked.ask(asked.plan(sql))
    assert [column.source for column in answer.result.columns] == ["key", "local"]
    check(answer.result.rows, answer.result.bounds, truth(sql))
    assert heard == []
    asked.ask(asked.plan("SELECT ward, MAX(admitted), SUM(bill) FROM trial GROUP BY ward", cloud_only=True))
    plain = [link for link in heard if "plain%20half" in link]
    assert len(plain) == 2
    assert heard > plain


@pytest.mark.slow  # quick: the tests above say what each is sent
def test_plan_says_what_each_service_learns(session: Callable[..., Session]) -> None:
    asked = session("ward", target=Target(endpoint="http://127.0.0.1:9"))  # planning asks nobody
    told = {sql: asked.describe(asked.plan(sql)).leakage for sql in (*SOURCES, "SELECT MEDIAN(bill) FROM trial")}
    every, plain, mixed, _, local = told.values()
    assert "SQL" in str(every.plain)
    assert "reads ward, admitted" in str(every.plain)
    assert "links to the totals of 2 segments, of whose ciphertexts it makes 2" in str(every.sensitive)
    assert "totals" not in str(plain.sensitive)
    assert "SQL" in str(mixed.plain)
    assert "fetched" in str(mixed.sensitive)
    assert local.plain == ("nothing: it gets no request",)
    assert "SQL" not in str([each.sensitive for each in told.values()])
    assert not [text for each in told.values() for text in too_long(each)]


@pytest.mark.slow  # quick: tests/functional/test_scan_services.py, over HTTP
def test_over_http_as_in_this_process(session: Callable[..., Session], remote: tuple[Path, Target]) -> None:
    folder, target = remote
    asked = session(target=target, folder=folder)
    for sql, sources in SOURCES.items():
        answer = asked.ask(asked.plan(sql))
        assert [column.source for column in answer.result.columns] == sources.split(), sql
        check(answer.result.rows, answer.result.bounds, truth(twice(sql)))
        assert answer.usage.sensitive_requests == ("SUM" in sql or "AVG" in sql)
        assert answer.usage.bytes_sent > 0


def test_a_server_that_was_given_no_folder_reads_none(session: Callable[..., Session], service: str) -> None:
    asked = session("ward", target=Target(endpoint=service))
    with pytest.raises(ServiceError, match="leads to no store of this service") as caught:
        asked.ask(asked.plan("SELECT SUM(bill) FROM trial"))
    assert "file:" not in f"{caught.value.message}{caught.value.hint}"
    assert asked.ask(asked.plan("SELECT MEDIAN(bill) FROM trial")).result.rows, "rows are fetched, not asked for"


def test_a_version_that_is_swept_while_it_is_asked_is_asked_anew(
    session: Callable[..., Session], key: OwnerKey, tmp_path: Path
) -> None:
    asked = session("ward")
    sql = "SELECT ward, SUM(bill), MAX(admitted) FROM trial GROUP BY ward ORDER BY ward"
    plan = asked.plan(sql)
    stores = halves(tmp_path)
    world = World(stores.sensitive, key, tmp_path, stores.plain)
    world.put("ward", replace=True)
    world.put(append=True)
    opened = world.tables.open("trial")
    kept = opened.manifest.objects()
    kept |= {f"{world.tables.folder('trial')}/head", _manifest(world)}
    for store in (world.stores.sensitive, world.stores.plain):
        store.delete([name for name in store.names("tables") if name not in kept])
    answer = asked.ask(plan)
    check(answer.result.rows, answer.result.bounds, truth(twice(sql)))


def _manifest(world: World) -> str:
    """The name of the manifest that the head names."""
    folder = world.tables.folder("trial")
    head = json.loads(world.stores.sensitive.read(f"{folder}/head"))
    return str(head["manifest"]["name"])


def test_a_plain_service_that_counts_otherwise_is_found_out(
    session: Callable[..., Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = plain_calls.aggregate
    asked = session("ward")
    offsets = [0, 0]

    @functools.wraps(real)  # its annotations are the operation's
    def answer(*of: object, **more: object) -> object:
        found = real(*of, **more)  # type: ignore[arg-type]
        whole = found.answer  # type: ignore[union-attr]
        counts = list(whole.counts)  # type: ignore[attr-defined]
        return replace(whole, counts=[counts[0] + offsets[0], counts[1] + offsets[1], *counts[2:]])

    monkeypatch.setattr(plain_calls, "aggregate", answer)
    cells = asked.plan("SELECT ward, SUM(bill), MAX(admitted) FROM trial GROUP BY ward", cloud_only=True)
    rows = asked.plan("SELECT admitted, MAX(ward) FROM trial GROUP BY admitted", cloud_only=True)
    for plan, wrong in ((cells, [1, -1]), (rows, [1, 0])):
        offsets[:] = [0, 0]
        asked.ask(plan)
        offsets[:] = wrong
        with pytest.raises(CheckFailed, match="plain service"):
            asked.ask(plan)


def test_a_remote_answer_that_fails_a_check_is_refused(
    session: Callable[..., Session], remote: tuple[Path, Target], key_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The key file stays as it was: no secret of it has to do with what a service answers."""
    before = key_file.read_bytes()
    folder, target = remote
    asked = session(target=target, folder=folder)
    plan = asked.plan(SUMS)
    monkeypatch.setattr("cleave.sums.totals.lane_checks", lambda *_: (0, 0))
    with pytest.raises(CheckFailed, match="do not add up"):
        asked.ask(plan)
    monkeypatch.undo()
    again = session(target=target, folder=folder)
    answer = again.ask(again.plan(SUMS)).result
    check(answer.rows, answer.bounds, truth(twice(SUMS)))
    assert key_file.read_bytes() == before


@pytest.mark.slow  # quick: the tests above say who is asked
def test_one_segment_asks_nobody_for_totals(
    key: OwnerKey, key_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(Folder(tmp_path / "store"), key, tmp_path)
    world.put("ward")
    monkeypatch.setattr(sensitive_calls, "answer_sums", None)
    with world.session(key_file) as asked:
        answer = asked.ask(asked.plan("SELECT ward, SUM(bill) FROM trial GROUP BY ward ORDER BY 1"))
    check(answer.result.rows, answer.result.bounds, truth("SELECT ward, SUM(bill) FROM trial GROUP BY 1 ORDER BY 1"))
    assert (answer.usage.sensitive_requests, answer.usage.bytes_sent) == (0, 0)
