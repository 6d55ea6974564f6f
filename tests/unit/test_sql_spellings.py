"""Spellings of which DuckDB's grammar has many, answered as DuckDB answers them."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

from cleave.sql.planner import plan_query
from cleave.table.schema import Schema
from cleave_shared.errors import QueryRefused
from tests.unit.simulate import differences, number, schema, simulate


@pytest.fixture(scope="module")
def patients() -> Schema:
    return schema(
        ward="plain VARCHAR",
        Alter="plain INTEGER",
        insert="plain INTEGER",
        grant="encrypted BIGINT",
        map="encrypted BIGINT",
        day="plain DATE",
        age="encrypted BIGINT",
    )


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute(
            "CREATE TABLE patients AS SELECT * FROM (VALUES "
            "('north', 61, 1, 5, 7, DATE '2020-01-01', 30), ('south', 40, 2, 6, 8, DATE '2021-02-03', 40), "
            "(NULL, 61, 3, 7, 9, DATE '2999-12-31', 50), ('north', 40, 4, 8, 10, NULL, NULL)"
            ') AS t(ward, "Alter", "insert", "grant", map, day, age)'
        )
        yield connection


@pytest.mark.parametrize(
    "query",
    [
        *(
            f"SELECT ward, sum(age) FROM patients GROUP BY ward ORDER BY {term}{direction}{nulls}"
            for term in ("ward", "1", "ALL", "sum(age)")
            for direction in ("", " ASC", " DESC")
            for nulls in ("", " NULLS FIRST", " NULLS LAST")
        ),
        "SELECT string_agg(ward, ',' ORDER BY ward DESC NULLS LAST), sum(age) FROM patients",
        "SELECT ward, sum(age) FROM patients GROUP BY ward ORDER BY ward LIMIT ALL",
        "SELECT ward, sum(age) FROM patients GROUP BY ward ORDER BY ward LIMIT NULL OFFSET 1",
        "SELECT Alter, sum(grant), sum(map) AS map FROM patients WHERE insert > 1 GROUP BY Alter ORDER BY Alter",
        "SELECT sum(map * 2), sum(patients.grant), max(insert) FROM patients",
        "SELECT sum(age) AS grant FROM patients ORDER BY grant",
        "SELECT SUBSTRING(ward FROM 2 FOR 2) AS s, sum(age) FROM patients GROUP BY s ORDER BY s",
        "SELECT substring(ward, 1, 2) s, SUBSTRING(ward FOR 3) AS z, count(*) FROM patients GROUP BY ALL ORDER BY 1, 2",
        "SELECT TRIM(LEADING 'n' FROM ward) s, trim(ward, 'h') AS z, count(*) FROM patients GROUP BY ALL ORDER BY 1, 2",
        "SELECT count(*), sum(age) FROM patients WHERE day < CURRENT_DATE",
        "SELECT count(*), sum(age) FROM patients WHERE day < today() AND day < localtimestamp",
        "SELECT sum(CASE WHEN day > current_date THEN age END) FROM patients",
        "SELECT sum(age), sum(patients.age), sum(main.patients.age) FROM main.patients",
        "SELECT sum(p.age) FROM MAIN.Patients AS p",
    ],
)
@pytest.mark.sampled(2)
def test_is_answered_as_duckdb_answers_it(query: str, patients: Schema, connection: duckdb.DuckDBPyConnection) -> None:
    result = simulate(query, patients, connection, "patients")
    expected = connection.execute(query)
    assert [column.name for column in result.columns] == [column[0] for column in expected.description or ()]
    assert not differences(result, [[number(value) for value in row] for row in expected.fetchall()])


def test_what_is_sent_holds_the_date_itself(patients: Schema) -> None:
    plan = plan_query("SELECT sum(age) FROM patients WHERE day < CURRENT_DATE AND day < today()", patients, "patients")
    assert plan.where is not None
    first, second = plan.where.split(" AND ")
    assert first == second
    assert first.startswith('("day" < CAST(\'2')


@pytest.mark.parametrize(
    ("query", "message", "hint"),
    [
        ("SELECT AVGG(age) FROM patients", "there is no function AVGG", "did you mean AVG?"),
        ("SELECT summ(Alter) FROM patients", "there is no function SUMM", "did you mean SUM?"),
        ("SELECT var(age) FROM patients", "there is no function VAR", "did you mean VAR_SAMP?"),
        ("SELECT ward, sum(age) FROM patients GROUP BY lenght(ward)", "no function LENGHT", "did you mean LENGTH?"),
        ("SELECT sum(agee), AVGG(age) FROM patients", "there is no function AVGG", "did you mean AVG?"),
        ("SELECT sum(agee) FROM patients", "there is no column 'agee'", "did you mean 'age'?"),
        ('SELECT count("Pat-ID") FROM patients', "there is no column 'Pat-ID'", "the schema names "),
        ("SELECT sum(age) FROM other.patients", "FROM may only name the table", "FROM patients"),
        ("SELECT sum(p.age), sum(main.patients.age) FROM patients AS p", "no table or field", "alone"),
        ("SELECT sum(age) FROM patients WHERE day < now()", "now() does not depend on the table alone", "literal"),
        ("SELECT sum(age) FROM patients WHERE insert >", "syntax error at line 1", "DuckDB's"),
    ],
)
def test_is_refused_with_its_own_reason(query: str, message: str, hint: str, patients: Schema) -> None:
    with pytest.raises(QueryRefused) as refused:
        plan_query(query, patients, "patients", cloud_only=True)
    assert message in str(refused.value)
    assert hint in str(refused.value.hint)
    assert "encrypt" not in str(refused.value)
