"""What a person reads: no digit beyond the bound, and the printed bound covers what was rounded away."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cleave.text.figures import encrypted, is_rounded, plain, published


@pytest.mark.parametrize(
    ("value", "bound", "shown"),
    [
        (50.31, 1.7e-9, "50.31 ± 2e-9"),
        (1234567.891, 0.5, "1234567.9 ± 6e-1"),
        (123456.0, 2e3, "123000 ± 3e3"),
        (99999.99, 300.0, "100000 ± 4e2"),
        (-3.5, 9.6e-3, "-3.5 ± 1e-2"),
        (5.0, 96.0, "0 ± 2e2"),
        (-0.0001, 5.0, "0 ± 6e0"),
        (0.0, 0.9e-9, "0 ± 9e-10"),
        (0.0, 1e-9, "0 ± 2e-9"),
        (1e300, 3e290, "1e300 ± 4e290"),
        (1.2345e-12, 1e-15, "1.235e-12 ± 2e-15"),
        (5e-324, 5e-324, "5e-324 ± 5e-324"),
        (2.5, 0.0, "2.5 ± 0"),
        (math.nan, 1.0, "NaN ± unknown"),
        (1.5, math.inf, "1.5 ± unknown"),
        (None, None, "NULL"),
    ],
)
def test_figures_with_bounds(value: Any, bound: float | None, shown: str) -> None:
    assert encrypted(value, bound, exact=False) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (12, "12 exact"),
        (10**38 + 1, "100000000000000000000000000000000000001 exact"),
        (Decimal("12.30"), "12.30 exact"),
        (Decimal("0E-8"), "0.00000000 exact"),
        (Fraction(6, 2), "3 exact"),
        (None, "NULL"),
    ],
)
def test_exact_figures_keep_every_digit(value: Any, shown: str) -> None:
    assert encrypted(value, 0.0, exact=True) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [(True, "true"), (None, "NULL"), (0.1, "0.1"), (math.inf, "Infinity"), (-math.inf, "-Infinity"), ("x", "x")],
)
def test_plain_values(value: Any, shown: str) -> None:
    assert plain(value) == shown


@given(
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(min_value=5e-324, max_value=1e300, allow_nan=False),
)
def test_the_printed_interval_holds_the_computed_one(value: float, bound: float) -> None:
    if is_rounded(value, bound):
        assert encrypted(value, bound, exact=False) == f"{plain(value)} rounded"
        return
    figure, spread = encrypted(value, bound, exact=False).split(" ± ")
    assert abs(Fraction(figure) - Fraction(value)) + Fraction(bound) <= Fraction(spread)
    # one digit of bound, and never more than three times as wide as it has to be
    assert re.fullmatch(r"[1-9]e-?\d+", spread)
    assert Fraction(spread) <= 3 * Fraction(bound)
    # the figure ends at the bound's place
    assert Fraction(figure) % Fraction(10) ** int(spread.split("e")[1]) == 0
    # programs read the same
    value_read, bound_read = published(value, bound, exact=False)
    assert value_read == Decimal(figure)
    assert bound_read == float(spread)


@pytest.mark.parametrize(
    ("value", "bound", "exact", "shown"),
    [
        (1, 1.0, False, "1 ± 1e0 undecided"),
        ("heavy", None, False, "heavy undecided"),
        (True, None, False, "true undecided"),
        (None, None, False, "NULL undecided"),
        (2.0, None, False, "2.0 ± unknown undecided"),
    ],
)
def test_undecided_figures(value: Any, bound: float | None, exact: bool, shown: str) -> None:
    assert encrypted(value, bound, exact, undecided=True) == shown


def test_text_and_truth_are_exact_or_undecided() -> None:
    assert encrypted("heavy", 0.0, exact=True) == "heavy exact"
    assert encrypted("0.30000000000000004", None, exact=None) == "0.30000000000000004"
