"""What a user may read and change is decided by the statement that runs: no text of a client is SQL of anything else.

A worker's own function answers in this process, where each DuckDB can be looked at afterwards.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import httpx
import psycopg
import pytest

from cleave.gateway import rights, work
from cleave.gateway.rights import Rights
from cleave.gateway.work import Request, Setup
from cleave.local.embedded import embedded_services, prepare_embedded
from cleave.table import duck
from cleave.table.running import run_select
from cleave.table.table import Table
from cleave_shared.children import Channel
from tests.functional.processes import descendants
from tests.gateway.conftest import Gateway
from tests.gateway.test_answers import alike

HOSTILE = [
    line
    for line in (Path(__file__).parents[1] / "vectors" / "hostile-statements.txt").read_text().splitlines()
    if line and not line.startswith("#")
]
WARDS = frozenset({"wards"})
ASKED = (
    "SELECT ward, region FROM wards ORDER BY ward",
    "SELECT region, COUNT(*) AS n FROM wards GROUP BY region ORDER BY region",
    "SELECT upper(region) AS r FROM wards WHERE ward <> 'B' ORDER BY 1",
)
OF_ALL = (*ASKED, "SELECT ward, SUM(bill) AS s FROM visits GROUP BY ward ORDER BY ward", "SELECT MAX(name) FROM visits")
# What a statement could leave behind in a DuckDB.
LEFT = (
    "SELECT database_name, schema_name, table_name FROM duckdb_tables() WHERE NOT internal",
    "SELECT database_name, schema_name, view_name FROM duckdb_views() WHERE NOT internal",
    "SELECT database_name, schema_name, function_name FROM duckdb_functions() WHERE NOT internal",
    "SELECT database_name, schema_name, sequence_name FROM duckdb_sequences()",
    "SELECT database_name, schema_name, type_name FROM duckdb_types() WHERE NOT internal",
    "SELECT database_name, schema_name FROM duckdb_schemas() WHERE NOT internal",
    "SELECT database_name FROM duckdb_databases() WHERE NOT internal",
    "SELECT name, value FROM duckdb_settings() ORDER BY name",
)


class Frames:
    """Takes what a worker sends."""

    def __init__(self) -> None:
        self.every: list[list[bytes]] = []

    def send(self, parts: Sequence[bytes]) -> None:
        self.every.append([bytes(each) for each in parts])


class Worker:
    """A worker in this process."""

    def __init__(self, folder: Path, *files: str, **more: Any) -> None:
        asking = {"store": folder / "store", "key": folder / "key.json"} | more
        self._setup = Setup(asking, files, None, embedded_services, prepare_embedded, 600.0, 8 << 30, 100_000)

    def ask(
        self, sql: str, parameters: Sequence[Any] = (), tables: frozenset[str] | None = None, **more: Any
    ) -> tuple[Mapping[str, Any], list[list[str | None]], list[str]]:
        """The head of the answer, its rows, and the tables that were read for it."""
        allowed = Rights(tables, **({"min_group": 0, "rows": True} | more))
        request = Request(sql, tuple(parameters), {"user": "mallory", "pid": "1"})
        frames: Any = Frames()
        channel: Channel = frames
        work.answer(channel, self._setup, allowed, request, self._setup.seconds)
        if any(b'"apart": true' in part for frame in frames.every for part in frame):
            frames.every.clear()
            work.answer_apart(channel, request, self._setup.rows)
        heads = [json.loads(each[0]) for each in frames.every if len(each) == 1]
        reads = [name for each in heads if "reads" in each for name in each["reads"]]
        head = next(each for each in heads if "said" in each)
        return head, [row for each in frames.every if len(each) == 2 for row in json.loads(b"[%s]" % each[1])], reads

    def rows(self, sql: str, tables: frozenset[str] | None = None) -> list[list[str | None]]:
        head, rows, _ = self.ask(sql, (), tables)
        assert "error" not in head, head
        return rows


def test_what_cannot_be_counted_is_refused_by_a_sentence_that_holds(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not say which reason: that may follow from numbers of rows."""
    monkeypatch.setattr(work, "_sessions", {})
    worker = Worker(gateway.folder, fetch_limit=1_000)
    head, rows, _ = worker.ask("SELECT COUNT(bill) AS n FROM visits", rows=False, min_group=3)
    assert rows == []
    assert "the gateway cannot answer this, or cannot count the rows that it is about" in head["error"]
    for session in work._sessions.values():
        session.close()


@pytest.fixture(scope="module")
def worker(gateway: Gateway) -> Iterator[Worker]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(work, "_sessions", {})
        yield Worker(gateway.folder)
        for session in work._sessions.values():
            session.close()


def left(connection: duckdb.DuckDBPyConnection) -> list[list[tuple[Any, ...]]]:
    with closing(connection.cursor()) as cursor:
        return [cursor.execute(sql).fetchall() for sql in LEFT]


