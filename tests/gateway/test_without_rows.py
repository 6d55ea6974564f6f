"""Users without rows get totals of groups, by every way to the gateway; users with columns know of no others."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import httpx
import psycopg
import pyarrow as pa
import pytest

from cleave.disclosure.askable import G1, ONE_TABLE
from cleave.logins.users import read_users, write_user
from cleave_shared.errors import InputError
from tests.cli.runner import Cli, cli
from tests.functional.processes import HANGS
from tests.gateway.conftest import PASSWORD, Gateway, connect, started, stop
from tests.gateway.test_http import post

__all__ = ["cli"]
ALLOWED = "SELECT ward, COUNT(*) AS n, SUM(bill) AS s FROM visits WHERE ward <> 'C' GROUP BY ward ORDER BY ward"
NOTE = "Groups of fewer than {} rows are left out, if there are any, and figures over fewer (rule G3)."
REFUSED = {
    "SELECT MAX(bill) AS x FROM visits": G1,
    "SELECT SUM(bill * (name = 'O''Hara')::INT) AS x FROM visits": G1,
    "SELECT VAR_POP(2 * bill) AS x FROM visits": G1,
    "SELECT STDDEV(-bill) AS x FROM visits": G1,
    "SELECT COUNT(*) AS x FROM visits WHERE id = 17": "group or filter by ward (rule G2)",
    "SELECT COUNT(*) AS x FROM visits WHERE CASE WHEN ward = 'A' THEN CAST(ward AS INTEGER) = 1 END": "compare ward",
    "SELECT COUNT(*) AS x FROM visits WHERE ward = 5": "compare ward with constants of type VARCHAR (rule G2)",
    "WITH v AS (SELECT * FROM visits) SELECT COUNT(*) AS x FROM v": "ask for figures of one table, grouped or",
    "SELECT COUNT(*) AS x FROM visits JOIN wards USING (ward)": ONE_TABLE,
    "SELECT * FROM visits": "ask for figures of one table, grouped or filtered by ward (rule G2)",
    "FROM wards": "ask for figures of one table, grouped or filtered by ward (rule G2)",
}


def copied(connection: psycopg.Connection, sql: str) -> object:
    with connection.cursor().copy(f"COPY ({sql}) TO STDOUT") as copy:
        return list(copy)


def fetched(connection: psycopg.Connection, sql: str) -> object:
    connection.execute(f"DECLARE a CURSOR WITH HOLD FOR {sql}")
    return connection.execute("FETCH a").fetchall()


def described(connection: psycopg.Connection, sql: str) -> object:
    connection.pgconn.prepare(b"s", sql.encode())
    result = connection.pgconn.describe_prepared(b"s")
    if result.status != psycopg.pq.ExecStatus.COMMAND_OK:
        raise psycopg.Error(result.error_message.decode())
    return result


WAYS = {
    "simple": lambda connection, sql: connection.execute(sql).fetchall(),
    "prepared": lambda connection, sql: connection.execute(sql, prepare=True).fetchall(),
    "binary": lambda connection, sql: connection.execute(sql, binary=True).fetchall(),
    "described": described,
    "copied": copied,
    "fetched": fetched,
}


@pytest.mark.parametrize("way", WAYS)
def test_refused_by_one_sentence_on_every_way(gateway: Gateway, way: str) -> None:
    run = WAYS[way]
    with closing(gateway.connect("counter")) as connection:
        assert run(connection, ALLOWED)
    for sql, rule in REFUSED.items():
        with closing(gateway.connect("counter")) as connection:
            with pytest.raises(psycopg.Error) as caught:
                run(connection, sql)
            assert f"you may see totals only: {rule}" in str(caught.value), sql


def test_copy_of_a_table_and_explain(gateway: Gateway) -> None:
    refused = psycopg.errors.InsufficientPrivilege
    for sql in ("COPY visits TO STDOUT", "COPY visits (ward) TO STDOUT", "TABLE visits"):
        with closing(gateway.connect("counter")) as connection, pytest.raises(refused, match="see totals only"):
            connection.execute(sql)
    for sql in ("EXPLAIN SELECT * FROM visits", "SUMMARIZE visits", "SELECT * FROM (SUMMARIZE visits)"):
        with closing(gateway.connect("counter")) as connection, pytest.raises(psycopg.Error):
            connection.execute(sql)


@pytest.mark.parametrize("form", ["json", "arrow"])
def test_an_answer_over_http_says_that_few_rows_are_left_out(gateway: Gateway, form: str) -> None:
    answer = post(gateway, {"sql": ALLOWED, "format": form}, "counter")
    truth = gateway.truth.sql(ALLOWED)
    if form == "arrow":
        assert pa.ipc.open_stream(answer.content).read_all() == truth.to_arrow_table()
    else:
        assert len(answer.json()["rows"]) == len(truth.fetchall())
        assert (
            "Groups of fewer than 3 rows are left out, if there are any, and figures over fewer (rule G3)."
            in answer.json()["warnings"]
        )
    for sql, rule in REFUSED.items():
        refused = post(gateway, {"sql": sql, "format": form}, "counter")
        assert refused.status_code == 400
        assert f"you may see totals only: {rule}" in refused.json()["detail"]
    parameters = {"sql": "SELECT COUNT(*) AS n FROM visits WHERE ward IN (?, ?)", "parameters": ["A", "B"]}
    assert post(gateway, parameters, "counter").json()["rows"] == [["1500"]]
    assert post(gateway, parameters | {"parameters": ["A", 5]}, "counter").status_code == 400


def test_parameters_are_bound_without_rows_too(gateway: Gateway) -> None:
    with closing(gateway.connect("counter")) as connection:
        for binary in (False, True):
            cursor = connection.execute(
                "SELECT SUM(bill * %s) AS s FROM visits WHERE ward = %s", (2, "A"), binary=binary
            )
            assert (
                cursor.fetchall()
                == gateway.truth.execute("SELECT SUM(bill * 2) FROM visits WHERE ward = 'A'").fetchall()
            )


def test_the_note_follows_from_the_question_alone(gateway: Gateway) -> None:
    """Whether groups are left out, or none, or all."""
    told: dict[str, list[str]] = {}
    for condition in ("ward = 'A'", "ward = 'nowhere'", "ward IS NULL"):
        with closing(gateway.connect("grouped")) as connection:
            notices = told.setdefault(condition, [])
            connection.add_notice_handler(lambda notice, notices=notices: notices.append(notice.message_primary or ""))
            assert connection.execute(f"SELECT COUNT(*) FROM visits WHERE {condition}").fetchall() == []
    assert {*map(tuple, told.values())} == {
        ("Groups of fewer than 751 rows are left out, if there are any, and figures over fewer (rule G3).",)
    }


def test_expressions_see_what_is_shown(gateway: Gateway) -> None:
    """One that fails over a group left out, or that finds it, is answered as if there were none."""
    counts = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ROLLUP (ward)"
    for more in ("HAVING COUNT(*) = 750", "HAVING COUNT(*) < 751 ORDER BY 2", "HAVING CAST(COUNT(*) AS TINYINT) > 0"):
        sql = f"{counts} {more}"
        if "TINYINT" in sql:
            with pytest.raises(psycopg.Error, match="over the figures that are shown"):
                gateway.rows(sql, "grouped")
        else:
            assert gateway.rows(sql, "grouped") == []
    one = "SELECT CASE WHEN COUNT(*) = 750 THEN CAST('x' AS INTEGER) ELSE 1 END FROM visits GROUP BY ROLLUP (ward)"
    assert gateway.rows(one, "grouped") == [(1,)]


def test_columns_that_a_user_lacks_do_not_exist(gateway: Gateway) -> None:
    listed = "SELECT column_name FROM information_schema.columns WHERE table_name = 'visits' ORDER BY 1"
    for user in ("some", "some_rows"):
        assert gateway.rows(listed, user) == [("bill",), ("id",), ("ward",)]
        assert [row[0] for row in gateway.rows("DESCRIBE visits", user)] == ["id", "ward", "bill"]
        attributes = "SELECT attname FROM pg_attribute WHERE attrelid = 'visits'::regclass AND attnum > 0 ORDER BY 1"
        assert gateway.rows(attributes, user) == [("bill",), ("id",), ("ward",)]
        for sql in ("SELECT SUM(level) FROM visits", "SELECT COUNT(*) FROM visits WHERE visits.LEVEL > 1"):
            told = set()
            for name in ("level", "lovel"):
                with pytest.raises(psycopg.Error) as caught:
                    gateway.rows(sql.replace("level", name).replace("LEVEL", name), user)
                told.add(str(caught.value).replace(name, "x"))
            (said,) = told
            assert "there is no column 'x'" in said or "x" in said
            assert not any(each in said for each in ("level", "insured", "clock", "seen"))
    assert len(gateway.rows(ALLOWED, "some")) == 2


def test_a_refusal_names_only_columns_that_the_user_has(gateway: Gateway) -> None:
    for user, sql, instead in (
        ("some", "SELECT COUNT(*) FROM visits WHERE id = 17", "group or filter by ward (rule G2)"),
        ("wardless", "SELECT COUNT(*) FROM visits WHERE id = 17", "leave WHERE and GROUP BY out (rule G2)"),
        ("wardless", "SELECT * FROM visits", ONE_TABLE),
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege) as caught:
            gateway.rows(sql, user)
        assert caught.value.diag.message_primary == f"you may see totals only: {instead}"


def test_columns_of_a_user_with_rows(gateway: Gateway) -> None:
    """Whatever others have asked of the table before."""
    assert len(gateway.rows("SELECT * FROM visits LIMIT 1")[0]) == 10
    for sql in ("SELECT * FROM visits ORDER BY id LIMIT 1", "SELECT v.* FROM visits v WHERE id = 0"):
        assert [row[:2] for row in gateway.rows(sql, "some_rows")] == [(0, "A")]
        assert len(gateway.rows(sql, "some_rows")[0]) == 3
    assert gateway.rows("SELECT visits FROM visits WHERE id = 0", "some_rows") != []
    for sql in (
        "SELECT name FROM visits",
        "SELECT COLUMNS('name') FROM visits",
        "SELECT a.name FROM visits a JOIN visits b USING (id)",
        "SELECT * FROM visits a JOIN visits b USING (name)",
        "SELECT struct_extract(visits, 'name') FROM visits",
        "SELECT n FROM visits v(a, b, c, n)",
        "SELECT (SELECT name FROM visits LIMIT 1)",
        "SELECT SUM(level) FROM visits",
        "COPY visits (name) TO STDOUT",
    ):
        with closing(gateway.connect("some_rows")) as connection, pytest.raises(psycopg.Error) as caught:
            connection.execute(sql)
        assert "Hara" not in str(caught.value)
    assert len(gateway.rows("SELECT * FROM visits LIMIT 1")[0]) == 10


@pytest.mark.parametrize("least", ["-1", "0", "2"])
def test_a_least_size_below_the_floor_is_refused(tmp_path: Path, cli: Cli, least: str) -> None:
    path = tmp_path / "users.toml"
    write_user(path, "ann", None, tables=None, min_group=0, rows=False, token=True)
    before = path.read_text()
    told = cli.fails(3, "user", "add", "ann", "--token", "--min-group", least, "--users", path)
    assert f"--min-group {least}: groups of users without --rows are of at least 3 people (rule G4)" in told
    assert path.read_text() == before
    assert "groups of 3 or more" in cli.run("user", "ls", "--users", path).stdout
    cli.run("user", "add", "ann", "--token", "--users", path)


@pytest.mark.parametrize("least", [1, 2])
def test_a_file_with_a_least_size_below_the_floor_is_refused(tmp_path: Path, cli: Cli, least: int) -> None:
    path = tmp_path / "users.toml"
    add = ("user", "add", "ann", "--token", "--users", path)
    cli.run(*add, "--min-group", "3")
    with pytest.raises(InputError, match=rf"'ann': min_group is {least}.*rule G4"):
        write_user(path, "ann", None, tables=None, min_group=least, rows=False, token=True)
    path.write_text(path.read_text().replace("min_group = 3", f"min_group = {least}"))
    before = path.read_text()
    assert f"ann: all tables; refused: min_group is {least}" in cli.run("user", "ls", "--users", path).stdout
    assert f"min_group is {least}" in cli.fails(3, *add)
    assert path.read_text() == before
    cli.run(*add, "--min-group", "3")
    assert cli.run("user", "ls", "--users", path).stdout == "ann: all tables; sums only; groups of 3 or more\n"


def test_wrong_rights_in_the_file_are_refused_at_login(
    gateway: Gateway, tmp_path: Path, cli: Cli, free_port: Callable[[], int]
) -> None:
    path = tmp_path / "users.toml"
    rights = {"tables": None, "min_group": 5, "rows": True, "token": False}
    with pytest.raises(InputError, match="exclude each other"):
        write_user(path, "ann", PASSWORD.encode(), **rights)
    cli.environment["CLEAVE_PASSWORD"] = PASSWORD
    assert "exclude each other" in cli.fails(3, "user", "add", "ann", "--rows", "--min-group", "5", "--users", path)
    assert not path.exists()
    write_user(path, "ann", PASSWORD.encode(), **rights | {"min_group": 0})
    write_user(path, "bob", PASSWORD.encode(), **rights | {"rows": False})
    token = write_user(path, "two", PASSWORD.encode(), **rights | {"rows": False, "min_group": 6, "token": True})
    path.write_text(
        path.read_text()
        .replace("rows = true", "rows = true\nmin_group = 4")
        .replace("min_group = 0\n", "")
        .replace("min_group = 6\n", "min_group = 2\n")
    )
    assert "refused: rows and min_group exclude each other" in cli.run("user", "ls", "--users", path).stdout
    for name in ("store", "key.json"):
        (tmp_path / name).symlink_to(gateway.folder / name)
    process, (address, http) = started(tmp_path, "--workers", "1", "--http-port", str(free_port()))
    port = int(address.rpartition(":")[2])
    try:
        with pytest.raises(psycopg.OperationalError, match=r"exclude each other.*cleave user add"):
            connect(port, "ann")
        with pytest.raises(psycopg.OperationalError, match=r"min_group is 2.*cleave user add.*--min-group 3.*rule G4"):
            connect(port, "two")
        headers = {"authorization": f"Bearer {token}"}
        sql = {"sql": "SELECT COUNT(*) AS n FROM visits"}
        said = httpx.post(f"{http}/v1/query", json=sql, headers=headers, timeout=HANGS)
        assert "min_group is 2" in said.json()["detail"]
        with closing(connect(port, "bob")) as connection:
            assert connection.execute("SELECT COUNT(*) FROM visits").fetchall() == [(3000,)]
    finally:
        stop(process)


def test_columns_in_the_file(tmp_path: Path, cli: Cli) -> None:
    path = tmp_path / "users.toml"
    cli.environment["CLEAVE_PASSWORD"] = PASSWORD
    add = ("user", "add", "ann", "--users", path)
    assert cli.run(*add, "--columns", "visits.ward, visits.bill", "--min-group", "7").exit_code == 0
    assert cli.run("user", "ls", "--users", path).stdout == (
        "ann: visits; of these the columns visits.ward, visits.bill; sums only; groups of 7 or more\n"
    )
    assert cli.run(*add).stderr.splitlines()[-1].startswith("the rights are as before: visits; of these the columns")
    assert read_users(path).users["ann"].columns == ("visits.ward", "visits.bill")
    said = cli.fails(3, *add, "--tables", "visits", "--columns", "visit.ward")
    assert "column 'visit.ward' is of no table in tables" in said
    assert cli.run(*add, "--tables", "visits").exit_code == 0
    assert read_users(path).users["ann"].columns == ()
    assert cli.run("user", "ls", "--users", path).stdout == "ann: visits; sums only; groups of 3 or more\n"
