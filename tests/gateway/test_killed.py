"""Every process of a gateway is killed once while it is asked: the next has the same key, state and cache."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import httpx
import psycopg
import pytest

import cleave
from tests.campaign import FULL
from tests.functional.killing import kill_each
from tests.functional.processes import HANGS, descendants, have_ended
from tests.gateway.conftest import Gateway, connect, started, stop

QUESTIONS = (
    "SELECT ward, ROUND(SUM(level), 3) AS s FROM visits GROUP BY ward ORDER BY ward",  # totals, by the service
    "SELECT ward, COUNT(*) AS n, MAX(day) AS d FROM visits GROUP BY ward ORDER BY ward",  # plain columns
    "SELECT MIN(id) AS a, MAX(id) AS b, COUNT(name) AS c FROM visits",  # rows
)
Answers = list[list[tuple[object, ...]]]


@pytest.fixture
def place(gateway: Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a store of its own. Only the environment says where key, state and cache are."""
    shutil.copytree(gateway.folder / "store", tmp_path / "store")
    for name in ("key.json", "users.toml"):
        shutil.copy(gateway.folder / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    monkeypatch.setenv("CLEAVE_KEY", "key.json")
    return tmp_path


def append(gateway: Gateway, rows: int) -> Answers:
    """Append the first `rows` rows once more; return DuckDB's answers to the questions over all rows."""
    cleave.append(gateway.truth.sql(f"FROM visits ORDER BY id LIMIT {rows}").to_arrow_table(), "visits", store="store")
    table = f"(FROM visits UNION ALL (FROM visits ORDER BY id LIMIT {rows}))"
    return [gateway.truth.sql(each.replace("FROM visits", f"FROM {table}")).fetchall() for each in QUESTIONS]


def asked(address: str) -> Answers:
    """The first question by a user who may not see rows: else they would be read in place of the totals."""
    port = int(address.rpartition(":")[2])
    with closing(connect(port, "counter")) as counting, closing(connect(port)) as connection:
        return [(counting if each is QUESTIONS[0] else connection).execute(each).fetchall() for each in QUESTIONS]


@pytest.mark.slow  # quick: one of them, below
@pytest.mark.parametrize("rounds", [40 if FULL else 2])
@pytest.mark.usefixtures("place")
def test_each_process_is_killed_once(gateway: Gateway, rounds: int) -> None:
    truth = append(gateway, 100)
    process, (address,) = started(Path(), "--workers", "2")
    try:
        for seed in range(rounds):
            assert kill_each(process.pid, lambda: asked(address), truth, seed, psycopg.Error) > 3
    finally:
        stop(process)


@pytest.mark.usefixtures("place")
def test_what_a_successor_finds(gateway: Gateway, free_port: Callable[[], int]) -> None:
    """Its memory of versions is the first one's: an older state of the store is refused, and nothing else."""
    shutil.copytree("store", "older")
    truth = append(gateway, 100)
    process, (address, http) = started(Path(), "--workers", "1", "--http-port", str(free_port()))
    try:
        assert asked(address) == truth
        first, *_ = family = descendants(process.pid)
        os.kill(first, signal.SIGKILL)
        assert have_ended(*family)
        assert httpx.get(f"{http}/health", timeout=HANGS).json() == {"status": "ok"}
        Path("store").rename("newer")
        Path("older").rename("store")
        with pytest.raises(psycopg.Error, match="table 'visits' cannot be read now"):
            asked(address)
        Path("store").rename("older")
        Path("newer").rename("store")
        assert asked(address) == truth
        first, *_ = family = descendants(process.pid)
        Path("key.json").rename("gone.json")
        os.kill(first, signal.SIGKILL)
        assert have_ended(*family)
        for _ in range(2):
            answer = httpx.get(f"{http}/health", timeout=HANGS)
            assert (answer.status_code, answer.json()) == (503, {"status": "failed"})
        Path("gone.json").rename("key.json")
        assert httpx.get(f"{http}/health", timeout=HANGS).status_code == 200
    finally:
        stop(process)