def test_a_hostile_statement_leaves_nothing_behind_and_reads_nothing(worker: Worker) -> None:
    before = [worker.rows(sql) for sql in OF_ALL], [worker.rows(sql, WARDS) for sql in ASKED]
    instances = (duck._parsers[os.getpid()], duck._instances[os.getpid()])
    untouched = [left(instance) for instance in instances]
    with closing(duck.closed_in()) as fresh:
        assert [each[:-1] for each in untouched] == [left(fresh)[:-1]] * 2, "settings name folders of their time"
    for number, sql in enumerate(HOSTILE, 1):
        head, rows, reads = worker.ask(sql, (), WARDS)
        assert "error" in head or not rows, sql
        assert "defect" not in head.get("error", ""), (sql, head)
        assert reads == [], sql
        if number % 10 == 0 or number == len(HOSTILE):  # what is left behind stays
            assert [left(instance) for instance in instances] == untouched, HOSTILE[number - 10 : number]
    assert ([worker.rows(sql) for sql in OF_ALL], [worker.rows(sql, WARDS) for sql in ASKED]) == before


def test_a_hostile_statement_reads_nothing_for_a_user_without_rows(worker: Worker) -> None:
    for sql in HOSTILE:
        head, _, reads = worker.ask(sql, rows=False, min_group=3)
        assert "defect" not in head.get("error", ""), (sql, head)
        assert reads == [], sql


def test_a_table_that_is_named_like_one_of_the_catalogue(
    gateway: Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who may not query it is told nothing of it, and is answered by the catalogue."""
    monkeypatch.setattr(work, "_sessions", {})
    files = [tmp_path / name for name in ("pg_secret.csv", "pg_class.csv")]
    for each in files:
        each.write_text("a,b\n1,2\n")
    named = Worker(gateway.folder, *map(str, files))
    asked = ("SELECT * FROM pg_secret", "SELECT a FROM public.pg_secret", "SELECT 'pg_secret'::regclass")
    for sql in (*asked, "DESCRIBE pg_secret", "SELECT relname FROM pg_class WHERE relname = 'pg_secret'"):
        head, rows, _ = named.ask(sql, (), WARDS)
        other, none, _ = named.ask(sql.replace("secret", "nosuch"), (), WARDS)
        assert json.loads(json.dumps(head).replace("secret", "nosuch")) == other
        assert rows == none
    assert named.rows("SELECT relname FROM pg_class", WARDS) == [["wards"]]
    for name in ("pg_class", "pg_secret"):
        assert named.rows(f"SELECT a, b, region FROM {name}, wards WHERE ward = 'B'") == [["1", "2", "south"]]
    for session in work._sessions.values():
        session.close()


@pytest.mark.parametrize(
    "call",
    [
        "system.main.current_setting('secret_directory')",
        "main.current_setting('temp_directory')",
        "system.current_setting('secret_directory')",
        "system.main.version()",
        "system.main.user()",
        "list_transform([1], lambda x: system.main.current_setting('secret_directory'))",
        "(SELECT count(*) FROM system.main.pg_timezone_names())",
    ],
)
def test_functions_of_duckdb_that_the_catalogue_has_too(worker: Worker, call: str) -> None:
    """DuckDB's own may tell of this machine."""
    for sql in (f"SELECT {call} AS x", f"SELECT {call} AS x FROM pg_class", f"SELECT {call} AS x FROM wards"):
        head, rows, _ = worker.ask(sql, (), WARDS)
        assert "error" in head
        assert rows == []


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT count(*) FROM (DESCRIBE wards)", [["2"]]),
        ("SELECT 1 + (SELECT count(*) FROM (SHOW TABLES)) AS n", [["2"]]),
        ("SELECT column_name FROM (DESCRIBE wards) ORDER BY 1", [["region"], ["ward"]]),
        ("WITH pg_class AS (SELECT 1 AS z) SELECT * FROM pg_class", [["1"]]),
        ("WITH PG_Class AS (SELECT 1 AS z) SELECT z, count(*) FROM pg_class, pg_tables GROUP BY z", [["1", "1"]]),
        ("SELECT public.s.f FROM (SELECT {'f': 1} AS s) AS public, (SELECT 2 AS f) AS s", [["1"]]),
        (
            "SELECT public.s.f FROM (SELECT {'f': 1} AS s FROM wards) AS public, (SELECT 2 AS f FROM wards) s LIMIT 1",
            [["1"]],
        ),
        ("SELECT public.wards.region FROM public.wards WHERE ward = 'B'", [["south"]]),
        ("DESCRIBE wards", [["ward", "text", "YES"], ["region", "text", "YES"]]),
        ('SELECT "user", user AS u FROM (SELECT 5 AS "user")', [["5", "mallory"]]),
        ('SELECT x."current_user" FROM (SELECT 5 AS "current_user") AS x', [["5"]]),
    ],
)
def test_a_part_of_a_statement_is_answered_as_a_part(worker: Worker, sql: str, rows: list[list[str]]) -> None:
    assert worker.rows(sql, WARDS) == rows


