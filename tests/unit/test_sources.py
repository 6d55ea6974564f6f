"""Where sqlglotc is installed, which compiles modules of sqlglot's, questions are planned all the same."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest
import sqlglot

ROOT = Path(__file__).parents[2]
ASKED = """
from pathlib import Path
from cleave.sql.planner import plan_query
from cleave.table.schema import load_schema
schema = load_schema(Path({schema!r}))
print(len(plan_query("SELECT ward, SUM(bill) FROM patients GROUP BY ward", schema, "patients").keys))
"""


@pytest.fixture
def compiled(tmp_path: Path) -> Path:
    """A folder with sqlglot in it, some of whose modules have a compiled one beside them: one that cannot be loaded."""
    shutil.copytree(Path(sqlglot.__file__).parent, tmp_path / "sqlglot", ignore=shutil.ignore_patterns("__pycache__"))
    for module in ("parser", "generator", "expressions/core", "parsers/duckdb"):
        (tmp_path / "sqlglot" / f"{module}{EXTENSION_SUFFIXES[0]}").write_bytes(b"no library")
    return tmp_path


def run(script: str, *folders: Path) -> subprocess.CompletedProcess[str]:
    paths = [*folders, *(ROOT / name for name in ("client", "shared", "functions"))]
    asked = ASKED.format(schema=str(ROOT / "tests" / "samples" / "patients.schema.toml"))
    return subprocess.run(
        [sys.executable, "-c", script + asked],
        env={"PYTHONPATH": ":".join(map(str, paths))},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_sources_are_taken(compiled: Path) -> None:
    for first in ("import cleave, sqlglot", "import cleave.store.linear"):
        done = run(first, compiled)
        assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr
    assert "ImportError" in run("import sqlglot", compiled).stderr  # the compiled ones are there


def test_compiled_modules_that_are_imported_already_are_refused() -> None:
    """They are only said to be compiled: what comes of real ones is a TypeError for any question."""
    done = run("import sqlglot.parsers.duckdb as parsers; parsers.__file__ = 'duckdb.cpython-311.so'")
    assert "QueryRefused: sqlglot is compiled in this Python (sqlglotc)" in done.stderr
