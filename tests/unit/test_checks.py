"""Each check at the edge of what it allows, on integers: just within passes, one beyond is refused.

That real ciphertexts with real faults meet the same checks: tests/evaluation/test_faults.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from cleave.aggregates.base import SIGMAS, Estimate
from cleave.aggregates.columns import Exact, Real
from cleave.ckks.checks import (
    CHECKS,
    GroupDrift,
    check_envelope,
    check_sentinels,
    check_totals,
    fields_of_lanes,
    require_weighted_sum,
)
from cleave.ckks.encode import Scale
from cleave.ckks.job import GroupTotals, estimates
from cleave.ckks.layout import (
    FRESH_VARIANCE,
    ROUNDING_UNITS,
    SIGMAS_EXACT,
    ExactFields,
    Field,
    Layout,
    NarrowField,
    WideLane,
    noise,
    plan_layout,
)
from cleave.ckks.packing import Block, BlockRun, ChunkRange, Packing, Placement
from cleave_shared.errors import CheckFailed
from cleave_shared.params import SUM60_PACK
from cleave_shared.requests import Lane, SumsRequest, SumsResponse

N = 64  # coefficients of a result here; the checks take what they are given
SENTINELS = 16

REQUEST = SumsRequest(
    profile="p",
    key_id="0" * 32,
    label="1" * 32,
    lanes=[Lane(objects=[b"a"], stop=1), Lane(objects=[b"b", b"c"], stop=1)],
)
ANSWER = SumsResponse(profile="p", key_id="0" * 32, label="1" * 32, totals=[[b"x"], [b"y"]])


def failed(check: str, call: Callable[[], object]) -> None:
    with pytest.raises(CheckFailed) as caught:
        call()
    assert caught.value.check == check
    assert check in CHECKS
    assert caught.value.hint


def test_an_answer_is_to_its_request() -> None:
    check_envelope(REQUEST, ANSWER)
    for change in (
        {"profile": "q"},
        {"key_id": "2" * 32},
        {"label": "2" * 32},
        {"version": 1},
        {"totals": []},
        {"totals": [[b"x"]]},
        {"totals": [[b"x"], [b"y"], [b"z"]]},
        {"totals": [[b"x"], []]},
        {"totals": [[b"x"], [b"y", b"z"]]},
    ):
        failed("envelope", lambda change=change: check_envelope(REQUEST, replace(ANSWER, **change)))


def test_a_lane_of_a_stored_object_has_as_many_totals_as_positions() -> None:
    request = replace(REQUEST, lanes=[Lane(objects=[b"a"], start=3, stop=5)])
    check_envelope(request, replace(ANSWER, totals=[[b"x"] * 2]))
    for count in (0, 1, 3, 5, 8):
        failed("envelope", lambda count=count: check_envelope(request, replace(ANSWER, totals=[[b"x"] * count])))


def block(start: int, chunks: int, groups: list[int], positions: list[int]) -> Block:
    widths = np.array(positions, np.int64)
    return Block(start, chunks, np.array(groups, np.int64), np.cumsum(widths) - widths, widths)


ONE, FOUR = block(0, 1, [2, 0], [3, 2]), block(1, 4, [1], [4])
PART = ChunkRange((BlockRun(ONE, 0, 1), BlockRun(FOUR, 1, 5)))
LIMITS = (math.floor(noise(1)), math.floor(noise(4)))
assert LIMITS == (43, 86)


def pair() -> tuple[np.ndarray, np.ndarray]:
    """Results as they should be, and a copy to spoil."""
    sent = np.random.default_rng(3).integers(-(2**50), 2**50, (2, N))
    return sent.copy(), sent


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("run", [0, 1])
@pytest.mark.parametrize(
    ("check", "name", "coefficient"),
    [
        *((check_sentinels, "sentinel", each) for each in (N - SENTINELS, N - 3, N - 1)),
        *((check_totals, "total", each) for each in (0, 1, N - SENTINELS - 1, N - 1)),
    ],
)
def test_sentinels_and_every_coefficient_are_within_their_noise(
    check: Callable[..., None], name: str, run: int, coefficient: int, sign: int
) -> None:
    found, sent = pair()
    found[run, coefficient] += sign * LIMITS[run]
    check(PART, found, sent)
    found[run, coefficient] += sign
    failed(name, lambda: check(PART, found, sent))


def test_sentinels_are_the_last_sixteen() -> None:
    found, sent = pair()
    found[:, : N - SENTINELS] += 1 << 40
    check_sentinels(PART, found, sent)


def test_an_answer_with_a_result_too_few_is_not_compared() -> None:
    found, sent = pair()
    for check in (check_sentinels, check_totals, GroupDrift(packing()).check):
        for results, expected in ((found[:1], sent), (found, sent[:1])):
            with pytest.raises(ValueError, match="zip"):
                check(PART, results, expected)


# Two lanes of 8 positions. Group 2 has positions 0 to 2 of block ONE, group 0 has 3 and 4; group 1 all four of FOUR;
# group 3 has no rows.
CAPACITY = 8
LAYOUT = Layout(
    lanes=2,
    window=4,
    capacity_bits=58,
    guard=8,
    used=(12,),
    by_column=(ExactFields((Field(0, 0, 0, 3, 5, 7),)), WideLane(1), ExactFields((Field(0, 5, 0, 5, 7, 31),))),
)


def packing(layout: Layout = LAYOUT) -> Packing:
    placement = Placement(CAPACITY, np.array([2, 13, 3, 0]), (ONE, FOUR))
    return Packing(SUM60_PACK, (Exact(7), Real(), Exact(31)), layout, placement)


def allowed(terms: int) -> float:
    return SIGMAS_EXACT * math.sqrt(FRESH_VARIANCE * terms)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("lane", [0, 1])
@pytest.mark.parametrize(
    ("run", "positions", "terms"),
    [(0, [0, 1, 2], 3), (0, [3, 4], 2), (1, [0, 1, 2, 3], 16)],
)
def test_a_groups_positions_do_not_drift_together(
    run: int, positions: list[int], terms: int, lane: int, sign: int
) -> None:
    found, sent = pair()
    most = math.floor(allowed(terms))
    at = [lane * CAPACITY + position for position in positions]
    found[run, at[0]] += sign * (most - len(at) + 1)
    found[run, at[1:]] += sign  # every position counts
    GroupDrift(packing()).check(PART, found, sent)
    found[run, at[-1]] += sign
    failed("total", lambda: GroupDrift(packing()).check(PART, found, sent))


def test_drifts_of_two_groups_are_not_added_up() -> None:
    found, sent = pair()
    found[0, 2] += math.floor(allowed(3))
    found[0, 3] += math.floor(allowed(2))
    GroupDrift(packing()).check(PART, found, sent)


def test_what_no_group_lies_at_is_no_drift() -> None:
    """The check of every coefficient is for that."""
    found, sent = pair()
    found[0, [5, 7, 13, 16, N - 1]] += 1 << 30
    found[1, [4, 12, 16]] -= 1 << 30
    GroupDrift(packing()).check(PART, found, sent)


def test_a_drift_goes_on_from_answer_to_answer() -> None:
    """FOUR's chunks in two answers, of one chunk and of three: the first may be off by 86, both together by 173."""
    first, second = ChunkRange((BlockRun(FOUR, 1, 2),)), ChunkRange((BlockRun(FOUR, 2, 5),))
    assert [math.floor(allowed(terms)) for terms in (4, 16)] == [86, 173]
    sent = pair()[1][:1]

    def off(amount: int) -> np.ndarray:
        found = sent.copy()
        found[0, CAPACITY + 3] += amount
        return found

    failed("total", lambda: GroupDrift(packing()).check(first, off(87), sent))
    for amount in (86, -86):
        drift = GroupDrift(packing())
        drift.check(first, off(amount), sent)
        drift.check(second, off(-2 * amount), sent)
    for more in (87, 88):
        drift = GroupDrift(packing())
        drift.check(first, off(86), sent)
        if more == 87:
            drift.check(second, off(more), sent)
        else:
            with pytest.raises(CheckFailed):
                drift.check(second, off(more), sent)


