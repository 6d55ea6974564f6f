"""The gateway answers what clients send as a PostgreSQL server with the same rows did, but for stated differences.

`python -m tests.gateway.clients.record` records. No client and no PostgreSQL is needed here.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import cleave
from cleave.ckks.key_file import create_key
from cleave.share.users import write_user
from tests.gateway import postgres
from tests.gateway.conftest import PASSWORD, started, stop
from tests.gateway.replay import RECORDED, Replay, Stated, recorded
from tests.gateway.stays import STAYS, TYPES, WARDS

CLIENTS = sorted(path.stem for path in RECORDED.glob("*.jsonl"))


@pytest.fixture(scope="module")
def truth() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute(f"CREATE TABLE stays AS {STAYS}; CREATE TABLE wards AS {WARDS}")
    return connection


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory, truth: duckdb.DuckDBPyConnection) -> Iterator[int]:
    """A gateway over the rows that PostgreSQL had."""
    folder = tmp_path_factory.mktemp("recorded")
    place = {"store": folder / "store", "key": folder / "key.json"}
    create_key(folder / "key.json", None)
    kinds = dict.fromkeys(TYPES, "sealed") | dict.fromkeys(("bill", "num", "level"), "encrypted")
    kinds |= dict.fromkeys(("ward", "day", "insured"), "plain")
    stays, wards = (truth.sql(f"FROM {each}").to_arrow_table() for each in ("stays", "wards"))
    cleave.put(stays, "stays", schema=kinds, by=["ward"], key_columns=["id"], **place)
    cleave.put(wards, "wards", schema={"ward": "plain", "region": "plain"}, by=["ward"], **place)
    write_user(folder / "users.toml", "owner", PASSWORD.encode(), tables=None, min_group=0, rows=True, token=False)
    process, (address,) = started(folder, "--workers", "1")
    yield int(address.rpartition(":")[2])
    stop(process)


@pytest.fixture(scope="module")
def stated() -> Stated:
    return Stated.read()


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_is_answered_as_by_postgresql(port: int, stated: Stated, client: str) -> None:
    assert Replay(port, client, stated, PASSWORD).run(*recorded(client)) == []


def test_no_stated_difference_is_out_of_date(port: int) -> None:
    """Each is met by the client, or by one of the clients, that it names."""
    stated = Stated.read()
    for client in CLIENTS:
        Replay(port, client, stated, PASSWORD).run(*recorded(client))
    assert [entry for place, entry in enumerate(stated.entries) if place not in stated.used] == []


@pytest.mark.skipif(postgres.programs() is None, reason="no PostgreSQL server is installed")
def test_the_judge_finds_postgresql_like_itself_and_planted_faults(free_port, truth: duckdb.DuckDBPyConnection) -> None:
    port = free_port()
    with postgres.server(port) as folder:
        postgres.load(folder, port, truth, "stays", TYPES, "id")
        postgres.load(folder, port, truth, "wards", {"ward": "TEXT", "region": "TEXT"})
        nothing = Stated([])
        version = ("parameter server_version", "SHOW server_version", "version()")  # of another server than the recorded one
        for client in CLIENTS:
            found = Replay(port, client, nothing).run(*recorded(client))
            assert [each for each in found if not any(word in each for word in version)] == [], client
        about, lines = recorded("asyncpg")
        for plant in (
            lambda answer: answer[1].__setitem__(0, ["id", 23, 4, -1, 0]),  # a type
            lambda answer: answer.__setitem__(0, "n"),
        ):
            planted = copy.deepcopy(lines)
            plant(next(each for line in planted for each in line.get("<", ()) if each[0] == "T" and each[1][0][0] == "id"))
            assert Replay(port, "asyncpg", nothing).run(about, planted)
