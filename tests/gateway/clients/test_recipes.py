"""docs/recipes.md with the tools that it names, in environments of their own: recipes.txt has Cleave's needs too."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from io import StringIO
from pathlib import Path
from typing import Any

import duckdb
import pytest

from aws.translate import TEMPLATE
from cleave.logins.users import write_user
from tests import recipes
from tests.gateway.conftest import PASSWORD, started, stop
from tests.samples import copy_patients

pytestmark = pytest.mark.clients

ROOT = Path(__file__).parents[3]
HERE = Path(__file__).parent
DAY = "2026-01-02"
SUMS = "SELECT ward, count(*) AS stays, sum(age) AS age FROM {} GROUP BY ward ORDER BY ward"


def environment(folder: Path, lock: str) -> Path:
    """The Python of a new environment with the packages of a lock file."""
    uv = Path(sys.executable).with_name("uv")
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, folder], check=True)
    python = folder / "bin" / "python"
    install = [uv, "pip", "install", "--quiet", "--python", python, "--require-hashes", "-r", HERE / lock]
    subprocess.run(install, check=True)
    return python


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of an environment with Cleave and the tools that use it from Python."""
    made = environment(tmp_path_factory.mktemp("recipes") / "env", "recipes.txt")
    say = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = subprocess.run([made, "-c", say], capture_output=True, text=True, check=True).stdout.strip()
    paths = "".join(f"{ROOT / name}\n" for name in ("client", "shared", "functions"))
    (Path(site) / "cleave-checkout.pth").write_text(paths)
    return made


class Stage:
    """A folder after the page's first commands: key, store, the stored table `trial`, and a day's feed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        copy_patients(folder)
        for name in ("reports", "feed"):
            (folder / name).mkdir()
        (folder / "feed" / f"{DAY}.csv").write_bytes((folder / "patients.csv").read_bytes())
        self.run("bash", "-euc", recipes.commands("# Recipes"))

    def run(self, *command: object, **more: str) -> str:
        own = {
            "PATH": f"{sysconfig.get_path('scripts')}:{os.environ['PATH']}",
            "HOME": str(self.folder),
            "XDG_STATE_HOME": str(self.folder / "state"),
            "CLEAVE_KEY": str(self.folder / "key.json"),
            "CLEAVE_STORE": str(self.folder / "store"),
        }
        words = [str(each) for each in command]
        done = subprocess.run(
            words,
            cwd=self.folder,
            env=os.environ | own | more,
            capture_output=True,
            text=True,
            check=False,
            timeout=900,
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
        return done.stdout

    def write(self, path: str, **changes: object) -> Path:
        return recipes.write(self.folder, recipes.files()[path], path, changes)

    def stored(self, sql: str) -> Any:
        answer = self.run("cleave", "query", "--json", sql)
        return [tuple(row) for row in json.loads(answer)["rows"]]

    def truth(self, sql: str) -> list[tuple[Any, ...]]:
        return duckdb.execute(sql.replace("patients", f"'{self.folder / 'patients.csv'}'")).fetchall()

    def require_report(self) -> None:
        with (self.folder / "reports" / "wards.csv").open(newline="") as file:
            _, *rows = csv.reader(file)
        expected = self.truth(recipes.BY_WARD)
        assert [ward for ward, _ in sorted(rows)] == [ward for ward, _ in expected]
        assert [float(bill) for _, bill in sorted(rows)] == pytest.approx([bill for _, bill in expected], rel=1e-12)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


LAKES = """
import pyarrow.csv
from deltalake import write_deltalake
from pyiceberg.catalog import load_catalog

rows = pyarrow.csv.read_csv("patients.csv")
write_deltalake("lake/patients", rows)
catalog = load_catalog("lake")
catalog.create_namespace("west")
catalog.create_table("west.patients", rows.schema).append(rows)
"""

MORE = """
import cleave
from deltalake import DeltaTable

