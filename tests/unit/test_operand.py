"""Columns of floats are centred a part at a time, as if it were at once."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from cleave.aggregates import operand as module
from cleave.aggregates.columns import Domain, Values
from cleave.aggregates.operand import operand


@pytest.mark.parametrize("nulls", [None, 3, 2])
def test_a_column_is_centred_alike_however_many_rows_at_once(
    monkeypatch: pytest.MonkeyPatch, nulls: int | None
) -> None:
    values = np.random.default_rng(4).normal(1e6, 1e3, 50)
    present = None if nulls is None else np.arange(50) % nulls > 0
    whole = operand("x", Domain(None), Values(values, None), present)
    monkeypatch.setattr(module, "_TOGETHER", 7)
    parts = operand("x", Domain(None), Values(values, None), present)
    assert (parts.lost, parts.spread, parts.centre) == (whole.lost, whole.spread, whole.centre)
    assert np.array_equal(parts.distance, whole.distance)
    kept = range(50) if present is None else np.flatnonzero(present)
    lost = [abs(Fraction(values[row]) - whole.centre - Fraction(whole.distance[row])) for row in kept]
    assert max(lost) == whole.lost
    assert max(abs(whole.distance[row]) for row in kept) == whole.spread


def test_a_column_without_rows_has_no_spread() -> None:
    none = operand("x", Domain(None), Values(np.zeros(0), None), None)
    assert (none.spread, none.lost, len(none.distance)) == (0.0, 0.0, 0)
