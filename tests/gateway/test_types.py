"""Each type of DuckDB as text and as binary, in answers and in parameters: PostgreSQL has the same type and sends the
same bytes. A type is alone, in a list, in an array, in a STRUCT and in a MAP.

Types that PostgreSQL lacks are texts here, so PostgreSQL is asked for a text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import pytest

from tests.gateway import postgres
from tests.gateway.conftest import PASSWORD
from tests.gateway.stays import TYPES
from tests.gateway.wire import Wire


class Row(NamedTuple):
    """A type of DuckDB and PostgreSQL's. `values`: texts that both read; pairs if they differ."""

    duckdb: str
    postgres: str
    values: tuple[str | tuple[str, str], ...]


FAR: Final = (("0044-03-15 (BC)", "0044-03-15 BC"), ("0001-01-01 (BC)", "0001-01-01 BC"), "0001-01-01", "12024-02-29")
MOMENTS: Final = (
    ("0044-03-15 (BC) 12:00:00", "0044-03-15 12:00:00 BC"),
    "0001-01-01 00:00:00",
    "12024-02-29 01:02:03.5",
    "1999-12-31 23:59:59.999999",
    "infinity",
    "-infinity",
)
SECONDS: Final = ("1900-03-01 00:00:00", "2024-02-29 12:00:01", "infinity")
TABLE: Final = (
    Row("BOOLEAN", "boolean", ("true", "false")),
    Row("TINYINT", "smallint", ("-128", "127")),
    Row("UTINYINT", "smallint", ("0", "255")),
    Row("SMALLINT", "smallint", ("-32768", "32767")),
    Row("USMALLINT", "integer", ("0", "65535")),
    Row("INTEGER", "integer", ("-2147483648", "2147483647")),
    Row("UINTEGER", "bigint", ("0", "4294967295")),
    Row("BIGINT", "bigint", ("-9223372036854775808", "9223372036854775807")),
    Row("UBIGINT", "numeric", ("0", "18446744073709551615")),
    Row("HUGEINT", "numeric", ("-170141183460469231731687303715884105728", "100000000")),
    Row("UHUGEINT", "numeric", ("0", "340282366920938463463374607431768211455")),
    Row("BIGNUM", "numeric", ("-1", "12345678901234567890123456789012345678901234567890")),
    Row("DECIMAL(4,2)", "numeric(4,2)", ("1.50", "-99.99", "0.00")),
    Row("DECIMAL(38,10)", "numeric(38,10)", ("-1234567890123456789012345678.0123456789", "0.0000000001")),
    Row("FLOAT", "real", ("0.0001", "0.00001", "-1234567", "123456", "1e30", "0", "-0", "NaN", "Infinity", "16777217")),
    Row(
        "DOUBLE", "double precision", ("0.0001", "1e-7", "1e15", "123456789012345", "-0.1", "NaN", "-Infinity", "1e300")
    ),
    Row("VARCHAR", "text", ("", "NULL", "a b", 'x,"y"', "back\\slash", "{a}", "\N{NO-BREAK SPACE}", "Ćwik\t")),
    Row("BLOB", "bytea", (("\\x00a\\xFF", "\\x0061ff"), ("", ""))),
    Row("DATE", "date", ("2024-02-29", "infinity", "-infinity", *FAR)),
    Row("TIME", "time", ("00:00:00", "23:59:59.000001", "24:00:00", "01:02:03.5")),
    Row("TIMETZ", "timetz", ("12:00:00+02:30", "01:02:03.5-11", "23:59:59.999999+00", "01:02:03+05:30:15")),
    Row("TIMESTAMP", "timestamp", MOMENTS),
    Row("TIMESTAMP_S", "timestamp", SECONDS),
    Row("TIMESTAMP_MS", "timestamp", (*SECONDS, "2024-02-29 12:00:01.123")),
    Row("TIMESTAMPTZ", "timestamptz", ("2024-01-01 10:00:00+02", *MOMENTS)),
    Row("INTERVAL", "interval", ("1 day", "-1 month 3 days -04:05:06.5", "0 days", "14 months", "-0.5 seconds")),
    Row("UUID", "uuid", ("12345678-1234-5678-1234-567812345678",)),
    Row("JSON", "json", ('{"a": [1, "x"]}', "null", '"t"')),
    Row("ENUM('a', 'b c')", "text", ("a", "b c")),
    Row("BIT", "text", ("101", "0")),
    Row("TIMESTAMP_NS", "text", ("2024-01-01 00:00:00.123456789",)),
    Row("TIME_NS", "text", ("01:02:03.123456789",)),
    Row("VARIANT", "text", ("x", "a b")),
)
CASES: Final = [(row, *(each if isinstance(each, tuple) else (each, each))) for row in TABLE for each in row.values]
IDS: Final = [f"{row.duckdb}-{value}" for row, value, _ in CASES]
JSON: Final = 114
Ask = Callable[..., tuple[list[int], list[Any]]]

