"""One Chromium for all pages; where there is none, the tests that need it say so where nobody can miss it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.runner import cli
from tests.report.chromium import PROGRAM, Browser, Page, browsing

__all__ = ["cli"]

ARTEFACTS = Path(__file__).parents[2] / "artefacts" / "report"
MISSING = "NO CHROMIUM ON THIS MACHINE: WHAT PAGES DRAW AND DO WAS NOT TESTED (Debian: apt-get install chromium)"


@pytest.fixture(scope="session")
def browser(printed_figures: list[str]) -> Iterator[Browser]:
    if PROGRAM is None:
        printed_figures.append(f"!!! {MISSING}")
        pytest.skip(MISSING)
    with browsing() as found:
        yield found


@pytest.fixture
def tab(browser: Browser) -> Iterator[Page]:
    page = browser.page()
    yield page
    page.send("Page.close")


@pytest.fixture(scope="session")
def artefacts() -> Path:
    """Pictures of pages, for people to look at; git ignores the folder."""
    ARTEFACTS.mkdir(parents=True, exist_ok=True)
    return ARTEFACTS
