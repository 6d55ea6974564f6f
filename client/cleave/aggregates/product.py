"""PRODUCT(x)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

import flint

from cleave.aggregates.balls import ball, exact_double, inexact, null, precision
from cleave.aggregates.base import Estimate, Facts, Figure, Moment
from cleave.aggregates.moments import Log, Negative, Zero

_LOG, _NEGATIVE, _ZERO = Log(), Negative(), Zero()
_EXACTLY = 2  # a bound that fails with probability 2^-40, twice as wide, fails with less than 2^-128
_DIGITS = 1000  # of all factors after the point: more are not worth looking for a whole number in


class Product:
    """Magnitude from a sum of logarithms, sign from the number of negative values, 0 if any value is 0. A DOUBLE for
    every type, as in DuckDB. NULL where no value is left.

    A product of integers or decimals is a whole number of units; where only one is near enough it is exact.
    """

    names = ("PRODUCT",)
    arity = 1
    moments: tuple[Moment, ...] = (_LOG, _NEGATIVE, _ZERO)

    def result_type(self, *argument_types: str) -> str:  # noqa: ARG002 - the same for every type
        return "DOUBLE"

    def finish(self, count: int, moments: Mapping[Moment, Estimate], arguments: Sequence[Facts]) -> Figure:
        if not count:
            return null()
        if moments[_ZERO].value:
            return exact_double(Fraction(0))
        sign = -1 if int(moments[_NEGATIVE].value) % 2 else 1
        log, decimals = moments[_LOG], arguments[0].domain.decimals
        if log.exact and not log.value:  # every factor is 1 or -1
            return exact_double(Fraction(sign))
        with precision():
            whole = whole_product(log, decimals, count)
            return inexact(sign * ball(log).exp()) if whole is None else exact_double(sign * whole)


def whole_product(log: Estimate, decimals: int | None, count: int) -> Fraction | None:
    """exp of the sum of logarithms of `count` decimals, where only one number of units is near enough to it."""
    if decimals is None or decimals * count > _DIGITS:
        return None
    surer = ball(Estimate(log.value, _EXACTLY * log.bound)).exp()
    units = (surer * flint.arb(10) ** (decimals * count)).unique_fmpz()
    return None if units is None else Fraction(int(units), 10 ** (decimals * count))
