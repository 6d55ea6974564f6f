"""Every aggregate in DuckDB's own catalogue, over encrypted, plain and text columns: answered, or DuckDB has none."""

from __future__ import annotations

from collections.abc import Sequence

import duckdb
import pytest

from cleave_shared.errors import QueryRefused
from tests.conformance.asked import STATISTICS, SUMS, bare_calls, expect
from tests.conformance.compare import differences
from tests.conformance.conftest import Tables

# Aggregates that are macros in the catalogue.
MACROS = (
    "geomean",
    "geometric_mean",
    "weighted_avg",
    "wavg",
    "json_group_array",
    "json_group_object",
    "json_group_structure",
)
NAMES = sorted(
    {name for (name,) in duckdb.execute(
        "SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_type = 'aggregate'"
    ).fetchall()} | set(MACROS)
)  # fmt: skip
CALLS = (
    "{0}({1})",
    "{0}({1}, {2})",
    "{0}({1}, 0.5)",
    "{0}({1}, [0.25, 0.5])",
    "{0}({1}, 3)",
    "{0}({1}, '; ')",
    "{0}({1}, [0, 5])",
    "{0}({1} > {2})",
    "{0}({1}, {2}, 3)",
    "{0}({1}, -100000, 100000)",
    "{0}()",
)
# A table and two of its columns, to put in place of {1} and {2}.
COLUMNS = {
    "encrypted decimals": ("numbers", "price", "mid"),
    "encrypted integers": ("numbers", "mid", "tiny"),
    "encrypted doubles": ("numbers", "x", "y"),
    "encrypted dates": ("dates", "born", "seen"),
    "encrypted intervals": ("dates", "stay", "stay * 2"),
    "plain": ("numbers", "fee", "id"),
    "text": ("numbers", "g", "id"),
}
# (decimal_average is what DuckDB's optimizer puts for another; nobody asks for it.)
ENCRYPTED = {
    *SUMS,
    *STATISTICS,
    *("bool_and", "bool_or", "count_if", "countif", "weighted_avg", "wavg", "sum_no_overflow"),
}
# Which of equals, or which value at all, these give follows from the order of rows and from DuckDB's threads. (arg_max
# and its kin are asked about a column without equals.)
CHOICES = {"any_value", "arbitrary", "mode", "approx_top_k", "approx_quantile"}
# Draws at random: two answers of DuckDB itself may differ.
VOLATILE = {"reservoir_quantile"}


def answered(tables: Tables, name: str, table: str, columns: Sequence[str]) -> list[str]:
    """The calls that DuckDB answers."""
    found = []
    constant = ("0.5", "[0", "3)", "';", "100000")
    for call in CALLS:
        if (
            name.startswith(("arg_", "argm", "max_by", "min_by"))
            and "{2}" not in call
            and any(each in call for each in constant)
        ):
            continue  # all rows are equal then
        item = call.format(name, *columns)
        try:
            tables.oracle.execute(f"SELECT {item} FROM {table}").fetchall()
        except duckdb.Error:
            continue
        found.append(item)
    return found


@pytest.mark.parametrize(
    ("name", "table"),
    [
        # what comes from rows is computed alike over both tables
        pytest.param(name, table, marks=pytest.mark.slow if at % every else ())
        for table in ("numbers", "dates")
        for at, name in enumerate(NAMES)
        for every in [5 if table == "numbers" and name in ENCRYPTED else 32]
    ],
)
def test_every_aggregate_is_answered(tables: Tables, name: str, table: str) -> None:
    """Over every kind of the table's columns in one question."""
    session = tables.session(table)
    items: list[tuple[str, str]] = []
    for kind, (of, *columns) in COLUMNS.items():
        if of != table:
            continue
        found = answered(tables, name, table, columns)
        items += [(kind, item) for item in found]
        if not found:
            with pytest.raises(QueryRefused):
                session.ask(session.plan(CALLS[0].format(f"SELECT {name}", columns[0]) + f" FROM {table}"))
    if not items:
        return
    sql = f"SELECT {', '.join(item for _, item in items)} FROM {table}"
    if name in VOLATILE:
        with pytest.raises(QueryRefused):
            session.plan(sql)
        return
    result = session.ask(session.plan(sql)).result
    sources = [column.source for column in result.columns]
    calls = [call if source == "encrypted" else None for call, source in zip(bare_calls(sql), sources, strict=True)]
    expected = expect(tables.oracle, sql, [call for call in calls if call])
    if name in CHOICES:
        assert result.types == expected.types
    else:
        assert differences(result, expected, calls, ordered=True) == []
    for source, (kind, item) in zip(sources, items, strict=True):
        if kind.startswith("encrypted") and "()" not in item:
            assert source == ("encrypted" if name in ENCRYPTED else "local"), item
