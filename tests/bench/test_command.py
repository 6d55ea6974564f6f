"""`cleave bench` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from cleave.bench import workloads
from cleave.bench.primitive import WrongResultError
from cleave.bench.results import Results
from cleave.bench.workloads import Asked, Workload
from tests.bench.found import ran
from tests.cli.runner import Cli, cli

__all__ = ["cli"]

QUICK = ("--seconds", "0.001", "--runs", "1")


def test_results_as_json_and_markdown(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "found.json"
    printed = cli.run("bench", "add", "variance finish", *QUICK, "--markdown", "--json", path)
    assert printed.exit_code == 0, printed.stderr
    found = TypeAdapter(Results).validate_json(path.read_text())
    assert [each.name for each in found.primitives] == ["add"] * 4
    assert [each.measured.name for each in found.micro] == ["variance finish"]
    assert json.loads(path.read_text())["format"] == 1
    assert "| add |" in printed.stdout
    assert "load average" in printed.stderr


def test_what_is_refused(cli: Cli, tmp_path: Path) -> None:
    assert "there is no 'ad'" in cli.fails(2, "bench", "ad", *QUICK)
    assert "there is no 'add'" in cli.fails(2, "bench", "--micro", "add", *QUICK)
    (tmp_path / "there.json").write_text("kept")
    assert "is there already" in cli.fails(3, "bench", "add", *QUICK, "--json", tmp_path / "there.json")
    assert (tmp_path / "there.json").read_text() == "kept"


@pytest.mark.slow
def test_a_whole_question_is_profiled(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "found.json"
    printed = cli.run("bench", "6,000 x 8 sum", "--runs", "1", "--json", path)
    assert printed.exit_code == 0, printed.stderr
    (found,) = TypeAdapter(Results).validate_json(path.read_text()).workloads
    (run,) = found.runs
    assert run.processor >= run.own_user + run.own_system - 0.02 > 0.1
    assert run.peak_mb is None
    assert found.peak_mb is not None
    assert found.peak_mb > 60
    assert found.bytes_sent > 6_000 * 4 * 8
    assert "6,000 x 8 sum" in printed.stdout


def test_a_wrong_answer_is_not_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    answer = b'{"rows": [[2.5]], "plan": {"bytes_sent": 10, "bytes_received": 20}}'
    monkeypatch.setattr(workloads, "profile", lambda *_, **__: (ran(1.0), answer))
    monkeypatch.setattr(workloads, "counters", lambda *_: {})
    workload = Workload("x", "", lambda *_: None)
    right = Asked(("query",), lambda rows: rows == [[2.5]])
    assert workloads.observe(workload, right, tmp_path, tmp_path, 3).runs == (ran(1.0),) * 3
    with pytest.raises(WrongResultError):
        workloads.observe(workload, Asked(("query",), lambda rows: rows == [[2.0]]), tmp_path, tmp_path, 3)


def test_commands_do_not_see_the_users_own_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("CLEAVE_KEY", "CLEAVE_PASSPHRASE", "AWS_PROFILE", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, "mine")
    environment = workloads.surroundings(tmp_path, tmp_path / "key.json")
    assert "mine" not in environment.values()
    assert environment["CLEAVE_KEY"] == str(tmp_path / "key.json")
