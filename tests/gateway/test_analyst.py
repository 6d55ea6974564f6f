"""A gateway with an analyst's file serves releases and nothing else."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

import cleave
from cleave.logins.users import write_user
from tests.cli.runner import Cli, cli
from tests.comparing import compared
from tests.gateway.conftest import PASSWORD, Gateway, connect, started, stop

__all__ = ["cli"]


def recorded(store: Path, key: Path) -> int:
    return [each["what"] for each in cleave.log("visits", store=store, key=key)].count("queries")


def test_only_releases_are_served(gateway: Gateway, tmp_path: Path, cli: Cli) -> None:
    place = ("--store", shutil.copytree(gateway.folder / "store", tmp_path / "store"))
    owner = (*place, "--key", gateway.folder / "key.json")
    queries = recorded(place[1], owner[3])  # of tests before
    assert cli.run("analyst", "new", "-o", tmp_path / "carol.pem").exit_code == 0
    carol = compared(tmp_path / "carol.pem.pub")
    release = ("release", "new", "visits", "--to", carol, "--min-cell", "5", *owner)
    result = cli.run(*release)
    assert result.exit_code == 0, result.output
    write_user(tmp_path / "users.toml", "dan", PASSWORD.encode(), tables=None, min_group=0, rows=True, token=False)
    write_user(tmp_path / "users.toml", "eve", PASSWORD.encode(), tables=None, min_group=0, rows=False, token=False)
    analyst = ("--analyst", str(tmp_path / "carol.pem"))
    for more, why in (((), "name them with --tables"), (("--tables", "a", "--with", "a.csv"), "--with cannot")):
        assert why in cli.fails(3, "gateway", *place, *analyst, *more)
    process, (address,) = started(tmp_path, *analyst, "--tables", "visits,wards", "--workers", "1")
    try:
        with closing(connect(int(address.rpartition(":")[2]), "dan")) as connection:

            def rows(sql: str) -> list[tuple[object, ...]]:
                return connection.execute(sql).fetchall()

            assert rows("SHOW TABLES") == [("visits",)]
            assert rows("SELECT DISTINCT table_name FROM information_schema.columns") == [("visits",)]
            sql = "SELECT ward, COUNT(*) AS n, SUM(bill) AS s FROM visits GROUP BY ward ORDER BY ward"
            assert rows(sql) == gateway.truth.execute(sql).fetchall()
            with closing(connect(int(address.rpartition(":")[2]), "eve")) as without_rows:
                assert without_rows.execute(sql).fetchall() == rows(sql)
            for refused in (
                "SELECT name FROM visits",
                "SELECT MAX(bill) FROM visits",
                "SELECT COUNT(*) FROM wards",
                "SELECT COUNT(*) FROM visits JOIN wards USING (ward)",
                "SELECT COUNT(*) FROM others",
                "DESCRIBE wards",
            ):
                with pytest.raises(psycopg.Error) as caught:
                    connection.execute(refused)
                assert str(tmp_path) not in str(caught.value)
            added = gateway.truth.sql("SELECT * FROM visits WHERE ward = 'A' LIMIT 90").to_arrow_table()
            cleave.append(added, "visits", store=place[1], key=owner[3])
            assert cli.run(*release).exit_code == 0
            assert rows("SELECT COUNT(*) FROM visits WHERE ward = 'A'") == [(840,)]
        assert process.stderr is not None
        assert "which is seen here for the first time" in process.stderr.readline()
    finally:
        stop(process)
    assert recorded(place[1], owner[3]) == queries
