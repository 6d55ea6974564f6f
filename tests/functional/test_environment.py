"""Tests read and change nothing of the user who runs them; importing Cleave reads nothing of the environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Imports every module of three packages and prints what code of theirs read while it was imported.
READERS = """
import importlib, json, os, pathlib, pkgutil, posixpath, sys

root, found = sys.argv[1], set()

def note():
    frame = sys._getframe(2)
    while frame and ("/lib/python3" in frame.f_code.co_filename or frame.f_code.co_filename.startswith("<frozen")):
        if "site-packages" in frame.f_code.co_filename:
            return
        frame = frame.f_back
    if frame and frame.f_code.co_filename.startswith(root):
        found.add((frame.f_globals["__name__"], frame.f_code.co_name))

def noted(function):
    def call(*arguments, **named):
        note()
        return function(*arguments, **named)
    return call

for name in ("__getitem__", "__iter__", "__contains__", "get", "items", "keys"):
    setattr(type(os.environ), name, noted(getattr(type(os.environ), name)))
posixpath.expanduser = noted(posixpath.expanduser)
for package in ("cleave", "cleave_services", "cleave_shared"):
    for each in pkgutil.walk_packages(importlib.import_module(package).__path__, package + "."):
        importlib.import_module(each.name)
print(json.dumps(sorted(found)))
"""
# Lambda starts a process for its function, whose environment never changes.
ON_LAMBDA = [["cleave_services.http", "lambda_handler"]]


def test_no_module_reads_the_environment_while_it_is_imported() -> None:
    done = subprocess.run(
        [sys.executable, "-c", READERS, str(ROOT)], capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == ON_LAMBDA


# Tests that ask, that look the home directory up, and that store settings.
SOME = (
    "tests/cli/test_formats.py::test_an_answer_without_rows_has_its_header_alone",
    "tests/cli/test_key.py::test_the_home_directory_is_looked_up_only_when_it_is_needed",
    "tests/cli/test_config.py::test_settings_are_shown_and_changed",
)


@pytest.mark.slow  # quick: `no_settings_remain` of tests/conftest.py, after every test
def test_tests_neither_read_nor_change_settings_of_the_user(tmp_path: Path) -> None:
    """In a session of their own: in this one the variables are those of the tests."""
    places = {"HOME": tmp_path, "XDG_CONFIG_HOME": tmp_path / "xdg"}
    for folder in (tmp_path / ".config", places["XDG_CONFIG_HOME"]):
        settings = folder / "cleave" / "config.toml"
        settings.parent.mkdir(parents=True)
        settings.write_text('endpoint = "http://127.0.0.1:9"\nuser = "a developer"\n')
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    unusable = {"CLEAVE_STORE": "/nowhere", "CLEAVE_KEY": "/nowhere", "AWS_PROFILE": "nobody"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *SOME],
        cwd=ROOT,
        env=os.environ | unusable | {name: str(place) for name, place in places.items()},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
