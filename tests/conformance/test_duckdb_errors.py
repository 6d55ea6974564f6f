"""No text of DuckDB's own is left in an error: one table has our words for its classes, and for what it refuses."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import duckdb
import pytest

from cleave.table.blaming import WrongConstant, blamed
from cleave.table.duck import closed_in
from cleave_shared.duckdb_errors import FAILED, PLANNED, Fault, failed, message_of, planned, unparsed
from cleave_shared.errors import EXIT_CODES, QueryRefused
from tests.conformance.conftest import Tables
from tests.conformance.test_refused import DRAWN, DUCKDB_TOO, NO_SELECT, READS, SETTINGS
from tests.gateway.replay import RECORDED
from tests.gateway.stays import STAYS, WARDS

FOREIGN = re.compile(
    r"(?:Binder|Catalog|Parser|Conversion|Invalid Input|Out of Range) Error|\w+Exception|LINE \d|Candidate"
)
CANARY = "swordfish"
GENERIC = {FAILED[each].why for each in ("BinderException", "CatalogException", "ParserException", "SyntaxException")}
"""Words for what no row of the table matches."""

# over `n`, of columns that MORE names
MORE = """
SELECT CASE WHEN id = 1 THEN d ELSE id END FROM n
SELECT coalesce(d, id) FROM n
SELECT g = ANY(s) FROM n
SELECT n.zz FROM n
SELECT zz.id FROM n
SELECT t.c FROM (VALUES (1, 2)) AS t(a, b)
SELECT * EXCLUDE (zz) FROM n
SELECT * FROM n JOIN n AS m USING (zz)
SELECT s.b FROM n
SELECT no(id) FROM n
SELECT list_append(l) FROM n
SELECT * FROM nowhere
WITH a AS (SELECT * FROM a) SELECT * FROM a
SELECT sum(id) FILTER (WHERE sum(id) > 1) FROM n
SELECT length(id) FILTER (WHERE true) FROM n
SELECT lower(DISTINCT g) FROM n
SELECT lower(g ORDER BY g) FROM n
SELECT #9 FROM n
SELECT id FROM n QUALIFY id > 1
SELECT GROUPING(id) FROM n
SELECT id FROM n LIMIT sum(1)
SELECT sum(row_number() OVER ()) FROM n
SELECT row_number() OVER (ORDER BY row_number() OVER ()) FROM n
SELECT lag(row_number() OVER ()) OVER () FROM n
SELECT lag(id) FROM n
SELECT * FROM n, n
SELECT id FROM n AS a, n AS a
SELECT * FROM (VALUES (1, 2)) AS t(a, b, c)
SELECT sum(id) OVER w FROM n
SELECT COLUMNS('zz') FROM n
SELECT * EXCLUDE (id, g, d, s, l) FROM n
SELECT x FROM n UNPIVOT (x FOR y IN (id, g))
SELECT id FROM n TABLESAMPLE reservoir(200%)
SELECT greatest(id, d) FROM n
SELECT list_value(id, d) FROM n
SELECT id::DECIMAL(50) FROM n
SELECT id::DECIMAL(5, 9) FROM n
SELECT unnest(l) FROM n WHERE unnest(l) = 1
SELECT unnest(id) FROM n
SELECT id COLLATE NOCASE FROM n
SELECT string_agg(g, g) FROM n
SELECT quantile_cont(id, 2) FROM n
SELECT strptime('a', '%Q') FROM n
SELECT 'a' + DATE '2024-01-01' FROM n
SELECT a.id FROM n AS a ASOF JOIN n AS b ON a.id = b.id
SELECT sum(id) WITHIN GROUP (ORDER BY id) FROM n
SELECT count(DISTINCT) FROM n
VALUES (1), (1, 2)
SELECT $1
SELECT id FROM n GROUP BY ROLLUP (sum(id))
SELECT id FROM n GROUP BY row_number() OVER ()
SELECT id FROM n WHERE GROUPING(id) = 1
SELECT id FROM n JOIN (SELECT id) ON true
SELECT id FROM n WHERE id IN (SELECT sum(n.id))
SELECT CAST(id AS zz) FROM n
SELECT id FROM n JOIN n AS m ON sum(m.id) = 1
SELECT sum(id) AS x FROM n WHERE x > 1
SELECT UNNEST(unnest(l)) FROM n
SELECT s < d FROM n
SELECT * FROM range(id), n
SELECT g COLLATE zz FROM n
"""
EXPRESSIONS = ("*", "sum(age)", "(SELECT age)", "age + net", "x", "age > ?")
"""Of a generated column."""


def classes(base: type[duckdb.Error] = duckdb.Error) -> Iterator[type[duckdb.Error]]:
    yield base
    for each in base.__subclasses__():
        yield from classes(each)


def recorded() -> list[str]:
    """Every statement that a client of the gateway sent, or that the comparison of dialects has."""
    found = {json.loads(line)["sql"] for line in (RECORDED / "meaning.ndjson").read_text().splitlines()}
    for path in RECORDED.glob("*.jsonl"):
        for line in path.read_text().splitlines():
            for message in json.loads(line).get(">", ()):
                found |= {each for each in message[1:3] if message[0] in "QP" and isinstance(each, str) and " " in each}
    return sorted(found)


@pytest.fixture(scope="module")
def stays() -> Iterator[duckdb.DuckDBPyConnection]:
    with closed_in() as connection:
        connection.execute(f"CREATE TABLE stays AS {STAYS}; CREATE TABLE wards AS {WARDS}")
        yield connection


@pytest.mark.parametrize("kind", [*dict.fromkeys(classes())])
def test_every_class_of_duckdbs_errors_has_our_words(kind: type[duckdb.Error]) -> None:
    fault = FAILED[kind.__name__]
    assert failed(kind(f"Some Error: {CANARY}")) == fault
    assert fault.code in EXIT_CODES
    require_ours(fault)


def test_no_row_of_the_table_is_of_a_class_that_duckdb_lacks() -> None:
    assert FAILED.keys() == {each.__name__ for each in classes()}


@pytest.mark.parametrize("sql", "\n".join((READS, SETTINGS, DRAWN, NO_SELECT, DUCKDB_TOO)).strip().splitlines())
def test_a_refused_statement_is_refused_in_our_words(tables: Tables, sql: str) -> None:
    if not sql:
        return
    with pytest.raises(QueryRefused) as caught:
        tables.session("numbers").plan(sql.replace("{0}", "/x.csv").replace("{1}", "/y.csv"))
    assert not FOREIGN.search(f"{caught.value} {caught.value.hint}")
    assert caught.value.message not in GENERIC


@pytest.mark.parametrize("sql", [each for each in DUCKDB_TOO.strip().splitlines() if "SELECT FROM" not in each])
def test_what_duckdb_refuses_is_in_the_table(tables: Tables, sql: str) -> None:
    """Whatever else may have refused it before."""
    for fault in faults(tables.oracle, f"DESCRIBE {sql}"):
        assert fault.why not in GENERIC
        require_ours(fault)


def test_what_clients_sent_is_in_the_table(stays: duckdb.DuckDBPyConnection) -> None:
    found = [(sql, fault) for sql in recorded() for fault in faults(stays, f"DESCRIBE {sql.rstrip('; ')}")]
    assert len(found) > 40
    assert [sql for sql, fault in found if fault.why in GENERIC] == []
    for _, fault in found:
        require_ours(fault)


def test_what_clients_ran_is_in_the_table(stays: duckdb.DuckDBPyConnection) -> None:
    """A statement that fails over rows: no more is told than names of columns, or that a constant is wrong."""
    count = 0
    for sql in recorded():
        try:
            stays.execute(sql.rstrip("; ")).fetchall()
        except duckdb.InvalidInputException:
            continue  # parameters
        except duckdb.Error as error:
            found = blamed(error, sql, sql)
            count += 1
            require_ours(found if isinstance(found, Fault) else Fault("constant", found.message, found.hint))
        except (AttributeError, RuntimeError):
            continue  # a statement without rows
    assert count > 10


def test_every_row_of_the_table_is_of_something_that_duckdb_says(tables: Tables) -> None:
    with closed_in() as connection:
        connection.execute("CREATE TABLE n (id INT, g VARCHAR, d DATE, s STRUCT(a INT), l INT[])")
        statements = [f"DESCRIBE {sql}" for sql in MORE.strip().splitlines()]
        statements += [f"CREATE TABLE t (age INTEGER, x AS ({each}) VIRTUAL)" for each in EXPRESSIONS]
        said = [*refusals(connection, statements)]
    said += refusals(tables.oracle, [f"DESCRIBE {sql}" for sql in DUCKDB_TOO.strip().splitlines()])
    assert len(said) == len(statements) + len(DUCKDB_TOO.strip().splitlines())
    rows = [next((row[0] for row in PLANNED if re.match(row[0], message_of(each))), str(each)) for each in said]
    assert {*rows} == {row[0] for row in PLANNED}


def refusals(connection: duckdb.DuckDBPyConnection, statements: Sequence[str]) -> Iterator[duckdb.Error]:
    for sql in statements:
        try:
            connection.execute(sql).fetchall()
        except duckdb.Error as error:
            yield error


def faults(connection: duckdb.DuckDBPyConnection, sql: str) -> Iterator[Fault]:
    try:
        connection.execute(sql).fetchall()
    except duckdb.Error as error:
        yield planned(error)


def require_ours(fault: Fault) -> None:
    said = f"{fault.why} {fault.hint}"
    assert not FOREIGN.search(said)
    assert CANARY not in said
    assert "{" not in said


def test_each_row_of_the_table_is_well_formed() -> None:
    for pattern, code, words, hint in PLANNED:
        names = set(re.compile(pattern).groupindex) | {"name"}
        assert set(re.findall(r"{(\w+)", f"{words} {hint}")) <= names, pattern
        assert code in EXIT_CODES


@pytest.mark.parametrize(
    ("message", "code", "why", "name"),
    [
        ('Referenced column "a" not found in FROM clause!', "no_column", "there is no column 'a'", "a"),
        ('Table "t" does not have a column named "a"', "no_column", "there is no column 'a' in 't'", "a"),
        ('Could not find key "swordfish" in struct', "no_column", "a struct has no such field", None),
        ("Type with name NO does not exist!", "no_type", "there is no type NO", "NO"),
        ("Scalar Function with name no does not exist!", "no_function", "there is no function no", "no"),
        (
            "No function matches the given name and argument types '+(ENUM('swordfish'), DATE)'. You",
            "no_match",
            "there is no +(ENUM(...), DATE)",
            "+",
        ),
        (
            "No function matches the given name and argument types '+(STRING_LITERAL, DATE)'. You",
            "no_match",
            "there is no text + DATE",
            "+",
        ),
        (
            "Cannot compare values of type DATE and type INTEGER_LITERAL - an explicit cast is required",
            "no_match",
            "DATE and number cannot be compared",
            None,
        ),
        ("ORDER term out of range - should be between 1 and 2", "no_place", "a number in ORDER BY", None),
        ("swordfish was never heard of", "refused", FAILED["BinderException"].why, None),
    ],
)
def test_only_names_and_types_are_taken_from_a_message(message: str, code: str, why: str, name: str | None) -> None:
    fault = planned(duckdb.BinderException(f"Binder Error: {message}\n\nLINE 1: {CANARY}"))
    assert (fault.code, fault.name) == (code, name)
    assert fault.why.startswith(why)
    assert CANARY not in f"{fault.why} {fault.hint}"


def test_a_wrong_value_in_a_plan_is_a_constant() -> None:
    fault = planned(duckdb.ConversionException("Conversion Error: Could not convert string 'swordfish' to INT64"))
    assert (fault.code, CANARY in fault.why) == ("constant", False)


def test_what_is_no_sql_is_a_matter_of_syntax() -> None:
    assert unparsed('syntax error at or near "swordfish"').code == "syntax"
    assert CANARY not in unparsed("swordfish").why


@pytest.fixture(scope="module")
def stored() -> Iterator[duckdb.DuckDBPyConnection]:
    with closed_in() as connection:
        values = f"'{CANARY}' AS ward, '{CANARY}' AS name, DATE '2024-01-31' AS day, 300 AS age"
        connection.execute(f"CREATE TABLE t AS SELECT {values}")
        yield connection


@pytest.mark.parametrize(
    ("sql", "why", "name"),
    [
        ("SELECT CAST(ward AS INTEGER) FROM t", "a value of 'ward' is no INTEGER", "ward"),
        ("SELECT max(CAST(ward AS DATE)) FROM t", "a value of 'ward' is no DATE", "ward"),
        ("SELECT CAST((ward || name) AS UUID) FROM t", "a value of 'ward' and 'name' is no UUID", None),
        ("SELECT CAST(age AS TINYINT) FROM t", "a value of 'age' is no TINYINT", "age"),
        ("SELECT age FROM t WHERE (ward = 4)", "a value of 'ward' is no INTEGER", "ward"),
        ("SELECT date_trunc(ward, day) FROM t", "a value does not fit its type", None),
        ("SELECT error(ward) FROM t", "a function does not take a value", None),
    ],
)
def test_values_that_do_not_fit_are_those_of_columns(
    stored: duckdb.DuckDBPyConnection, sql: str, why: str, name: str | None
) -> None:
    found = blame_of(stored, sql)
    assert isinstance(found, Fault)
    assert (found.why, found.name) == (why, name)


@pytest.mark.parametrize(
    ("sql", "message", "name", "constant"),
    [
        ("SELECT 1 FROM t WHERE (day > '2025-13-01')", "compared with 'day' is no DATE", "day", "'2025-13-01'"),
        ("SELECT 1 FROM t WHERE (2025 = day)", "compared with 'day' is no DATE", "day", "2025"),
        ("SELECT 1 FROM t WHERE (day IN ('ź', '2025-01-01'))", "compared with 'day' is no DATE", "day", "'ź'"),
        ("SELECT 1 FROM t WHERE (day BETWEEN 'a' AND 'b')", "compared with 'day' is no DATE", "day", "'a'"),
        ("SELECT 'ź', CAST('x' AS INTEGER) FROM t", "a constant of the statement is no INTEGER", None, None),
    ],
)
def test_a_wrong_constant_is_no_value_of_the_table(
    stored: duckdb.DuckDBPyConnection, sql: str, message: str, name: str | None, constant: str | None
) -> None:
    found = blame_of(stored, sql)
    assert isinstance(found, WrongConstant)
    assert message in found.message
    assert (found.name, found.code) == (name, "constant")
    assert constant in (None, found.constant)
    assert constant is None or constant not in f"{found.message} {found.hint}"


def blame_of(connection: duckdb.DuckDBPyConnection, sql: str) -> Any:
    executed = f"CREATE TEMP TABLE answer AS {sql}"
    with pytest.raises(duckdb.Error) as caught:
        connection.execute(executed)
    found = blamed(caught.value, executed, sql)
    assert CANARY not in f"{found} {getattr(found, 'hint', '')}"
    return found