def test_a_block_without_groups_drifts_nowhere() -> None:
    """Padding has such blocks; what follows them is still looked at."""
    part = ChunkRange((BlockRun(block(0, 1, [], []), 0, 1), BlockRun(FOUR, 1, 5)))
    found, sent = pair()
    found[0] += 1 << 30
    GroupDrift(packing()).check(part, found, sent)
    found[1, 0] += 1 << 30
    failed("total", lambda: GroupDrift(packing()).check(part, found, sent))


def exact(first: int, second: int, off: int = 0) -> np.ndarray:
    """Lanes (2, 1) whose exact one holds two totals."""
    return np.array([[((first + (second << 5)) << 8) + off], [-5]])


@pytest.mark.parametrize("off", [0, 86, -86])
@pytest.mark.parametrize(("first", "second"), [(0, 0), (28, 124), (5, 77)])
def test_totals_are_read_from_their_fields(first: int, second: int, off: int) -> None:
    assert fields_of_lanes(LAYOUT, exact(first, second, off), 4).tolist() == [[first], [second]]


@pytest.mark.parametrize("off", [87, -87, 128, -128])
def test_totals_are_integers_within_their_noise(off: int) -> None:
    failed("residual", lambda: fields_of_lanes(LAYOUT, exact(5, 77, off), 4))


