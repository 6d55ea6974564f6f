"""Lanes, positions and requests: no sum can overflow, nothing is lost, and only types and counts decide."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cleave.aggregates.columns import ColumnType, Exact, Real
from cleave.ckks import encode as encode_module
from cleave.ckks.checks import fields_of_lanes
from cleave.ckks.encode import carried, encode
from cleave.ckks.job import GroupTotals
from cleave.ckks.layout import ROUNDING_UNITS, ExactFields, NarrowField, WideLane, noise, plan_layout
from cleave.ckks.packing import Packing, place, plan_packing
from cleave_shared import limits
from cleave_shared.errors import CheckFailed, QueryRefused
from cleave_shared.params import SUM60_PACK
from tests.campaign import FACTOR

CAPACITY = SUM60_PACK.capacity_bits


def words_of(values: list[int], limit: int) -> np.ndarray:
    count = max(1, -(-limit.bit_length() // 64))
    return np.array([[value >> (64 * i) & (2**64 - 1) for value in values] for i in range(count)], np.uint64)


def added_up(packing: Packing, values: list[np.ndarray], streams: int = 4, salt: float = 0.0) -> GroupTotals:
    """What comes back where services only add; `salt` is the share of the allowed noise in every coefficient."""
    plaintexts, scales = encode(packing, values)
    totals = GroupTotals(packing, scales)
    covered = 0
    for part in packing.ranges(streams):
        assert part.start == covered
        covered = part.stop
        assert part.stop - part.start <= limits.MAX_REQUEST_CHUNKS
        assert len(part.runs) <= limits.MAX_REQUEST_SUMS
        for piece in part.runs:
            result = plaintexts[piece.start : piece.stop].sum(axis=0)
            exact = [sum(int(v) for v in column) for column in plaintexts[piece.start : piece.stop].T[:50]]
            assert list(result[:50]) == exact  # int64 did not wrap
            assert np.abs(result).max() <= 2**CAPACITY
            sign = np.where(np.arange(len(result)) % 2, 1, -1)
            result = result + (sign * int(salt * noise(piece.chunks)))
            totals.add(piece, totals.decode(piece, result))
    assert covered == packing.chunks
    return totals


limits_of_columns = st.integers(0, 2**130) | st.integers(0, 100) | st.sampled_from([1, 2**63, 2**64 - 1, 2**64])
finite = st.floats(allow_nan=False, allow_infinity=False)
group_sizes = st.lists(st.integers(1, 40), min_size=1, max_size=30) | st.lists(
    st.integers(1, 9000), min_size=1, max_size=3
)


@given(st.data(), group_sizes, st.booleans())
@settings(deadline=None, max_examples=40 * FACTOR)
def test_totals_come_back_whatever_the_columns(data: st.DataObject, counts: list[int], pad: bool) -> None:
    rows = sum(counts)
    random = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    types: list[ColumnType] = [Exact(limit) for limit in data.draw(st.lists(limits_of_columns, min_size=1, max_size=5))]
    columns = []
    for type_ in types:
        assert isinstance(type_, Exact)
        some = [data.draw(st.integers(0, type_.limit)) for _ in range(3)] + [0, type_.limit]
        columns.append([some[i] for i in random.integers(0, len(some), rows)])
    values: list[np.ndarray] = [words_of(column, type_.limit) for column, type_ in zip(columns, types, strict=True)]  # type: ignore[union-attr]
    magnitudes = data.draw(st.lists(finite, min_size=1, max_size=5))
    types.append(Real())
    values.append(np.array(magnitudes)[random.integers(0, len(magnitudes), rows)])
    totals = added_up(plan_packing(types, counts, SUM60_PACK, pad=pad), values, salt=0.9)
    start = 0
    for group, count in enumerate(counts):
        *exact, real = totals.estimates(group)
        for found, column in zip(exact, columns, strict=True):
            assert (found.value, found.bound) == (sum(column[start : start + count]), 0)
        terms = int(totals._terms[group])
        truth = sum(map(Fraction, values[-1][start : start + count]))
        # the salt adds up systematically, which noise does not: what it adds is known
        salted = Fraction(noise(terms)) * terms * Fraction(2) ** -totals._scales[-1].exponent
        assert abs(real.value - truth) <= real.bound + salted
        start += count


@given(st.lists(finite.filter(lambda x: abs(x) < 2**50), min_size=1, max_size=200))
@settings(deadline=None, max_examples=60 * FACTOR)
def test_rounding_carries_its_error_along(values: list[float]) -> None:
    found = carried(np.array(values))
    for start in (0, len(values) // 2):
        for stop in (len(values) // 2 + 1, len(values)):
            error = sum(map(int, found[start:stop])) - sum(map(Fraction, values[start:stop]), Fraction(0))
            assert abs(error) < ROUNDING_UNITS


@pytest.mark.parametrize("rows", [0, 1, 6, 7, 8, 14, 100])
def test_values_are_rounded_alike_however_many_at_once(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    values = np.random.default_rng(rows).normal(0, 1e3, rows)
    whole = carried(values, 5)
    monkeypatch.setattr(encode_module, "_TOGETHER", 7)
    assert carried(values, 5).tolist() == whole.tolist()
    assert abs(int(whole.sum()) - math.fsum(values * 32)) < ROUNDING_UNITS


def test_equal_values_do_not_drift() -> None:
    values = np.full(1_000_000, 0.49)
    assert abs(int(carried(values).sum()) - 490_000) < ROUNDING_UNITS


@pytest.mark.sampled(7)
@pytest.mark.parametrize("counts", [[600], [1] * 9000, [100] * 4000, [5, 5000, 1, 40_000], [3] * 20_000, [0]])
@pytest.mark.parametrize("capacity", [31, 2725, 8176])
@pytest.mark.parametrize("pad", [False, True])
def test_every_row_has_a_place_of_its_own_group(counts: list[int], capacity: int, pad: bool) -> None:
    sizes = np.array(counts)
    placement = place(sizes, capacity, pad=pad)
    assert int(sizes.sum()) <= placement.chunks * capacity
    owner = np.full(placement.chunks * capacity, -1)
    for block in placement.blocks:
        assert int(block.positions.sum()) <= capacity
        for group, first, positions in zip(block.groups, block.first, block.positions, strict=True):
            grid = owner.reshape(-1, capacity)[block.start : block.stop, first : first + positions]
            assert (grid == -1).all()
            grid[:] = group
    if sizes.sum():
        places = placement.places(placement.capacity)
        assert len(np.unique(places)) == len(places) == sizes.sum()
        assert (owner[places] == np.repeat(np.arange(len(sizes)), sizes)).all()


def test_packing_is_tight() -> None:
    """At most a sixth more chunks than values alone would take, from one group to 100,000."""
    random = np.random.default_rng(1)
    for groups in (1, 10, 1000, 10_000, 100_000):
        counts = np.bincount(random.integers(0, groups, 1_000_000), minlength=groups)
        packing = plan_packing([Real()], counts[counts > 0], SUM60_PACK)
        ideal = -(-1_000_000 // packing.placement.capacity)
        assert packing.chunks <= ideal * 7 / 6 + 1, groups


def test_padding_leaves_powers_of_two() -> None:
    for counts in ([0], [1], [9000], [100_000, 5], [7] * 30_000):
        packing = plan_packing([Exact(1)], counts, SUM60_PACK, pad=True)
        sizes = {block.chunks for block in packing.placement.blocks}
        assert len(sizes) == 1
        assert all(number & (number - 1) == 0 for number in (*sizes, packing.blocks))
    near = [plan_packing([Exact(1)], [rows], SUM60_PACK, pad=True).chunks for rows in (600_000, 900_000)]
    assert near[0] == near[1]


def test_small_columns_share_a_lane_and_large_ones_are_cut() -> None:
    layout = plan_layout([Exact(7)] * 3, 64, CAPACITY, 1, 9)
    assert layout.lanes == 1
    layout = plan_layout([*[Exact(7)] * 2, Exact(2**64 - 1)], 64, CAPACITY, 1, 9)
    assert [len(place.fields) for place in layout.by_column if isinstance(place, ExactFields)] == [1, 1, 2]
    assert layout.lanes == 2


def test_fields_are_as_wide_as_the_sum_of_the_chunks_that_are_added() -> None:
    """Cents up to 2^15 take 22 bits in one chunk and 28 in 64; under a mask over a million rows they took 42."""
    cents = Exact(3_276_800)
    assert [plan_layout([cents] * 2, window, CAPACITY, 1, 9).lanes for window in (1, 64)] == [1, 2]
    assert [field.width for field in plan_layout([cents], 64, CAPACITY, 1, 9).fields] == [28]


def test_a_constant_by_declaration_takes_no_lane() -> None:
    packing = plan_packing([Exact(0)], [5], SUM60_PACK)
    assert (packing.lanes, packing.chunks, packing.ranges(4)) == (0, 0, [])


def test_too_many_lanes_are_refused() -> None:
    with pytest.raises(QueryRefused, match="257 encrypted columns"):
        plan_packing([Real()] * 257, [5], SUM60_PACK)


DECLARED = Real(reach=254.0, least=2.0)


def test_real_columns_take_half_a_lane_where_the_digits_stay_certain() -> None:
    million = [1_000_000]
    assert plan_packing([DECLARED] * 4, million, SUM60_PACK).lanes == 2
    assert plan_packing([DECLARED] * 4, [999_990, 10], SUM60_PACK).lanes == 4  # the smallest group decides
    assert plan_packing([DECLARED], million, SUM60_PACK).lanes == 1
    assert isinstance(plan_packing([DECLARED], million, SUM60_PACK).layout.by_column[0], WideLane)  # nothing to win
    for unknown in (Real(reach=254.0), Real(least=2.0), Real()):
        assert plan_packing([unknown] * 4, million, SUM60_PACK).lanes == 4


@given(st.integers(0, 2**32), st.floats(1e-3, 1e3), st.integers(1, 5))
@settings(deadline=None, max_examples=25)
def test_half_lanes_keep_their_digits(seed: int, least: float, groups: int) -> None:
    random = np.random.default_rng(seed)
    reach = least * 8
    counts = random.integers(100_000, 120_000, groups)
    packing = plan_packing([Real(reach, least)] * 2, counts, SUM60_PACK)
    assert all(isinstance(each, NarrowField) for each in packing.layout.by_column)
    # of x within least..least + reach the column is x - c for some c among them
    centre = random.uniform(0, reach)
    columns = [random.choice([0.0, reach, reach / 3], int(counts.sum())) - centre for _ in range(2)]
    totals = added_up(packing, columns, salt=0.9)
    start = 0
    for group, count in enumerate(counts):
        for found, column in zip(totals.estimates(group), columns, strict=True):
            values, times = np.unique(column[start : start + count], return_counts=True)
            truth = sum(Fraction(value) * int(n) for value, n in zip(values, times, strict=True))
            assert abs(found.value - truth) <= found.bound
            assert found.bound <= Fraction(10) ** -9 * int(count) * Fraction(least)
        start += count


def test_a_total_between_integers_is_refused() -> None:
    layout = plan_layout([Exact(6)], 1, CAPACITY, 1, 9)
    with pytest.raises(CheckFailed, match="integer") as caught:
        fields_of_lanes(layout, np.array([[(5 << layout.guard) + (1 << (layout.guard - 1)) - 1]]), 1)
    assert caught.value.check == "residual"


@pytest.mark.parametrize("total", [7, -1, 8, 1 << 40])
def test_a_total_beyond_its_range_is_refused(total: int) -> None:
    layout = plan_layout([Exact(6)], 1, CAPACITY, 1, 9)
    with pytest.raises(CheckFailed, match="bounds") as caught:
        fields_of_lanes(layout, np.array([[total << layout.guard]]), 1)
    assert caught.value.check == "range"
