from __future__ import annotations

import pytest

_RATIOS = pytest.StashKey[list[float]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_RATIOS] = []


@pytest.fixture
def oracle_ratios(request: pytest.FixtureRequest) -> list[float]:
    """Bound over error of every inexact answer compared, for the summary."""
    return request.config.stash[_RATIOS]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    ratios = sorted(config.stash[_RATIOS])
    if ratios:
        terminalreporter.write_line(
            f"oracle: {len(ratios)} inexact answers, bound / error: least {ratios[0]:.2f}, "
            f"median {ratios[len(ratios) // 2]:.1f}, 90th percentile {ratios[len(ratios) * 9 // 10]:.0f}"
        )
