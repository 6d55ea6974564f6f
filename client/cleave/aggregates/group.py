"""An aggregate over encrypted columns, and what its formula is computed of: one group's moments.

Sums of powers and products about the mean follow from moments about centres:

    T1 = sum (x - c),  T2 = sum (x - c)^2, ..., d = T1 / n:

    sum (x - mean)^2 = T2 - n d^2
    sum (x - mean)^3 = T3 - 3 d T2 + 2 n d^3
    sum (x - mean)^4 = T4 - 4 d T3 + 6 d^2 T2 - 3 n d^4
    sum (x - mean)(y - mean') = sum (x - c)(y - c') - n d d'

These hold for any c; one near the mean keeps d, and what cancels, small (docs/ckks.md section 4).

Plans need what aggregates declare, figures alone need flint, which takes 20 ms to import.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cleave.aggregates.base import Estimate, Facts, Figure, Moment, null
from cleave.aggregates.moments import Cross, Power, Sum
from cleave_shared.errors import CheckFailed

if TYPE_CHECKING:
    from flint import fmpq

    from cleave.aggregates.balls import Number


@dataclass(frozen=True, slots=True)
class Group:
    """`count` rows have no NULL among the arguments. Methods give a rational where the totals they read are exact."""

    count: int
    moments: Mapping[Moment, Estimate]
    arguments: Sequence[Facts]

    def total(self, moment: Moment) -> Number:
        from cleave.aggregates.balls import number  # noqa: PLC0415 - flint

        return number(self.moments[moment])

    def mean(self, of: int = 0) -> Number:
        return self.total(Sum(of)) / self.count

    def squares(self, of: int = 0) -> Number:
        """Raises CheckFailed where two exact totals cannot be of the same values."""
        if self.count == 1:
            return _zero()
        from flint import arb  # noqa: PLC0415 - flint

        squares = self.total(Power(2, of))
        if not isinstance(squares, arb) and squares == 0:  # every value is the centre
            return squares
        offset = self._offset(of)
        return _not_below_zero(squares - self.count * (offset * offset))

    def products(self) -> Number:
        if self.count == 1:
            return _zero()
        return self.total(Cross()) - self.count * (self._offset(0) * self._offset(1))

    def cubes(self) -> Number:
        offset = self._offset(0)
        return self.total(Power(3)) - 3 * offset * self.total(Power(2)) + 2 * self.count * offset**3

    def fourths(self) -> Number:
        offset, squares = self._offset(0), self.total(Power(2))
        left = self.total(Power(4)) - 4 * offset * self.total(Power(3)) + 6 * offset**2 * squares
        return _not_below_zero(left - 3 * self.count * offset**4)

    def _offset(self, of: int) -> Number:
        """d: how far the mean is from the centre."""
        from cleave.aggregates.balls import number  # noqa: PLC0415 - flint

        total = self.moments[Sum(of)]
        return number(Estimate(total.value / self.count - self.arguments[of].centre, total.bound / self.count))


@dataclass(frozen=True, slots=True)
class Aggregate:
    """`names`: in SQL, in upper case, DuckDB's spelling and its synonyms. `moments`: besides the number of rows
    that count, which all have. `formula`: of a group of at least `least` rows; NULL for fewer. `type`: DuckDB's type
    of the result, or how it follows from the argument's.
    """

    names: tuple[str, ...]
    moments: tuple[Moment, ...]
    formula: Callable[[Group], Figure | Number]
    least: int = 1
    arity: int = 1
    type: str | Callable[[str], str] = "DOUBLE"

    def result_type(self, argument: str, *_others: str) -> str:
        """DuckDB's type of the result for arguments of these types."""
        return self.type if isinstance(self.type, str) else self.type(argument)

    def finish(self, count: int, moments: Mapping[Moment, Estimate], arguments: Sequence[Facts]) -> Figure:
        """The figure of one group in which `count` rows have no NULL among the arguments."""
        if count < self.least:
            return null()
        from cleave.aggregates.balls import figure_of, precision  # noqa: PLC0415 - flint

        with precision():
            result = self.formula(Group(count, moments, arguments))
            return result if isinstance(result, Figure) else figure_of(result)


@dataclass(frozen=True, slots=True)
class EncryptedAggregate:
    """An aggregate over arguments, given by their numbers. `type`: DuckDB's type of the result."""

    aggregate: Aggregate
    arguments: tuple[int, ...]
    type: str = ""


def counted(group: Group) -> Figure:
    """Number of rows that count."""
    return whole(group.count)


def whole(value: int) -> Figure:
    from cleave.aggregates.balls import rational  # noqa: PLC0415 - flint

    return Figure(value, 0.0, exact=True, ball=rational(value))


def is_zero(value: Number) -> bool | None:
    """Check whether a value that is not below 0 is 0; None where its bounds leave that open."""
    from flint import arb  # noqa: PLC0415 - flint

    if isinstance(value, arb):
        return False if value.lower() > 0 else None
    return bool(value == 0)


def _zero() -> fmpq:
    from flint import fmpq  # noqa: PLC0415 - flint

    return fmpq(0)


def _not_below_zero(value: Number) -> Number:
    from flint import arb  # noqa: PLC0415 - flint

    from cleave.aggregates.balls import not_negative  # noqa: PLC0415 - flint

    if isinstance(value, arb):
        return not_negative(value)
    if value < 0:
        raise CheckFailed("range", "two exact totals cannot be of the same values")
    return value
