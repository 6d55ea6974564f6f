"""A statement of a session is over one version of each table: the newest, or that of a snapshot."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pytest

import cleave
from cleave.ask.options import Access, Asking, complete
from cleave.ask.session import Session
from cleave.ask.stored import StoredSource
from cleave.ckks.owner_key import OwnerKey
from cleave.cli.shell.shell import Shell
from cleave.local.embedded import embedded_services
from cleave.objects.locate import Folder, Stores
from cleave.objects.s3 import Bucket
from cleave.objects.storage import Storage, StoreError
from cleave.store.seen_versions import SeenVersions
from cleave_shared import limits
from cleave_shared.errors import InputError, UsageError
from tests.campaign import sampled

SCHEMA = {"p": "plain", "n": "encrypted", "s": "sealed"}
SEVERAL = """
    SELECT (SELECT SUM(n) FROM t), (SELECT SUM(s) FROM t WHERE s >= 0), (SELECT COUNT(*) FROM t AS a JOIN t AS b ON
    a.s = b.s), (SELECT COUNT(*) FROM t WHERE p = 'p1')
"""
TOTALS = "SELECT p, SUM(n) FROM t GROUP BY p ORDER BY p"
ROWS = "SELECT MEDIAN(s), MAX(n) FROM t"


def frame(first: int, last: int) -> Any:
    return duckdb.sql(f"SELECT 'p' || i % 3 AS p, i AS n, i * 2 AS s FROM range({first}, {last}) r(i)").to_arrow_table()


def truth(sql: str, last: int) -> list[tuple[object, ...]]:
    """DuckDB's answer over the first `last` rows."""
    rows = f"SELECT 'p' || i % 3 AS p, i AS n, i * 2 AS s FROM range({last}) r(i)"
    return duckdb.sql(f"WITH t AS ({rows}) {sql}").fetchall()


class Watched(Folder):
    """A store that calls `before` ahead of a read of its choice."""

    reads = 0
    at = -1
    before: Callable[[], object] = staticmethod(lambda: None)

    def _seen(self) -> None:
        self.reads += 1
        if self.reads == self.at:
            self.before()

    def read(self, name: str, start: int = 0, stop: int | None = None, most: int = limits.MAX_OBJECT_BYTES) -> bytes:
        self._seen()
        return super().read(name, start, stop, most)


