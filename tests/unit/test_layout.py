"""Layouts and placements by numbers worked out by hand, and against slow searches that try everything."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from cleave.aggregates.columns import ColumnType, Exact, Real
from cleave.ckks import packing as packings
from cleave.ckks.layout import (
    ROUNDING_UNITS,
    ExactFields,
    Field,
    Layout,
    NarrowField,
    WideLane,
    noise,
    plan_layout,
)
from cleave.ckks.packing import Block, BlockRun, ChunkRange, Packing, Placement, bytes_of_chunk, place, plan_packing
from cleave_shared import limits
from cleave_shared.errors import QueryRefused
from cleave_shared.moments import SENTINELS
from cleave_shared.params import SUM60_PACK

# 2 * 13.37 * sqrt(10.5 * 4) is 173.3, below 2^8: of 20 bits a window of 4 leaves 12
WINDOW, GUARD, BITS = 4, 8, 20


def lay(*columns: ColumnType, bits: int = BITS, fewest: int = 1, digits: int = 9) -> Layout:
    return plan_layout(columns, WINDOW, bits, fewest, digits)


def test_noise_is_bounded_as_documented() -> None:
    """13.37 sigma of a centred binomial of variance 10.5: docs/ckks.md section 3."""
    assert noise(1) == pytest.approx(43.32, abs=0.01)
    assert noise(64) == 8 * noise(1)


@pytest.mark.parametrize(("window", "guard"), [(1, 7), (2, 7), (4, 8), (64, 10)])
def test_the_guard_holds_twice_the_noise(window: int, guard: int) -> None:
    layout = plan_layout([Exact(1)], window, 58, 1, 9)
    assert layout.guard == guard
    assert 2 ** (guard - 1) < 2 * noise(window) <= 2**guard
    assert (layout.window, layout.capacity_bits) == (window, 58)


def test_fields_fill_lanes_widest_first() -> None:
    layout = lay(Exact(7), Exact(100), Exact(1))
    assert layout == Layout(
        lanes=2,
        window=WINDOW,
        capacity_bits=BITS,
        guard=GUARD,
        used=(12, 5),
        by_column=(
            ExactFields((Field(1, 0, 0, 3, 5, 7),)),  # 4 * 7 takes 5 bits: no room beside 400
            ExactFields((Field(0, 0, 0, 7, 9, 100),)),
            ExactFields((Field(0, 9, 0, 1, 3, 1),)),  # 9 + 3 bits fill lane 0 to the last
        ),
    )
    assert [field.largest for field in layout.fields] == [7, 100, 1]


def test_a_column_that_just_fits_a_lane_is_not_cut() -> None:
    assert lay(Exact(1023)).by_column == (ExactFields((Field(0, 0, 0, 10, 12, 1023),)),)
    assert lay(Exact(1024)).by_column == (ExactFields((Field(0, 0, 0, 10, 12, 1023), Field(1, 0, 10, 10, 3, 1))),)
    assert lay(Exact(2**20)).by_column == (
        ExactFields((Field(0, 0, 0, 10, 12, 1023), Field(1, 0, 10, 10, 12, 1023), Field(2, 0, 20, 10, 3, 1))),
    )


def test_limbs_leave_room_for_the_sum() -> None:
    """Where two chunks are added 13 bits hold the sum of two limbs of 12; where three are, that of one of 11."""
    (place_,) = plan_layout([Exact(2**13 + 1)], 2, BITS, 1, 9).by_column
    assert place_ == ExactFields((Field(0, 0, 0, 12, 13, 4095), Field(1, 0, 12, 12, 3, 2)))
    assert plan_layout([Exact(1365)], 3, BITS, 1, 9).by_column == (ExactFields((Field(0, 0, 0, 11, 12, 1365),)),)
    (place_,) = plan_layout([Exact(2**13)], 1, BITS, 1, 9).by_column
    assert place_ == ExactFields((Field(0, 0, 0, 13, 13, 8191), Field(1, 0, 13, 13, 1, 1)))


def test_a_column_of_zeros_takes_nothing() -> None:
    assert lay(Exact(0)) == Layout(0, WINDOW, BITS, GUARD, (), (ExactFields(()),))


def test_real_columns_come_after_the_lanes_of_fields() -> None:
    layout = lay(Real(), Exact(7), Real())
    assert [each.fields for each in layout.by_column] == [(), (Field(0, 0, 0, 3, 5, 7),), ()]
    assert (layout.by_column[0], layout.by_column[2]) == (WideLane(1), WideLane(2))
    assert (layout.lanes, layout.used) == (3, (5,))


# Half a lane has 6 bits, a value in it 4. 254 spans 16 steps of 2^4 and two more, which is too much, and 8 of 2^5 and
# two more: 10, whose sum of 4 takes 6 bits.
NARROW = NarrowField(Field(0, 0, 0, 4, 6, 10), -5)


def test_two_real_columns_share_a_lane() -> None:
    real = Real(reach=254.0, least=2.0)
    layout = lay(real, real, fewest=17, digits=0)
    assert layout.by_column == (NARROW, NarrowField(Field(0, 6, 0, 4, 6, 10), -5))
    assert (layout.lanes, layout.used) == (1, (12,))
    assert lay(real, fewest=17, digits=0).by_column == (WideLane(0),)  # alone it would win nothing


def test_what_rounding_leaves_uncertain_decides() -> None:
    """Rounding a group moves its sum by 1025 / 1024 of 2^5 at most, against 2 in each of its rows."""
    bound = ROUNDING_UNITS * 32
    assert 16 * 2 < bound < 17 * 2
    for rows, lanes in ((16, 2), (17, 1)):
        assert lay(*[Real(reach=254.0, least=2.0)] * 2, fewest=rows, digits=0).lanes == lanes
    assert lay(*[Real(reach=254.0, least=2.0)] * 2, fewest=170, digits=1).lanes == 1
    exact = float(bound / 17)  # rounds up or down: one of the neighbours is on either side
    lanes = [
        lay(*[Real(reach=254.0, least=least)] * 2, fewest=17, digits=0).lanes
        for least in (math.nextafter(exact, 0), math.nextafter(exact, 9))
    ]
    assert lanes == [2, 1]
    least = float(ROUNDING_UNITS)  # 1025 / 1024 has a double: just certain enough
    assert Fraction(least) == ROUNDING_UNITS
    assert lay(*[Real(reach=254.0, least=least)] * 2, fewest=32, digits=0).lanes == 1


@pytest.mark.parametrize("real", [Real(), Real(least=1e6), Real(reach=254.0), Real(reach=0.0, least=1e6)])
def test_nothing_declared_takes_a_lane(real: Real) -> None:
    assert lay(real, real, fewest=10**6, digits=0).lanes == 2


@pytest.mark.parametrize(("bits", "lanes"), [(17, 2), (18, 1)])
def test_half_a_lane_of_two_bits_is_too_little(bits: int, lanes: int) -> None:
    assert lay(*[Real(reach=254.0, least=1e6)] * 2, bits=bits, fewest=10**6, digits=0).lanes == lanes


def test_three_bits_hold_a_value() -> None:
    layout = lay(*[Real(reach=254.0, least=1e6)] * 2, bits=18, fewest=10**6, digits=0)
    assert layout.by_column[0] == NarrowField(Field(0, 0, 0, 3, 5, 6), -6)


@pytest.mark.parametrize("reach", [0.3, 1.0, 255.0, 256.0, 257.0, 1e300, 5e-324])
def test_the_finest_step_that_fits_is_taken(reach: float) -> None:
    place_ = lay(*[Real(reach, least=1e308)] * 2, fewest=10**9, digits=0).by_column[0]
    assert isinstance(place_, NarrowField)

    def largest(exponent: int) -> int:
        return math.ceil(Fraction(reach) * Fraction(2) ** exponent) + 2

    assert place_.field.largest == largest(place_.exponent) < 16
    assert largest(place_.exponent + 1) >= 16
    assert place_.field.bits == place_.field.largest.bit_length()
    assert place_.field.width == (4 * place_.field.largest).bit_length()


def test_half_a_lane_leaves_room_for_the_sum() -> None:
    """Where two chunks are added, a value in half of 13 bits has 5."""
    layout = plan_layout([Real(reach=254.0, least=0.5)] * 2, 2, BITS, 65, 0)
    assert layout.by_column[0] == NarrowField(Field(0, 0, 0, 5, 6, 18), -4)


def test_two_lanes_are_no_reason_for_halves() -> None:
    """Where halves save no lane, real columns keep whole ones, which are more precise."""
    real = Real(reach=254.0, least=1e6)
    assert [type(each) for each in lay(real, Exact(1023), fewest=10**6, digits=0).by_column] == [WideLane, ExactFields]


def slow_chunks(sizes: list[int], capacity: int) -> int:
    chunks = 1
    while sum(-(-size // chunks) for size in sizes) > capacity:
        chunks += 1
    return chunks


def slow_blocks(counts: list[int], capacity: int) -> list[tuple[list[int], int]]:
    """(groups, chunks) of every block, largest groups first, each as cheap per row as can be."""
    order = sorted(range(len(counts)), key=lambda group: -counts[group])
    blocks = []
    while order and counts[order[0]]:
        costs = []
        for taken in {min(len(order), capacity * quarter // 4) for quarter in (1, 2, 3, 4)} - {0}:
            sizes = [counts[group] for group in order[:taken]]
            chunks = slow_chunks(sizes, capacity)
            costs.append((Fraction(chunks + 2, sum(sizes)), -taken, chunks))
        _, taken, chunks = min(costs)
        blocks.append((order[:-taken], chunks))
        order = order[-taken:]
    return blocks


@pytest.mark.parametrize("seed", range(30))
def test_blocks_are_as_cheap_as_a_search_of_all_finds(seed: int) -> None:
    random = np.random.default_rng(seed)
    capacity = int(random.integers(1, 12))
    counts = [int(n) for n in random.integers(0, (3, 40)[seed % 2], int(random.integers(1, 30)))]
    placement = place(np.array(counts), capacity, pad=False)
    assert [([*map(int, b.groups)], b.chunks) for b in placement.blocks] == slow_blocks(counts, capacity)
    start = 0
    for block in placement.blocks:
        assert (block.start, block.stop) == (start, start + block.chunks)
        assert [int(p) for p in block.positions] == [-(-counts[g] // block.chunks) for g in block.groups]
        assert [int(f) for f in block.first] == [int(block.positions[:i].sum()) for i in range(len(block.groups))]
        start = block.stop
    assert placement.chunks == start
    assert (placement.capacity, [int(n) for n in placement.counts]) == (capacity, counts)


def test_where_rows_lie() -> None:
    """Groups of 5, 3 and 1 rows, 4 positions: two of group 0, one of each other, in three chunks."""
    placement = place(np.array([5, 3, 0, 1]), 4, pad=False)
    (block,) = placement.blocks
    assert [list(block.groups), list(block.first), list(block.positions)] == [[0, 1, 3, 2], [0, 2, 3, 4], [2, 1, 1, 0]]
    assert list(placement.places(placement.capacity)) == [0, 1, 4, 5, 8, 2, 6, 10, 3]
    assert list(placement.terms()) == [6, 3, 0, 3]
    assert placement.places(placement.capacity).dtype == placement.terms().dtype == np.int64


def test_where_rows_of_a_second_block_lie() -> None:
    placement = place(np.array([1, 2, 1, 1]), 2, pad=False)
    assert [(list(b.groups), b.start, b.chunks) for b in placement.blocks] == [([1, 0], 0, 2), ([2, 3], 2, 1)]
    assert list(placement.places(placement.capacity)) == [1, 0, 2, 4, 5]
    assert list(placement.places(100)) == [1, 0, 100, 200, 201]
    assert list(placement.terms()) == [2, 2, 1, 1]


def test_a_group_without_rows_leaves_the_others_their_places() -> None:
    counts = np.array([0, 2])
    block = Block(0, 1, np.array([0, 1]), np.array([0, 0]), np.array([0, 2]))
    placed = np.zeros((1, 4), np.int64)
    Placement(4, counts, (block,)).put(np.array([7, 8]), placed)
    assert placed.tolist() == [[7, 8, 0, 0]]
    torn = Block(0, 1, np.array([0, 1]), np.array([0]), np.array([0, 2]))
    with pytest.raises(ValueError, match="zip"):
        Placement(4, counts, (torn,)).put(np.array([7, 8]), placed)


@pytest.mark.parametrize("pad", [False, True])
@pytest.mark.parametrize("counts", [[5, 3, 0, 1], [1, 2, 1, 1], [0], [9], [16], [7, 0, 7, 7, 1, 30]])
def test_placing_group_by_group_is_placing_row_by_row(counts: list[int], *, pad: bool) -> None:
    placement = place(np.array(counts), 4, pad=pad)
    column = np.arange(1, 1 + sum(counts))
    by_row, by_group = np.zeros((2, placement.chunks, 9), np.int64)
    by_row.reshape(-1)[2:][placement.places(9)] = column
    placement.put(column, by_group[:, 2:])
    assert (by_row == by_group).all()


def test_padding_depends_on_counts_alone() -> None:
    def shape(counts: list[int], capacity: int) -> list[tuple[int, int]]:
        return [(block.start, block.chunks) for block in place(np.array(counts), capacity, pad=True).blocks]

    padded = place(np.array([1] * 12), 4, pad=True).blocks
    assert [len(block.groups) for block in padded] == [4, 4, 4, 0]  # what pads is nobody's
    assert shape([], 4) == shape([0], 4) == [(0, 1)]
    assert shape([9], 4) == [(0, 4)]  # three chunks would do
    assert shape([16], 4) == [(0, 4)]
    assert shape([1] * 12, 4) == [(0, 1), (1, 1), (2, 1), (3, 1)]  # three blocks would
    assert shape([1] * 16, 4) == [(0, 1), (1, 1), (2, 1), (3, 1)]
    assert place(np.array([0]), 4, pad=False).blocks == ()
    assert place(np.array([0]), 4, pad=False).chunks == 0


def packing_of(*chunks: int, window: int = 64) -> Packing:
    """Blocks of so many chunks each; only their sizes matter to requests."""
    blocks, start, none = [], 0, np.zeros(0, np.int64)
    for number in chunks:
        blocks.append(Block(start, number, none, none, none))
        start += number
    layout = Layout(1, window, 58, 10, (), ())
    return Packing(SUM60_PACK, (), layout, Placement(8176, np.array([3, 4]), tuple(blocks)))


def cut(packing: Packing, streams: int) -> list[list[int]]:
    """Chunks of every run, by request."""
    parts = packing.ranges(streams)
    at = 0
    for part in parts:
        assert part.start == at
        for run in part.runs:
            assert run.start == at
            assert run.block.start <= run.start < run.stop <= run.block.stop
            at = run.stop
        assert part.stop == at
    assert at == packing.chunks
    return [[run.chunks for run in part.runs] for part in parts]


@pytest.mark.parametrize(
    ("chunks", "streams", "expected"),
    [
        ([], 4, []),
        ([5], 4, [[5]]),  # fewer than eight are not cut
        ([9], 4, [[8], [1]]),
        ([40], 4, [[10]] * 4),
        ([41], 4, [[11], [11], [11], [8]]),
        ([64], 1, [[64]]),
        ([65], 1, [[64], [1]]),
        ([200], 2, [[64], [64], [64], [8]]),
        ([1] * 40, 1, [[1] * 32, [1] * 8]),  # as many blocks as an answer holds
        ([1] * 32, 1, [[1] * 32]),
        ([5, 5], 1, [[5, 5]]),
        ([5, 5], 4, [[5], [5]]),  # a block is not torn where it fits the next request
        ([3, 5], 4, [[3, 5]]),
        ([3, 12, 1], 4, [[3, 5], [7, 1]]),  # one that fits none is torn at once
        ([6, 8, 2], 2, [[6], [8], [2]]),
        ([3, 9], 4, [[3, 5], [4]]),
        ([8, 3], 4, [[8], [3]]),
    ],
)
def test_requests(chunks: list[int], streams: int, expected: list[list[int]]) -> None:
    assert cut(packing_of(*chunks), streams) == expected


def test_no_more_chunks_are_added_than_fields_hold() -> None:
    assert cut(packing_of(9, 3, window=4), 1) == [[4, 4, 1, 3]]
    assert packing_of(9, 3, window=4).cost == 12 + 2 * (3 + 1)
    assert packing_of(8, window=4).cost == 8 + 2 * 2


def test_sizes_of_a_packing() -> None:
    packing = packing_of(9, 3)
    assert (packing.blocks, packing.chunks, packing.rows, packing.lanes) == (2, 12, 7, 1)
    assert bytes_of_chunk(SUM60_PACK) == 8 * 8192 + 512
    assert packing.bytes_up == 12 * 66_048
    block = packing.placement.blocks[0]
    part = ChunkRange((BlockRun(block, 2, 5), BlockRun(block, 5, 9)))
    assert (part.start, part.stop, part.runs[0].chunks) == (2, 9, 3)


@pytest.mark.parametrize("pad", [False, True])
@pytest.mark.parametrize(
    ("columns", "counts"),
    [
        ([Exact(3_276_800)] * 2, [1_000_000]),
        ([Exact(3_276_800)] * 2, [3000]),
        ([Exact(3_276_800)] * 3, [10] * 700),
        ([Exact(2**40), Real()], [9000, 5, 8000]),
        ([Real(254.0, 2.0)] * 4, [500_000, 400_000]),
        ([Exact(1)], [1_000_000]),
        ([Exact(1)], [1]),
        ([Exact(1)], [0]),
        ([Exact(255)] * 5, [70_000] * 3),
    ],
)
def test_the_window_that_costs_least_is_chosen(columns: list[ColumnType], counts: list[int], pad: bool) -> None:
    """The largest of those that cost least, as a search of all of them finds it."""
    tried = []
    for window in (1, 2, 4, 8, 16, 32, 64):
        layout = plan_layout(columns, window, SUM60_PACK.capacity_bits, min(counts), 9)
        placement = place(np.array(counts), (8192 - SENTINELS) // layout.lanes, pad=pad)
        tried.append(Packing(SUM60_PACK, tuple(columns), layout, placement))
        if window >= max((block.chunks for block in placement.blocks), default=1):
            break
    best = min(tried, key=lambda each: (each.cost, -each.layout.window))
    found = plan_packing(columns, counts, SUM60_PACK, pad=pad)
    assert (found.layout, found.cost, found.columns) == (best.layout, best.cost, tuple(columns))
    assert found.profile == SUM60_PACK
    assert found.placement.capacity == (8192 - 16) // found.lanes
    assert [block.chunks for block in found.placement.blocks] == [block.chunks for block in best.placement.blocks]


def test_digits_and_the_smallest_group_reach_the_layout() -> None:
    real = Real(reach=254.0, least=2.0)
    assert plan_packing([real] * 4, [10**6], SUM60_PACK).lanes == 2
    assert plan_packing([real] * 4, [10**6, 1], SUM60_PACK).lanes == 4
    assert packings.DIGITS == 9


def test_nothing_to_send() -> None:
    packing = plan_packing([Exact(0)], [5], SUM60_PACK, pad=True)
    assert (packing.chunks, packing.blocks, packing.columns) == (0, 0, (Exact(0),))
    assert (packing.placement.capacity, list(packing.placement.counts)) == (0, [5])
    assert (packing.profile, packing.layout.by_column) == (SUM60_PACK, (ExactFields(()),))
    no_rows = plan_packing([Real(254.0, 2.0)] * 4, [], SUM60_PACK)
    assert (no_rows.lanes, no_rows.chunks, no_rows.rows) == (2, 0, 0)  # the smallest group of none is no obstacle
    assert no_rows.placement.counts.dtype == np.int64


def test_as_many_lanes_as_a_ciphertext_holds() -> None:
    assert plan_packing([Real()] * limits.MAX_LANES, [5], SUM60_PACK).lanes == 256
    # one at a time two share a lane; two at a time each needs its own, which is too many
    packing = plan_packing([Exact(2**24)] * 300, [10**6], SUM60_PACK)
    assert (packing.lanes, packing.layout.window) == (150, 1)
    with pytest.raises(QueryRefused) as refused:
        plan_packing([Real()] * 257, [5], SUM60_PACK)
    assert refused.value.message == "the query needs 257 encrypted columns, at most 256 fit a ciphertext"
