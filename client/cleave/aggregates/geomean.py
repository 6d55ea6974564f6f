"""GEOMEAN(x), GEOMETRIC_MEAN(x)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from cleave.aggregates.balls import ball, exact_double, inexact, nan, null, precision, rational, rounded
from cleave.aggregates.base import Estimate, Facts, Figure, Moment
from cleave.aggregates.moments import Log, Negative, Zero
from cleave.aggregates.product import whole_product

_LOG, _NEGATIVE, _ZERO = Log(), Negative(), Zero()


class Geomean:
    """exp(sum of ln x / n), which is what DuckDB's macro computes: NaN where a value is below 0, else 0 where one is 0,
    NULL where no value is left.

    Where the product of integers or decimals is known exactly (see PRODUCT) its root is correctly rounded.
    """

    names = ("GEOMEAN", "GEOMETRIC_MEAN")
    arity = 1
    moments: tuple[Moment, ...] = (_LOG, _NEGATIVE, _ZERO)

    def result_type(self, *argument_types: str) -> str:  # noqa: ARG002 - the same for every type
        return "DOUBLE"

    def finish(self, count: int, moments: Mapping[Moment, Estimate], arguments: Sequence[Facts]) -> Figure:
        if not count:
            return null()
        if moments[_NEGATIVE].value:
            return nan()
        if moments[_ZERO].value:
            return exact_double(Fraction(0))
        log = moments[_LOG]
        if log.exact and not log.value:
            return exact_double(Fraction(1))
        with precision():
            whole = whole_product(log, arguments[0].domain.decimals, count)
            if whole is None:
                return inexact((ball(log) / count).exp())
            root = rational(whole).root(count)
            low, high = float(root.lower()), float(root.upper())
            if low != high:
                return inexact(root)
            return exact_double(Fraction(low)) if _is_root(Fraction(low), whole, count) else rounded(low, root)


def _is_root(value: Fraction, whole: Fraction, count: int) -> bool:
    """Whether `value` to the power of `count` is `whole`: compared by size first, for powers can be long."""
    parts = ((value.numerator, whole.numerator), (value.denominator, whole.denominator))
    if any((part.bit_length() - 1) * count > of.bit_length() for part, of in parts):
        return False
    return value**count == whole
