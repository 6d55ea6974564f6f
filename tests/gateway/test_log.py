"""Queries asked at the gateway are recorded in the audit logs of the tables they read."""

from __future__ import annotations

import asyncio
import json
import shutil
import warnings
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

import cleave
from cleave.gateway import workers as of_workers
from cleave.gateway.queries import Queries
from cleave.gateway.work import Request, Setup
from cleave.gateway.workers import Workers
from cleave.local.embedded import embedded_services, prepare_embedded
from cleave.logins.users import User, write_user
from cleave_shared.errors import CleaveWarning
from cleave_shared.fork_server import ForkServer
from tests.cli.runner import Cli, cli
from tests.functional.processes import HANGS
from tests.gateway.conftest import PASSWORD, Gateway, connect, started, stop

__all__ = ["cli"]


def recorded(folder: Path, table: str, user: str) -> list[dict[str, Any]]:
    """Details of the records of a table that name `user`."""
    records = cleave.log(table, store=folder / "store", key=folder / "key.json")
    found = [each["details"] for each in records if each["what"] == "queries"]
    return [each for each in found if user in each["users"]]


def merged(records: list[dict[str, Any]]) -> dict[str, Any]:
    """There is one a minute."""
    users = sum((Counter(each["users"]) for each in records), Counter())
    return {"users": dict(users), "answers": [answer for each in records for answer in each["answers"]]}


def test_queries_are_in_the_log_of_each_table_they_read(gateway: Gateway, tmp_path: Path, cli: Cli) -> None:
    for name in ("store", "key.json"):
        (tmp_path / name).symlink_to(gateway.folder / name)
    rights = {"tables": None, "min_group": 0, "rows": True, "token": False}
    write_user(tmp_path / "users.toml", "Zoë", PASSWORD.encode(), **rights)
    (tmp_path / "beds.csv").write_text("ward,beds\nA,12\nB,30\n")
    assert cli.run("schema", tmp_path / "beds.csv", "--accept").exit_code == 0
    process, (address,) = started(tmp_path, "--with", str(tmp_path / "beds.csv"), "--workers", "1")
    try:
        with closing(connect(int(address.rpartition(":")[2]), "Zoë")) as cursor:
            for sql in (
                "SELECT ward, SUM(bill) FROM visits GROUP BY ward",
                "SELECT name FROM visits WHERE id < 7",
                "SELECT COUNT(*) FROM visits JOIN wards USING (ward) JOIN beds USING (ward)",
                "SELECT 1",
                "SHOW TABLES",
                "DESCRIBE visits",
            ):
                cursor.execute(sql)
            for sql in (
                "SELECT CAST(name AS INTEGER) FROM visits WHERE id = 1",  # whether it is refused tells of a value
                "SELECT CASE WHEN MAX(id) > 2998 THEN CAST('x' AS INTEGER) END FROM visits",
            ):
                with pytest.raises(psycopg.Error, match=r"cannot be computed|is no INTEGER"):
                    cursor.execute(sql)
            with pytest.raises(psycopg.Error):
                cursor.execute("SELECT nothing FROM visits")
            cursor.execute("SET statement_timeout = 500")
            with pytest.raises(psycopg.Error):
                cursor.execute("SELECT COUNT(*) FROM wards, visits a, visits b, visits c WHERE a.id + b.id < c.id")
    finally:
        stop(process)
    visits, wards = (merged(recorded(gateway.folder, name, "Zoë")) for name in ("visits", "wards"))
    assert visits["users"] == {"Zoë": 6}
    assert [user for _, user, _ in visits["answers"]] == ["Zoë"] * 6
    assert [rows for *_, rows in visits["answers"]] == [4, 7, 1, None, None, None]
    assert [rows for *_, rows in wards["answers"]] == [1, None]
    assert not {"SELECT", "bill", "Hara"} & set(json.dumps([visits, wards]).replace('"', " ").split())
    result = cli.run("log", "visits", "--store", tmp_path / "store", "--key", tmp_path / "key.json")
    assert "Zoë" in result.stdout, result.output
    assert visits["answers"][0][0] not in result.stdout.split("queries")[-1]


