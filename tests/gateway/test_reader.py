"""A gateway with a reader's key serves the columns that were opened to it and nothing else."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from cleave.logins.users import write_user
from tests.cli.runner import Cli, cli
from tests.comparing import compared
from tests.gateway.conftest import PASSWORD, Gateway, connect, started, stop
from tests.gateway.test_analyst import recorded

__all__ = ["cli"]


def test_only_opened_columns_are_served(gateway: Gateway, tmp_path: Path, cli: Cli) -> None:
    place = ("--store", shutil.copytree(gateway.folder / "store", tmp_path / "store"))
    owner = (*place, "--key", gateway.folder / "key.json")
    queries = recorded(place[1], owner[3])  # of tests before
    assert cli.run("reader", "new", tmp_path / "carol.json", "--no-passphrase").exit_code == 0
    carol = compared(tmp_path / "carol.json.pub")
    result = cli.run("reader", "add", "visits", "--to", carol, "--columns", "ward,bill", "--yes", *owner)
    assert result.exit_code == 0, result.output
    write_user(tmp_path / "users.toml", "dan", PASSWORD.encode(), tables=None, min_group=0, rows=True, token=False)
    write_user(tmp_path / "users.toml", "eve", PASSWORD.encode(), tables=None, min_group=0, rows=False, token=False)
    reader = ("--reader", str(tmp_path / "carol.json"))
    assert "name them with --tables" in cli.fails(3, "gateway", *place, *reader)
    assert "--key cannot be combined" in cli.fails(2, "gateway", *owner, *reader, "--tables", "visits")
    process, (address,) = started(tmp_path, *reader, "--tables", "visits,wards", "--workers", "1")
    try:
        with closing(connect(int(address.rpartition(":")[2]), "dan")) as connection:

            def rows(sql: str) -> list[tuple[object, ...]]:
                return connection.execute(sql).fetchall()

            assert rows("SHOW TABLES") == [("visits",)]
            assert rows("SELECT column_name FROM information_schema.columns ORDER BY 1") == [("bill",), ("ward",)]
            sql = "SELECT ward, COUNT(*) AS n, SUM(bill) AS s FROM visits GROUP BY ward ORDER BY ward"
            assert rows(sql) == gateway.truth.execute(sql).fetchall()
            for refused in ("SELECT name FROM visits", "SELECT COUNT(*) FROM wards", "SELECT COUNT(*) FROM others"):
                with pytest.raises(psycopg.Error):
                    connection.execute(refused)
            with closing(connect(int(address.rpartition(":")[2]), "eve")) as without_rows:
                assert without_rows.execute("SELECT COUNT(*) FROM visits").fetchall() == rows(
                    "SELECT COUNT(*) FROM visits"
                )
                with pytest.raises(psycopg.Error):
                    without_rows.execute(sql)
    finally:
        stop(process)
    assert recorded(place[1], owner[3]) == queries
