"""How a question begins: planned in a process of its own, and nothing is imported that it does not need.

All of it in fresh interpreters, as the command is: this one has DuckDB's threads, and has imported everything.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections import OrderedDict
from pathlib import Path

import pytest

from cleave.cli.early import has_idle_processor, planner_for
from cleave.sql import beside

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "tests" / "samples"
QUESTION = "SELECT ward, COUNT(*), AVG(age), SUM(bill), STDDEV(weight) FROM patients GROUP BY ward ORDER BY ward"
PLANNED = f"""
import os, signal, sys
from pathlib import Path
from cleave.sql.beside import Planner
from cleave_shared.errors import QueryRefused

def asked(planner, sql, **how):
    from cleave.table.schema import load_schema
    schema = load_schema(Path({str(SAMPLES / "patients.schema.toml")!r}))
    planner.begin(sql, schema, "patients", **how)
    return planner.plan(sql, schema, "patients", **how)

def here(sql, **how):
    from cleave.sql.planner import plan_query
    from cleave.table.schema import load_schema
    schema = load_schema(Path({str(SAMPLES / "patients.schema.toml")!r}))
    return plan_query(sql, schema, "patients", **how)

QUESTION = {QUESTION!r}
"""
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


def passes(script: str) -> None:
    done = run(PLANNED + script)
    assert done.returncode == 0, done.stderr


PLANS = [
    QUESTION,
    "SELECT ward, MEDIAN(bill), AVG(bill) / 2 AS x FROM patients GROUP BY ROLLUP (ward) HAVING COUNT(*) > 3 "
    "ORDER BY x LIMIT 3",
    "SELECT ward, MODE(ward), CORR(age, weight), PRODUCT(age) FROM patients WHERE age > 30 GROUP BY ward",
    "SELECT patient_name FROM patients QUALIFY row_number() OVER (ORDER BY age) < 3",
]


def test_a_plan_made_beside_is_the_same() -> None:
    passes(f"""
plans = [asked(Planner(), sql) for sql in {PLANS}]
assert "sqlglot" not in sys.modules
assert plans == [here(sql) for sql in {PLANS}]
from cleave.aggregates import DECLARED
asked_for = [each for plan in plans for each in getattr(plan, "encrypted", ())]
assert asked_for and all(any(each.aggregate is known for known in DECLARED) for each in asked_for)
""")


def test_what_both_need_is_imported_before_the_fork_and_starts_no_thread() -> None:
    passes("""
os.environ["OPENBLAS_NUM_THREADS"] = "1"
from cleave_shared.fork_server import threads
Planner()
assert threads() == 1
assert {"numpy", "_duckdb", "cleave.sql.plan", "cleave.table.schema"} <= set(sys.modules)
assert not {"sqlglot", "_sealapi_cpp", "pydantic"} & set(sys.modules)
""")


def test_a_question_is_refused_beside_as_it_is_here() -> None:
    passes("""
for sql in ("SELECT nope(age) FROM patients", "SELECT ward, age FROM patients GROUP BY ward", "%"):
    told = []
    for ask in (lambda: asked(Planner(), sql, cloud_only=True), lambda: here(sql, cloud_only=True)):
        try:
            ask()
        except QueryRefused as error:
            told.append((error.message, error.hint))
    assert len(told) == 2 and told[0] == told[1], told
""")


def test_what_dies_or_hangs_is_planned_here() -> None:
    passes("""
from cleave.sql import beside
dead = Planner()
os.kill(dead._child.pid, signal.SIGKILL)
os.waitid(os.P_PID, dead._child.pid, os.WEXITED | os.WNOWAIT)
assert asked(dead, QUESTION) == here(QUESTION)
beside._SECONDS = 0.2
stopped = Planner()
os.kill(stopped._child.pid, signal.SIGSTOP)
assert asked(stopped, QUESTION) == here(QUESTION)
""")


def test_an_error_that_nobody_expects_is_the_clients_own() -> None:
    """So that its class is told, and --debug shows where."""
    passes("""
