"""`make bench-fit` runs over a small table and compares: other estimates and curves than statsmodels' stop it."""

from __future__ import annotations

import copy
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.fit import check_curves, check_fit

ROOT = Path(__file__).parents[2]
FIT = {"coefficients": {"age": {"estimate": [2.0, 0.0], "error": [0.5, 0.0]}}}
STEPS = [{"time": 1, "survival": [0.9, 0.0]}, {"time": 2, "survival": [0.6, 0.0]}]
CURVES = {"curves": [{"group": "A", "steps": STEPS}], "log_rank": {"chi_square": [7.0, 0.0]}}
KNOWN = {"curves": {"A": [[1, 2], [0.9, 0.6]]}, "chi2": 7.0}


def test_every_way_agrees_with_statsmodels() -> None:
    command = [sys.executable, "-m", "benchmarks.fit", "--rows", "3000"]
    printed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    lines = [line for line in printed.splitlines() if "3,000" in line]
    assert [line.split(" | ")[0] for line in lines] == [
        "| regression, 3,000, file",
        "| regression, 3,000, totals of products",
        "| regression, 3,000, rows",
        "| survival, 3,000, file",
        "| survival, 3,000, totals of steps",
    ]


@pytest.mark.parametrize("known", [{"age": [2.001, 0.5]}, {"age": [2.0, 0.501]}, {"age": [2.0, 0.5], "dose": [1, 1]}])
def test_another_regression_is_seen(known: dict[str, list[float]]) -> None:
    check_fit(FIT, {"age": [2.0, 0.5]})
    with pytest.raises(SystemExit, match="statsmodels"):
        check_fit(FIT, known)


@pytest.mark.parametrize("change", ["group", "time", "share", "test"])
def test_other_curves_are_seen(change: str) -> None:
    check_curves(CURVES, KNOWN)
    known = copy.deepcopy(KNOWN)
    if change == "group":
        known["curves"]["B"] = known["curves"]["A"]
    elif change == "time":
        known["curves"]["A"][0][1] = 3
    elif change == "share":
        known["curves"]["A"][1][1] = 0.61
    else:
        known["chi2"] = 7.1
    with pytest.raises(SystemExit, match="statsmodels"):
        check_curves(CURVES, known)
