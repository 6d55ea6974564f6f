"""`make bench-encrypted` runs at a small scale, all sides give one answer, and another one stops it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.store_encrypted import check

ROOT = Path(__file__).parents[2]


def test_all_sides_answer_as_the_clear_table() -> None:
    command = [sys.executable, "-m", "benchmarks.store_encrypted", "--scales", "0.001", "--repeats", "1"]
    printed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    names = [line.split(" | ")[0].split(",")[0] for line in printed.splitlines() if line.startswith("| ")]
    assert names == ["| encrypted by", "| ---", "| Cleave", "| DuckDB", "| Parquet"]


@pytest.mark.parametrize("found", [[(1, 2.1)], [(2, 2.0)], [(1,)], []])
def test_another_answer_is_seen(found: list[object]) -> None:
    check("Q1", [(1, 2.0)], [(1, 2.0)])
    with pytest.raises(SystemExit, match="clear table"):
        check("Q1", found, [(1, 2.0)])