pytestmark = pytest.mark.skipif(postgres.programs() is None, reason="no PostgreSQL server is installed")


def asking(wire: Wire) -> Ask:
    """A function that asks a statement with a parameter or none, and gives the OIDs and the values of its only row."""

    def ask(sql: str, form: int, oid: int | None = None, value: Any = None) -> tuple[list[int], list[Any]]:
        given = [] if oid is None else [oid]
        bind = ["B", "", "", [form], [value for _ in given], [form]]
        answer = wire.ask(["P", "", sql, given], bind, ["D", "P", ""], ["E", "", 0], ["S"])
        ((_, columns),) = (
            (each for each in answer if each[0] == "T")
            if "E" not in [each[0] for each in answer]
            else (pytest.fail(f"{sql}: {answer}"),)
        )
        ((_, row),) = (each for each in answer if each[0] == "D")
        return [each[1] for each in columns], row

    return ask


@pytest.fixture(scope="module")
def server(free_port: Callable[[], int]) -> Iterator[Wire]:
    port = free_port()
    with postgres.server(port), Wire(port) as wire:
        wire.login("", user=postgres.USER, database=postgres.DATABASE)
        columns = ", ".join(f"{name} {type_}" for name, type_ in TYPES.items())
        for sql in (
            f"CREATE TABLE stays ({columns})",
            "CREATE TABLE wards (ward TEXT, region TEXT)",
            "INSERT INTO wards VALUES ('A', 'north')",
        ):
            assert wire.ask(["Q", sql])[-1] == ["Z", "I"]
        yield wire


@pytest.fixture(scope="module")
def theirs(server: Wire) -> Ask:
    return asking(server)


@pytest.fixture(scope="module")
def gate(stays_port: int) -> Iterator[Wire]:
    with Wire(stays_port) as wire:
        wire.login(PASSWORD, user="owner", database="cleave")
        yield wire


@pytest.fixture(scope="module")
def ours(gate: Wire) -> Ask:
    return asking(gate)


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


@pytest.mark.parametrize("form", [0, 1], ids=["text", "binary"])
@pytest.mark.parametrize(("row", "value", "there"), CASES, ids=IDS)
def test_answers_have_the_types_and_bytes_of_postgresql(
    ours: Ask, theirs: Ask, row: Row, value: str, there: str, form: int
) -> None:
    one = f"CAST({quoted(value)} AS {row.duckdb})"
    array = f"[{one}, NULL]"
    shapes = f"{one} AS a, {array} AS b, CAST({array} || [{one}] AS {row.duckdb}[3]) AS c"
    oids, cells = ours(
        f"SELECT {shapes}, {{'k': {one}}} AS d, MAP {{'k': {one}}} AS e FROM wards WHERE ward = 'A'", form
    )
    other = f"CAST({quoted(there)} AS {row.postgres})"
    expected, values = theirs(f"SELECT {other}, ARRAY[{other}, NULL], ARRAY[{other}, NULL, {other}]", form)
    assert oids == [*expected, JSON, JSON]
    assert cells[:3] == values
    for text in cells[3:]:
        assert json.loads(text if form == 0 else bytes.fromhex(text[0]), parse_constant=pytest.fail).keys() == {"k"}


@pytest.mark.parametrize("form", [0, 1], ids=["text", "binary"])
@pytest.mark.parametrize(("row", "value", "there"), CASES, ids=IDS)
def test_a_constant_without_a_table_has_them_too(
    ours: Ask, theirs: Ask, row: Row, value: str, there: str, form: int
) -> None:
    here = ours(f"SELECT CAST({quoted(value)} AS {row.duckdb}) AS a", form)
    assert here == theirs(f"SELECT CAST({quoted(there)} AS {row.postgres})", form)


