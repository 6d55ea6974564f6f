"""`cleave` and `cleave serve` in the image that `make image` builds: no network, no root, a folder of the user's."""

from __future__ import annotations

import os
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.functional.processes import met
from tests.samples import copy_patients

pytestmark = [pytest.mark.sam, pytest.mark.usefixtures("containers")]

IMAGE = os.environ.get("CONTAINER", "cleave")
SQL = "SELECT ward, AVG(age), SUM(bill) FROM patients GROUP BY ward"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    copy_patients(tmp_path)
    (tmp_path / "json.py").write_text("raise SystemExit('imported from the folder')")
    return tmp_path


def run(folder: Path, *words: str) -> str:
    """As whoever runs the tests, who owns the folder."""
    owner = f"{os.getuid()}:{os.getgid()}"
    options = ["--rm", "--network", "none", "--read-only", "--user", owner, "-v", f"{folder}:/data"]
    options += ["--tmpfs", "/tmp"]  # noqa: S108 - the container's own
    ran = subprocess.run(["docker", "run", *options, IMAGE, *words], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_a_question_is_answered_in_a_container(folder: Path) -> None:
    run(folder, "key", "new", "--no-passphrase", "--key", "key.json")
    assert "241860.45 exact" in run(folder, "query", "patients.csv", SQL, "--key", "key.json", "--report", "r.html")
    assert (folder / "r.html").stat().st_uid == os.getuid()
    run(folder, "put", "patients.csv", "--table", "visits", "--store", "store", "--key", "key.json", "--by", "ward")
    counted = run(folder, "query", "SELECT COUNT(*) FROM visits", "--store", "store", "--key", "key.json")
    assert "600" in counted


@pytest.fixture
def served() -> Iterator[str]:
    name = f"cleave-test-{uuid.uuid4().hex}"
    published = ["--detach", "--rm", "--name", name, "--publish", "127.0.0.1::8000"]
    subprocess.run(["docker", "run", *published, IMAGE, "serve", "--host", "0.0.0.0"], check=True)  # noqa: S104 - within the container
    try:
        port = subprocess.run(["docker", "port", name, "8000"], capture_output=True, text=True, check=True).stdout
        yield f"http://{port.split()[0]}"
    finally:
        subprocess.run(["docker", "rm", "--force", name], check=True, capture_output=True)


def test_the_services_answer_from_a_container(served: str) -> None:
    def health() -> bool:
        try:
            return httpx.get(f"{served}/plain/v1/health").status_code == 200
        except httpx.TransportError:
            return False

    assert met(health)
    assert httpx.get(f"{served}/sensitive/v1/health").json()["service"] == "cleave-sensitive"
