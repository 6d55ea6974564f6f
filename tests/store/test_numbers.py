"""What is stored is what was there: totals and rows against exact arithmetic, on data nobody would choose."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cleave.aggregates.columns import Exact, Values, Words
from cleave.aggregates.moments import Sum
from cleave.aggregates.powers import Square
from cleave.sql.plan import Argument
from cleave.store import measures
from cleave.store.lanes import Integers, plan_lanes
from cleave_shared.errors import CheckFailed, InputError
from cleave_shared.params import SUM60_PACK

RUNS = np.array([0, 3, 4, 9])
ROWS = 12


def argument(type_: str, decimals: int | None, lower: float | None, upper: float | None) -> Argument:
    return Argument("x", type_, decimals, ("x",), lower=lower, upper=upper)


def as_integers(column: Words) -> Integers:
    """Words as Python's integers."""
    total: Integers = np.zeros(column.shape[1], object)
    for place, word in enumerate(column):
        total = total + (word.astype(object) << (64 * place))
    return total


def check_moments(given_: Argument, values: Values, exact: list[Fraction | None]) -> None:
    """Every cell's sum and sum of squares about the centre lie within their bounds of the exact ones."""
    measure = measures.measure_of("x", given_, values)
    parts = measures.values_of(measure, values)
    centre = measures.facts(measure).centre
    kept = {part: as_integers(measures.totals(words, RUNS)) for part, words in parts.items()}
    for cell, start in enumerate(RUNS):
        stop = [*RUNS, ROWS][cell + 1]
        present = [value for value in exact[start:stop] if value is not None]
        count = int(kept["count"][cell])
        assert count == len(present)
        sums = {part: int(kept[part][cell]) for part in ("sum", "square")}
        found = measures.moments(measure, sums, count)
        total = found[Sum()]
        assert abs(total.value - sum(present, Fraction(0))) <= total.bound
        squares = found[Square()]
        wanted = sum(((value - centre) ** 2 for value in present), Fraction(0))
        assert abs(squares.value - wanted) <= squares.bound
        if given_.decimals is not None:
            assert total.exact
            assert squares.exact


doubles = st.floats(min_value=-1e15, max_value=1e15, allow_subnormal=True)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.one_of(st.none(), doubles), min_size=ROWS, max_size=ROWS), st.booleans())
def test_totals_of_doubles(values: list[float | None], declared: bool) -> None:
    bounds = (-(2.0**50), 2.0**50) if declared else (None, None)
    valid = np.array([value is not None for value in values])
    column = Values(np.array([0.0 if value is None else value for value in values]), valid)
    check_moments(argument("DOUBLE", None, *bounds), column, [None if v is None else Fraction(v) for v in values])


@pytest.mark.parametrize("offset", [0.0, 1e9, -1e15, 1e-300, 3.0])
@pytest.mark.parametrize("spread", [0.0, 1e-9, 1.0, 1e6, 1e-310])
def test_totals_of_doubles_far_from_zero(offset: float, spread: float) -> None:
    values = offset + spread * np.random.default_rng(7).standard_normal(ROWS)
    check_moments(argument("DOUBLE", None, None, None), Values(values, None), [Fraction(float(v)) for v in values])


@settings(max_examples=100, deadline=None)
@given(st.lists(st.one_of(st.none(), st.integers(1 - 10**18, 10**18 - 1)), min_size=ROWS, max_size=ROWS))
def test_totals_of_integers(values: list[int | None]) -> None:
    valid = np.array([value is not None for value in values])
    column = Values(np.array([value or 0 for value in values], np.int64), valid)
    exact = [None if v is None else Fraction(v, 100) for v in values]
    check_moments(argument("DECIMAL(18,2)", 2, None, None), column, exact)


def test_a_double_beyond_what_the_table_was_made_for() -> None:
    first = Values(np.linspace(1.0, 2.0, ROWS), None)
    measure = measures.measure_of("x", argument("DOUBLE", None, None, None), first)
    measures.values_of(measure, Values(np.full(ROWS, 100.0), None))
    with pytest.raises(InputError, match="farther out"):
        measures.values_of(measure, Values(np.full(ROWS, 1e6), None))
    for bad in (math.nan, math.inf):
        with pytest.raises(InputError, match="infinite or not a number"):
            measures.values_of(measure, Values(np.full(ROWS, bad), None))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.one_of(st.integers(1, 127), st.integers(1, 7)), min_size=1, max_size=6),
    st.integers(1, 64),
    st.randoms(use_true_random=False),
)
def test_lanes_hold_sums_of_a_whole_window(bits: list[int], terms: int, random: object) -> None:
    """Coefficients of `terms` encodings added up, noise and all, decode to the sums."""
    rng = np.random.default_rng(random.randint(0, 2**32))  # type: ignore[attr-defined]
    limits = [(1 << each) - 1 for each in bits]
    lanes = plan_lanes([Exact(limit) for limit in limits], 64, SUM60_PACK)
    added = [np.zeros(5, np.int64) for _ in range(lanes.count)]
    wanted = [np.zeros(5, object) for _ in limits]
    for number in range(terms):
        drawn = [[limit if number % 2 else int(rng.integers(0, 1 << 62)) & limit for _ in range(5)] for limit in limits]
        words = [
            np.array([[value >> (64 * place) & (2**64 - 1) for value in column] for place in range(2)], np.uint64)
            for column in drawn
        ]
        for lane, plane in enumerate(lanes.encode(words)):
            added[lane] += plane
        wanted = [total + np.array(column, object) for total, column in zip(wanted, drawn, strict=True)]
    noisy = {lane: plane + int(rng.integers(-40, 41)) for lane, plane in enumerate(added)}
    for column, total in enumerate(wanted):
        of = {lane: noisy[lane] for lane in lanes.of(column)}
        assert (lanes.decode(column, of, terms) == total).all()


def test_a_coefficient_that_is_no_total_is_found() -> None:
    lanes = plan_lanes([Exact(1000)], 64, SUM60_PACK)
    (plane,) = lanes.encode([np.array([[5, 0]], np.uint64)])
    for moved in (1 << (lanes.layout.guard - 1), 1 << 57, -(1 << lanes.layout.guard)):
        with pytest.raises(CheckFailed):
            lanes.decode(0, {0: plane + moved * np.array([0, 1])}, 1)


def test_polynomials_hold_every_entry_once() -> None:
    lanes = plan_lanes([Exact(1)], 64, SUM60_PACK)
    lane = np.arange(2 * lanes.capacity + 17)
    made = lanes.polynomials(lane, 0, 3, SUM60_PACK.degree)
    assert (made[:, : lanes.capacity].reshape(-1)[: len(lane)] == lane).all()
    assert not made[2, 17:].any()
    assert (lanes.polynomials(lane, 1, 3, SUM60_PACK.degree) == made[1:]).all()
