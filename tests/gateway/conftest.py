"""One gateway for the session: two tables of every kind of type, four users, both protocols."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import duckdb
import psycopg
import pytest

import cleave
from cleave.ckks.key_file import create_key
from cleave.logins import scram
from cleave.logins.users import write_user
from tests.gateway.stays import STAYS, TYPES, WARDS

PASSWORD = "seventeen quiet herons 41"
ROWS = 3000
FULL_COST = scram._ITERATIONS
VISITS = f"""
    SELECT i AS id, ['A', 'B', 'C', NULL][1 + i % 4] AS ward, DATE '2024-01-01' + (i % 700)::INTEGER AS day,
        TIMESTAMP '2024-01-01 00:00:00.000001' + i * INTERVAL '61.5 seconds' AS seen,
        CASE WHEN i % 7 THEN (i * 7919 % 100000)::DECIMAL(9, 2) / 100 END::DECIMAL(9, 2) AS bill,
        i * 1e-3 - 1.5 AS level, (i % 2 = 0) AS insured, (i * 2147483647)::BIGINT AS big,
        (i % 24 || ':30:15.25')::TIME AS clock,
        CASE WHEN i % 5 THEN 'O''Hara \\ "' || chr(128512) || i END AS name
    FROM range({ROWS}) r(i)
"""


@dataclass(frozen=True, slots=True)
class Gateway:
    """A running gateway. `connect`: by PostgreSQL's protocol; `truth`: DuckDB over the same tables, in the clear."""

    folder: Path
    port: int
    http: str
    tokens: dict[str, str]
    truth: duckdb.DuckDBPyConnection
    process: subprocess.Popen[str]

    def connect(self, user: str = "owner", **more: object) -> psycopg.Connection:
        return connect(self.port, user, **more)

    def rows(self, sql: str, user: str = "owner") -> list[tuple[object, ...]]:
        with closing(self.connect(user)) as connection:
            return connection.execute(sql).fetchall()


def connect(port: int, user: str = "owner", **more: object) -> psycopg.Connection:
    given = {"host": "127.0.0.1", "password": PASSWORD, "dbname": "cleave", "autocommit": True} | more
    return psycopg.connect(port=port, user=user, **given)


def filled(folder: Path) -> duckdb.DuckDBPyConnection:
    """A store of two tables in `folder`, and the truth about them."""
    truth = duckdb.connect()
    truth.execute("SET TimeZone = 'UTC'")
    create_key(folder / "key.json", None)
    for name, sql in (("visits", VISITS), ("wards", WARDS)):
        truth.execute(f"CREATE TABLE {name} AS {sql}")
        kinds = {"id": "sealed", "ward": "plain", "day": "plain", "region": "plain"}
        columns = [each[0] for each in truth.execute(f"DESCRIBE {name}").fetchall()]
        frame = truth.sql(f"FROM {name}").to_arrow_table()
        number = {"bill", "level", "big"}
        stated = {each: kinds.get(each, "encrypted" if each in number else "sealed") for each in columns}
        if "level" in stated:
            stated["level"] = {"kind": "encrypted", "nullable": False}
        cleave.put(
            frame,
            name,
            store=folder / "store",
            key=folder / "key.json",
            schema=stated,
            by=["ward"],
        )
    return truth


def started(folder: Path, *options: str) -> tuple[subprocess.Popen[str], list[str]]:
    """A `cleave gateway` over the store in `folder`, and the addresses at which it listens."""
    named = {"--analyst", "--reader"} & {*options} or "CLEAVE_KEY" in os.environ
    key = () if named else ("--key", folder / "key.json")
    command = [
        *(Path(sys.executable).with_name("cleave"), "gateway", "--store", folder / "store", *key),
        *("--users", folder / "users.toml", "--port", "0", *options),
    ]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    addresses: list[str] = []
    said = []
    for line in process.stderr or ():
        said.append(line)
        addresses += re.findall(r"listening on (\S+)", line)
        if len(addresses) == 1 + ("--http-port" in options):
            return process, addresses
    raise AssertionError(f"the gateway ended with {process.wait()}: {said}")


