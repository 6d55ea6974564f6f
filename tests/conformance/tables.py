"""The tables that are asked, from tests/conformance/tables: a line a column says its name, kind, type and value.

The value is SQL over the row's number `i`, or over the columns of what tpchgen-cli makes.
"""

from __future__ import annotations

import subprocess
import sysconfig
from dataclasses import replace
from pathlib import Path

import duckdb

from cleave.table.schema import Column, CsvDialect, Kind, Schema, write_schema
from tests.functional.processes import HANGS

FOLDER = Path(__file__).parent / "tables"
ROWS = {"numbers": 240, "dates": 160, "gaps": 90, "texts": 88, "singles": 30, "regions": 5}
TABLES = (*ROWS, "lineitem")
PARQUET = ("texts",)  # which can hold an empty text: in a CSV that is NULL
SCALE_FACTOR = "0.001"  # 6,005 rows of lineitem

# A whole number of 31 bits, and 0 <= number < 1: the same in every run.
MACROS = (
    "CREATE MACRO drawn(i) AS (hash(i) >> 33)::BIGINT; "
    "CREATE MACRO random_of(i, k) AS (hash(i * 1000 + k) >> 11) / 2.0**53"
)


def columns_of(name: str) -> list[list[str]]:
    """Name, kind, type and SQL of every column."""
    lines = (FOLDER / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    return [line.split(None, 3) for line in lines if line and not line.startswith("#")]


def write_table(folder: Path, name: str, oracle: duckdb.DuckDBPyConnection) -> Path:
    """The file of a table and its schema; the table itself, as DuckDB made it, in `oracle`."""
    columns = columns_of(name)
    source = f"range({ROWS[name]}) AS r(i)" if name in ROWS else f"'{_lineitem(folder)}'"
    items = ", ".join(f'CAST({sql} AS {type_}) AS "{column}"' for column, _, type_, sql in columns)
    oracle.execute(f"CREATE TABLE {name} AS SELECT {items} FROM {source}")
    path = folder / f"{name}.{'parquet' if name in PARQUET or name not in ROWS else 'csv'}"
    oracle.execute(f"COPY {name} TO '{path}'")
    made = [Column(column, Kind(kind), type_) for column, kind, type_, _ in columns]
    if name == "lineitem":
        made = [replace(column, nullable=False) for column in made]
    write_schema(Schema(tuple(made), CsvDialect()), folder / f"{name}.schema.toml")
    return path


_made: list[Path] = []  # a process makes it once


def _lineitem(folder: Path) -> Path:
    if _made:
        return _made[0]
    program = Path(sysconfig.get_path("scripts")) / "tpchgen-cli"
    made = folder / "tpch"
    subprocess.run(
        [program, "parquet", "-s", SCALE_FACTOR, "--tables", "lineitem", "--output-dir", made],
        check=True,
        capture_output=True,
        timeout=HANGS,
    )
    _made.append(made / "lineitem.parquet")
    return _made[0]
