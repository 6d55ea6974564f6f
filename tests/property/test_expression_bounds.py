"""Ranges and nullability of expressions, against DuckDB on values drawn within what the schema declares."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import duckdb
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cleave.sql.plan import Argument
from cleave.sql.planner import plan_query
from cleave.table.schema import Column, CsvDialect, Kind, Schema
from cleave_shared.errors import QueryRefused
from tests.campaign import FACTOR

# name -> type, lower, upper (as text), nullable
COLUMNS: dict[str, tuple[str, str | None, str | None, bool]] = {
    "i": ("INTEGER", "-5", "9", False),
    "t": ("TINYINT", None, None, True),
    "p": ("BIGINT", "1", "1000000", False),
    "b": ("BIGINT", None, None, True),
    "d": ("DECIMAL(9,2)", "-1.50", "40.25", False),
    "e": ("DECIMAL(18,4)", None, None, True),
    "f": ("DOUBLE", "-2.5", "3", True),
    "g": ("DOUBLE", "0.1", "7.3", False),
    "r": ("FLOAT", "0.1", "9.9", False),
    "h": ("DOUBLE", None, None, False),
    "s": ("BOOLEAN", None, None, True),
    "v": ("BOOLEAN", None, None, False),
}
SCHEMA = Schema(
    tuple(
        Column(
            name,
            Kind.ENCRYPTED,
            type_,
            lower=None if lower is None else Decimal(lower),
            upper=None if upper is None else Decimal(upper),
            nullable=nullable,
        )
        for name, (type_, lower, upper, nullable) in COLUMNS.items()
    ),
    CsvDialect(),
)

_LEAVES = st.sampled_from(
    [*(name for name in COLUMNS if name not in "sv"), "0", "1", "3", "-7", "2.50", "0.1", "1e3", "-2.5e-3", "NULL"]
)
_TRUTHS = st.sampled_from(["s", "v", "TRUE", "s IS NULL"])
_TYPES = st.sampled_from(
    ["TINYINT", "INTEGER", "BIGINT", "HUGEINT", "DOUBLE", "FLOAT", "DECIMAL(9,2)", "DECIMAL(18,4)", "DECIMAL(38,1)"]
)


def _grow(numbers: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    compared = st.builds("({} {} {})".format, numbers, st.sampled_from(["<", ">=", "=", "<>"]), numbers)
    truths = st.one_of(
        _TRUTHS,
        compared,
        st.builds("(NOT {})".format, compared),
        st.builds("({} {} {})".format, compared, st.sampled_from(["AND", "OR"]), _TRUTHS),
        st.builds("({} BETWEEN {} AND {})".format, numbers, numbers, numbers),
        st.builds("({} IN ({}, {}))".format, numbers, numbers, numbers),
        st.builds("({} IS NOT NULL)".format, numbers),
    )
    return st.one_of(
        st.builds("({} {} {})".format, numbers, st.sampled_from(["+", "-", "*", "/", "//", "%"]), numbers),
        st.builds("({} ^ {})".format, numbers, st.sampled_from(["0", "1", "2", "3"])),
        st.builds("(-{})".format, numbers),
        st.builds("{}({})".format, st.sampled_from(["abs", "floor", "ceil", "round", "sign", "trunc"]), numbers),
        st.builds("{}({}, {})".format, st.sampled_from(["coalesce", "greatest", "least", "nullif"]), numbers, numbers),
        st.builds("CAST({} AS {})".format, numbers, _TYPES),
        st.builds("TRY_CAST({} AS {})".format, numbers, _TYPES),
        st.builds("CAST({} AS INTEGER)".format, truths),
        st.builds("CASE WHEN {} THEN {} END".format, truths, numbers),
        st.builds("CASE WHEN {} THEN {} ELSE {} END".format, truths, numbers, numbers),
        st.builds("CASE {} WHEN {} THEN {} ELSE {} END".format, numbers, numbers, numbers, numbers),
        st.builds("if({}, {}, {})".format, truths, numbers, numbers),
    )


EXPRESSIONS = st.recursive(_LEAVES, _grow, max_leaves=6)


def _integers(lower: int, upper: int) -> st.SearchStrategy[int]:
    return st.integers(lower, upper) | st.sampled_from([lower, upper])


def _values(name: str) -> st.SearchStrategy[Any]:
    type_, lower, upper, nullable = COLUMNS[name]
    values: st.SearchStrategy[Any]
    if type_ == "BOOLEAN":
        values = st.booleans()
    elif type_ in ("DOUBLE", "FLOAT"):
        width = 32 if type_ == "FLOAT" else 64
        ends = [float(each) for each in (lower, upper) if each is not None]
        values = st.floats(allow_nan=False, allow_infinity=False, width=width)
        if ends:
            drawn = st.floats(math.ceil(ends[0]), math.floor(ends[1]), width=width)
            values = drawn | st.sampled_from(ends)
    else:
        digits = int(type_.rstrip(")").split(",")[1]) if "(" in type_ else 0
        least = {"TINYINT": -128, "BIGINT": -(2**63), "INTEGER": -(2**31)}.get(type_, -(10**18) + 1)
        most = {"TINYINT": 127, "BIGINT": 2**63 - 1, "INTEGER": 2**31 - 1}.get(type_, 10**18 - 1)
        units = _integers(
            least if lower is None else int(Decimal(lower) * 10**digits),
            most if upper is None else int(Decimal(upper) * 10**digits),
        )
        values = units.map(lambda unit: Decimal(unit).scaleb(-digits) if digits else unit)
    return st.none() | values if nullable else values


ROWS = st.lists(st.tuples(*(_values(name) for name in COLUMNS)), min_size=1, max_size=8)


@pytest.fixture(scope="module")
def connection() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE t ({', '.join(f'{name} {type_}' for name, (type_, *_) in COLUMNS.items())})")
    return connection


def _argument(expression: str) -> Argument:
    try:
        plan = plan_query(f"SELECT sum({expression}) FROM t", SCHEMA, "t")
    except QueryRefused:
        assume(False)
    assume(len(plan.arguments) == 1)
    return plan.arguments[0]


@pytest.mark.parametrize("examples", [20, pytest.param(200 * FACTOR, marks=pytest.mark.slow)])
def test_no_value_lies_outside_what_is_said_of_its_expression(
    connection: duckdb.DuckDBPyConnection, examples: int
) -> None:
    @settings(max_examples=examples, deadline=None)
    @given(expression=EXPRESSIONS, rows=ROWS)
    def holds(expression: str, rows: list[tuple[Any, ...]]) -> None:
        _judge(connection, expression, rows)

    holds()


def _judge(connection: duckdb.DuckDBPyConnection, expression: str, rows: list[tuple[Any, ...]]) -> None:
    argument = _argument(expression)
    connection.execute("DELETE FROM t")
    marks = ", ".join("?" * len(COLUMNS))
    connection.executemany(f"INSERT INTO t VALUES ({marks})", rows)
    try:
        values = [value for (value,) in connection.execute(f"SELECT {argument.sql} FROM t").fetchall()]
    except duckdb.Error:
        assume(False)
    assert argument.nullable or None not in values, expression
    scale = 10 ** (argument.decimals or 0)
    for value in values:
        if value is None or (isinstance(value, float) and not math.isfinite(value)):
            assert value is None or argument.lower is None, expression
            continue
        assert argument.lower is None or argument.lower <= Fraction(value) * scale, expression
        assert argument.upper is None or Fraction(value) * scale <= argument.upper, expression
