"""The gateway answers what clients send as a PostgreSQL server with the same rows did, but for stated differences.

`python -m tests.gateway.clients.record` records. No client and no PostgreSQL is needed here.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import duckdb
import pytest

from tests.gateway import postgres
from tests.gateway.conftest import PASSWORD
from tests.gateway.replay import RECORDED, Replay, Stated, recorded
from tests.gateway.stays import TYPES

CLIENTS = sorted(path.stem for path in RECORDED.glob("*.jsonl"))
# which may differ on another server, or another day
OTHERS = ("parameter server_version", "SHOW server_version", "version()", "pg_backend_pid()")


@pytest.fixture(scope="module")
def stated() -> Stated:
    return Stated.read()


@pytest.fixture(scope="module")
def found(stays_port: int, stated: Stated) -> Callable[[str], list[str]]:
    """What differs for a client; each is replayed once."""
    held: dict[str, list[str]] = {}

    def find(client: str) -> list[str]:
        if client not in held:
            held[client] = Replay(stays_port, client, stated, PASSWORD).run(*recorded(client))
        return held[client]

    return find


SLOW = ("alchemy", "dbt", "libreoffice", "r", "superset")  # pandas, jdbc and psql have part of their statements


@pytest.mark.parametrize(
    "client", [pytest.param(each, marks=[pytest.mark.slow] if each in SLOW else []) for each in CLIENTS]
)
def test_a_client_is_answered_as_by_postgresql(found: Callable[[str], list[str]], client: str) -> None:
    assert found(client) == []


@pytest.mark.slow
def test_no_stated_difference_is_out_of_date(found: Callable[[str], list[str]], stated: Stated) -> None:
    for client in CLIENTS:
        found(client)
    assert [entry for place, entry in enumerate(stated.entries) if place not in stated.used] == []


@pytest.mark.skipif(postgres.programs() is None, reason="no PostgreSQL server is installed")
def test_postgresql_differs_from_itself_nowhere(free_port: Callable[[], int], stays: duckdb.DuckDBPyConnection) -> None:
    port = free_port()
    with postgres.server(port) as folder:
        postgres.load(folder, port, stays, "stays", TYPES, "id")
        postgres.load(folder, port, stays, "wards", {"ward": "TEXT", "region": "TEXT"})
        for client in CLIENTS:
            differs = Replay(port, client, Stated([])).run(*recorded(client))
            assert [each for each in differs if not any(word in each for word in OTHERS)] == [], client


def first(lines: list[dict[str, Any]], tag: str, sql: str) -> list[Any]:
    """The first message `tag` that answers a statement beginning with `sql`."""
    for line in lines:
        if any(
            str(each[1]).startswith(sql) or str(each[-2]).startswith(sql)
            for each in line.get(">", ())
            if each[0] in "QP"
        ):
            for message in line["<"]:
                if message[0] == tag:
                    return message
    raise AssertionError(tag)


PLANTS: dict[str, tuple[str, str, Callable[[list[Any]], None]]] = {
    "is named": ("T", "SELECT * FROM stays", lambda message: message[1][1].__setitem__(0, "warden")),
    "has type": ("T", "SELECT * FROM stays", lambda message: message[1][5].__setitem__(1, 20)),
    "has modifier": ("T", "SELECT * FROM stays", lambda message: message[1][7].__setitem__(3, 589832)),
    "row 0: level": ("D", "SELECT * FROM stays", lambda message: message[1].__setitem__(10, "-0.0056")),
    "no row": ("D", "SELECT n.nspname as", lambda message: message[1].__setitem__(1, "nosuch")),
    "refused by 42703": ("E", "SELECT nothing", lambda message: message[1].__setitem__("C", "57014")),
    "'SELECT 12'": ("C", "SELECT * FROM stays", lambda message: message.__setitem__(1, "SELECT 13")),
}


@pytest.mark.parametrize("said", PLANTS)
def test_a_planted_difference_is_found(stays_port: int, said: str) -> None:
    about, lines = recorded("psql")
    planted = copy.deepcopy(lines)
    tag, sql, plant = PLANTS[said]
    plant(first(planted, tag, sql))
    place = next(place for place, (one, other) in enumerate(zip(lines, planted, strict=True)) if one != other)
    differs = Replay(stays_port, "psql", Stated.read(), PASSWORD).run(about, [planted[0], planted[place]])
    assert any(said in each for each in differs), differs
