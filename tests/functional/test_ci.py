"""`.ci/run` runs every step, whatever failed before it, and names the failed ones at the end."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from aws.build import local_python

ROOT = Path(__file__).parents[2]
# Stands for make and every program that a step looks for. As make, it fails for the targets in FAIL.
PROGRAM = """#!/bin/bash
[ "${0##*/}" = make ] || exit 0
target=${*: -1}
echo "target $target"
case $target in test* | deploy* ) echo "7 passed in ${#target}.0s" ;; esac
case " $FAIL " in *" $target "*) exit 2 ;; esac
"""


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("fail", "named"),
    [
        ("check test-slow", "check slow"),
        ("", None),
        ("test", "test"),
        ("build test-sam", "build sam"),
        ("deploy-local", "deploy"),
    ],
)
def test_every_step_runs_and_failed_ones_are_named(tmp_path: Path, fail: str, named: str | None) -> None:
    deploy = ["deploy-local"] if local_python() else []  # a banner stands for it where there is no Python 3.13
    if named == "deploy" and not deploy:
        pytest.skip("there is no Python 3.13")
    clients = ("psql", "odbcinst", "javac", "mvn", "node", "npm", "go")
    for name in ("make", "dockerd", "docker", "debootstrap", "chromium", *clients):
        program = tmp_path / name
        program.write_text(PROGRAM)
        program.chmod(0o755)
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "FAIL": fail}
    done = subprocess.run(
        [ROOT / ".ci" / "run"], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    lines = done.stdout.splitlines()
    steps = ["check", "test", "test-slow", "lambda-image", "validate", "build", "test-sam", "test-clients", *deploy]
    assert [line.split()[1] for line in lines if line.startswith("target ")] == steps
    assert done.returncode == (1 if named else 0)
    closing = [f"7 passed in {len(each)}.0s" for each in ("test-sam", *deploy, "test-clients", "test-slow", "test")]
    last = lines[-len(closing) - 1 :]
    assert last == [f"FAILED: {named}" if named else last[0], *closing]
    assert ("FAILED" in done.stdout) == bool(named)
