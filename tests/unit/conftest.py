"""Figures that unit tests print in the summary."""

from __future__ import annotations

import pytest

_FIGURES = pytest.StashKey[list[str]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_FIGURES] = []


@pytest.fixture
def printed_figures(request: pytest.FixtureRequest) -> list[str]:
    return request.config.stash[_FIGURES]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for line in config.stash[_FIGURES]:
        terminalreporter.write_line(line)
