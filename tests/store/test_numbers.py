"""What is stored is what was there: totals and rows against exact arithmetic, on data nobody would choose."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from decimal import Context, Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cleave.aggregates.base import Estimate
from cleave.aggregates.columns import Exact, Words
from cleave.aggregates.moments import Power, Sum
from cleave.sql.plan import Argument
from cleave.store import measures
from cleave.store.lanes import Integers, plan_lanes
from cleave.store.manifest import Measure
from cleave.store.measures import unscaled
from cleave.store.sums import Summing
from cleave.table.schema import read_schema
from cleave.table.stream import Extent
from cleave.table.table import Table, no_table
from cleave.table.types import range_of
from cleave_shared.errors import CheckFailed, InputError
from cleave_shared.params import SUM60_PACK

WIDE = Context(prec=60)
CELLS = [0, 0, 0, 1, 2, 2, 2, 2, 2, 3, 3, 3]
ROWS = len(CELLS)
SCHEMA = read_schema({"columns": {"x": {"kind": "encrypted", "type": "DOUBLE"}}}, "the test")


@pytest.fixture(scope="module")
def table() -> Iterator[Table]:
    with no_table("t", SCHEMA, ROWS) as made:
        yield made


def argument(
    type_: str, decimals: int | None = None, lower: float | None = None, upper: float | None = None
) -> Argument:
    return Argument("x", type_, decimals, ("x",), lower=lower, upper=upper)


def fill(table: Table, type_: str, values: Sequence[object]) -> None:
    """Make the table's relation of `values`, whose text is DuckDB's."""
    texts = [None if each is None else str(each) for each in values]
    table.connection.execute(
        f"CREATE OR REPLACE TABLE {table.relation} AS "
        f"SELECT unnest(?::BIGINT[]) AS cell, CAST(unnest(?::VARCHAR[]) AS {type_}) AS x",
        [CELLS[: len(texts)], texts],
    )


def extent(values: Sequence[float | None]) -> Extent | None:
    present = sorted(each for each in values if each is not None)
    return Extent(present[0], present[len(present) // 2], present[-1]) if present else None


def as_integers(column: Words) -> Integers:
    """Words as Python's integers."""
    total: Integers = np.zeros(column.shape[1], object)
    for place, word in enumerate(column):
        total = total + (word.astype(object) << (64 * place))
    return total


def check_moments(table: Table, measure: Measure, exact: Sequence[Fraction | None]) -> None:
    """Every cell's sum and sum of squares about the centre lie within their bounds of the exact ones, and what scans
    add up of the rows is the same.
    """
    summing = Summing(table, ["cell"], [measure])
    totals, rows = summing.sums(), summing.rows()
    parts = [each.part for each in measures.columns_of([measure])]
    centre = measures.facts(measure).centre
    assert sorted(rows.numbers.tolist()) == list(range(ROWS))
    for number, (cell,) in enumerate(totals.keys):
        of = [row for row, each in enumerate(CELLS) if str(each) == cell]
        assert totals.counts[number] == len(of)
        sums = {part: int(as_integers(each)[number]) for part, each in zip(parts, totals.columns, strict=True)}
        chosen = np.isin(rows.numbers, of)
        assert sums == {
            part: int(sum(as_integers(each)[chosen])) for part, each in zip(parts, rows.columns, strict=True)
        }
        assert len(set(rows.cells[chosen].tolist())) == 1
        present = [value for value in (exact[row] for row in of) if value is not None]
        count = sums.pop("count")
        assert count == len(present)
        found = {
            moment: measures.decoding(measure, part).estimate(Estimate(Fraction(sums[part])), count)
            for moment in (Sum(), Power(2))
            if (part := measures.part_of(moment)) is not None
        }
        total = found[Sum()]
        assert abs(total.value - sum(present, Fraction(0))) <= total.bound
        squares = found[Power(2)]
        wanted = sum(((value - centre) ** 2 for value in present), Fraction(0))
        assert abs(squares.value - wanted) <= squares.bound
        if measure.decimals is not None:
            assert total.exact
            assert squares.exact


doubles = st.floats(min_value=-1e15, max_value=1e15, allow_subnormal=True)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(st.none(), doubles), min_size=ROWS, max_size=ROWS), st.booleans())
def test_totals_of_doubles(table: Table, values: list[float | None], declared: bool) -> None:
    bounds = (-(2.0**50), 2.0**50) if declared else (None, None)
    fill(table, "DOUBLE", values)
    measure = measures.measure_of("x", argument("DOUBLE", None, *bounds), extent(values))
    check_moments(table, measure, [None if v is None else Fraction(v) for v in values])


