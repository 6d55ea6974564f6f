"""An irrational value is `rounded`: the nearest double, with half a unit in the last place as its bound."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import pytest
from flint import arb

from cleave.aggregates.balls import exact_root, half_unit
from cleave.finish.cells import of_figure
from cleave.text import figures
from tests.oracle import PRECISION, rational, truth
from tests.unit.simulate import schema
from tests.unit.test_sql_finish import exact, finished


def test_roots_against_the_oracle() -> None:
    chance = random.Random(5)
    for _ in range(100):
        values = [Fraction(chance.randrange(10**6), 100) for _ in range(chance.randrange(2, 9))]
        spread, root = truth("VAR_SAMP", values), truth("STDDEV_SAMP", values)
        assert spread is not None
        assert root is not None
        mean = sum(values) / len(values)
        figure = exact_root(sum((value - mean) ** 2 for value in values) / (len(values) - 1))
        assert isinstance(figure.value, float)
        with_all = abs(rational(Fraction(figure.value)) - root)
        assert with_all.lower() <= arb(figure.bound)
        assert figure.value == float(root.mid())
        assert figure.exact or figure.bound == math.ulp(figure.value) / 2
    assert PRECISION > 64


@pytest.mark.parametrize(
    ("square", "sign", "is_exact"),
    [
        *[(Fraction(2), 1, False), (Fraction(4), 1, True), (Fraction(9, 4), -1, True), (Fraction(1, 9), 1, True)],
        *[(Fraction(3, 10**30), -1, False), (Fraction(0), 1, True), (Fraction(1, 10**646), 1, True)],
    ],
)
def test_a_rational_root_is_exact(square: Fraction, sign: int, is_exact: bool) -> None:
    figure = exact_root(square, sign)
    cell = of_figure(figure, "DOUBLE")
    assert (figure.exact, cell.exact) == (is_exact, is_exact)
    assert cell.bound == (0.0 if is_exact else math.ulp(figure.value) / 2)


def test_expressions_of_irrationals_are_rounded() -> None:
    table = schema(g="plain VARCHAR", i="encrypted BIGINT")
    sql = "SELECT stddev(i) * 2, sqrt(sum(i)), avg(i) / 3, sqrt(sum(i) + 2), ln(sum(i)) FROM t"
    result = finished(table, sql, [[exact_root(Fraction(2)), exact(7), exact(Fraction(1))]])
    assert result.exact == [[False, False, True, True, False]]
    for value, bound, is_exact in zip(result.rows[0], result.bounds[0], result.exact[0], strict=True):
        assert bound == (0.0 if is_exact else half_unit(value))
        assert figures.is_rounded(value, bound) is not is_exact


def test_a_rounded_figure_is_written_with_every_digit() -> None:
    bound = math.ulp(math.sqrt(2)) / 2
    assert figures.encrypted(math.sqrt(2), bound, exact=False) == "1.4142135623730951 rounded"
    assert figures.published(math.sqrt(2), bound, exact=False) == (math.sqrt(2), bound)
    assert figures.encrypted(math.sqrt(2), bound * 2, exact=False) != "1.4142135623730951 rounded"
    assert not figures.is_rounded(0.0, 0.0)
