"""`--budgets`: print the processor seconds of each folder's tests beside the folder's budget in tests/README.md."""

from __future__ import annotations

import re
import resource
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

_ROW = re.compile(r"^\| `((?:tests|benchmarks)/\w+)` \|.*\| (\d+) \| (\d+) \|$", re.MULTILINE)


def budgets() -> dict[str, tuple[int, int]]:
    """Processor seconds by folder: of the quick tests, and of all tests."""
    text = Path(__file__).with_name("README.md").read_text(encoding="utf-8")
    return {folder: (int(quick), int(every)) for folder, quick, every in _ROW.findall(text)}


def used() -> float:
    """Processor seconds of this process and of the children that it has waited for."""
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


class Budgets:
    """Counts in each of xdist's workers, and prints in the process that has the terminal."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        before = used()
        try:
            return (yield)
        finally:
            self.seconds["/".join(item.nodeid.split("/")[:2])] += used() - before  # type: ignore[assignment]

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput["seconds"] = dict(self.seconds)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self.seconds.update(getattr(node, "workeroutput", {}).get("seconds", {}))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        stated = budgets()
        terminalreporter.write_line("processor seconds (budget of quick tests, of all):")
        for folder, seconds in self.seconds.most_common():
            quick, every = stated.get(folder, (0, 0))
            terminalreporter.write_line(f"  {folder}: {seconds:.0f} ({quick}, {every})")
        terminalreporter.write_line(f"  all: {sum(self.seconds.values()):.0f}")