@pytest.fixture
def given(tmp_path: Path, key_file: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    found = {"store": tmp_path / "store", "key": key_file}
    cleave.put(frame(0, 90), "t", schema=SCHEMA, by=["p"], **found)
    return found


def opened(store: Storage, given: dict[str, Any], **more: Any) -> Session:
    access = Access(given["key"], lambda: b"")
    return Session(StoredSource(None, Stores(store, store), access, embedded=embedded_services, **more))


def answered(session: Session, sql: str) -> list[tuple[object, ...]]:
    return [tuple(row) for row in session.ask(session.plan(sql)).result.rows]


@pytest.mark.parametrize("step", sampled(12, 3, 1))  # reads
def test_a_statement_that_names_a_table_often_sees_one_version(given: dict[str, Any], step: int) -> None:
    """Whenever another process commits while it is planned and answered."""
    rows, at = 90, 1 - step
    while True:
        at += step
        store = Watched(given["store"])
        store.at = at
        store.before = partial(cleave.append, frame(rows, rows + 10), "t", **given)
        with opened(store, given) as session:
            found = answered(session, SEVERAL)
            if store.reads < at:
                break
            assert found in (truth(SEVERAL, rows), truth(SEVERAL, rows + 10)), at
            rows += 10
            assert answered(session, SEVERAL) == truth(SEVERAL, rows)
    assert at > 6


def test_columns_in_memory_go_with_their_version(given: dict[str, Any]) -> None:
    with cleave.connect("t", **given) as connection:
        source = connection._opened().source
        assert isinstance(source, StoredSource)
        for _ in range(3):
            assert connection.execute(ROWS).fetchall() == truth(ROWS, 90)
        assert source._resident.bytes > 0
        cleave.append(frame(90, 100), "t", **given)
        assert connection.execute(ROWS).fetchall() == truth(ROWS, 100)
        assert source._resident.bytes == 0


def test_a_snapshot_keeps_its_versions(given: dict[str, Any]) -> None:
    """While rows are added; where a change has deleted what it needs, that is said and no newer version is read."""
    with cleave.connect(**given) as connection:
        with connection.snapshot():
            cleave.append(frame(90, 100), "t", **given)
            cleave.put(frame(0, 5), "later", schema=SCHEMA, by=["p"], **given)
            for sql in (TOTALS, ROWS, SEVERAL):
                assert connection.execute(sql).fetchall() == truth(sql, 90)
            assert list(connection.schemas) == ["t"]
            with pytest.raises(cleave.Error, match="there is no table 'later'"):
                connection.execute("SELECT COUNT(*) FROM later")
            with pytest.raises(UsageError, match="a snapshot already"), connection.snapshot():
                pass
        assert connection.execute(TOTALS).fetchall() == truth(TOTALS, 100)
        assert list(connection.schemas) == ["later", "t"]
        with connection.snapshot():
            cleave.delete("t", "p = 'p1'", **given)
            with pytest.raises(cleave.OperationalError, match="the table changed while it was read") as caught:
                connection.execute(ROWS)
            assert isinstance(caught.value, StoreError)
            assert "take a new snapshot" in str(caught.value.hint)
        left = duckdb.sql(
            "SELECT MEDIAN(s), MAX(n) FROM (SELECT i * 2 AS s, i AS n FROM range(100) r(i) WHERE i % 3 != 1)"
        )
        assert connection.execute(ROWS).fetchall() == left.fetchall()


@pytest.mark.slow  # quick: `test_a_snapshot_keeps_its_versions`
def test_a_snapshot_of_one_table(given: dict[str, Any]) -> None:
    with cleave.connect("t", **given) as connection, connection.snapshot():
        cleave.append(frame(90, 100), "t", **given)
        assert connection.execute(TOTALS).fetchall() == truth(TOTALS, 90)
        cleave.put(frame(0, 5), "other", schema=SCHEMA, by=["p"], **given)
        with pytest.raises(cleave.Error, match="other"):
            connection.execute("SELECT COUNT(*) FROM t JOIN other ON t.s = other.s")


@pytest.mark.slow  # quick: the test above
def test_a_snapshot_in_the_shell(given: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    with opened(Folder(given["store"]), given) as session:
        shell = Shell(session, complete(Asking, {}), lambda work: work())

        def shown(rows: int) -> bool:
            shell.statement(TOTALS)
            assert shell._last
            return [tuple(row) for row in shell._last.answer.result.rows] == truth(TOTALS, rows)

        assert shown(90)
        shell.command(".snapshot on")
        cleave.append(frame(90, 100), "t", **given)
        assert shown(90)
        shell.command(".snapshot on")
        assert shown(100)
        cleave.append(frame(100, 110), "t", **given)
        assert shown(100)
        capsys.readouterr()
        shell.command(".snapshot")
        shell.command(".snapshot off")
        shell.command(".snapshot")
        assert capsys.readouterr().out.split() == ["on", "off"]
        assert shown(110)
        with pytest.raises(InputError, match="it is on or off"):
            shell.command(".snapshot maybe")


def test_a_plan_of_an_older_schema_is_refused(given: dict[str, Any]) -> None:
    """As another question opened the newer version."""
    with opened(Folder(given["store"]), given) as session:
        plans = [session.plan(sql) for sql in (TOTALS, ROWS)]
        same = session.plan(TOTALS)
        cleave.append(frame(90, 100), "t", **given)
        session.plan(TOTALS)
        assert [tuple(row) for row in session.ask(same).result.rows] == truth(TOTALS, 100)
        cleave.alter("t", rename=["s=z"], **given)
        session.plan(TOTALS)
        for plan in plans:
            with pytest.raises(StoreError, match="the table changed while it was read"):
                session.ask(plan)
            with pytest.raises(StoreError, match="the table changed while it was read"):
                session.describe(plan)


def test_a_store_without_the_table_is_told_at_once(given: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="there is no table 'nothing'"):
        cleave.connect("nothing", **given)
    with pytest.raises(InputError, match="there is no table 'nothing'"):
        cleave.query("nothing", "SELECT COUNT(*) FROM nothing", **given)


def test_a_warm_statement_sends_one_small_request(
    given: dict[str, Any], s3_endpoint: str, key: OwnerKey, tmp_path: Path
) -> None:
    """For each table it names; the head is not sent again unless it changed."""
    from tests.store.conftest import BUCKET, aws_session  # noqa: PLC0415 - what folders do without
    from tests.store.trial import copied  # noqa: PLC0415

    bucket = Bucket(aws_session(), BUCKET, "versions", s3_endpoint)
    copied(given["store"], bucket)
    answers: list[tuple[str, int]] = []

    def note(http_response: Any, model: Any, **_: Any) -> None:
        answers.append((model.name, http_response.status_code))

    bucket._client.meta.events.register("after-call.s3", note)
    sql = "SELECT SUM(a.n) FROM t AS a JOIN t AS b ON a.s = b.s"
    try:
        with opened(bucket, given, memory=SeenVersions(tmp_path / "tables.json"), cache=False) as session:
            for _ in range(3):
                assert answered(session, sql) == truth(sql, 90)
            answers.clear()
            for each in (sql, TOTALS):
                answered(session, each)
            assert answers.count(("GetObject", 304)) == 2
    finally:
        bucket._client.meta.events.unregister("after-call.s3", note)