@pytest.mark.parametrize("form", [0, 1], ids=["text", "binary"])
@pytest.mark.parametrize(("row", "value", "there"), CASES, ids=IDS)
def test_parameters_are_read_as_in_postgresql(
    ours: Ask, theirs: Ask, row: Row, value: str, there: str, form: int
) -> None:
    """What PostgreSQL sends is bound, and the gateway sends it back."""
    other = f"CAST({quoted(there)} AS {row.postgres})"
    oids, values = theirs(f"SELECT {other}, ARRAY[{other}, NULL]", form)
    for oid, bound, type_ in zip(oids, values, (row.duckdb, f"{row.duckdb}[]"), strict=True):
        sql = f"SELECT CAST($1 AS {type_}) AS a FROM wards WHERE ward = 'A'"
        assert ours(sql, form, oid, bound) == ([oid], [bound]), sql


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("union_value(a := 1)", "1"),
        ("[union_value(a := 1)]", "[1]"),
        ("{'a': union_value(b := 1)}", "{'a': 1}"),
        ("{'a': ['[1]'::JSON, NULL]}", "{'a': [[1], NULL]}"),
        ("[['[1]'::JSON]]", "[[[1]]]"),
    ],
)
def test_what_duckdb_does_not_read_back_is_a_text(ours: Ask, value: str, shown: str) -> None:
    for form in (0, 1):
        sql = f"SELECT {value} AS a FROM wards WHERE ward = 'A'"
        assert ours(sql, form) == ([25], [[shown.encode().hex()] if form else shown])


@pytest.mark.parametrize(
    "value",
    [
        "ward = ANY('{A,Surgery}')",
        "ward = ANY('{}')",
        "ward = ANY('{A,\"x y\"}'::text[])",
        "NOT ward <> ALL('{A}')",
        "'{1,NULL}'::integer[]",
        "'{}'::text[]",
        "'{\"a\": 1}'::json",
        "'{a}'",
        "DATE '2025-03-01 +00'",
        "DATE '2025-03-01 23:30:00-11'",
        "'2025-03-01 +00'",
        "TIMESTAMP '2025-03-01 +02'",
        "'2025-03-01 10:00:00+02'::timestamp",
        "TIMESTAMPTZ '2025-03-01 +02'",
        "DATE '0044-03-15 BC'",
        "DATE '2025-03-02' > '2025-03-01 +05'",
        "DATE '2025-03-02' BETWEEN '2025-03-01 +00' AND '2025-03-02 Z'",
        "DATE '2025-03-02' IN ('2025-03-02 +00')",
    ],
)
@pytest.mark.parametrize("form", [0, 1], ids=["text", "binary"])
def test_constants_are_read_as_in_postgresql(ours: Ask, theirs: Ask, value: str, form: int) -> None:
    sql = f"SELECT {value} AS a FROM wards WHERE ward = 'A'"
    assert ours(sql, form) == theirs(sql, form)


@pytest.mark.parametrize("oid", [0, 1082, 1114])
def test_a_date_of_pgjdbc(ours: Ask, theirs: Ask, oid: int) -> None:
    """It sends java.sql.Date as a text with a zone and leaves its type to the server."""
    for type_, form in (("date", 0), ("timestamp", 0)):
        sql = f"SELECT CAST($1 AS {type_}) AS a FROM wards WHERE ward = 'A'"
        assert ours(sql, form, oid, "2025-03-01 +05") == theirs(sql, form, oid, "2025-03-01 +05")


def parameters(wire: Wire, sql: str) -> list[int]:
    (told,) = (each[1] for each in wire.ask(["P", "", sql, []], ["D", "S", ""], ["S"]) if each[0] in "tE")
    assert isinstance(told, list), (sql, told)
    return told


@pytest.mark.parametrize(
    "sql",
    [
        *(f"SELECT {each} FROM stays" for each in ("$1 + gap", "gap + $1", "$1 - gap", "gap - $1", "gap * $1")),
        *(f"SELECT {each} FROM stays" for each in ("$1 * gap", "day - $1", "$1 - day", "seen + $1", "seen - $1")),
        *(f"SELECT {each} FROM stays" for each in ("zoned - $1", "clock + $1", "now() - $1", "$1 + INTERVAL '1 day'")),
        *(f"SELECT id FROM stays WHERE {each}" for each in ("gap > $1", "gap IN ($1, $2)", "coalesce(gap, $1) = gap")),
        "SELECT id FROM stays WHERE day >= $1 AND day < $1 + INTERVAL '1 day'",
        "SELECT id FROM stays WHERE seen >= $1 AND seen < $1 + INTERVAL '1 day' AND id = $2",
        "SELECT typname FROM pg_type WHERE oid = $1",
        "SELECT typname FROM pg_type WHERE oid = ANY($1)",
        "SELECT typname FROM pg_type WHERE oid = ANY($1::oid[])",
    ],
)
def test_a_parameter_has_the_type_of_its_place(gate: Wire, server: Wire, sql: str) -> None:
    assert parameters(gate, sql) == parameters(server, sql)


def test_places_of_which_postgresql_knows_no_type(gate: Wire) -> None:
    assert parameters(gate, "SELECT day + $1, $2 + day FROM stays") == [23, 23]
    assert parameters(gate, "SELECT id FROM stays WHERE seen > $1 - INTERVAL '1 day'") == [1114]
    assert parameters(gate, "SELECT id FROM stays WHERE seen > now() - $1") == [1186]
