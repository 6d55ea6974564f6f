"""Statements that take all memory: the next question of another user is right, and no worker is lost for good."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from cleave.gateway.catalogue import is_apart
from cleave.logins.users import write_user
from cleave.sql.read import read_statement
from tests.campaign import FACTOR, FULL, sampled
from tests.functional.processes import HANGS, descendants
from tests.gateway.conftest import PASSWORD, Gateway, connect, started, stop
from tests.gateway.test_hostile import lives

APART = [  # each in a worker that is used once
    "SELECT lpad('x', 2000000000, 'y')",
    "SELECT list_resize([1], 1000000000)",
    "SELECT format('{:1000000000}', 1)",
    "SELECT version(), format('{:1000000000}', 1)",
    "SELECT string_agg(repeat('x', 1000000), '') FROM generate_series(1, 100000)",
    "SELECT count(DISTINCT i) FROM range(1000000000) r(i)",
]
HERE = [  # in a worker that goes on only if it is as small as before
    "SELECT list_resize([1], 1000000000) FROM pg_type",
    "SELECT format('{:1000000000}', 1) FROM pg_class",
    "SELECT count(*) FROM visits WHERE ward = format('{:1000000000}', 1)",
    "SELECT count(*) FROM visits HAVING length(lpad('x', 2000000000, 'y')) > 1",
]
TEXTS = [  # for readers
    *("COPY a" + fill * (250_000 // len(fill)) + "(" for fill in (" ", "''", "/**/", "a,")),
    *("DECLARE c" + fill * (250_000 // len(fill)) + "(" for fill in (" ", '"', "--\n", "$$")),
    "a;" * 125_000,
    "(" * 250_000,
]
USERS = ("anna", "ben", "carla")
PAUSE = 0.0 if FULL else 0.1  # seconds between two of a user's questions: attackers get the processor
WAIT = 2.0 if FULL else HANGS  # seconds of an answer to a user who asks nothing strange
TRUE = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward ORDER BY ward"


def space(pid: int) -> int:
    """Bytes of a process's address space; 0 if it has ended."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def limit(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/limits").read_text().splitlines()
    except OSError:
        return 1 << 62
    (word,) = [line.split()[3] for line in lines if line.startswith("Max address space")]
    return 1 << 62 if word == "unlimited" else int(word)


def ask(connection: psycopg.Connection, sql: str) -> None:
    """It is answered or refused, and the connection stays."""
    try:
        connection.execute(sql)
    except psycopg.Error as error:
        assert "defect" not in str(error)  # noqa: PT017 - or it is answered
    assert not connection.closed


def test_another_users_question_is_right_after_each_bomb(gateway: Gateway) -> None:
    truth = gateway.truth.sql(TRUE).fetchall()
    with closing(gateway.connect()) as other, closing(gateway.connect("counter")) as hostile:
        hostile.execute("SET statement_timeout = '20s'")
        for sql in APART if FULL else APART[1:2]:
            assert other.execute(TRUE).fetchall() == truth
            before = {pid: space(pid) for pid in descendants(gateway.process.pid)}
            ask(hostile, sql)
            after = {pid: space(pid) for pid in descendants(gateway.process.pid)}
            assert other.execute(TRUE).fetchall() == truth, sql
            sizes = [before[pid] for pid in before.keys() & after.keys() if after[pid] <= before[pid] + (64 << 20)]
            assert len(sizes) >= len(before) - 1, (sql, before, after)  # all but the worker that was used once
        for sql in HERE if FULL else HERE[:1]:
            ask(hostile, sql)
            assert other.execute(TRUE).fetchall() == truth, sql
            assert all(space(pid) <= limit(pid) // 2 for pid in descendants(gateway.process.pid)), sql
    assert lives(gateway)


@pytest.mark.parametrize(
    "sql", ["SELECT 1", "SELECT 'a' AS x, NULL, 1.5, CAST('1' AS INTEGER)", "SELECT 'visits'::regclass"]
)
def test_constants_and_the_catalogue_need_no_worker_of_their_own(sql: str) -> None:
    assert not is_apart(read_statement(sql))


@pytest.mark.parametrize(
    "sql",
    [
        *APART,
        "SELECT 1 + 1",
        "SELECT 1 FROM range(9)",
        "VALUES (1)",
        "SELECT (SELECT 1)",
        "SELECT NULL::INTEGER[100000][100000]",
        "WITH RECURSIVE t AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM t) SELECT i FROM t",
    ],
)
def test_what_computes_without_a_table_has_a_worker_of_its_own(sql: str) -> None:
    assert is_apart(read_statement(sql))


@pytest.fixture
def three(gateway: Gateway, tmp_path: Path) -> Iterator[Any]:
    """A gateway over the same store for one hostile user and three others."""
    for name in ("store", "key.json"):
        (tmp_path / name).symlink_to(gateway.folder / name)
    for name in ("hostile", "anna", "ben", "carla"):
        rows = name != "hostile"
        write_user(tmp_path / "users.toml", name, PASSWORD.encode(), tables=None, min_group=0, rows=rows, token=False)
    process, (address,) = started(tmp_path, "--workers", "4", "--timeout", "20")
    yield process, int(address.rpartition(":")[2])
    stop(process)


@pytest.mark.parametrize("statements", sampled(1, 3, 4))
def test_nobody_waits_for_a_hostile_user(gateway: Gateway, three: Any, statements: int) -> None:
    """Two connections of a user without rows send some of these at random; with CLEAVE_CAMPAIGN=10 for ten minutes."""
    process, port = three
    truth = gateway.truth.sql(TRUE).fetchall()
    source, until = random.Random(FACTOR), time.monotonic() + 60 * FACTOR
    ended, late, waits = threading.Event(), list[str](), list[float]()

    def attack(seed: int) -> None:
        drawn = random.Random(seed)
        with closing(connect(port, "hostile")) as connection:
            connection.execute(f"SET statement_timeout = '{5 * statements // 2}s'")
            for number in range(10**9):
                if time.monotonic() > until if FULL else number == statements:
                    return
                ask(connection, drawn.choice(drawn.choice([APART, HERE, TEXTS])))

    def once(name: str) -> list[tuple[object, ...]]:
        with closing(connect(port, name)) as connection:
            return connection.execute(TRUE).fetchall()

    def work(name: str) -> int:
        """Number of right answers; each must come before its timer."""
        count = 0
        with closing(connect(port, name)) as connection:
            while not ended.wait(PAUSE) or not count:
                timer = threading.Timer(WAIT, late.append, (name,))
                timer.start()
                began = time.monotonic()
                assert connection.execute(TRUE).fetchall() == truth
                waits.append(time.monotonic() - began)
                timer.cancel()
                count += 1
        return count

    with ThreadPoolExecutor(8) as pool:
        assert [*pool.map(once, USERS * 4)] == [truth] * 12  # all sessions are open
        others = [pool.submit(work, name) for name in USERS]
        attacks = [pool.submit(attack, source.randrange(1 << 30)) for _ in range(2)]
        try:
            for each in attacks:
                each.result()
        finally:
            ended.set()
        assert all(each.result() for each in others)
    assert not late, (len(waits), sorted(waits)[-len(late) :])
    with ThreadPoolExecutor(8) as pool:
        assert [*pool.map(once, (*USERS, *USERS))] == [truth] * 6
    assert all(space(pid) <= limit(pid) // 2 for pid in descendants(process.pid))
