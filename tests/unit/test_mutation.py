"""What `make mutants` works from is about code and tests that exist. The mutants themselves are tried there."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

from tests.mutation.survivors import justifications, targets

ROOT = Path(__file__).parents[2]
SOURCES = ("client", "shared", "functions")


def test_targets_name_modules_and_tests_that_exist() -> None:
    modules = [module for target in targets().values() for module in target.modules]
    assert len(modules) == len(set(modules))
    for module in modules:
        assert [root for root in SOURCES if (ROOT / root / module).is_file()], module
    for target in targets().values():
        for test in target.tests:
            assert (ROOT / test).is_file(), test


def test_every_justification_is_of_code_that_exists() -> None:
    """A function or a line that is gone, or no longer mutated, needs none."""
    mutated = {module for target in targets().values() for module in target.modules}
    for change, reason in justifications().items():
        assert len(reason.split()) > 3, change
        assert change.was != change.becomes
        assert change.module in mutated, change
        module, _, name = change.function.partition(":")
        found: object = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
        assert _packed(change.was) in _packed(inspect.getsource(inspect.unwrap(found))), change  # type: ignore[arg-type]


def _packed(code: str) -> str:
    return re.sub(r"\s+", "", code)
