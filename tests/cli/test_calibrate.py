"""`cleave bench --calibrate` keeps what `cleave plan` then estimates with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cleave.bench import calibrate
from cleave.model.operations import Operation
from cleave.model.timings import SHIPPED, Timings
from tests.cli.runner import Cli

SAMPLE = Path(__file__).parents[1] / "samples" / "patients.csv"
QUESTION = "SELECT ward, AVG(age) FROM patients GROUP BY ward"


def test_a_plan_says_what_it_takes_and_by_whose_timings(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.environment["XDG_CACHE_HOME"] = str(tmp_path)
    text = cli.run("plan", SAMPLE, QUESTION).stdout
    assert "with the services in this process, and " in text
    assert f"  by single operations' timings: {SHIPPED.source}\n" in text
    before = json.loads(cli.run("plan", SAMPLE, QUESTION, "--json").stdout)["takes"]
    slow = Timings({**SHIPPED.seconds, Operation.ASK: 40.0}, "calibrated on this machine, today")
    monkeypatch.setattr(calibrate, "calibrate", lambda *_: slow)
    answer = cli.run("bench", "--calibrate")
    assert answer.exit_code == 0, answer.output
    assert f"kept in {tmp_path}/cleave/timings-" in answer.stderr
    assert "4e+07" in answer.stdout
    assert "calibrated on this machine, today" in cli.run("plan", SAMPLE, QUESTION).stdout
    after = json.loads(cli.run("plan", SAMPLE, QUESTION, "--json").stdout)["takes"]
    assert after["seconds"] == pytest.approx(before["seconds"] + 40.0 - SHIPPED.seconds[Operation.ASK])
    assert {key: after[key] for key in ("memory", "cloud")} == {key: before[key] for key in ("memory", "cloud")}


def test_what_cannot_be_kept_is_told(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cleave").write_text("a file")
    cli.environment["XDG_CACHE_HOME"] = str(tmp_path)
    monkeypatch.setattr(calibrate, "calibrate", lambda *_: SHIPPED)
    assert "cannot be written" in cli.fails(3, "bench", "--calibrate")
