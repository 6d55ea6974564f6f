"""Cells are written to no file but those that the user named: not to a temporary one, even for a moment.

A child runs each command. A hook of Python's sees every file that it, or a process forked from it, opens to write,
links or renames, and the settings of every DuckDB.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import openpyxl
import pytest

from cleave.ckks.public_key import public_side
from cleave.store.identity import create_identity
from tests.cli.runner import Cli
from tests.security.canaries import QUESTION, Canaries, traces
from tests.security.conftest import Places, settled

ROOT = Path(__file__).parents[2]
ROWS = "SELECT * FROM t ORDER BY visits"
TOTALS = "SELECT MAX(hiddensealed), SUM(hiddenpay) FROM t"
STORED = ("--store", "store")
SCHEMA = ("--schema", "t.schema.toml")
OUTPUTS = ["a.csv", "a.json", "a.ndjson", "a.md", "a.txt", "a.parquet", "a.xlsx"]
INPUTS = ["t.csv", "t.csv.gz", "t.xlsx", "t.parquet", "t.ndjson", "-"]
STORE = "store"
CHILD = "import sys; from tests.security.test_disk import child; child(*sys.argv[1:])"


@dataclass(frozen=True)
class Case:
    """`named`: the files, or the store, that the command may write."""

    words: tuple[str, ...]
    named: tuple[str, ...] = ()


CASES = [
    *(Case(("put", name, "--table", f"t{number}", *STORED, *SCHEMA), (STORE,)) for number, name in enumerate(INPUTS)),
    *(Case(("query", name, TOTALS, "--table", "t", *SCHEMA)) for name in INPUTS),
    Case(("put", "t.csv", "--table", "t", "--by", "plainward", "--scan", *STORED), (STORE,)),
    Case(("put", "t.csv", "--table", "t", "--append", *STORED), (STORE,)),
    Case(("derive", "t", "hiddencount * 2", "--as", "hiddentwice", *STORED), (STORE,)),
    Case(("query", "t", QUESTION, *STORED), (STORE,)),
    *(Case(("query", "t.csv", ROWS, "-o", name), (name,)) for name in OUTPUTS),
    *(Case(("query", "t", ROWS, *STORED, "-o", f"s{name}"), (STORE, f"s{name}")) for name in OUTPUTS),
    Case(("query", "t.csv", QUESTION, "--report", "report.html"), ("report.html",)),
    Case(("fit", "t.csv", "hiddendose ~ hiddenpay + plainward")),
    Case(("pca", "t.csv", "hiddenpay,visits")),
    Case(("schema", "t.parquet", "-o", "proposed.toml"), ("proposed.toml",)),
    Case(("schema", "t.parquet", "--page", "review.html"), ("review.html",)),
    Case(("release", "new", "t", "--min-cell", "3", "--to", "carol.pem.pub=$CAROL", *STORED), (STORE,)),
    Case(("query", "SELECT plainward, SUM(hiddenpay) FROM t GROUP BY 1", "--analyst", "carol.pem", *STORED)),
    Case(("pull", "t", "-o", "pulled.csv", *STORED), (STORE, "pulled.csv")),
    Case(("pull", "t", "-o", "pulled.parquet", *STORED), (STORE, "pulled.parquet")),
    Case(("pull", "t", "-o", "link.parquet", "--force", *STORED), (STORE, "elsewhere/old.parquet")),
    Case(("delete", "t", "--where", "hiddensealed = 'SealedCanary-88c1-1'", "--yes", *STORED), (STORE,)),
    Case(("compact", "t", *STORED), (STORE,)),
    Case(("verify", "t", *STORED), (STORE,)),
]


class Recorder:
    """Lines of JSON in a file, from this process and those forked from it: what was opened, and by whose code."""

    def __init__(self, path: Path) -> None:
        self._number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.case = -1
        connect = duckdb.connect

        def noted(*arguments: Any, **more: Any) -> duckdb.DuckDBPyConnection:
            connection = connect(*arguments, **more)
            ((folder,),) = connection.execute("SELECT current_setting('temp_directory')").fetchall()
            if folder:
                self._note(f"DuckDB may write to {folder}")
            return connection

        duckdb.connect = noted
        sys.addaudithook(self._heard)

    def _heard(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            if not isinstance(path, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
                self._note(_shown(path))
        elif event in ("os.link", "os.rename"):
            self._note(_shown(arguments[1]))

    def _note(self, text: str) -> None:
        frame = sys._getframe(2)
        line = json.dumps([self.case, text, os.path.basename(frame.f_code.co_filename)])
        os.write(self._number, f"{line}\n".encode())


def _shown(path: Any) -> str:
    text = os.fsdecode(path)
    return os.readlink(text) if text.startswith("/proc/self/fd/") else text


def child(record: str, key: str) -> None:
    """Run every case. Writes to stdout their exit codes, and what failed."""
    recorder = Recorder(Path(record))
    cli = Cli(environment={"CLEAVE_KEY": key})
    ended = []
    for recorder.case, case in enumerate(CASES):
        typed = Path("t.csv").read_text() if "-" in case.words else None
        result = cli.run(*map(os.path.expandvars, case.words), typed=typed)
        ended.append((result.exit_code, result.output if result.exit_code else ""))
    sys.stdout.write(json.dumps(ended))


def written(places: Places, table: Canaries) -> None:
    """The table in all formats, and a link to a file elsewhere."""
    table.write(places.here)
    text = (places.here / "t.csv").read_text()
    (places.here / "t.csv.gz").write_bytes(gzip.compress(text.encode()))
    (places.here / "elsewhere").mkdir()
    (places.here / "elsewhere" / "old.parquet").touch()
    (places.here / "link.parquet").symlink_to("elsewhere/old.parquet")
    book = openpyxl.Workbook()
    for line in text.splitlines():
        book.active.append(line.split(","))
    book.save(places.here / "t.xlsx")
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE t AS FROM read_csv('{places.here}/t.csv')")
        connection.execute(f"COPY t TO '{places.here}/t.parquet'")
        connection.execute(f"COPY t TO '{places.here}/t.ndjson' (FORMAT json)")


@dataclass(frozen=True)
class Ran:
    ended: list[tuple[int, str]]
    opened: list[set[tuple[str, str]]]
    here: Path


@pytest.fixture(scope="module")
def ran(key_file: Path, table: Canaries, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    root = tmp_path_factory.mktemp("disk")
    with pytest.MonkeyPatch.context() as patch:
        places = settled(root, patch)
        written(places, table)
        shutil.copy(key_file, root / "key.json")
        analyst, _ = create_identity(places.here / "carol.pem", analyst=True)
        done = subprocess.run(
            [sys.executable, "-B", "-c", CHILD, root / "record", root / "key.json"],
            cwd=places.here,
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT),
                "XDG_STATE_HOME": str(places.home / "state"),
                "CAROL": public_side(analyst).fingerprint,
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    opened: list[set[tuple[str, str]]] = [set() for _ in CASES]
    for line in (root / "record").read_text().splitlines():
        number, path, by = json.loads(line)
        opened[number].add((path, by))
    return Ran(json.loads(done.stdout.splitlines()[-1]), opened, places.here)


@pytest.mark.parametrize("number", range(len(CASES)), ids=[" ".join(case.words) for case in CASES])
def test_a_command_writes_what_is_named_and_nothing_else(number: int, ran: Ran) -> None:
    case = CASES[number]
    code, output = ran.ended[number]
    assert code == 0, output
    others = {(path, by) for path, by in ran.opened[number] if not may_write(path, by, case, ran.here)}
    assert others == set()


def may_write(path: str, by: str, case: Case, here: Path) -> bool:
    """Memory files, what is named or is renamed to it, stores, and what this machine knows of stored tables."""
    if path.startswith("/memfd:") or path in ("/dev/null", "/proc/self/oom_score_adj"):
        return True
    if by == "folder_store.py":  # its names are relative to folders of the store, whose content other tests read
        return STORE in case.named
    full = here / path
    if full.parent == here.parent / "home" / "state" / "cleave":
        return full.name in ("tables.lock", "tables.json") or full.name.startswith(".tables.json.")
    files = [here / name for name in case.named if name != STORE]
    if by == "tempfile.py":  # nameless, beside the named file
        return "pull" in case.words and full in [file.parent for file in files]
    return any(
        full == file or (full.parent == file.parent and full.name.startswith(f".{file.name}.")) for file in files
    )


def test_what_is_left_besides_has_no_cell(ran: Ran, table: Canaries) -> None:
    root = ran.here.parent
    assert not any((root / "temporary").iterdir())
    left = [path for path in (root / "home").rglob("*") if path.is_file()]
    assert left
    for path in left:
        assert traces(path.read_bytes(), table.all) == []
