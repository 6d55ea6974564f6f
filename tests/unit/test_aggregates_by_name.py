"""`list_aggregate` and its synonyms take an aggregate's name as text: it is held to the lists like any call."""

from __future__ import annotations

import duckdb
import pytest

from cleave.sql.planner import plan_query
from cleave.table.derived import checked
from cleave.table.schema import Schema
from cleave_shared.errors import QueryRefused
from cleave_shared.plain_functions import AGGREGATES_BY_NAME, ALLOWED_FUNCTIONS
from tests.unit.simulate import schema

# Each would draw random rows, or names no function that can be seen.
HIDDEN = (
    *(f"{name}([v], 'reservoir_quantile', 0.5)" for name in sorted(AGGREGATES_BY_NAME)),
    "list_aggregate([v], 'Reservoir_Quantile', 0.5)",
    "list_sum(list_transform([v], lambda x: list_aggregate([x], 'reservoir_quantile', 0.5)))",
    "[v].list_aggregate('reservoir_quantile', 0.5)",
    "list_aggregate([v], 'reservoir' || '_quantile', 0.5)",
    "list_aggregate([v], CAST('sum' AS VARCHAR))",
    "list_aggregate(list := [v], function_name := 'sum')",
    "system.main.list_aggregate([v], 'sum')",
    "list_aggregate([v], w)",
)


@pytest.fixture(scope="module")
def table() -> Schema:
    return schema(v="plain BIGINT", w="plain VARCHAR", n="encrypted INTEGER")


@pytest.mark.parametrize("call", HIDDEN)
def test_a_hidden_name_is_refused_everywhere(table: Schema, call: str) -> None:
    for sql in (
        f"SELECT sum(n) FROM t WHERE {call} > 0",
        f"SELECT max({call}), sum(n) FROM t",
        f"SELECT {call} FROM t",
    ):
        with pytest.raises(QueryRefused):
            plan_query(sql, table, "t")
    with pytest.raises(ValueError, match=r"aggregate|DuckDB"):
        checked("d", call, table.find)


def test_stated_names_are_answered(table: Schema) -> None:
    for name in sorted(AGGREGATES_BY_NAME):
        plan_query(f"SELECT max({name}([v, 2], 'SUM')), sum(n) FROM t", table, "t", cloud_only=True)
    assert checked("d", "list_aggregate([v, 2], 'max')", table.find).columns == ("v",)


def test_no_other_function_takes_the_name_of_an_aggregate() -> None:
    """A newer DuckDB may add one: its parameters say so."""
    with duckdb.connect() as connection:
        rows = connection.execute(
            "SELECT lower(function_name) FROM duckdb_functions() "
            "WHERE list_has_any(parameters, ['function_name', 'name'])"
        ).fetchall()
    assert {name for (name,) in rows} & ALLOWED_FUNCTIONS == AGGREGATES_BY_NAME