def stop(process: subprocess.Popen[str]) -> None:
    """Ask it to end, and see that it does so without ado."""
    with process:
        process.terminate()
        assert process.wait(600) == 0


@pytest.fixture(scope="session", autouse=True)
def logins_cost_little() -> Iterator[None]:
    """A login takes libpq 70 ms of a processor at full cost, 5 ms at the least that RFC 7677 allows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scram, "_ITERATIONS", 4096)
        yield


@pytest.fixture(scope="session")
def free_port() -> Callable[[], int]:
    import socket  # noqa: PLC0415

    def find() -> int:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            return int(listener.getsockname()[1])

    return find


@pytest.fixture(scope="session")
def gateway(tmp_path_factory: pytest.TempPathFactory, free_port: Callable[[], int]) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("gateway")
    truth = filled(folder)
    users = folder / "users.toml"
    secret = PASSWORD.encode()
    told = {"tables": None, "min_group": 0, "rows": True, "token": False}
    write_user(users, "owner", secret, **told)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scram, "_ITERATIONS", FULL_COST)
        write_user(users, "careful", secret, **told)
    write_user(users, "counter", secret, **told | {"rows": False})
    write_user(users, "wards_only", secret, **told | {"tables": ["wards"]})
    write_user(users, "grouped", secret, **told | {"rows": False, "min_group": 751})
    some = {"tables": ["visits"], "columns": ["visits.ward", "VISITS.bill", "visits.id"]}
    write_user(users, "some", secret, **told | some | {"rows": False})
    write_user(users, "some_rows", secret, **told | some)
    write_user(users, "wardless", secret, **told | some | {"rows": False, "columns": ["visits.bill", "visits.id"]})
    tokens = {
        name: write_user(users, name, None, **told | more | {"token": True})
        for name, more in (("owner", {}), ("wards_only", {"tables": ["wards"]}), ("counter", {"rows": False}))
    }
    port = free_port()
    process, (address, http) = started(folder, "--http-port", str(port), "--workers", "2")
    try:
        yield Gateway(folder, int(address.rpartition(":")[2]), http, tokens, truth, process)
    finally:
        stop(process)


@pytest.fixture(scope="session")
def stays() -> duckdb.DuckDBPyConnection:
    """The tables of `tests/gateway/stays.py` in DuckDB."""
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute(f"CREATE TABLE stays AS {STAYS}; CREATE TABLE wards AS {WARDS}")
    return connection


@pytest.fixture(scope="session")
def stays_port(tmp_path_factory: pytest.TempPathFactory, stays: duckdb.DuckDBPyConnection) -> Iterator[int]:
    """The port of a gateway over the same tables, for the users `owner` and, of `wards` alone, `wards_only`."""
    folder = tmp_path_factory.mktemp("stays")
    place = {"store": folder / "store", "key": folder / "key.json"}
    create_key(folder / "key.json", None)
    kinds = dict.fromkeys(TYPES, "sealed") | dict.fromkeys(("bill", "num", "level"), "encrypted")
    kinds |= dict.fromkeys(("ward", "day", "insured"), "plain")
    rows, wards = (stays.sql(f"FROM {each}").to_arrow_table() for each in ("stays", "wards"))
    cleave.put(rows, "stays", schema=kinds, by=["ward"], key_columns=["id"], **place)
    cleave.put(wards, "wards", schema={"ward": "plain", "region": "plain"}, by=["ward"], **place)
    for name, tables in (("owner", None), ("wards_only", ["wards"])):
        write_user(folder / "users.toml", name, PASSWORD.encode(), tables=tables, min_group=0, rows=True, token=False)
    process, (address,) = started(folder, "--workers", "1")
    yield int(address.rpartition(":")[2])
    stop(process)