rows = DeltaTable("lake/patients").to_pyarrow_table(columns=["ward", "admitted", "age", "bill"])
cleave.append(rows.slice(0, 1), "visits")
"""


def test_delta_and_iceberg_tables(stage: Stage, python: Path) -> None:
    catalog = {"TYPE": "sql", "URI": f"sqlite:///{stage.folder}/lake.db", "WAREHOUSE": stage.folder.as_uri()}
    own = {f"PYICEBERG_CATALOG__LAKE__{name}": value for name, value in catalog.items()}
    stage.run(python, "-c", LAKES, **own)
    assert stage.run(python, stage.write("delta.py")) == "600\n"
    assert stage.stored(SUMS.format("visits")) == stage.truth(SUMS.format("patients"))
    (day,) = re.findall(r'day = "(.+)"', recipes.files()["iceberg.py"])
    every = f"(FROM patients UNION ALL BY NAME FROM patients WHERE admitted = '{day}')"
    ((count,),) = stage.truth(f"SELECT count(*) FROM {every}")
    assert count > 600
    assert stage.run(python, stage.write("iceberg.py"), **own) == f"{count}\n"
    assert stage.stored(SUMS.format("visits")) == stage.truth(SUMS.format(every))
    stage.run(python, "-c", MORE)
    assert stage.run(python, stage.write("iceberg.py"), **own) == f"{count + 1}\n", "the day is in the table"


def test_spark_and_polars(stage: Stage, python: Path) -> None:
    told = stage.run(python, stage.write("frames.py"), SPARK_LOCAL_IP="127.0.0.1", POLARS_FMT_MAX_COLS="-1")
    frame, _, table = told.partition(",ward\n")
    assert all(ward in frame for ward, *_ in stage.truth(recipes.BY_WARD))
    large = stage.truth("SELECT ward FROM patients GROUP BY ward HAVING count(*) > 100 ORDER BY ward")
    assert [tuple(row[1:]) for row in csv.reader(StringIO(table)) if row] == large


def test_airflow(stage: Stage, python: Path) -> None:
    path = stage.write("dags/trial.py")
    own = {"AIRFLOW_HOME": str(stage.folder), "AIRFLOW__CORE__DAGS_FOLDER": str(path.parent)}
    own |= {"AIRFLOW__CORE__LOAD_EXAMPLES": "False", "NO_PROXY": "*"}
    airflow = python.with_name("airflow")
    stage.run(airflow, "db", "migrate", **own)
    stage.run(airflow, "dags", "test", "trial", DAY, **own)
    assert stage.stored("SELECT COUNT(*) FROM trial") == [(1200,)]
    stage.require_report()


def test_dagster(stage: Stage, python: Path) -> None:
    stage.write("assets.py")
    run = f"import assets, dagster as dg; dg.materialize([assets.trial, assets.wards], partition_key={DAY!r})"
    stage.run(python, "-c", run, DAGSTER_HOME=str(stage.folder), DAGSTER_DISABLE_TELEMETRY="1")
    assert stage.stored("SELECT COUNT(*) FROM trial") == [(1200,)]
    stage.require_report()


def test_a_backfill_of_dagster_loads_its_days_at_once(stage: Stage, python: Path) -> None:
    """Twelve runs, four at a time: none is in another's way, and a second backfill adds nothing."""
    stage.write("assets.py")
    days = [f"2026-01-{day:02}" for day in range(1, 13)]
    for day in days:
        shutil.copy(stage.folder / "patients.csv", stage.folder / "feed" / f"{day}.csv")
    run = (
        "import assets, sys, dagster as dg; [dg.materialize([assets.trial], partition_key=day) for day in sys.argv[1:]]"
    )

    def load(some: list[str]) -> None:
        stage.run(python, "-c", run, *some, DAGSTER_DISABLE_TELEMETRY="1")

    every = " UNION ALL BY NAME ".join(["FROM patients"] * (1 + len(days)))
    for _ in range(2):
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(load, [days[start::4] for start in range(4)]))
        assert stage.stored(SUMS.format("trial")) == stage.truth(SUMS.format(f"({every})"))


@pytest.fixture
def gateway_port(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    told = {"tables": ["trial"], "min_group": 0, "rows": True, "token": False}
    write_user(stage.folder / "users.toml", "dbt", PASSWORD.encode(), **told)
    monkeypatch.setenv("XDG_STATE_HOME", str(stage.folder / "state"))
    process, (address,) = started(stage.folder)
    yield int(address.rpartition(":")[2])
    stop(process)


def test_dbt(stage: Stage, gateway_port: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    dbt = environment(tmp_path_factory.mktemp("dbt") / "env", "dbt.txt").parent
    here = {
        "gateway.example": "127.0.0.1",
        "port: 5432": f"port: {gateway_port}",
        "sslmode: require": "sslmode: disable",
    }
    for path in recipes.files("yaml", "sql"):
        stage.write(path, **(here if path == "profiles.yml" else {}))
    own = {"PGPASSWORD": PASSWORD, "PATH": f"{dbt}:{os.environ['PATH']}", "DBT_SEND_ANONYMOUS_USAGE_STATS": "false"}
    own |= {"DBT_USE_COLORS": "false"}
    told = stage.run("bash", "-euc", recipes.commands("dbt"), **own)
    assert "PASS=2 WARN=0 ERROR=0" in told
    shown = json.loads(told[told.index('{\n  "node"') :])["show"]
    rows = stage.truth("SELECT ward, count(*), avg(bill) FROM patients GROUP BY ward ORDER BY ward")
    for row, (ward, stays, bill) in zip(sorted(shown, key=lambda row: row["ward"]), rows, strict=True):
        assert (row["ward"], row["stays"]) == (ward, stays)
        assert row["bill"] == pytest.approx(bill, rel=1e-12)


@pytest.mark.skipif(not shutil.which("terraform"), reason="needs Terraform, which no registry has")
def test_terraform(tmp_path: Path, python: Path) -> None:
    for path, text in recipes.files("hcl").items():
        recipes.write(tmp_path, text, path)
    shutil.copy(TEMPLATE, tmp_path / "cleave" / "packaged.yaml")
    provider = tmp_path / "provider" / "terraform-provider-aws"
    provider.parent.mkdir()
    provider.write_text(f"#!{python}\n" + (HERE / "others" / "terraform_aws.py").read_text())
    provider.chmod(0o755)
    settings = tmp_path / "terraform.rc"
    overrides = f'dev_overrides {{ "hashicorp/aws" = "{provider.parent}" }}'
    settings.write_text(f"provider_installation {{\n  {overrides}\n  direct {{}}\n}}\n")
    own = os.environ | {"TF_CLI_CONFIG_FILE": str(settings), "CHECKPOINT_DISABLE": "1", "HOME": str(tmp_path)}

    def terraform(*words: str) -> str:
        command = ["terraform", f"-chdir={tmp_path}", *words]
        done = subprocess.run(command, env=own, capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    terraform("get")
    assert json.loads(terraform("validate", "-json"))["valid"]
    terraform("fmt", "-check", "-recursive")
    planned = terraform("plan", "-input=false", "-no-color")
    assert "# module.cleave.aws_cloudformation_stack.cleave will be created" in planned
    assert '"OldVersionDays" = "90"' in planned
