"""Products and expressions over aligned rows, run by DuckDB, against exact numbers."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from itertools import combinations_with_replacement

import duckdb
import pytest

from cleave.sql.aligned import aligned, product
from cleave.sql.read import canonical, expression_of
from cleave.table.schema import Column, Kind

EXTREME = {
    "TINYINT": (-128, 127),
    "INTEGER": (-(1 << 31), (1 << 31) - 1),
    "BIGINT": (-(1 << 63), (1 << 63) - 1),
    "DECIMAL(4,2)": ("-99.99", "99.99"),
    "DECIMAL(18,3)": ("-999999999999999.999", "999999999999999.999"),
    "DECIMAL(30,2)": ("-" + "9" * 28 + ".99", "9" * 28 + ".99"),
    "DECIMAL(38,20)": ("-" + "9" * 18 + "." + "9" * 20, "9" * 18 + "." + "9" * 20),
}


def column(name: str, type_: str, lower: object = None, upper: object = None) -> Column:
    bounds = [None if each is None else Decimal(str(each)) for each in (lower, upper)]
    return Column(name, Kind.ENCRYPTED, type_, *bounds)


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        yield connection


def value(connection: duckdb.DuckDBPyConnection, sql: str, row: dict[str, tuple[str, object]]) -> tuple[str, object]:
    given = ", ".join(f"CAST('{each}' AS {type_}) AS \"{name}\"" for name, (type_, each) in row.items())
    result = connection.execute(f"SELECT typeof({sql}), {sql} FROM (SELECT {given})").fetchone()
    assert result is not None
    return result


@pytest.mark.parametrize("types", list(combinations_with_replacement(EXTREME, 2)))
def test_a_product_is_exact_at_the_ends_of_its_types(
    connection: duckdb.DuckDBPyConnection, types: tuple[str, str]
) -> None:
    """Or it is refused, and then a product at the ends has more than 38 digits."""
    for first, second in (types, types[::-1]):
        sql = product([column("a", first), column("b", second)])
        for one in EXTREME[first]:
            for two in EXTREME[second]:
                exact = Fraction(str(one)) * Fraction(str(two))
                if sql is None:
                    places = sum(int(each.partition(",")[2].rstrip(")") or 0) for each in types)
                    assert places > 38 or abs(exact) * 10**places >= 10**38 - 1
                    continue
                type_, found = value(connection, sql, {"a": (first, one), "b": (second, two)})
                assert type_ != "DOUBLE"
                assert Fraction(str(found)) == exact


@pytest.mark.parametrize(
    ("factors", "sql"),
    [
        ([column("b", "INTEGER", 0, 100), column("a", "INTEGER", 0, 100)], '"a" * "b"'),
        ([column("b", "INTEGER"), column("a", "TINYINT")], 'CAST("a" AS BIGINT) * "b"'),
        ([column("b", "BIGINT"), column("a", "TINYINT")], 'CAST("a" AS HUGEINT) * "b"'),
        ([column("a", "BIGINT")] * 3, None),
        ([column("a", "BIGINT", -10, 10)] * 3, '("a" * "a") * "a"'),
        ([column("a", "DECIMAL(9,2)"), column("b", "DECIMAL(9,2)")], '"a" * "b"'),
        ([column("a", "DECIMAL(9,2)"), column("b", "INTEGER")], 'CAST("a" AS DECIMAL(38,2)) * "b"'),
        ([column("a", "DECIMAL(9,2)", 0, 9), column("b", "INTEGER", 0, 9)], '"a" * "b"'),
        ([column("a", "DECIMAL(38,20)")] * 2, None),
        ([column("a", "DECIMAL(38,19)")] * 2, None),
        ([column("a", "DECIMAL(38,18)", -1, 1)] * 2, '"a" * "a"'),
        (
            [column("a", "INTEGER"), column("b", "INTEGER"), column("c", "DECIMAL(9,2)")],
            '(CAST("a" AS DECIMAL(38,0)) * "b") * "c"',
        ),
        ([column("a", "FLOAT"), column("b", "FLOAT")], 'CAST("a" AS DOUBLE) * "b"'),
        ([column("a", "DOUBLE"), column("b", "FLOAT")], '"a" * "b"'),
        ([column("a", "INTEGER"), column("b", "FLOAT")], 'CAST("a" AS DOUBLE) * "b"'),
        ([column("a", "INTEGER"), column("b", "INTEGER"), column("c", "DOUBLE")], '(CAST("a" AS DOUBLE) * "b") * "c"'),
        ([column("a", "BIGINT")], '"a"'),
    ],
)
def test_a_product_has_one_spelling(factors: list[Column], sql: str | None) -> None:
    assert product(factors) == sql


def test_three_factors_are_exact_whatever_the_order(connection: duckdb.DuckDBPyConnection) -> None:
    row: dict[str, tuple[str, object]] = {
        "a": ("INTEGER", 2147483647),
        "b": ("INTEGER", -2147483648),
        "c": ("DECIMAL(9,2)", "9999999.99"),
    }
    sql = product([column(name, type_) for name, (type_, _) in row.items()])
    assert sql is not None
    _, found = value(connection, sql, row)
    assert found == Decimal(2147483647) * -2147483648 * Decimal("9999999.99")


@pytest.mark.parametrize(
    ("expression", "nullable", "sql"),
    [
        ("a", ["a"], '"a"'),
        ("a * b", ["b", "a"], '"a" * "b"'),
        ("CAST(a AS DOUBLE) * b - 1", ["A"], 'CAST("a" AS DOUBLE) * "b" - 1'),
        ("a", ["c", "b", "a"], 'CASE WHEN ("b" IS NOT NULL) AND ("c" IS NOT NULL) THEN "a" END'),
        ("a * b", ["c", "b"], 'CASE WHEN "c" IS NOT NULL THEN "a" * "b" END'),
        ("coalesce(a, 1)", ["a"], 'CASE WHEN "a" IS NOT NULL THEN COALESCE("a", 1) END'),
        ("1", ["a"], 'CASE WHEN "a" IS NOT NULL THEN 1 END'),
        ("TRY_CAST(a AS TINYINT)", ["a"], 'CASE WHEN "a" IS NOT NULL THEN TRY_CAST("a" AS TINYINT) END'),
    ],
)
def test_aligned_has_one_spelling(expression: str, nullable: list[str], sql: str) -> None:
    found = aligned(expression, nullable)
    assert canonical(expression_of(found)) == canonical(expression_of(sql))
    assert aligned(expression, nullable[::-1]) == found


def test_aligned_is_null_where_a_column_is(connection: duckdb.DuckDBPyConnection) -> None:
    relation = (
        "(SELECT * FROM (VALUES (1), (NULL)) AS a(a), (VALUES (2), (NULL)) AS b(b), (VALUES (3), (NULL)) AS c(c))"
    )
    for expression in ("a", "a * b", "coalesce(a, b, 7)", "5"):
        rows = connection.execute(
            f"SELECT a, b, c, {expression}, {aligned(expression, 'abc')} FROM {relation}"
        ).fetchall()
        assert len(rows) == 8
        for *columns, own, found in rows:
            assert found == (None if None in columns else own)
