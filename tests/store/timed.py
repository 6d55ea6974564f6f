"""Timings that make the planner choose as a test needs it, whatever the machine."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cleave.model import cache
from cleave.model.operations import Operation
from cleave.model.timings import SHIPPED


def take(monkeypatch: pytest.MonkeyPatch, seconds: dict[Operation, float]) -> None:
    """Operations take so long from now on, and others what they take on the machine that shipped ones are from."""
    monkeypatch.setattr(cache, "current", lambda: replace(SHIPPED, seconds={**SHIPPED.seconds, **seconds}))


def prefer(monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """`way`: totals, rows or scan."""
    dear = {"totals": Operation.TOTALS, "rows": Operation.FETCH, "scan": Operation.SELECT}
    take(monkeypatch, {operation: 100.0 for name, operation in dear.items() if name != way})
