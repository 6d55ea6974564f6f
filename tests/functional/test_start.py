"""How a question begins: nothing is imported that it does not need.

All of it in fresh interpreters, as the command is: this one has DuckDB's threads, and has imported everything.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "tests" / "samples"
QUESTION = "SELECT ward, COUNT(*), AVG(age), SUM(bill), STDDEV(weight) FROM patients GROUP BY ward ORDER BY ward"
COMMAND = """
import json, sys
from cleave.cli import process
from cleave.local.main import main

def leave(code, end=process.leave):
    sys.stderr.write(json.dumps([code, sorted(sys.modules)]))
    end(code)

process.leave = leave
main()
"""


def run(script: str, *words: object, **environment: str) -> subprocess.CompletedProcess[str]:
    paths = ":".join(str(ROOT / name) for name in ("client", "shared", "functions"))
    return subprocess.run(
        [sys.executable, "-c", script, *map(str, words)],
        env={**os.environ, "PYTHONPATH": paths, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_passphrase_is_not_for_children() -> None:
    done = run(
        """
from cleave.cli import passphrase, process
from cleave_shared import children
process.protect()
with children.fork(lambda channel: channel.send([b"%d" % len(passphrase._taken)])) as child:
    assert child.receive(120) == [b"0"]
assert passphrase.current(None) == b"canary"
""",
        CLEAVE_PASSPHRASE="canary",
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture
def ask(key_file: Path) -> list[object]:
    return ["--quiet", "query", SAMPLES / "patients.csv", "--key", key_file]


_WEB = "fastapi starlette mangum uvicorn anyio asyncio httpx botocore"
_SHOWN = "rich tomlkit jinja2 prompt_toolkit pandas pyarrow stdnum"
_WHOLE = "duckdb tenseal numpy.ma"  # of which a part is enough
NEVER = {*_WEB.split(), *_SHOWN.split(), *_WHOLE.split()}


def test_a_question_imports_what_it_needs(ask: list[object]) -> None:
    done = run(COMMAND, *ask, QUESTION)
    code, modules = json.loads(done.stderr)
    assert code == 0
    assert {"numpy", "_duckdb", "_sealapi_cpp"} <= set(modules)
    assert sorted(NEVER & set(modules)) == []
    reckoned = run(COMMAND, *ask, QUESTION.replace("AVG(age)", "AVG(age) / 2 AS half"))
    code, modules = json.loads(reckoned.stderr)
    assert code == 0
    assert sorted(NEVER & set(modules)) == []


def test_help_imports_next_to_nothing() -> None:
    done = run(COMMAND, "query", "--help")
    code, modules = json.loads(done.stderr)
    assert code == 0
    assert not (NEVER | {"numpy", "_duckdb", "_sealapi_cpp", "flint", "cryptography"}) & set(modules)


@pytest.mark.slow
def test_a_frame_and_an_arrow_table_import_duckdb_whole() -> None:
    """In an interpreter that has not done so: here other tests have."""
    pytest.importorskip("pyarrow")
    pytest.importorskip("pandas")
    done = run("""
import cleave, pandas
frame = pandas.DataFrame({"ward": ["A", "B", "A"], "bill": [1, 2, 3]})
schema = {"ward": "plain", "bill": "local"}
answer = cleave.query(frame, "SELECT ward, MAX(bill) AS most FROM frame GROUP BY ward ORDER BY ward", schema=schema)
assert answer.arrow().to_pydict() == {"ward": ["A", "B"], "most": [3, 2]}
""")
    assert done.returncode == 0, done.stderr