@pytest.mark.parametrize("offset", [0.0, 1e9, -1e15, 1e-300, 3.0])
@pytest.mark.parametrize("spread", [0.0, 1e-9, 1.0, 1e6, 1e-310])
def test_totals_of_doubles_far_from_zero(table: Table, offset: float, spread: float) -> None:
    values = (offset + spread * np.random.default_rng(7).standard_normal(ROWS)).tolist()
    fill(table, "DOUBLE", values)
    measure = measures.measure_of("x", argument("DOUBLE"), extent(values))
    check_moments(table, measure, [Fraction(v) for v in values])


EXACT = {
    "DECIMAL(18,2)": (2, None),
    "BIGINT": (0, None),
    "HUGEINT": (0, 1 << 126),
    "DECIMAL(38,0)": (0, None),
    "DECIMAL(38,22)": (22, None),
    "DECIMAL(30,6)": (6, 1 << 106),
    "DECIMAL(30,9)": (9, 1 << 62),
    "DECIMAL(17,9)": (9, 1 << 50),
    "DECIMAL(17,1)": (1, (1 << 54) - 1),
    "DECIMAL(38,21)": (21, (1 << 50) - 1),
    "INTEGER": (0, 1 << 31),
    "BOOLEAN": (0, 1),
}


@pytest.mark.parametrize("type_", EXACT)
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
@pytest.mark.sampled(4)
def test_totals_of_exact_values(table: Table, type_: str, data: st.DataObject) -> None:
    """The ends of what a type or a bound allows among them."""
    decimals, bound = EXACT[type_]
    low, high = range_of(type_)
    if bound is not None:
        low, high = max(low, -bound), min(high, bound)
    some = st.one_of(st.none(), st.sampled_from([low, high]), st.integers(low, high))
    values = data.draw(st.lists(some, min_size=ROWS, max_size=ROWS))
    fill(table, type_, [None if v is None else f"{Decimal(v).scaleb(-decimals, WIDE):f}" for v in values])
    measure = measures.measure_of("x", argument(type_, decimals, low, high), None)
    check_moments(table, measure, [None if v is None else Fraction(v, 10**decimals) for v in values])


def test_terms_below_zero_are_carried_through_all_words() -> None:
    below = np.array([[2**64 - 5, 2**64 - 10]], np.uint64)
    found = measures.combined([(below, 0), (below, 32)], 1 << 69, np.array([1, 2]), 1 << 90)
    assert as_integers(found).tolist() == [(1 << 69) - 5 - (5 << 32), (1 << 70) - 10 - (10 << 32)]


def test_values_that_the_table_was_not_made_for(table: Table) -> None:
    first = np.linspace(1.0, 2.0, ROWS).tolist()
    measure = measures.measure_of("x", argument("DOUBLE"), extent(first))
    fill(table, "DOUBLE", [100.0] * ROWS)
    Summing(table, ["cell"], [measure])
    for value, said in (
        (1e6, "outside the"),
        (math.nan, "NaN"),
        (math.inf, "infinite"),
        (1e300, "outside the"),
    ):
        fill(table, "DOUBLE", [*first[1:], value])
        with pytest.raises(InputError, match=said):
            Summing(table, ["cell"], [measure])
    measure = measures.measure_of("x", argument("BIGINT", 0, 0, 7), None)
    for whole in (-1, 8):
        fill(table, "BIGINT", [0, whole, 7])
        with pytest.raises(InputError, match="x is outside its bounds"):
            Summing(table, ["cell"], [measure])
    measure = measure.model_copy(update={"nullable": False})
    fill(table, "BIGINT", [0, None, 7])
    with pytest.raises(InputError, match="x is NULL in 1 row,"):
        Summing(table, ["cell"], [measure])


def test_what_cannot_be_computed_is_named_without_a_value(table: Table) -> None:
    fill(table, "BIGINT", [4_000_000_000_000_000_001] * 2)
    measure = unscaled("square", Argument("x * x", "BIGINT", 0, ("x",)), derived=True)
    with pytest.raises(InputError, match=r'^"x" \* "x" cannot be computed in some row') as failure:
        Summing(table, ["cell"], [measure])
    assert "4000000000000000001" not in f"{failure.value!r}{failure.value.__cause__!r}{failure.value.__context__!r}"


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
        of = {lane: noisy[lane] for lane in lanes.holding(column)}
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
    made = lanes.polynomials(lane)
    assert made.shape == (3, SUM60_PACK.degree)
    assert (made[:, : lanes.capacity].reshape(-1)[: len(lane)] == lane).all()
    assert not made[2, 17:].any()