@pytest.mark.parametrize(("chunks", "most"), [(1, 43), (4, 86)])
def test_fewer_chunks_have_less_noise(chunks: int, most: int) -> None:
    fields_of_lanes(LAYOUT, exact(5, 5, most), chunks)
    failed("residual", lambda: fields_of_lanes(LAYOUT, exact(5, 5, most + 1), chunks))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (29, 0),  # more than four times the largest
        (0, 125),
        (-1, 0),
        (0, 128),  # beyond the lane
        (0, -1),
        (1 << 40, 0),
    ],
)
def test_totals_are_within_their_columns_bounds(first: int, second: int) -> None:
    failed("range", lambda: fields_of_lanes(LAYOUT, exact(first, second), 4))
    failed("range", lambda: fields_of_lanes(LAYOUT, np.hstack([exact(1, 1), exact(first, second), exact(2, 2)]), 4))


def test_a_lane_is_full_to_the_last_bit() -> None:
    """(1 << 12) - 1 is within the lane, and only the field's own bound refuses it."""
    layout = Layout(1, 1, 58, 8, (12,), (ExactFields((Field(0, 0, 0, 12, 12, 4095),)),))
    assert fields_of_lanes(layout, np.array([[4095 << 8]]), 1).tolist() == [[4095]]
    failed("range", lambda: fields_of_lanes(layout, np.array([[4096 << 8]]), 1))


def test_bounds_follow_the_chunks() -> None:
    fields_of_lanes(LAYOUT, exact(7, 31), 1)
    failed("range", lambda: fields_of_lanes(LAYOUT, exact(8, 31), 1))
    with pytest.raises(CheckFailed, match=r"^a decrypted total is beyond its column's bounds$"):
        fields_of_lanes(LAYOUT, exact(7, 32), 1)