def test_queries_wait_for_a_store_that_can_be_written(gateway: Gateway, tmp_path: Path) -> None:
    """Its interval is as good as none here, so that every record is written while the gateway runs."""
    store = shutil.copytree(gateway.folder / "store", tmp_path / "store")
    (tmp_path / "key.json").symlink_to(gateway.folder / "key.json")
    setup = Setup(
        {"store": store, "key": gateway.folder / "key.json"},
        (),
        None,
        embedded_services,
        prepare_embedded,
        HANGS,
        8 << 30,
        1000,
    )
    server = ForkServer(["cleave.gateway.work"])
    workers = Workers(server, setup, 1)

    async def ask() -> None:
        await workers.ask("yan", User(rows=True), Request("SELECT COUNT(*) AS n FROM wards"))

    async def run() -> None:
        ended = asyncio.Event()
        await ask()
        store.rename(tmp_path / "away")
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("once", CleaveWarning)
            await workers.record()
            await workers.record()
            assert len(said) == 1
            assert "not yet in the log of 'wards'" in str(said[0].message)
        (tmp_path / "away").rename(store)
        assert recorded(tmp_path, "wards", "yan") == []
        await ask()
        recording = asyncio.create_task(workers.record_until(ended, 0.001))
        async with asyncio.timeout(HANGS):
            while not recorded(tmp_path, "wards", "yan"):
                await asyncio.sleep(0.01)
        ended.set()
        await recording

    try:
        asyncio.run(run())
    finally:
        workers.close()
        server.stop()
    (record,) = recorded(tmp_path, "wards", "yan")
    assert record["users"] == {"yan": 2}
    assert [rows for _, _, rows in record["answers"]] == [1, 1]


def test_a_query_that_is_stopped_while_it_reads_rows_is_recorded(
    gateway: Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("store", "key.json"):
        (tmp_path / name).symlink_to(gateway.folder / name)
    asking = {"store": tmp_path / "store", "key": tmp_path / "key.json"}
    setup = Setup(asking, (), None, embedded_services, prepare_embedded, HANGS, 8 << 30, 1000)
    server = ForkServer(["cleave.gateway.work"])
    workers = Workers(server, setup, 1)
    made: list[Any] = []
    at_work = of_workers._AtWork
    monkeypatch.setattr(of_workers, "_AtWork", lambda: made.append(at_work()) or made[-1])

    async def run() -> None:
        sql = "SELECT COUNT(*) AS n FROM visits a, visits b, visits c WHERE a.id + b.id < c.id"
        asking = asyncio.ensure_future(workers.ask("xi", User(rows=True), Request(sql)))
        async with asyncio.timeout(HANGS):
            while not (made and made[-1].reads):
                await asyncio.sleep(0.01)
        asking.cancel()
        await workers.finish()
        assert asking.cancelled()

    try:
        asyncio.run(run())
    finally:
        workers.close()
        server.stop()
    (record,) = recorded(tmp_path, "visits", "xi")
    assert [rows for _, _, rows in record["answers"]] == [None]


def test_what_users_may_not_know_is_in_the_log(gateway: Gateway) -> None:
    """How many groups are left out, and what was read; nothing of that is in an answer."""
    asking = {"store": gateway.folder / "store", "key": gateway.folder / "key.json"}
    setup = Setup(asking, (), None, embedded_services, prepare_embedded, HANGS, 8 << 30, 1000)
    server = ForkServer(["cleave.gateway.work"])
    workers = Workers(server, setup, 1)
    by_ward = "SELECT ward, SUM(bill) AS s FROM visits GROUP BY ward"

    async def run() -> None:
        for least, rows in ((3, 4), (751, 0)):
            reply = await workers.ask("wu", User(min_group=least), Request(by_ward))
            assert reply.count == rows
        await workers.ask("wu", User(rows=True), Request(by_ward))
        await workers.finish()

    try:
        asyncio.run(run())
    finally:
        workers.close()
        server.stop()
    (record,) = recorded(gateway.folder, "visits", "wu")
    assert len(record["answers"]) == 3
    assert [each[1:4] for each in record["hidden"]] == [["wu", 0, 0], ["wu", 4, 0]]
    assert all(size > 0 and seconds > 0 for *_, size, seconds in record["hidden"])


def test_a_record_has_an_end() -> None:
    queries, earlier = Queries(), Queries()
    assert queries.details() == {}
    for _ in range(150):
        earlier.add(["t"], "alice", 1)
        queries.add(["t", "u"], "bob", 2)
    queries.put_back("t", earlier)
    found = queries.details()
    assert found["t"]["users"] == {"alice": 150, "bob": 150}
    assert [each[1:] for each in found["t"]["answers"]] == [["alice", 1]] * 150 + [["bob", 2]] * 50
    assert found["u"]["users"] == {"bob": 150}
