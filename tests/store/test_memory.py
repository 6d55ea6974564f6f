"""What a put and a pull take of memory does not grow with the file: measured on processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cleave.ckks.key_file import create_key

pytestmark = pytest.mark.slow
ROWS, LETTERS = 100_000, 6_000
MOST = 1 << 30


def tree(process: int) -> list[int]:
    """The process and all it has started that still run."""
    found = [process]
    for task in Path(f"/proc/{process}/task").iterdir():
        found += [each for child in (task / "children").read_text().split() for each in tree(int(child))]
    return found


def used(process: int) -> int:
    """Bytes of memory of a process and its children, what they share counted once."""
    total = 0
    try:
        for each in tree(process):
            lines = Path(f"/proc/{each}/smaps_rollup").read_text().splitlines()
            total += sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))
    except OSError:  # one of them has ended
        return total
    return total


def peak(words: list[str], environment: dict[str, str]) -> int:
    process = subprocess.Popen(words, env=environment)
    most, until = 0, time.monotonic() + 900
    while process.poll() is None and time.monotonic() < until:
        most = max(most, used(process.pid))
        time.sleep(0.05)
    assert process.wait(1) == 0
    return most


def test_a_table_larger_than_memory_may_be(tmp_path: Path) -> None:
    """600 MB of text, which would be more than a gigabyte as a table of this process with what is made of it."""
    create_key(tmp_path / "key.json", None)
    with (tmp_path / "t.csv").open("w") as file:
        file.write("i,text\n")
        for row in range(ROWS):
            file.write(f"{row},{chr(65 + row % 26) * LETTERS}\n")
    (tmp_path / "t.schema.toml").write_text(
        '[columns.i]\nkind = "encrypted"\ntype = "BIGINT"\n[columns.text]\nkind = "sealed"\ntype = "VARCHAR"\n'
    )
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}
    cleave = [sys.executable, "-c", "import sys; from cleave.local.main import main; sys.exit(main())"]
    rest = ["--store", str(tmp_path / "store"), "--key", str(tmp_path / "key.json")]
    assert 0 < peak([*cleave, "put", str(tmp_path / "t.csv"), "--table", "t", "--by", "", *rest], environment) < MOST
    assert 0 < peak([*cleave, "pull", "t", "-o", str(tmp_path / "back.csv"), *rest], environment) < MOST
    assert (tmp_path / "back.csv").read_bytes() == (tmp_path / "t.csv").read_bytes()
