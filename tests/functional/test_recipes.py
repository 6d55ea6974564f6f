"""docs/recipes.md without the tools that it names; tests/gateway/clients/test_recipes.py runs it with them."""

from __future__ import annotations

import csv
import re
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import duckdb
import pytest

import cleave
from aws.translate import TEMPLATE
from tests import recipes
from tests.samples import copy_patients

DAY = "2026-01-02"


@pytest.fixture
def stage(tmp_path: Path, key_file: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the feed of a day; the stored table `trial` has the same rows."""
    copy_patients(tmp_path)
    (tmp_path / "reports").mkdir()
    (tmp_path / "feed").mkdir()
    (tmp_path / "feed" / f"{DAY}.csv").write_bytes((tmp_path / "patients.csv").read_bytes())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("CLEAVE_KEY", str(key_file))
    monkeypatch.setenv("CLEAVE_STORE", str(tmp_path / "store"))
    cleave.put("patients.csv", "trial", by=["ward"])
    return tmp_path


def run(folder: Path, path: str) -> dict[str, Any]:
    """The names that a file of the page defines."""
    names: dict[str, Any] = {"__name__": "recipe"}
    exec(compile(recipes.write(folder, recipes.files()[path], path).read_text(), path, "exec"), names)  # noqa: S102 - the page's
    return names


def require_report(folder: Path) -> None:
    expected = duckdb.execute(recipes.BY_WARD.replace("patients", "'patients.csv'")).fetchall()
    with (folder / "reports" / "wards.csv").open(newline="") as file:
        _, *rows = csv.reader(file)
    assert [ward for ward, _ in sorted(rows)] == [ward for ward, _ in expected]
    assert [float(bill) for _, bill in sorted(rows)] == pytest.approx([bill for _, bill in expected], rel=1e-12)


def test_airflows_tasks_run_as_documented(stage: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sdk = ModuleType("airflow.sdk")
    sdk.__dict__.update(task=lambda function: function, dag=lambda **_: lambda _: lambda: None)
    monkeypatch.setitem(sys.modules, "airflow", ModuleType("airflow"))
    monkeypatch.setitem(sys.modules, "airflow.sdk", sdk)
    names = run(stage, "dags/trial.py")
    assert names["load"](DAY) == 1200
    with pytest.warns(cleave.CleaveWarning, match="batch"):
        assert names["load"](DAY) == 1200
    assert names["report"](1200) == 6
    require_report(stage)


def test_dagsters_assets_run_as_documented(stage: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dagster = ModuleType("dagster")
    dagster.__dict__.update(
        asset=lambda **_: lambda function: function,
        AssetExecutionContext=object,
        DailyPartitionsDefinition=SimpleNamespace,
        Definitions=SimpleNamespace,
        MaterializeResult=SimpleNamespace,
    )
    monkeypatch.setitem(sys.modules, "dagster", dagster)
    names = run(stage, "assets.py")
    assert names["trial"](SimpleNamespace(partition_key=DAY)).metadata == {"rows": 1200, "version": 2}
    assert names["wards"]().metadata == {"groups": 6}
    require_report(stage)


def test_the_module_names_the_stacks_parameters_and_outputs() -> None:
    found = recipes.files("hcl")
    text = TEMPLATE.read_text()
    sections = dict(re.findall(r"^(\w+):\n(.*?)(?=^\S|\Z)", text, re.MULTILINE | re.DOTALL))
    parameters, outputs = (
        set(re.findall(r"^  (\w+):$", sections[name], re.MULTILINE)) for name in ("Parameters", "Outputs")
    )
    (given,) = re.findall(r"parameters = \{ (.*) \}", found["main.tf"])
    assert set(re.findall(r"(\w+) = ", given)) <= parameters
    named = set(re.findall(r'outputs\["(\w+)"\]', found["cleave/main.tf"]))
    assert {"Endpoint", "SensitiveBucket"} <= named <= outputs
    defaults = re.findall(r"^    Default:", sections["Parameters"], re.MULTILINE)
    assert len(defaults) == len(parameters), "the page says that all have defaults"
