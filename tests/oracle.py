"""What every aggregate is in exact arithmetic, and how far DuckDB's own float64 may be from that.

Figures are held to the exact value always. DuckDB is held to figures within their bound plus the worst case of its own
algorithm: what its floating point loses is DuckDB's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import flint
from flint import arb, fmpq

UNIT = Fraction(1, 2**53)
TINY = Fraction(1, 2**1074)
PRECISION = 400
Values = Sequence[Fraction]


def rational(value: Fraction) -> arb:
    return arb(fmpq(value.numerator, value.denominator))


def fraction(value: Any) -> Fraction:
    """A finite value of DuckDB's, or of ours, as the rational it is."""
    return Fraction(int(value)) if isinstance(value, bool) else Fraction(value)


def over_one(values: Values) -> tuple[list[int], int]:
    """Numerators over one denominator, and that: many times faster than adding fractions."""
    common = math.lcm(*{value.denominator for value in values})
    return [value.numerator * (common // value.denominator) for value in values], common


def _sums(values: Values) -> tuple[Fraction, Fraction]:
    """Sum of x and of x^2."""
    whole, common = over_one(values)
    return Fraction(sum(whole), common), Fraction(sum(value * value for value in whole), common**2)


def truth(name: str, values: Values) -> arb | None:
    """The aggregate of `values` without its NULLs, to 400 bits; None is SQL NULL."""
    n = len(values)
    with flint.ctx.workprec(PRECISION):
        if name == "COUNT":
            return arb(n)
        if not n or (n == 1 and name in ("VAR_SAMP", "STDDEV_SAMP")):
            return None
        if name == "PRODUCT":
            product = arb(1)
            for value in values:
                product *= rational(value)
            return product
        total, squares = _sums(values)
        if name == "SUM":
            return rational(total)
        if name == "AVG":
            return rational(total / n)
        variance = rational((squares - total**2 / n) / (n - name.endswith("SAMP")))
        return variance.sqrt() if name.startswith("STDDEV") else variance


def duckdb_loss(name: str, values: Values, decimals: int | None) -> Fraction | None:
    """The largest distance of DuckDB's figure to the exact one; None: it may be of any size, or no number at all.

    A running sum loses n - 1 units of sum |x| (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., 4.2).
    Welford's recurrence: each step rounds the running mean, by u (max|x| + 2 range) and more, and the next keep
    (1 - 1/k) of it, so that it is off by e <= u (n/2 + 2) (max|x| + 3 range) at worst; that shifts both factors of
    each summand, d^2 <= range^2, by e, besides n roundings of the sum.
    """
    n = len(values)
    if not n or name == "COUNT" or (name == "SUM" and decimals is not None):
        return Fraction(0)
    largest = max(map(abs, values))
    if name == "PRODUCT":
        logs = [math.log(abs(value.numerator)) - math.log(value.denominator) for value in values if value]
        above, below = sum(log for log in logs if log > 0), sum(log for log in logs if log < 0)
        if above > 709 or below < -707:  # a partial product overflows or underflows in some order
            return None
        return Fraction(4 * n) * UNIT * Fraction(math.exp(min(709.0, above + below + 1)))
    sizes = sum(abs(value) for value in _coarse(values)) * (1 + UNIT * n)
    if name in ("SUM", "AVG"):
        if 2 * sizes >= Fraction(2) ** 1023:
            return None
        loss = UNIT * n * sizes * 2 + n * TINY
        return loss if name == "SUM" else (loss + 4 * UNIT * sizes) / n + TINY
    spread = max(values) - min(values)
    if 4 * n * spread**2 >= Fraction(2) ** 1023:
        return None
    if decimals is not None:
        spread += 4 * UNIT * largest  # each value is rounded to a double first
    mean_off = UNIT * (Fraction(n, 2) + 2) * (largest + 3 * spread) + n * TINY
    step_off = mean_off + 2 * UNIT * (largest + spread)
    loss = 2 * (2 * spread * step_off + step_off**2) + 2 * UNIT * n * spread**2 + n * TINY
    if not name.startswith("STDDEV"):
        return loss
    root = truth(name, values)
    assert root is not None
    lower = fraction(float(root.lower()))
    if loss >= Fraction(2) ** 1023:
        return None
    # sqrt(v + d) - sqrt(v) <= min(sqrt(d), d / sqrt(v))
    ends = [Fraction(math.sqrt(loss)) * (1 + 4 * UNIT)]
    if lower > 0:
        ends.append(loss / lower * (1 + 4 * UNIT))
    return min(ends) + 4 * UNIT * fraction(float(root.upper())) + TINY


def _coarse(values: Values) -> list[Fraction]:
    return [Fraction(float(value)) for value in values]


class Cell:
    """One figure against the exact value and against DuckDB's: what is wrong with it, and how tight its bound is."""

    def __init__(self, name: str, values: Values, decimals: int | None) -> None:
        self.name, self.values, self.decimals = name, values, decimals
        self.truth = truth(name, values)

    def wrong(self, value: Any, bound: float | None, exact: bool | None) -> str | None:
        """Why (value, bound, exact) breaks the promise, None where it keeps it."""
        if self.truth is None or value is None:
            return None if self.truth is None and value is None else f"NULL on one side: {value!r} for {self.truth}"
        if exact:
            right = float(self.truth.mid()) if isinstance(value, float) else self._typed()
            return None if value == right else f"exact {value!r} is not {right!r}"
        if bound is None or math.isinf(bound):
            return None
        error = self.error(value)
        return None if error.lower() <= arb(bound) else f"{value!r} +- {bound!r} is off by {float(error.mid())}"

    def error(self, value: Any) -> arb:
        assert self.truth is not None
        with flint.ctx.workprec(PRECISION):
            return abs(rational(fraction(value)) - self.truth)

    def _typed(self) -> Fraction:
        return Fraction(len(self.values)) if self.name == "COUNT" else _sums(self.values)[0]

    def disagrees(self, value: Any, bound: float | None, theirs: Any) -> str | None:
        """Why DuckDB's figure cannot be of the same data, None where it can."""
        if value is None or theirs is None:
            return None if value is theirs else f"NULL on one side: {value!r}, DuckDB {theirs!r}"
        loss = duckdb_loss(self.name, self.values, self.decimals)
        if loss is None or bound is None or math.isinf(bound) or not math.isfinite(theirs):
            return None
        ours = fraction(value)
        # our own figure is rounded to a double, even an exact one; so is DuckDB's
        allowed = Fraction(bound) + loss + (2 * UNIT * abs(ours) + TINY if isinstance(value, float) else 0)
        apart = abs(ours - fraction(theirs))
        return None if apart <= allowed else f"{value!r} +- {bound!r}, DuckDB {theirs!r} +- {float(loss)!r}"


def decimals_of(value: Any) -> int | None:
    if isinstance(value, Decimal):
        return -int(value.as_tuple().exponent)
    return None if isinstance(value, float) else 0