def test_a_weighted_sum_agrees_to_within_its_noise_and_no_further() -> None:
    sums, weights, known, chunks, modulus = [5, -7, 11], [3, 10**6, 2**30], 123, 4, 2**50 - 27
    right, limit = 5 * 3 - 7 * 10**6 + 11 * 2**30 + 123, int(noise(SENTINELS * chunks))

    def check(off: int) -> None:
        require_weighted_sum((right + off) % modulus, sums, weights, known, chunks, modulus)

    for off in (0, limit, -limit):
        check(off)
    for off in (limit + 1, -limit - 1, modulus // 2):
        with pytest.raises(CheckFailed) as caught:
            check(off)
        assert (caught.value.check, "run the query again" in str(caught.value.hint)) == ("scan", True)
    for further in ([*sums, 0], sums[:2]):
        with pytest.raises(ValueError, match="zip"):
            require_weighted_sum(right, further, weights, known, chunks, modulus)


def test_lanes_that_are_missing_are_no_totals() -> None:
    layout = plan_layout([Exact(2**20)], 4, 20, 1, 9)
    assert fields_of_lanes(layout, np.zeros((3, 1), np.int64), 4).shape == (3, 1)
    with pytest.raises(ValueError, match="zip"):
        fields_of_lanes(layout, np.zeros((2, 1), np.int64), 4)


SCALES = (Scale(), Scale(exponent=3), Scale())


def same_as_estimates(totals: GroupTotals, groups: int, columns: int) -> None:
    """Every group's totals of a column at once, beside those of all columns of a group."""
    for column in range(columns):
        whole = totals.whole(column)
        assert len(whole.totals) == groups
        for group in range(groups):
            estimate = totals.estimates(group)[column]
            assert whole.totals[group] * Fraction(2) ** -whole.exponent == estimate.value
            assert (whole.bound(totals.terms[group]) if whole.bound else 0) == estimate.bound


def test_totals_of_positions_become_totals_of_groups() -> None:
    """Both blocks: block ONE's positions are of groups 2, 2, 2, 0, 0; FOUR's all of group 1."""
    totals = GroupTotals(packing(), SCALES)
    fives, reals = np.arange(CAPACITY) + 1, (np.arange(CAPACITY) + 1) * -1000
    for run, chunks in ((BlockRun(ONE, 0, 1), 1), (BlockRun(FOUR, 1, 5), 4)):
        result = np.zeros(N, np.int64)
        small = np.minimum(fives, 7)
        result[:CAPACITY] = (small + (2 * small << 5)) << 8
        result[CAPACITY : 2 * CAPACITY] = reals
        result[2 * CAPACITY :] = 1 << 50
        positions = totals.decode(run, result)
        assert positions.tolist() == [small.tolist(), (2 * small).tolist(), reals.tolist()]
        totals.add(run, positions)
        assert run.chunks == chunks
    found = {group: [each.value for each in totals.estimates(group)] for group in range(4)}
    assert found == {
        2: [1 + 2 + 3, Fraction(-6000, 8), 12],
        0: [4 + 5, Fraction(-9000, 8), 18],
        1: [1 + 2 + 3 + 4, Fraction(-10000, 8), 20],
        3: [0, 0, 0],
    }
    same_as_estimates(totals, groups=4, columns=3)
    bounds = [totals.estimates(group)[1].bound for group in range(3)]
    terms = [2, 16, 3]  # positions times chunks
    assert bounds == [(Fraction(SIGMAS * math.sqrt(FRESH_VARIANCE * number)) + ROUNDING_UNITS) / 8 for number in terms]
    assert [totals.estimates(0)[column].bound for column in (0, 2)] == [0, 0]


def test_answers_are_added_up_without_overflow() -> None:
    """A real lane's total has up to 58 bits and either sign; halves of it are added apart."""
    layout = Layout(1, 64, 58, 10, (), (WideLane(0),))
    for value in (2**62, -(2**62), 2**62 - 1, 2**32 - 1, -(2**32), -1, 2**31):
        totals = GroupTotals(packing(layout), (Scale(),))
        for _ in range(5):
            totals.add(BlockRun(FOUR, 1, 5), np.full((1, CAPACITY), value))
        assert totals.estimates(1)[0].value == 5 * 4 * value
        same_as_estimates(totals, groups=4, columns=1)
        assert totals.estimates(0)[0].value == 0


def test_answers_are_added_up_to_the_last_bit() -> None:
    """Both halves beyond 2^53, where float64 has no odd numbers."""
    rows, value = 3_000_001, (((1 << 30) + 1) << 32) + 0xFFFFFFFF
    layout = Layout(1, 64, 58, 10, (), (WideLane(0),))
    whole = block(0, 1, [0], [rows])
    totals = GroupTotals(
        Packing(SUM60_PACK, (Real(),), layout, Placement(rows, np.array([rows]), (whole,))), (Scale(),)
    )
    for _ in range(5):
        totals.add(BlockRun(whole, 0, 1), np.full((1, rows), value))
    assert totals.estimates(0)[0].value == 5 * rows * value


def test_a_narrow_column_is_counted_from_its_shift() -> None:
    layout = Layout(1, 4, 20, 8, (6,), (NarrowField(Field(0, 0, 0, 4, 6, 10), -5),))
    totals = GroupTotals(packing(layout), (Scale(exponent=-5, shift=3),))
    totals.add(BlockRun(FOUR, 1, 5), np.full((1, CAPACITY), 40))
    assert totals.estimates(1) == [Estimate(Fraction(32 * (4 * 40 - 13 * 3)), ROUNDING_UNITS * 32)]
    same_as_estimates(totals, groups=4, columns=1)


def test_fields_of_a_column_become_its_totals() -> None:
    """Column 0 has no field, column 1 three, column 2 one."""
    layout = plan_layout([Exact(0), Exact(2**20), Exact(7)], CAPACITY, 20, 1, 9)
    totals = GroupTotals(packing(layout), (Scale(),) * 3)
    slots = len(layout.fields)
    totals.add(BlockRun(FOUR, 1, 5), np.arange(1, slots * CAPACITY + 1).reshape(slots, CAPACITY))
    assert totals.whole(0).totals == [0] * 4
    same_as_estimates(totals, groups=4, columns=3)


def test_of_no_groups_there_are_no_totals() -> None:
    none = Packing(SUM60_PACK, (Exact(7), Real(), Exact(31)), LAYOUT, Placement(CAPACITY, np.zeros(0, np.int64), ()))
    assert GroupTotals(none, SCALES).whole(0).totals == []


def test_every_column_has_its_scale_and_its_slots() -> None:
    layout = plan_layout([Exact(2**20)], 4, 20, 1, 9)
    assert estimates(layout, [Scale()], [1, 2, 3], 1, 1) == [Estimate(Fraction(1 + 2 * 2**10 + 3 * 2**20))]
    for scales, slots in (([], [1, 2, 3]), ([Scale()] * 2, [1, 2, 3]), ([Scale()], [1, 2])):
        with pytest.raises(ValueError, match="zip"):
            estimates(layout, scales, slots, 1, 1)


def test_padding_adds_nothing() -> None:
    totals = GroupTotals(packing(), SCALES)
    totals.add(BlockRun(block(5, 1, [], []), 5, 6), np.full((3, CAPACITY), 9))
    assert [each.value for each in totals.estimates(0)] == [0, 0, 0]


def test_a_result_that_is_refused_says_so() -> None:
    result = np.zeros(N, np.int64)
    result[3] = -1 << 8
    failed("range", lambda: GroupTotals(packing(), SCALES).decode(BlockRun(ONE, 0, 1), result))


def test_limbs_are_put_together() -> None:
    """2^20 as 0 + 0 * 2^10 + 1 * 2^20, in the places of a layout that cuts it so; a narrow column follows its shift."""
    limbs = plan_layout([Exact(2**20)], 4, 20, 1, 9).by_column[0]
    narrow = NarrowField(Field(2, 3, 0, 4, 6, 10), -5)
    layout = Layout(4, 4, 20, 8, (12, 12, 12), (WideLane(3), limbs, narrow, ExactFields(())))
    scales = (Scale(exponent=-2), Scale(), Scale(exponent=-5, shift=3), Scale())
    found = estimates(layout, scales, [5, 6, 1, 40, 100], rows=7, terms=9)
    wide = Fraction(SIGMAS * math.sqrt(FRESH_VARIANCE * 9)) + ROUNDING_UNITS
    assert found == [
        Estimate(Fraction(400), wide * 4),
        Estimate(Fraction(5 + 6 * 2**10 + 2**20)),
        Estimate(Fraction(32 * (40 - 7 * 3)), ROUNDING_UNITS * 32),
        Estimate(Fraction(0)),
    ]
