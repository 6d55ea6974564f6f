"""`make bench-ring` measures what services do."""

from __future__ import annotations

import pytest

from benchmarks.ring import measured
from cleave_shared.params import SUM60_PACK


def test_results_are_packed_as_they_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.ring.RUNS", 1)
    line = measured(SUM60_PACK, 2)
    assert line.results == 3
    assert line.answer < line.apart
