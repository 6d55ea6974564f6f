"""The databases of questions are like a DuckDB of their own: empty, gone afterwards, with no way out."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import duckdb
import pytest

from cleave.table import duck
from cleave_shared import children
from cleave_shared.children import Channel, ChildLimits


@pytest.mark.parametrize("ahead", [False, True])
def test_nothing_outside_is_reached(ahead: bool, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a\n1\n")
    if ahead:
        duck.connect_ahead()
    with duck.private() as connection:
        for refused in (
            f"FROM '{tmp_path / 't.csv'}'",
            f"ATTACH '{tmp_path / 'other.db'}'",
            "SET enable_external_access = true",
            "SET threads = 2",
        ):
            with pytest.raises(duckdb.Error):
                connection.execute(refused)


def test_none_sees_another_whether_open_or_gone() -> None:
    with duck.private() as first, duck.private() as second:
        first.execute("CREATE TABLE t AS SELECT 1")
        with pytest.raises(duckdb.CatalogException):
            second.execute("FROM t")
    with duck.private() as third:
        assert third.execute("SELECT * FROM duckdb_tables()").fetchall() == []
        assert len(third.execute("SELECT * FROM duckdb_databases() WHERE NOT internal").fetchall()) == 2


def test_one_is_gone_where_its_block_raises() -> None:
    with suppress(duckdb.ConversionException), duck.private() as connection:
        connection.execute("CREATE TABLE t AS SELECT 1")
        connection.execute("SELECT CAST('x' AS INTEGER)")
    with duck.private() as another:
        assert another.execute("SELECT * FROM duckdb_tables()").fetchall() == []


def test_a_duckdb_that_has_shut_itself_is_replaced() -> None:
    with duck.private() as connection:
        connection.execute("SELECT 1")
    duck._instances[os.getpid()].close()
    with duck.private() as connection:
        assert connection.execute("SELECT 1").fetchall() == [(1,)]


def test_a_forked_process_opens_its_own() -> None:
    duck.connect_ahead()

    def opened(channel: Channel) -> None:
        with duck.private() as connection:
            found = connection.execute("SELECT 1").fetchall()
        channel.send([repr((found, len(duck._instances))).encode()])

    with children.fork(opened, ChildLimits(seconds=120)) as child:
        assert child.receive(120) == [b"([(1,)], 2)"]


def test_it_starts_no_thread() -> None:
    """So that a process forked meanwhile holds no lock of one."""
    duck._instances.pop(os.getpid(), None)
    before = len(os.listdir("/proc/self/task"))
    with duck.private() as connection:
        connection.execute("SELECT sum(range) FROM range(1000000)").fetchall()
        assert len(os.listdir("/proc/self/task")) <= before
