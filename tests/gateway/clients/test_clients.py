"""Clients in other languages are told DuckDB's truth. They are fetched from their registries."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from pathlib import Path

import pytest

from tests.gateway.conftest import PASSWORD, Gateway

pytestmark = pytest.mark.clients

HERE = Path(__file__).parent
DRIVER = "org.mariadb.jdbc:mariadb-java-client:3.5.6"
DRIVER_HASH = "a129703efd7b0f334564d46753de999f09b3a361489a2eb647e6020390981cc9"
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"
QUERY = "SELECT * FROM visits ORDER BY id LIMIT 60"
PREPARED = (
    "SELECT id, ward, day, seen, bill, level, insured, big, name FROM visits "
    "WHERE id > ? AND ward <> ? AND bill > ? ORDER BY id LIMIT 60"
)
BOUND = (7, "A' \\", Decimal("12.5"))
Ran = Callable[..., str]


@pytest.fixture
def run(gateway: Gateway, tmp_path: Path) -> Ran:
    def ran(*command: object, folder: Path = HERE) -> str:
        told = {"PORT": str(gateway.port), "PASSWORD": PASSWORD, "QUERY": QUERY, "PREPARED": PREPARED}
        told["XDG_CONFIG_HOME"] = str(tmp_path)  # Go keeps counters there
        done = subprocess.run(
            [shutil.which(str(command[0])) or str(command[0]), *map(str, command[1:])],
            cwd=folder,
            env=os.environ | told,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return ran


def plain(value: object) -> object:
    """A cell as every driver has it: numbers compared as such, texts and dates as texts."""
    if value is None or isinstance(value, bool):
        return value if value is None else Decimal(int(value))
    text = str(value)
    try:
        return Decimal(text)
    except InvalidOperation:
        return re.sub(r"^([\d: -]+)\.0+$", r"\1", re.sub(r"^([\d: -]+\.\d*?[1-9])0+$", r"\1", text))


def alike(rows: list[list[object]] | list[tuple[object, ...]]) -> list[list[object]]:
    return [[plain(each) for each in row] for row in rows]


def check(gateway: Gateway, told: dict[str, list[list[object]]]) -> None:
    assert alike(told["query"]) == alike(gateway.truth.execute(QUERY).fetchall())
    truth = gateway.truth.execute(PREPARED, BOUND).fetchall()
    assert len(truth) == 60
    assert alike(told["prepared"]) == alike(truth)


def test_mariadbs_client(gateway: Gateway, run: Ran) -> None:
    shown = run("mariadb", "-h127.0.0.1", f"-P{gateway.port}", "-uowner", f"-p{PASSWORD}", "-BN", "-e", QUERY, "cleave")
    escaped = {"\\\\": "\\", "\\t": "\t", "\\n": "\n"}
    rows: list[list[object]] = [
        [None if each == "NULL" else re.sub(r"\\[\\tn]", lambda m: escaped[m[0]], each) for each in line.split("\t")]
        for line in shown.splitlines()
    ]
    assert alike(rows) == alike(gateway.truth.execute(QUERY).fetchall())


def test_node(gateway: Gateway, run: Ran, tmp_path: Path) -> None:
    for name in (".npmrc", "package.json", "package-lock.json", "rows.js"):
        shutil.copy(HERE / name, tmp_path)
    run("npm", "ci", folder=tmp_path)
    check(gateway, json.loads(run("node", "rows.js", folder=tmp_path)))


def test_go(gateway: Gateway, run: Ran, tmp_path: Path) -> None:
    run("go", "build", "-mod=readonly", "-o", tmp_path / "rows", "rows.go")
    check(gateway, json.loads(run(tmp_path / "rows")))


def test_java(gateway: Gateway, run: Ran, tmp_path: Path) -> None:
    run("mvn", "-B", "-q", COPY, f"-Dartifact={DRIVER}", f"-DoutputDirectory={tmp_path}")
    (driver,) = tmp_path.glob("*.jar")
    assert hashlib.sha256(driver.read_bytes()).hexdigest() == DRIVER_HASH
    run("javac", "-d", tmp_path, "Rows.java")
    visits = gateway.truth.execute("DESCRIBE visits").fetchall()
    # texts parsed by the driver, prepared by the gateway
    for options in ("sslMode=trust", "sslMode=trust&useServerPrepStmts=true"):
        told = json.loads(run("java", "-cp", f"{driver}:{tmp_path}", "Rows", options))
        check(gateway, told)
        assert told["tables"] == [["cleave", "visits", "TABLE"], ["cleave", "wards", "TABLE"]]
        assert [each[0] for each in told["columns"]] == [each[0] for each in visits]
        kinds = {name: (kind, scale) for name, kind, scale, _ in told["columns"]}
        assert kinds["bill"] == ("3", "2")  # java.sql.Types.DECIMAL
        assert kinds["day"] == ("91", None)
        assert kinds["big"][0] == "-5"
        assert told["keys"] == told["imported"] == told["indexes"] == []
        assert ["cleave"] in told["catalogs"]