import cleave.sql.planner
def broken(*_, **__):
    raise ZeroDivisionError
cleave.sql.planner.plan_query = broken
try:
    asked(Planner(), QUESTION)
except ZeroDivisionError:
    pass
else:
    raise AssertionError
""")


def test_another_question_is_planned_here() -> None:
    passes("""
from cleave.table.schema import load_schema
planner = Planner()
asked(planner, QUESTION)
other = "SELECT COUNT(*) FROM patients"
assert asked(planner, other) == here(other)
unasked = Planner()
unasked.close()
assert os.waitpid(unasked._child.pid if unasked._child else -1, 0)[0]
""")


def test_nothing_but_plans_is_read_from_the_child() -> None:
    for thing in (os.system, subprocess.Popen, OrderedDict(a=1), Path("x")):
        with pytest.raises(pickle.UnpicklingError, match="no part of a plan"):
            beside._loaded(pickle.dumps(thing))


@pytest.mark.parametrize(
    "words",
    [
        ["schema", "query"],
        ["plan", "--help"],
        ["query", "--help"],
        ["query", "t", "--store", "s"],
        ["query", "t", "--store=s"],
        ["put"],
        [],
    ],
)
def test_no_other_command_forks(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beside, "Planner", object)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    assert planner_for(words) is None
    monkeypatch.setattr(os, "getloadavg", lambda: (0.5, 0.5, 0.5))
    assert planner_for(["--quiet", "query", "t.csv"]) is not None
    assert planner_for(["plan", "t.csv"]) is not None
    monkeypatch.setattr(os, "getloadavg", lambda: (2.0, 0.5, 0.5))
    assert planner_for(["--quiet", "query", "t.csv"]) is None
    monkeypatch.setattr(os, "getloadavg", lambda: (0.5, 0.5, 0.5))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    assert planner_for(["--quiet", "query", "t.csv"]) is None


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


# --- imports ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def ask(key_file: Path) -> list[object]:
    return ["--quiet", "query", SAMPLES / "patients.csv", "--key", key_file]


_WEB = "fastapi starlette mangum uvicorn anyio asyncio httpx botocore"
_SHOWN = "rich tomlkit jinja2 prompt_toolkit pandas pyarrow stdnum"
_WHOLE = "duckdb tenseal numpy.ma flint.types.acb_mat"  # of which a part is enough
NEVER = {*_WEB.split(), *_SHOWN.split(), *_WHOLE.split()}


def test_a_question_imports_what_it_needs(ask: list[object]) -> None:
    idle = has_idle_processor()
    done = run(COMMAND, *ask, QUESTION)
    code, modules = json.loads(done.stderr)
    assert code == 0
    assert {"numpy", "_duckdb", "_sealapi_cpp"} <= set(modules)
    assert sorted(NEVER & set(modules)) == []
    if idle and has_idle_processor():  # else it is planned in this very process
        assert not {"sqlglot", "importlib.metadata", "email"} & set(modules)
    reckoned = run(COMMAND, *ask, QUESTION.replace("AVG(age)", "AVG(age) / 2 AS half"))
    code, modules = json.loads(reckoned.stderr)
    assert code == 0
    assert sorted(NEVER & set(modules)) == []


def test_help_imports_next_to_nothing() -> None:
    done = run(COMMAND, "query", "--help")
    code, modules = json.loads(done.stderr)
    assert code == 0
    assert not (NEVER | {"sqlglot", "numpy", "_duckdb", "_sealapi_cpp", "flint", "cryptography"}) & set(modules)


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


def test_pydantic_looks_for_no_plugin_and_finds_what_it_needs() -> None:
    passes("""
from cleave.local.main import _lighten
_lighten()
import pydantic
class Message(pydantic.BaseModel):
    number: int
assert Message(number="3").number == 3
assert not {"importlib.metadata", "email"} & set(sys.modules)
from pydantic.plugin._loader import PYDANTIC_ENTRY_POINT_GROUP
assert PYDANTIC_ENTRY_POINT_GROUP == "pydantic"
""")
