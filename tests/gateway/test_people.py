"""A user without rows over a table that names whom its rows are about: people are counted, whatever they have."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

import cleave
from cleave.ckks.key_file import create_key
from cleave.gateway import work
from tests.gateway.test_rights import Worker

SCHEMA = """
[privacy]
entity = ["patient"]
min_group = 4
[columns]
patient = { kind = "sealed", type = "VARCHAR" }
ward = { kind = "plain", type = "VARCHAR" }
sex = { kind = "sealed", type = "VARCHAR" }
bill = { kind = "encrypted", type = "DECIMAL(9,2)" }
lab = { kind = "sealed", type = "INTEGER", lower = 0, upper = 1000 }
[derived.double]
sql = "bill * 2"
[derived.high]
sql = "greatest(bill, 500)"
"""
# ward A: six patients, one of whom has no lab; B: one patient, twelve stays; C: five patients, one of whom has a lab
STAYS = [
    *(f"P{i},A,{'fm'[i % 2]},{100 + i},{'' if i == 5 else 10 * i}" for i in range(6)),
    *(f"P9,B,f,{1000 + i},{i}" for i in range(12)),
    *(f"P{20 + i},C,m,{50 + i},{7 if i == 0 else ''}" for i in range(5)),
]
NOTE = "Groups of fewer than 4 people are left out, if there are any, and figures over fewer (rule G3)."
RIGHTS = {"min_group": 3, "rows": False}


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    folder = tmp_path_factory.mktemp("people")
    (folder / "schema.toml").write_text(SCHEMA)
    (folder / "stays.csv").write_text("patient,ward,sex,bill,lab\n" + "\n".join(STAYS) + "\n")
    create_key(folder / "key.json", None)
    place = {"store": folder / "store", "key": folder / "key.json"}
    cleave.put(folder / "stays.csv", "stays", schema=folder / "schema.toml", by=["ward", "sex"], **place)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(work, "_sessions", {})
        yield Worker(folder)
        for session in work._sessions.values():
            session.close()


@pytest.fixture(scope="module")
def truth() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE stays (patient TEXT, ward TEXT, sex TEXT, bill DECIMAL(9, 2), lab INTEGER)")
    for stay in STAYS:
        connection.execute("INSERT INTO stays VALUES (?, ?, ?, ?, nullif(?, '')::INTEGER)", stay.split(","))
    return connection


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT ward, COUNT(*) AS n, COUNT(DISTINCT patient) AS people FROM stays WHERE ward <> 'B' GROUP BY ward",
        "SELECT ward, 100 * SUM(bill) / COUNT(*) AS x FROM stays WHERE ward IN ('A', 'C') GROUP BY ward",
        "SELECT SUM(bill) / COUNT(DISTINCT patient) AS x, round(AVG(bill), 2) AS y FROM stays WHERE ward = 'A'",
        "SELECT ward FROM stays WHERE NOT ward = 'B' GROUP BY ward ORDER BY COUNT(DISTINCT patient) DESC, 1",
        "SELECT ward AS w FROM stays WHERE ward < 'B' OR ward > 'B' GROUP BY w ORDER BY SUM(bill) / COUNT(*)",
        "SELECT ward, VAR_POP(bill) AS v FROM stays WHERE ward <> 'B' GROUP BY ward HAVING SUM(bill) > 600 ORDER BY 2",
        "SELECT CASE WHEN COUNT(*) > 5 THEN 'many' ELSE 'few' END AS c FROM stays WHERE ward <> 'B' GROUP BY ward",
        "SELECT SUM(bill - 2) AS s FROM stays WHERE ward = 'C' AND sex = 'm'",
        "SELECT SUM(bill * 2) AS s FROM stays WHERE ward = 'A' ORDER BY COUNT(*)",
    ],
)
def test_figures_of_enough_people(worker: Worker, truth: duckdb.DuckDBPyConnection, sql: str) -> None:
    head, rows, _ = worker.ask(sql, **RIGHTS)
    assert "error" not in head, head
    assert head["warnings"] == [NOTE]
    expected = [[None if each is None else str(each) for each in row] for row in truth.execute(sql).fetchall()]
    ordered = "ORDER BY" in sql
    assert (rows if ordered else sorted(rows)) == (expected if ordered else sorted(expected))


def test_derived_columns_count_people(worker: Worker) -> None:
    assert worker.ask("SELECT SUM(double) AS s FROM stays WHERE ward = 'A'", **RIGHTS)[1] == [["1230.00"]]
    head, _, reads = worker.ask("SELECT SUM(high) AS s FROM stays WHERE ward = 'A'", **RIGHTS)
    assert "you may see totals only: ask for COUNT" in head["error"]
    head, _, reads = worker.ask("SELECT VAR_POP(double) AS s FROM stays WHERE ward = 'A'", **RIGHTS)
    assert head["error"].endswith("(rule G1)")
    assert reads == []


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "figure",
    [
        "COUNT(*)",
        "CASE WHEN COUNT(*) = 12 THEN CAST('x' AS INTEGER) ELSE 1 END",
        "CAST(CASE WHEN COUNT(*) = 12 THEN 'x' ELSE '1' END AS INTEGER)",
        "CAST(SUM(bill) AS DECIMAL(5, 2))",
        "error(CASE WHEN COUNT(*) = 12 THEN 'x' END)",
        "CAST(COUNT(DISTINCT patient) - 4 AS UTINYINT)",
        "1 // CASE WHEN COUNT(*) = 12 THEN 0 ELSE 1 END",
        "list_extract([1], CASE WHEN COUNT(*) = 12 THEN 9999999999 ELSE 1 END)",
    ],
)
@pytest.mark.parametrize("where", ["{}", "ward, {}", "ward HAVING {} IS NOT NULL", "ward ORDER BY {} LIMIT 9"])
def test_a_group_left_out_makes_nothing_fail(worker: Worker, figure: str, where: str) -> None:
    """Ward B alone would: with and without it the answer is the same."""
    if figure.startswith("error"):
        with_all = worker.ask(f"SELECT {figure} AS x FROM stays GROUP BY ward", **RIGHTS)
        assert "error" in with_all[0]
        assert with_all[2] == []
        return
    clause = where.format(figure)
    if clause.startswith("ward "):
        sql = f"SELECT ward, COUNT(*) AS n FROM stays {{}} GROUP BY {clause}"
    else:
        sql = f"SELECT {clause} AS x FROM stays {{}} GROUP BY ward"
    every, some = (worker.ask(sql.format(each), **RIGHTS) for each in ("", "WHERE ward <> 'B'"))
    assert "error" not in every[0], (sql, every[0])
    assert sorted(map(str, every[1])) == sorted(map(str, some[1]))
    assert every[0]["warnings"] == [NOTE]
    assert every[2] == ["stays"]


def test_a_figure_over_few_is_null(worker: Worker) -> None:
    """One of six has no lab, one of five has one. What is told of it does not follow from rows."""
    head, rows, _ = worker.ask("SELECT ward, COUNT(lab) AS n, SUM(lab) AS s FROM stays GROUP BY ward", **RIGHTS)
    assert sorted(rows) == [["A", None, None], ["C", None, None]]
    assert [name for name, _ in head["columns"]] == ["ward", "n", "s"]
    assert head["warnings"] == [NOTE]
    head, rows, _ = worker.ask("SELECT coalesce(SUM(lab), -1) AS s, SUM(lab) IS NULL AS t FROM stays", **RIGHTS)
    assert rows == [["173", "false"]]
    _, rows, _ = worker.ask("SELECT ward FROM stays GROUP BY ward HAVING SUM(lab) IS NULL ORDER BY ward", **RIGHTS)
    assert rows == [["A"], ["C"]]


def test_people_cannot_be_named(worker: Worker) -> None:
    for sql in (
        "SELECT SUM(bill) FROM stays WHERE patient = 'P9'",
        "SELECT patient, SUM(bill) FROM stays GROUP BY patient",
        "SELECT COUNT(patient) FROM stays",
        "SELECT COUNT(DISTINCT lab) FROM stays",
        "SELECT COUNT(DISTINCT CASE WHEN ward = 'A' THEN patient END) FROM stays",
        "SELECT COUNT(DISTINCT patient) FILTER (WHERE ward = 'A') FROM stays",
        "SELECT ward, COUNT(DISTINCT patient) FROM stays GROUP BY CUBE (ward)",
    ):
        head, _, reads = worker.ask(sql, **RIGHTS)
        assert "you may see totals only: " in head["error"], sql
        assert reads == []


def test_columns_leave_people_counted(worker: Worker) -> None:
    """Though the user may not name the column of people."""
    rights = RIGHTS | {"columns": ("stays.ward", "stays.bill", "stays.double")}
    head, rows, _ = worker.ask("SELECT ward, SUM(double) AS s FROM stays GROUP BY ward ORDER BY ward", **rights)
    assert rows == [["A", "1230.00"], ["C", "520.00"]], head
    for sql in ("SELECT COUNT(DISTINCT patient) FROM stays", "SELECT COUNT(*) FROM stays WHERE sex = 'f'"):
        head, _, reads = worker.ask(sql, **rights)
        assert "there is no column" in head["error"]
        assert "patient" not in head["error"].replace("'patient'", "")
        assert reads == []


def test_names_that_a_user_may_not_know_are_free(worker: Worker) -> None:
    """`sex` is a column that the table is stored by; to this user it is a name like any other."""
    rights = RIGHTS | {"columns": ("stays.ward", "stays.bill")}
    for name in ("sex", "zex"):
        sql = f"SELECT 'x' AS {name}, COUNT(*) AS n FROM stays GROUP BY {name}"
        assert worker.ask(sql, **rights)[1] == [["x", "23"]]
        sql = f"SELECT ward AS {name}, COUNT(*) AS n FROM stays GROUP BY {name} ORDER BY {name}"
        assert worker.ask(sql, **rights)[1] == [["A", "6"], ["C", "5"]]


def test_the_larger_least_size_holds(worker: Worker) -> None:
    """Of the user's and the table's."""
    sql = "SELECT ward FROM stays GROUP BY ward ORDER BY ward"
    assert worker.ask(sql, min_group=6, rows=False)[1] == [["A"]]
    head, rows, _ = worker.ask(sql, min_group=7, rows=False)
    assert rows == []
    assert head["warnings"] == [NOTE.replace("4", "7")]


def test_a_statement_that_takes_too_much_memory_is_no_defect(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    def answered(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(work, "_answered", answered)
    head, rows, _ = worker.ask("SELECT rpad('x', 500000000, 'y') FROM stays GROUP BY ward", **RIGHTS)
    assert "memory" in head["error"]
    assert "defect" not in head["error"]
    assert not rows