@pytest.mark.parametrize("sql", [HOSTILE[0], HOSTILE[1], HOSTILE[4]])
def test_answers_of_others_stay_as_they_are(gateway: Gateway, sql: str) -> None:
    """As it was reported: where the next statement may be another user's in the same worker."""
    children = set(descendants(gateway.process.pid))
    for user, asked in (("owner", OF_ALL), ("wards_only", ASKED)):
        for _ in range(2):  # of two workers
            with closing(gateway.connect("wards_only")) as cursor:
                with pytest.raises(psycopg.Error):
                    cursor.execute(sql)
                with pytest.raises(psycopg.Error, match="there is no table 'visits'"):
                    cursor.execute("SELECT COUNT(*) FROM visits")
        for each in asked:
            assert alike(gateway.rows(each, user)) == alike(gateway.truth.execute(each).fetchall())
    assert set(descendants(gateway.process.pid)) >= children, "a worker ended"


def test_a_statement_runs_in_a_duckdb_that_has_no_table_but_its_own(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also while a session keeps rows of others in memory, and of queries over several tables."""
    seen: list[set[str]] = []

    def looked(table: Table, *given: Any, **named: Any) -> list[list[Any]]:
        with closing(table.connection.cursor()) as cursor:
            names = cursor.execute("SELECT column_name FROM duckdb_columns() WHERE NOT internal").fetchall()
        seen.append({name for (name,) in names})
        return run_select(table, *given, **named)

    monkeypatch.setattr("cleave.ask.finishing.run_select", looked)
    both = "SELECT MAX(name), MAX(region) FROM visits JOIN wards USING (ward) WHERE upper(region) <> ''"
    for sql in ("SELECT name, id FROM visits WHERE upper(name) <> '' ORDER BY id LIMIT 1", both) * 3:
        worker.rows(sql)
    visits, joined = seen[-2:]
    assert {"name", "id"} <= visits, "rows of the third query do not stay in memory"
    assert "region" not in visits
    assert {"name", "region"} <= joined
    for sql in (ASKED[2], *ASKED[2:] * 3):
        worker.rows(sql, WARDS)
        assert seen[-1] <= {"ward", "region"}, seen[-1]


@pytest.mark.parametrize(
    ("sql", "parameters"),
    [
        ("SELECT '\ud800'", []),
        ('SELECT "\ud800" FROM wards', []),
        ("SELECT ward FROM wards WHERE ward = ?", ["\ud800"]),
        ("SELECT ward FROM wards WHERE ward = ?", ["\0"]),
        ("SELECT ward FROM wards WHERE ward = ?", []),
        ("SELECT ward FROM wards WHERE ward = ?", [1, 2]),
        ("SELECT ward FROM wards WHERE ward = $2", [1]),
        ("SELECT relname FROM pg_class WHERE relname = ?", ["\ud800"]),
        ("SELECT DAY() FROM wards", []),
    ],
)
def test_whatever_a_statement_holds_its_error_is_the_statements(
    worker: Worker, sql: str, parameters: list[Any]
) -> None:
    head, rows, _ = worker.ask(sql, parameters)
    assert head["done"] is True
    assert "defect" not in head["error"]
    assert rows == []


def test_a_defect_is_the_statements_error_too(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise KeyError("a value: O'Hara")

    worker.rows("SELECT 1 AS one FROM wards")
    with monkeypatch.context() as patch:
        patch.setattr(rights, "names_in", broken)
        head, rows, _ = worker.ask("SELECT ward FROM wards")
    assert (head["done"], rows) == (True, [])
    assert "KeyError" in head["error"]
    assert "O'Hara" not in json.dumps(head)
    (said,) = head["said"]
    assert "test_rights.py" in said
    assert len(worker.rows("SELECT ward FROM wards")) == 3


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, "nan", "1; DROP TABLE wards", "' OR ''='"])
def test_a_parameter_is_a_value_and_never_a_name(worker: Worker, value: object) -> None:
    """Beside columns that have such names."""
    names = 'SELECT 1 AS "nan", 2 AS "inf"'
    shown = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)] if isinstance(value, float) else value
    head, rows, _ = worker.ask(f"SELECT ? AS v, ? FROM ({names})", [value, value])
    assert "error" not in head, head
    assert rows == [[shown, shown]]
    sql = "SELECT COUNT(*) FROM visits WHERE name = CAST(? AS VARCHAR) OR level > ?"
    head, rows, _ = worker.ask(sql, [value, math.inf])
    assert rows == [["0"]], head


def test_no_lone_surrogate_ends_a_worker_by_http(gateway: Gateway) -> None:
    children = set(descendants(gateway.process.pid))
    headers = {"authorization": f"Bearer {gateway.tokens['owner']}", "content-type": "application/json"}
    with httpx.Client(base_url=gateway.http, headers=headers, timeout=600, trust_env=False) as client:
        for body in (
            rb'{"sql": "SELECT \ud800"}',
            rb'{"sql": "SELECT name FROM visits WHERE name = ?", "parameters": ["\ud800"]}',
        ):
            answer = client.post("/v1/query", content=body)
            assert answer.status_code in (400, 422), answer.text
        answer = client.post("/v1/query", content=b'{"sql": "SELECT ? AS v FROM wards LIMIT 1", "parameters": [NaN]}')
        assert answer.json()["columns"] == [{"name": "v", "type": "DOUBLE"}]
    assert set(descendants(gateway.process.pid)) >= children
