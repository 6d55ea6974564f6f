"""All 22 queries of TPC-H over eight stored tables: every column but keys, dates and flags is encrypted or sealed."""

from __future__ import annotations

import re
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from cleave.ask.options import Access
from cleave.ask.session import Session
from cleave.ask.stored import StoredSource
from cleave.local.embedded import embedded_services
from cleave.store import put as putting
from cleave.store.seen_versions import SeenVersions
from cleave.table.lazy import of_files
from cleave.table.progress import Silent
from tests.conftest import no_passphrase
from tests.functional.processes import HANGS
from tests.store.trial import World, check

SAMPLE = Path(__file__).parents[1] / "samples" / "tpch"
TABLES = sorted(path.name.partition(".")[0] for path in SAMPLE.glob("*.schema.toml"))
QUERIES = dict(re.findall(r"-- (Q\d+):.*\n((?:(?!--).*\n)+)", (SAMPLE / "queries.sql").read_text(encoding="utf-8")))
SCALE = "0.01"  # 60,175 rows of lineitem: of a smaller one half of the answers are empty


@pytest.fixture
def kind() -> str:
    """A folder: where rows come from makes no difference here."""
    return "folder"


@pytest.fixture
def oracle(tmp_path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    program = Path(sysconfig.get_path("scripts")) / "tpchgen-cli"
    command = [program, "parquet", "-s", SCALE, "--output-dir", tmp_path]
    subprocess.run(command, check=True, capture_output=True, timeout=HANGS)
    with duckdb.connect() as connection:
        for name in TABLES:
            connection.execute(f"CREATE TABLE {name} AS FROM '{tmp_path / name}.parquet'")
        yield connection


@pytest.mark.slow  # test_conformance joins stored tables in the quick suite
def test_every_query_is_answered_as_duckdb_answers(
    world: World, oracle: duckdb.DuckDBPyConnection, tmp_path: Path, key_file: Path
) -> None:
    assert (len(TABLES), len(QUERIES)) == (8, 22)
    for name in TABLES:
        with of_files([tmp_path / f"{name}.parquet"], SAMPLE / f"{name}.schema.toml").read(None) as table:
            putting.put(world.tables, table, name, [], Silent())
    source = StoredSource(
        *(None, world.stores, Access(key_file, no_passphrase)),
        memory=SeenVersions(tmp_path / "tables.json"),
        embedded=embedded_services,
    )
    with Session(source) as session:
        for name, sql in QUERIES.items():
            answer = session.ask(session.plan(sql)).result
            wanted = oracle.execute(sql).fetchall()
            assert wanted, f"{name} selects nothing, and compares nothing"
            check(answer.rows, answer.bounds, wanted)
