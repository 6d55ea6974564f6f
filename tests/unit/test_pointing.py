"""Where in a statement an error is, and how a name is written: in whatever way the statement would be answered."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import duckdb
import pytest

import cleave
from cleave.ckks.key_file import create_key
from cleave.table.derived import UnknownColumn, checked
from cleave_shared.errors import CleaveError

KINDS = {"ward": "plain", "admitted": "plain", "age": "encrypted", "customer.country": "plain", "note": "sealed"}
ROWS = """
    SELECT unnest(['Surgery', 'ź', NULL]) AS ward, DATE '2024-01-31' AS admitted, unnest([1, 2, 3]) AS age,
        'b' AS "customer.country", 'swordfish' AS note
"""


@pytest.fixture(scope="module")
def table() -> Any:
    return duckdb.sql(ROWS).to_arrow_table()


def refused(table: Any, sql: str, **more: Any) -> CleaveError:
    with pytest.raises(CleaveError) as caught:
        cleave.query(table, sql, **({} if table is None else {"schema": KINDS}), **more)
    assert "swordfish" not in f"{caught.value} {caught.value.hint}"
    return caught.value


@pytest.mark.parametrize("selected", ["*", "COUNT(*)", "SUM(age)", "MEDIAN(age)", "ward, MAX(age) OVER ()"])
def test_a_text_in_double_quotes_is_told_from_a_column(table: Any, selected: str) -> None:
    sql = f'SELECT {selected} FROM frame WHERE ward = "Surgery"'
    error = refused(table, sql)
    assert (error.code, error.name, error.at) == ("no_column", "Surgery", sql.index('"'))
    assert "text goes in single quotes" in (error.hint or "")
    assert "text goes in single quotes" not in (refused(table, sql.replace('"', "")).hint or "")


@pytest.mark.parametrize("selected", ["customer.country", "customer.country, COUNT(*)", "MAX(1), customer.country"])
@pytest.mark.parametrize("rest", ["", " GROUP BY ALL", " AS t JOIN frame AS u ON t.age = u.age"])
def test_a_column_whose_name_has_a_dot_is_named(table: Any, selected: str, rest: str) -> None:
    sql = f"SELECT {selected} FROM frame{rest}"
    error = refused(table, sql)
    assert (error.hint or "").startswith('did you mean "customer.country"?')
    assert error.at == sql.index("customer")
    assert "country" not in (refused(table, sql.replace("country", "town")).hint or "").partition("schema")[0]


@pytest.mark.parametrize("selected", ["*", "COUNT(*)", "SUM(age)", "MEDIAN(age)"])
@pytest.mark.parametrize(
    ("condition", "constant"),
    [
        ("admitted = '2025-13-01'", "'2025-13-01'"),
        ("admitted = 2025", "2025"),
        ("'ź' < admitted", "'ź'"),
        ("admitted > 2025", "2025"),
        ("2025.5 <= admitted", "2025.5"),
        ("admitted < -5", "-5"),
    ],
)
def test_a_wrong_constant_is_blamed(table: Any, selected: str, condition: str, constant: str) -> None:
    sql = f"SELECT {selected} FROM frame WHERE {condition}"
    error = refused(table, sql)
    assert (error.code, error.name, error.at) == ("constant", "admitted", sql.index(constant))
    assert error.message == "the constant that is compared with 'admitted' is no DATE"
    assert error.excerpt.splitlines() == [sql, " " * sql.index(constant) + "^"]
    assert error.exit_code == 4


@pytest.mark.parametrize("condition", ["admitted > age", "admitted > age + 1", "MAX(admitted) OVER () > 5"])
def test_columns_that_cannot_be_compared_are_no_wrong_constant(table: Any, condition: str) -> None:
    error = refused(table, f"SELECT * FROM frame QUALIFY {condition}")
    assert error.code == "no_match"
    assert "cannot be compared" in error.message


@pytest.mark.parametrize(
    ("condition", "name", "constant"),
    [
        ("ward > 5", "ward", "5"),
        ("admitted > true", "admitted", "true"),
        ("ward < 'ź' AND frame.admitted BETWEEN 2024 AND 2025", "admitted", "2024"),
    ],
)
def test_a_constant_of_another_type_names_its_column(table: Any, condition: str, name: str, constant: str) -> None:
    sql = f"SELECT COUNT(*) FROM frame WHERE {condition}"
    error = refused(table, sql)
    assert (error.code, error.name, error.at) == ("constant", name, sql.index(constant))


def test_of_two_equal_constants_none_is_shown(table: Any) -> None:
    error = refused(table, "SELECT * FROM frame WHERE ward = '2025-13-01' OR admitted = '2025-13-01'")
    assert (error.code, error.name, error.at, error.excerpt) == ("constant", "admitted", None, "")


def test_a_parameter_is_shown_by_its_place(table: Any) -> None:
    with cleave.connect(table, schema=KINDS) as connection, pytest.raises(cleave.QueryRefused) as caught:
        connection.execute("SELECT * FROM frame WHERE admitted = ?", ["swordfish"])
    assert "swordfish" not in f"{caught.value} {caught.value.hint} {caught.value.excerpt}"
    assert (caught.value.code, caught.value.at) == ("constant", 37)


@pytest.mark.parametrize("sql", ["CAST(note AS INTEGER)", "SUM(CAST(note AS INTEGER))"])
def test_a_cast_that_fails_names_its_column(table: Any, sql: str) -> None:
    error = refused(table, f"SELECT {sql} FROM frame")
    assert (error.code, error.name) == ("conversion", "note")
    assert "a value of 'note' is no INTEGER" in error.message


def test_a_cast_that_fails_at_the_service_names_its_column(table: Any) -> None:
    assert (
        "a value of 'ward' does not fit its type"
        in refused(table, "SELECT SUM(CAST(ward AS INTEGER)) FROM frame").message
    )


@pytest.mark.parametrize(
    ("sql", "code", "at"),
    [
        ("SELECT 'ź', f.agee FROM frame AS f", "no_column", 14),
        ("SELECT agee, MEDIAN(age) OVER () FROM frame", "no_column", 7),
        ("SELECT SUM(age) FROM\n fraem", "no_table", 22),
        ("SELECT nosuch(age) FROM frame", "no_function", 7),
        ("SELECT AVG(ward) FROM frame", "no_match", 7),
        ("SELECT 1, ward + admitted FROM frame", "no_match", 15),
        ("SELECT age, note FROM frame GROUP BY age", "ungrouped", 12),
        ("SELECT f.age FROM frame f, frame g WHERE age = 1", "ambiguous", 41),
        ("SELECT CAST(age AS NOTHING) FROM frame", "no_type", 19),
        ("SELECT 'ź' FORM frame", "syntax", 16),
        ("SELECT 'ź", "syntax", 7),
    ],
)
def test_the_caret_is_below_what_is_wrong(table: Any, sql: str, code: str, at: int) -> None:
    error = refused(table, sql)
    assert (error.code, error.at) == (code, at)
    line, caret = error.excerpt.splitlines()
    assert line == sql.splitlines()[-1]
    assert caret == " " * (at - sql.rfind("\n") - 1) + "^"


def test_a_refusal_of_no_name_has_no_caret(table: Any) -> None:
    error = refused(table, "SELECT MEDIAN(age) FROM frame", cloud_only=True)
    assert (error.code, error.at, error.excerpt) == ("refused", None, "")


@pytest.mark.parametrize(("name", "hint"), [('"wrd"', "text goes in single quotes; did you mean 'ward'?"), ("zz", "")])
def test_a_condition_of_a_change_tells_them_apart_too(name: str, hint: str) -> None:
    column = SimpleNamespace(name="ward", type="VARCHAR")
    with pytest.raises(UnknownColumn) as caught:
        checked("c", f"ward = {name}", lambda each: column if each.lower() == "ward" else None)
    assert caught.value.hint(["ward", "age"]) == hint


@pytest.fixture(scope="module")
def stored(table: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("stored")
    create_key(folder / "key.json", None)
    place = {"store": folder / "store", "key": folder / "key.json"}
    cleave.put(table, "frame", schema=KINDS, by=["ward", "admitted"], **place)
    return place


@pytest.mark.parametrize(
    ("sql", "code", "name", "said"),
    [
        ("SELECT SUM(age) FROM frame WHERE admitted = '2025-13-01'", "constant", "admitted", "is no DATE"),
        ("SELECT * FROM frame WHERE admitted = '2025-13-01'", "constant", "admitted", "is no DATE"),
        ("SELECT SUM(age) FROM frame WHERE admitted > 2025", "constant", "admitted", "is no DATE"),
        ("SELECT * FROM frame WHERE admitted > 2025", "constant", "admitted", "is no DATE"),
        ("SELECT SUM(age) FROM frame WHERE CAST(ward AS INT) = 1", "conversion", "ward", "'ward' is no INTEGER"),
        ("SELECT CAST(note AS INTEGER) FROM frame", "conversion", "note", "'note' is no INTEGER"),
        ('SELECT SUM(age) FROM frame WHERE ward = "Surgery"', "no_column", "Surgery", "text goes in single quotes"),
        (
            "SELECT SUM(age) FROM frame WHERE customer.country = 'b'",
            "no_table",
            "customer.country",
            '"customer.country"',
        ),
    ],
)
def test_a_stored_table_says_the_same(stored: dict[str, Any], sql: str, code: str, name: str, said: str) -> None:
    error = refused(None, sql, **stored)
    assert (error.code, error.name) == (code, name)
    assert said in f"{error} {error.hint}"
