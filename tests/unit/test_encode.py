"""Lanes: whatever the columns, no request can overflow, and exact totals come back exactly."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cleave.aggregates.columns import Column, Exact, Real
from cleave.ckks.layout import Layout, pack, plan_layout, scaled
from cleave_shared.errors import CheckFailed

CAPACITY = 58


def integers(values: list[int]) -> np.ndarray:
    return np.array([[value >> shift & (1 << 64) - 1 for value in values] for shift in (0, 64)], np.uint64)


def types(columns: list[list[int]]) -> list[Column]:
    return [Exact(max(column)) for column in columns]


def lane_totals(layout: Layout, columns: list[np.ndarray], rows: int) -> list[int]:
    matrix = pack(layout, columns)
    assert len(matrix) == rows
    return [sum(int(v) for v in matrix[:, lane]) for lane in range(layout.lanes)]


magnitudes = st.integers(0, 2**128 - 1) | st.integers(0, 2**64 - 1) | st.integers(0, 100) | st.just(0)


@given(st.data(), st.integers(1, 40), st.integers(1, 50))
@settings(deadline=None, max_examples=150)
def test_exact_columns_come_back_whatever_their_size(data: st.DataObject, rows: int, window: int) -> None:
    columns = data.draw(st.lists(st.lists(magnitudes, min_size=rows, max_size=rows), min_size=1, max_size=6))
    made = [integers(column) for column in columns]
    layout = plan_layout(types(columns), rows, window, CAPACITY)
    for start in range(0, rows, window):
        kept = np.arange(start, min(start + window, rows))
        matrix = pack(layout, [column[:, kept] for column in made])
        totals = [sum(int(v) for v in matrix[:, lane]) for lane in range(layout.lanes)]
        assert all(abs(total) < 2**CAPACITY for total in totals)
        noise = data.draw(st.integers(-(2 ** (layout.guard - 1)) + 1, 2 ** (layout.guard - 1) - 1))
        noise = int(noise * 0.4)
        decoded = layout.decode([total + noise for total in totals], max(min(rows, window), 1) * 10)
        assert decoded == [sum(column[i] for i in kept) for column in columns]


finite = st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(finite, min_size=1, max_size=30))
@settings(deadline=None, max_examples=200)
def test_real_columns_of_any_magnitude_stay_within_their_bound(values: list[float]) -> None:
    columns = [np.array(values)]
    layout = scaled(plan_layout([Real()], len(values), len(values), CAPACITY), columns, len(values), CAPACITY)
    (total,) = lane_totals(layout, columns, len(values))
    assert abs(total) <= 2**CAPACITY
    found = layout.total(0, total, len(values))
    assert abs(found.value - sum(map(Fraction, values))) <= found.bound


def test_small_columns_share_a_lane_and_large_ones_are_cut() -> None:
    rows = 1000
    small: list[Column] = [Exact(6)] * 3
    large = Exact(2**63 + rows)
    assert plan_layout(small, rows, rows, CAPACITY).lanes == 1
    layout = plan_layout([*small, large], rows, rows, CAPACITY)
    assert len(layout.places[3].fields) == 2
    assert layout.lanes == 3


def test_a_total_between_integers_is_refused() -> None:
    layout = plan_layout([Exact(6)], 2, 2, CAPACITY)
    with pytest.raises(CheckFailed, match="integer") as caught:
        layout.decode([(11 << layout.guard) + (1 << (layout.guard - 1)) - 1], 2)
    assert caught.value.check == "residual"


@pytest.mark.parametrize("total", [3 * 6 + 1, -1])
def test_a_total_beyond_its_range_is_refused(total: int) -> None:
    layout = plan_layout([Exact(6)], 3, 3, CAPACITY)
    with pytest.raises(CheckFailed, match="bounds") as caught:
        layout.decode([total << layout.guard], 3)
    assert caught.value.check == "range"
