"""Products that docs name can be installed beside Cleave; `cleave://` works with every SQLAlchemy 2."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.clients

ROOT = Path(__file__).parents[3]
UV = Path(sys.executable).with_name("uv")
PRODUCTS = {"pandas": ["pandas"], "polars": ["polars", "connectorx"], "JupySQL": ["jupysql"]}


def resolved(*packages: str) -> subprocess.CompletedProcess[str]:
    """An attempt to find versions of `packages` and of Cleave with its extra for SQLAlchemy that fit."""
    command = [
        UV,
        "pip",
        "compile",
        "--quiet",
        "--python-version",
        "3.11",
        ROOT / "pyproject.toml",
        "--extra",
        "sqlalchemy",
        "-",
    ]
    return subprocess.run(command, input="\n".join(packages), capture_output=True, text=True, check=False, cwd=ROOT)


def test_docs_name_those_products() -> None:
    said = (ROOT / "docs" / "gateway.md").read_text().replace("\n", " ")
    (names,) = re.findall(r"'\.\[sqlalchemy\]'`\) serves (.+?)\.", said)
    assert re.split(r", | and ", names) == list(PRODUCTS)


@pytest.mark.parametrize("name", PRODUCTS)
def test_a_product_is_found_beside_cleave(name: str) -> None:
    done = resolved(*PRODUCTS[name])
    assert done.returncode == 0, done.stderr
    assert "sqlalchemy==2." in done.stdout


def test_superset_is_not() -> None:
    """As docs say: it needs SQLAlchemy 1.4."""
    done = resolved("apache-superset==6.1.0")
    assert done.returncode != 0
    assert "unsatisfiable" in done.stderr


def with_alchemy(version: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """The tests of `cleave://` with that SQLAlchemy."""
    subprocess.run([UV, "pip", "install", "--quiet", "--target", folder, f"sqlalchemy=={version}"], check=True)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/gateway/test_alchemy.py"]
    environment = os.environ | {"PYTHONPATH": str(folder)}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def test_sqlalchemy_2_0(tmp_path: Path) -> None:
    done = with_alchemy("2.0.*", tmp_path)
    assert done.returncode == 0, done.stdout[-2000:]


def test_sqlalchemy_1_is_refused_in_a_sentence(tmp_path: Path) -> None:
    done = with_alchemy("1.4.*", tmp_path)
    assert done.returncode != 0
    assert "cleave:// needs SQLAlchemy 2, and 1.4" in done.stdout
