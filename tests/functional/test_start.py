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


_WEB = "fastapi starlette mangum uvicorn anyio asyncio httpx boto3 botocore"
_SHOWN = "rich tomlkit jinja2 prompt_toolkit pandas pyarrow stdnum"
NEVER = {*_WEB.split(), *_SHOWN.split(), "numpy.ma"}


@pytest.mark.parametrize("figure", ["AVG(age) / 2 AS half", "AVG(age)"])
@pytest.mark.sampled(2)  # arithmetic imports more
def test_a_question_imports_what_it_needs(ask: list[object], figure: str) -> None:
    done = run(COMMAND, *ask, QUESTION.replace("AVG(age)", figure))
    code, modules = json.loads(done.stderr)
    assert code == 0
    assert {"numpy", "_duckdb", "_sealapi_cpp"} <= set(modules)
    assert sorted(NEVER & set(modules)) == []


def test_help_imports_next_to_nothing() -> None:
    done = run(COMMAND, "query", "--help")
    code, modules = json.loads(done.stderr)
    assert code == 0
    assert not (NEVER | {"numpy", "_duckdb", "_sealapi_cpp", "flint", "cryptography"}) & set(modules)


def test_a_plan_over_a_file_imports_no_service_and_no_store() -> None:
    done = run(COMMAND, "plan", SAMPLES / "patients.csv", QUESTION)
    code, modules = json.loads(done.stderr)
    assert code == 0
    assert "encrypted: age, bill, weight" in done.stdout
    crypto = {"tenseal", "_sealapi_cpp", "cryptography", "flint"}
    assert not (NEVER | crypto | {"pydantic", "nanoarrow", "cleave.store", "cleave_services"}) & {
        *modules,
        *(".".join(each.split(".")[:2]) for each in modules),
    }
