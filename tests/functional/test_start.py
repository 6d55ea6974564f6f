"""How a question begins: nothing is imported that it does not need.

All of it in fresh interpreters, as the command is: this one has DuckDB's threads, and has imported everything.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import cleave

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


_WEB = "fastapi starlette mangum uvicorn anyio asyncio httpx boto3 botocore"
_SHOWN = "rich tomlkit jinja2 prompt_toolkit pandas pyarrow stdnum"
_PARTIES = "contributions logins releases share"
_ROOMS = f"gateway maintain report store sums {_PARTIES}"
_SERVERS = "cleave.local.serve cleave_services.http cleave_services.web"
NEVER = {*_WEB.split(), *_SHOWN.split(), *_SERVERS.split(), "numpy.ma"}
NO_STORE = NEVER | {"nanoarrow", *(f"cleave.{room}" for room in _ROOMS.split())}
NO_SECRETS = NEVER | {"tenseal", "_sealapi_cpp", "cleave_services", "cleave_shared.children"}
NOTHING = NO_STORE | NO_SECRETS | {"_duckdb", "cryptography", "flint", "numpy", "pydantic", "zstandard"}
OTHERS = {"cleave.cli.key", "cleave.cli.shell", "cleave.cli.stored", "cleave.local.commands"}
# A command, and what it must not import: modules, with all below them.
WITHOUT: dict[str, set[str]] = {
    "--help": NOTHING,
    "--version": NOTHING,
    "query --help": NOTHING | OTHERS,
    "config": NOTHING | OTHERS | {"cleave.cli.questions"},
    "plan FILE SQL": NO_STORE | NO_SECRETS | {"cryptography", "flint", "pydantic", "cleave.finish", *OTHERS},
    "query FILE SQL": NO_STORE | {"pydantic", *OTHERS, "cleave.cli.config"},
    "query FILE COMPOSITE": NO_STORE | {"pydantic", *OTHERS, "cleave.cli.config"},
    "ls --store STORE": NO_SECRETS
    | {"_duckdb", "flint", "nanoarrow", "numpy"}
    | {f"cleave.{room}" for room in (*_PARTIES.split(), "aggregates", "finish", "gateway", "report", "sql", "sums")},
    "key show": NO_STORE | NO_SECRETS | {"_duckdb", "flint", "numpy", "pydantic", "cleave.cli.stored"},
}


@pytest.fixture
def words(key_file: Path, tmp_path: Path) -> dict[str, list[object]]:
    """What stands for a word in capitals."""
    return {
        "FILE": [SAMPLES / "patients.csv"],
        "SQL": [QUESTION],
        "COMPOSITE": [QUESTION.replace("AVG(age)", "AVG(age) / 2 AS half")],  # arithmetic imports more
        "STORE": [tmp_path / "store", "--key", key_file],
        "show": ["show", "--key", key_file],
    }


@pytest.mark.parametrize("command", WITHOUT)
def test_a_command_imports_what_it_needs(command: str, words: dict[str, list[object]], tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    if command.startswith("ls"):
        (store, _, key_file) = words["STORE"]
        cleave.put(SAMPLES / "patients.csv", "patients", store=store, by=["ward"], key=key_file)
    given = [each for word in command.split() for each in words.get(word, [word])]
    done = run(COMMAND, *given, XDG_CONFIG_HOME=str(tmp_path), XDG_STATE_HOME=str(tmp_path))
    code, modules = json.loads(done.stderr.splitlines()[-1])
    assert (code, bool(done.stdout)) == (0, True)
    above = {".".join(each.split(".")[:length]) for each in modules for length in (1, 2, 3)}
    assert sorted(WITHOUT[command] & above) == []


@pytest.mark.parametrize("name", sorted(set().union(*WITHOUT.values())))
def test_what_is_not_imported_is_a_module(name: str) -> None:
    assert find_spec(name) is not None
