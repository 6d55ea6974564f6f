"""The functions that may be called on this machine, against DuckDB's own catalogue: what is not listed is refused."""

from __future__ import annotations

import re

import duckdb
import pytest

from cleave.sql.allowed import names_of
from cleave.sql.functions import ROW_MAKING, SET_RETURNING
from cleave.sql.planner import plan_query
from cleave.sql.read import read_statement
from cleave.table.derived import checked
from cleave.table.functions import CLOCK, FUNCTIONS, UNSTEADY
from cleave_shared.errors import QueryRefused
from tests.unit.simulate import schema

# What reads text as SQL, a setting, a file, another table or the state of the database, and what draws or waits.
DANGEROUS = """
json_serialize_plan json_serialize_sql json_deserialize_sql json_execute_serialized_sql query query_table getvariable
current_setting in_search_path current_query current_schemas current_database nextval currval setval setseed random uuid
pg_sleep sleep_ms write_log parse_duckdb_log_message get_block_size stats pg_get_viewdef pg_get_constraintdef
obj_description has_table_privilege inet_server_addr version txid_current make_type get_type invoke read_csv read_text
read_blob read_json read_parquet sniff_csv glob which_secret duckdb_settings duckdb_tables duckdb_columns
duckdb_databases duckdb_functions duckdb_secrets duckdb_logs pragma_table_info pragma_storage_info seq_scan arrow_scan
pandas_scan python_map_function test_all_types
"""
TABLE = schema(v="plain VARCHAR", n="encrypted INTEGER")


@pytest.fixture(scope="module")
def known() -> list[tuple[str, str, str | None, str | None]]:
    with duckdb.connect() as connection:
        return connection.execute(
            "SELECT DISTINCT lower(function_name), function_type, stability, macro_definition FROM duckdb_functions()"
        ).fetchall()


def test_duckdb_has_every_listed_function_and_none_is_volatile(known: list[tuple[str, str, str, str]]) -> None:
    names = {name for name, *_ in known}
    sql = {"current_time", "current_timestamp", "localtime", "localtimestamp", "regexp_split_to_table", "unnest"}
    assert names | sql >= FUNCTIONS, "what DuckDB no longer has may come back as something else"
    assert {name for name, *_ in known} >= ROW_MAKING - {"unnest"}
    refused = names - FUNCTIONS
    for name, kind, stability, macro in known:
        if name in FUNCTIONS - SET_RETURNING and not kind.startswith("table"):
            assert stability != "VOLATILE", name
            assert not re.search(r"\b(SELECT|FROM)\b", macro or ""), name
            assert not refused & set(re.findall(r"\b(\w+)\(", macro or "")) - {"if"}, name


def test_no_dangerous_function_is_listed(known: list[tuple[str, str, str, str]]) -> None:
    names = {name for name, *_ in known}
    assert set(DANGEROUS.split()) <= names | {"getenv"}, "DuckDB has it no longer"
    assert (FUNCTIONS | ROW_MAKING).isdisjoint(DANGEROUS.split())
    assert (FUNCTIONS | ROW_MAKING).isdisjoint({"getenv"} | (UNSTEADY - CLOCK))


@pytest.mark.sampled(16)
@pytest.mark.parametrize("part", range(16))
def test_every_other_function_is_refused_by_its_name(known: list[tuple[str, str, str, str]], part: int) -> None:
    """Of DuckDB, those a later one may add, and table functions, wherever a call may stand."""
    for name in sorted({each for each, *_ in known} | {"added_by_a_later_duckdb"})[part::16]:
        called = f'"{name}"'
        if name not in FUNCTIONS:
            for sql in (f"SELECT {called}('a') FROM t", f"SELECT 'a'.{called}()", f"SELECT {called}(1) OVER () FROM t"):
                statement = read_statement(sql)
                if not statement.tree.get("error"):
                    with pytest.raises(QueryRefused, match=r"there is no function|does not depend on the table"):
                        names_of(statement.tree)
        if name not in ROW_MAKING:
            with pytest.raises(QueryRefused, match=r"reads something other|there is no function|does not depend"):
                names_of(read_statement(f"SELECT * FROM {called}('a')").tree)


@pytest.mark.parametrize("name", ["json_serialize_plan", "json_serialize_sql", "make_type", "nosuch"])
def test_it_is_refused_on_every_way(name: str) -> None:
    for sql in (
        f"SELECT SUM(n) FROM t WHERE v = {name}('x')",
        f"SELECT v, SUM(n), {name}(v) FROM t GROUP BY v",
        f"SELECT v, SUM(n) FROM t GROUP BY v HAVING {name}('x') = v ORDER BY {name}(v)",
        f"SELECT SUM(n) FILTER (WHERE {name}(v) = 'x') FROM t",
        f"SELECT v FROM t ORDER BY {name}(v)",
    ):
        for cloud_only in (False, True):
            with pytest.raises(QueryRefused, match=f"there is no function {name.upper()}"):
                plan_query(sql, TABLE, "t", cloud_only=cloud_only)
    with pytest.raises(ValueError, match=f"there is no function {name.upper()}"):
        checked("d", f"{name}(v)", TABLE.find)
