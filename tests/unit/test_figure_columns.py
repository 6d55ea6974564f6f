"""Figures made a column at a time are those made group by group with fractions and balls, to the last bit."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, cast

import numpy as np
from flint import arb
from hypothesis import given, settings
from hypothesis import strategies as st

from cleave.aggregates import AGGREGATES
from cleave.aggregates.base import Estimate, Figure, FigureRows
from cleave.aggregates.columns import Domain, Values
from cleave.aggregates.group import EncryptedAggregate
from cleave.ckks.columns import Columns
from cleave.ckks.figures import Figures
from cleave.ckks.job import GroupTotals, Job
from cleave.ckks.packing import plan_packing
from cleave.finish.finish import bare_cells
from cleave_shared.params import SUM60_PACK
from tests.campaign import FACTOR
from tests.unit.simulate import values_of
from tests.unit.test_packing import added_up

NAMES = ("SUM", "AVG", "COUNT", "VAR_SAMP")


@dataclass
class Added:
    """What `Figures` needs of a job."""

    totals: GroupTotals


exact_domains = st.builds(
    lambda decimals, a, b, nullable: Domain(decimals, min(a, b), max(a, b), nullable),
    st.sampled_from([0, 2, 9, 38]),
    st.integers(-(2**100), 2**100) | st.integers(-300, 300),
    st.integers(-(2**100), 2**100) | st.integers(-300, 300),
    st.booleans(),
)
doubles = st.floats(-1e300, 1e300) | st.floats(-1e3, 1e3) | st.sampled_from([0.1, 1e6 + 1e-7, -0.0, 5e-324, 2.0**-1000])
bounded = st.builds(
    lambda low, nullable: Domain(None, 0, 0, nullable, low, low + 100.0), st.floats(1, 1e6), st.booleans()
)
domains = exact_domains | st.builds(lambda nullable: Domain(None, nullable=nullable), st.booleans()) | bounded


def values(domain: Domain, rows: int, data: st.DataObject, random: np.random.Generator) -> Values:
    if domain.is_exact:
        some: list[Any] = [domain.lower, domain.upper, data.draw(st.integers(domain.lower, domain.upper))]
        some = [Fraction(each, domain.unit) for each in some]
    elif math.isfinite(domain.low):
        some = [domain.low, domain.high, data.draw(st.floats(domain.low, domain.high))]
    else:
        some = data.draw(st.lists(doubles, min_size=1, max_size=4))
    chosen = [some[i] for i in random.integers(0, len(some), rows)]
    if domain.nullable:
        chosen = [
            None if hidden else each for each, hidden in zip(chosen, random.integers(0, 3, rows) == 0, strict=True)
        ]
    return values_of(chosen, domain.decimals)


def same(one: Figure, other: Figure) -> bool:
    balls = [None if each.ball is None else (arb(each.ball).mid(), arb(each.ball).rad()) for each in (one, other)]
    return (one, type(one.value), balls[0]) == (other, type(other.value), balls[1])


@given(st.data(), st.lists(st.integers(1, 40), min_size=1, max_size=12), st.lists(domains, min_size=1, max_size=3))
@settings(deadline=None, max_examples=50 * FACTOR)
def test_columns_of_figures_are_the_figures_of_the_groups(
    data: st.DataObject, counts: list[int], kinds: list[Domain]
) -> None:
    random = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    asked = [EncryptedAggregate(AGGREGATES[name], (place,)) for place in range(len(kinds)) for name in NAMES]
    columns = Columns(kinds, asked)
    held = [values(each, sum(counts), data, random) for each in kinds]
    given = columns.encode([f"x{i}" for i in range(len(kinds))], held)
    packing = plan_packing(columns.types, counts, SUM60_PACK)
    salt = data.draw(st.sampled_from([0.0, 0.1, 0.9]))
    job = Added(added_up(packing, given, salt=salt)) if packing.chunks else None
    groups = [group for group in range(len(counts)) if random.integers(0, 4)]
    figures = Figures(columns, cast(Job | None, job), [(group,) for group in groups], counts)
    nothing = [Estimate(Fraction(0))] * len(columns.types)
    slow = [columns.figures(job.totals.estimates(group) if job else nothing, counts[group]) for group in groups]
    for number, each in enumerate(asked):
        expected = [row[number] for row in slow]
        assert all(map(same, figures.column(number), expected)), each
        type_ = each.aggregate.result_type(_type(kinds[each.arguments[0]]))
        places = range(len(groups))
        found, wanted = (bare_cells(answers, number, type_, places) for answers in (figures, FigureRows(slow)))
        assert list(map(repr, found)) == list(map(repr, wanted))  # NaN equals itself, and -0.0 is not 0.0


def test_sums_and_means_take_the_fast_way() -> None:
    """Else the test above compares the slow way with itself."""
    kinds = [Domain(2, 0, 1000), Domain(None), Domain(None, 0, 0, True, 1.0, 200.0)]
    columns = Columns(
        kinds, [EncryptedAggregate(AGGREGATES[name], (i,)) for i in range(3) for name in ("SUM", "AVG", "COUNT")]
    )
    counts = [5] * 400
    given = columns.encode(
        ["a", "b", "c"], [values_of([Fraction(i % 7) + 1 for i in range(2000)], each.decimals) for each in kinds]
    )
    totals = added_up(plan_packing(columns.types, counts, SUM60_PACK), given)
    job = cast(Job, Added(totals))
    figures = Figures(columns, job, [(group,) for group in range(400)], counts)
    known = [number for number in range(9) if figures.exact(number) is not None]
    assert known == [0, 1, 2, 5, 8]  # cents, and counts
    for number in range(9):
        figures.column(number)
    assert "_others" not in vars(figures)


def _type(domain: Domain) -> str:
    return "DOUBLE" if domain.decimals is None else f"DECIMAL(38,{domain.decimals})" if domain.decimals else "BIGINT"
