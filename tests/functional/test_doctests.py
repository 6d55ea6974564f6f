"""The examples of the public modules and of docs/python.md, run over the sample under a throw-away key."""

from __future__ import annotations

import doctest
import inspect
import re
import shlex
from importlib import import_module
from pathlib import Path

import pytest

from cleave.names import HOMES
from tests.cli.runner import Cli
from tests.samples import copy_patients

ROOT = Path(__file__).parents[2]
PUBLIC = ["cleave", *sorted(home for home in {*HOMES.values()} if home.startswith("cleave."))]
PRIVATE = ["cleave.sql.parameters"]
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.IGNORE_EXCEPTION_DETAIL


@pytest.fixture(autouse=True)
def beside_the_sample(key_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy_patients(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("CLEAVE_KEY", str(key_file))
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", PUBLIC + PRIVATE)
def test_examples_of_a_module(name: str) -> None:
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    for each in examples(name):
        runner.run(each)
    assert not runner.failures


def test_examples_are_there() -> None:
    with_examples = [name for name in PUBLIC if any(each.examples for each in examples(name))]
    assert {"cleave", "cleave.api.ask", "cleave.api.connection", "cleave.maintain.changes"} <= set(with_examples)


class Finder(doctest.DocTestFinder):
    """Finds the examples of a decorated function where the function is defined."""

    def _from_module(self, module, object):  # noqa: A002 - doctest's signature
        return super()._from_module(module, inspect.unwrap(object) if inspect.isfunction(object) else object)


def examples(name: str) -> list[doctest.DocTest]:
    return Finder().find(import_module(name))


def test_the_page_on_python() -> None:
    failed, tried = doctest.testfile(str(ROOT / "docs" / "python.md"), module_relative=False, optionflags=FLAGS)
    assert tried > 10
    assert not failed


def test_the_page_on_models() -> None:
    page = ROOT / "docs" / "models.md"
    failed, tried = doctest.testfile(str(page), module_relative=False, optionflags=FLAGS)
    assert tried > 5
    assert not failed
    commands = [line for block in re.findall(r"```sh\n(.*?)```", page.read_text(), re.S) for line in block.splitlines()]
    assert {shlex.split(command)[1] for command in commands} == {"fit", "pca", "schema", "survival"}
    for command in commands:
        assert Cli().run(*shlex.split(command)[1:]).exit_code == 0, command
    assert "Log-rank: chi-square 17.01" in Path("curves.html").read_text()
