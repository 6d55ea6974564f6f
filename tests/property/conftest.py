from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.oracle import Cell


@dataclass
class Tally:
    """What the oracle has seen, for the summary: how many cells, how many wrong, and how tight the bounds are."""

    cells: int = 0
    exact: int = 0
    violations: int = 0
    unknown: int = 0
    of_value: list[float] = field(default_factory=list)  # bound / |exact value|
    of_error: list[float] = field(default_factory=list)  # bound / error

    def count(self, cell: Cell, value: Any, bound: float | None, exact: bool | None, wrong: bool) -> None:
        self.cells += 1
        self.violations += wrong
        if exact or value is None or cell.truth is None:
            self.exact += 1
            return
        if bound is None or not math.isfinite(bound):
            self.unknown += 1
            return
        size, error = abs(float(cell.truth.mid())), float(cell.error(value).mid())
        if size:
            self.of_value.append(bound / size)
        if error:
            self.of_error.append(bound / error)


_TALLY = pytest.StashKey[Tally]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_TALLY] = Tally()


@pytest.fixture
def tally(request: pytest.FixtureRequest) -> Tally:
    return request.config.stash[_TALLY]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    tally = config.stash[_TALLY]
    if not tally.cells:
        return
    terminalreporter.write_line(
        f"oracle: {tally.cells} cells, {tally.violations} violations; {tally.exact} exact or NULL, "
        f"{tally.unknown} without a bound"
    )
    for label, ratios in (("bound / |value|", sorted(tally.of_value)), ("bound / error", sorted(tally.of_error))):
        if ratios:
            median, most = ratios[len(ratios) // 2], ratios[len(ratios) * 9 // 10]
            terminalreporter.write_line(
                f"  {label} of {len(ratios)}: least {ratios[0]:.3g}, median {median:.3g}, 90th percentile {most:.3g}"
            )
