"""What the schema's declarations say of an encrypted argument, by example (tests/property has the random ones)."""

from __future__ import annotations

from decimal import Decimal

import pytest

from cleave.sql.planner import plan_query
from cleave.table.schema import Column, CsvDialect, Kind, Schema
from cleave_shared.errors import QueryRefused


def _column(name: str, type_: str, lower: str | None, upper: str | None, *, nullable: bool) -> Column:
    bounds = [None if text is None else Decimal(text) for text in (lower, upper)]
    return Column(name, Kind.ENCRYPTED, type_, lower=bounds[0], upper=bounds[1], nullable=nullable)


SCHEMA = Schema(
    (
        _column("age", "BIGINT", "0", "128", nullable=False),
        _column("bill", "DECIMAL(9,2)", "0.5", "32768", nullable=True),
        _column("kg", "DOUBLE", "0", "128", nullable=False),
        _column("free", "DOUBLE", None, None, nullable=False),
        _column("half", "DOUBLE", "0", None, nullable=False),
        _column("wide", "INTEGER", None, None, nullable=False),
        _column("odd", "INTEGER", "-0.5", "7.5", nullable=False),
        _column("smoker", "BOOLEAN", None, None, nullable=False),
        Column("ward", Kind.PLAIN, "VARCHAR"),
    ),
    CsvDialect(),
)


@pytest.mark.parametrize(
    ("expression", "lower", "upper", "nullable"),
    [
        ("age", 0, 128, False),
        ("bill", 50, 3_276_800, True),
        ("kg", 0.0, 128.0, False),
        ("free", None, None, False),
        ("half", None, None, False),
        ("wide", -(2**31), 2**31 - 1, False),
        ("odd", 0, 7, False),
        ("smoker", 0, 1, False),
        ("age - 100", -100, 28, False),
        ("-age", -128, 0, False),
        ("age * age", 0, 128 * 128, False),
        ("abs(age - 100)", 0, 100, False),
        ("bill * 2", 100, 6_553_600, True),
        ("bill + 0.005", 505, 32_768_005, True),
        ("bill * bill", 2500, 3_276_800**2, True),
        ("kg * kg", 0.0, 16384.0, False),
        ("kg + free", None, None, False),
        ("age / 2", 0.0, 64.0, False),
        ("age / (age - 1)", None, None, True),
        ("age // 3", 0, 43, False),
        ("age % 10", 0, 10, False),
        ("coalesce(bill, 0)", 0, 3_276_800, False),
        ("nullif(age, 0)", 0, 128, True),
        ("greatest(age, 3)", 0, 128, False),
        ("CASE WHEN smoker THEN age END", 0, 128, True),
        ("CASE WHEN smoker THEN age ELSE NULL END", 0, 128, True),
        ("CASE WHEN smoker THEN 1 ELSE 0 END", 0, 1, False),
        ("CAST(age > 60 AS INTEGER)", 0, 1, False),
        ("CAST(bill IS NULL AS INTEGER)", 0, 1, False),
        ("CAST(bill AS INTEGER)", 0, 32768, True),
        ("CAST(kg AS DECIMAL(9,1))", 0, 1280, False),
        ("TRY_CAST(age AS TINYINT)", 0, 127, True),
        ("CAST(ward AS TINYINT) * CAST(smoker AS TINYINT)", -128, 127, True),
        ("length(ward) * CAST(smoker AS BIGINT)", -(2**63), 2**63 - 1, True),
        ("kg ^ 1", 0.0, 128.0000000000001, False),
        ("age) FILTER (WHERE smoker", 0, 128, True),
        ("1e308 * kg", None, None, False),
    ],
)
def test_range_and_nullability_follow_from_the_columns(
    expression: str, lower: float | None, upper: float | None, nullable: bool
) -> None:
    (argument,) = plan_query(f"SELECT sum({expression}) FROM t", SCHEMA, "t").arguments
    assert (argument.lower, argument.upper, argument.nullable) == (lower, upper, nullable)


def test_a_sum_too_long_to_be_read_is_refused_and_not_a_defect() -> None:
    with pytest.raises(QueryRefused, match="nested too deeply"):
        plan_query(f"SELECT sum({' + '.join(['age'] * 900)}) FROM t", SCHEMA, "t")


def test_a_long_expression_keeps_the_range_of_its_type() -> None:
    (argument,) = plan_query(f"SELECT sum(greatest({', '.join(['age'] * 400)})) FROM t", SCHEMA, "t").arguments
    assert (argument.lower, argument.upper, argument.nullable) == (-(2**63), 2**63 - 1, True)
