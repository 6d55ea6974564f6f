"""Moments, from which aggregates over encrypted columns are computed, and figures, their results.

The sensitive service only computes totals of encrypted columns. A moment is such a column together with a way to decode
its total. An aggregate (cleave.aggregates.group) names its moments and the formula of its figure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Protocol

from cleave.aggregates.columns import ColumnType, Domain, Doubles, Words
from cleave.aggregates.operand import Operand

if TYPE_CHECKING:
    from flint import arb, fmpq

UNIT = 2.0**-53  # unit roundoff of a float64
SIGMAS = 7.54  # sqrt(2 ln(2 / 2^-40)): the factor of every statistical bound (docs/ckks.md section 3)


def snapped(value: Fraction, bound: Fraction) -> tuple[Fraction, Fraction]:
    """Round a decrypted total to the nearest multiple of a unit. Its error is at most `bound` > 0. Returns the result
    and its bound.

    A decrypted total of a real column is the data's total plus noise, so its last digits show noise. If such figures
    were printed in full, some thousands would reveal the secret key by elimination (docs/ckks.md section 8). So every
    aggregate, decision and shown digit, in every query, uses the rounded total only.

    The unit is the power of two in (bound / 2, bound], which is 3.77 to 7.54 standard deviations of the noise. So
    totals of the same data under different noise are mostly equal. The bound grows by half a unit.
    """
    unit = grid(bound)
    return round(value / unit) * unit, bound + unit / 2


def grid(bound: Fraction) -> Fraction:
    """The largest power of two that is at most `bound` > 0."""
    power = bound.numerator.bit_length() - bound.denominator.bit_length()
    unit = Fraction(2) ** power
    return unit if unit <= bound else unit / 2


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with `|value - truth| <= bound`. "Exact" means that the bound is 0 by construction."""

    value: Fraction
    bound: Fraction = Fraction(0)

    @property
    def exact(self) -> bool:
        return self.bound == 0


@dataclass(frozen=True, slots=True)
class Decoding:
    """Conversion of a column's total to a moment. It includes the float64 error of the column's values. It is not sent.

      moment = unit * total + count * shift,  with an error of at most  count * each + share * |unit * total|

    `void`: every value of the column is 0. So its total is 0 too, whatever the noise.
    """

    unit: Fraction = Fraction(1)
    shift: Fraction = Fraction(0)
    each: Fraction = Fraction(0)
    share: Fraction = Fraction(0)
    void: bool = False

    def estimate(self, total: Estimate, count: int) -> Estimate:
        if self.void:
            return Estimate(count * self.shift, count * self.each)
        value, bound = (total.value, total.bound) if total.exact else snapped(total.value, total.bound)
        if self.share:
            bound += self.share * (abs(value) + bound)
        # fractions are slow, and most are 1 or 0
        if self.unit != 1:
            value, bound = self.unit * value, self.unit * bound if bound else bound
        if self.shift:
            value += count * self.shift
        return Estimate(value, bound + count * self.each if self.each else bound)


class Moment:
    """A sum over a group's rows in which no argument of the aggregate is NULL.

    Methods get the arguments that `reads` lists, in that order. For two arguments the order does not matter. Equal
    moments over the same arguments and rows share a column, also between aggregates.
    """

    __slots__ = ()
    of: int  # index of the argument

    @property
    def name(self) -> str:
        """Name in `cleave plan`."""
        raise NotImplementedError

    @property
    def reads(self) -> tuple[int, ...]:
        return (self.of,)

    def column(self, arguments: Sequence[Domain]) -> ColumnType | None:
        """The type of its column; None if the domains imply that the moment is 0."""
        raise NotImplementedError

    def encode(self, arguments: Sequence[Operand]) -> tuple[Words | Doubles, Decoding]:
        """Values of its column (0 in excluded rows), with the type of `column`; and how to decode a total."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts about an argument that formulas need."""

    domain: Domain
    centre: Fraction  # c, of the moments about c


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of one group, in DuckDB's type. `value` None is SQL NULL.

    `exact`: `value` is the exact mathematical value, which is rational; a DOUBLE is that value correctly rounded.
    `bound` is then 0. Otherwise the exact value is within `bound` of `value`. An infinite bound means that the value is
    unknown, and may be NULL.

    `ball` encloses the exact mathematical value before rounding; if rational, it is that value. None for NULL, NaN and
    truth values. `hidden`: a total that the figure needs is withheld, so it is unknown.
    """

    value: int | float | Fraction | bool | None
    bound: float
    exact: bool
    ball: arb | fmpq | None = field(default=None, compare=False, repr=False)
    hidden: bool = False


HIDDEN = Figure(None, math.inf, exact=False, hidden=True)


def null() -> Figure:
    return Figure(None, 0.0, exact=True)


def nan() -> Figure:
    """Return DuckDB's result for a division by a deviation of 0."""
    return Figure(math.nan, 0.0, exact=True)


def undecided() -> Figure:
    """Return an unknown figure: the deviation may be 0, so the statistic may not exist."""
    return Figure(math.nan, math.inf, exact=False)


@dataclass(frozen=True, slots=True)
class ExactColumn:
    """Exact figures of many groups: integers in units of 10^-`decimals`, or doubles if `decimals` is None."""

    values: Sequence[int | float | None]
    decimals: int | None


class Answers(Protocol):
    """Figures of a plan's aggregates, which are numbered."""

    def __len__(self) -> int: ...  # number of groups

    def column(self, number: int) -> Sequence[Figure]:
        """Figures of aggregate `number`, one per group."""
        ...

    def exact(self, number: int) -> ExactColumn | None:
        """Exact figures of aggregate `number`, one per group; None unless all are known to be exact."""
        ...


class FigureRows:
    """`figures[g][i]` is the figure of aggregate i for group g."""

    def __init__(self, figures: Sequence[Sequence[Figure]]) -> None:
        self._figures = figures

    def __len__(self) -> int:
        return len(self._figures)

    def column(self, number: int) -> Sequence[Figure]:
        return [row[number] for row in self._figures]

    def exact(self, number: int) -> ExactColumn | None:  # noqa: ARG002 - it never knows
        return None
