"""Markdown tables of medians, and the machine they were taken on."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """The first column to the left, figures to the right."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def figure(value: float) -> str:
    """Three significant digits, never in powers of ten."""
    if value == 0:
        return "0"
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.{1 if value >= 10 else 2 if value >= 1 else 3}f}"


def spread(values: Sequence[float]) -> str:
    """The median, least and most."""
    return f"{figure(statistics.median(values))} ({figure(min(values))}-{figure(max(values))})"


def machine() -> str:
    names = [
        line.split(":", 1)[1].strip()
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        if line.startswith("model name")
    ]
    cores = len(os.sched_getaffinity(0))
    return f"{names[0] if names else platform.machine()}, {cores} cores, load {os.getloadavg()[0]:.1f}"
