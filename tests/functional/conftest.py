"""Fixtures of the functional tier."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave schemathesis out of `make test`: it makes its cases while it is collected, for 4 s in each process."""
    return True if collection_path.stem == "test_schemathesis" and "not slow" in config.option.markexpr else None


@pytest.fixture
def lines() -> Iterator[list[str]]:
    """Everything any logger says, as text with its traceback, from DEBUG on."""
    collected: list[str] = []

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            collected.append(logging.Formatter().format(record))

    collector = Collector()
    root, service = logging.getLogger(), logging.getLogger("cleave.service")
    state = root.level, service.level, service.handlers, service.propagate
    root.addHandler(collector)
    service.handlers, service.propagate = [collector], False
    root.setLevel(logging.DEBUG)
    service.setLevel(logging.DEBUG)
    yield collected
    root.removeHandler(collector)
    root.level, service.level, service.handlers, service.propagate = state
