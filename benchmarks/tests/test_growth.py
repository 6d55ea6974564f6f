"""The table of repeated segments opens, and answers as many segments of the same rows would."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import growth
from cleave.local.embedded import prepare_embedded
from cleave.store import lanes
from cleave.store.manifest import WINDOW
from cleave.sums import totals


def test_repeated_segments_answer_as_copies_of_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than one window of them; the table grows twice."""
    monkeypatch.setitem(vars(totals), "total_label", lanes.total_label)  # and back
    prepare_embedded()
    world, segments = growth.World(tmp_path), WINDOW + 6
    world.put()
    world.grow(3)
    world.grow(segments)
    for work in ("open", "query from totals", "query of one day's rows"):
        found = growth._measured(tmp_path, work, segments)
        assert found["requests"] >= 2
        assert found["read"] > 0
