"""Moments, which aggregates over encrypted columns are made of, and their figures.

The sensitive service computes totals of encrypted columns and nothing else. A moment is one such column and how its
total is read. An aggregate (cleave.aggregates.group) names the moments it needs and how its figure follows from them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Protocol

from cleave.aggregates.columns import Column, Domain, Doubles, Words
from cleave.aggregates.operand import Operand

if TYPE_CHECKING:
    from flint import arb, fmpq

UNIT = 2.0**-53  # unit roundoff of a float64
SIGMAS = 7.54  # sqrt(2 ln(2 / 2^-40)): the factor of every statistical bound (docs/ckks.md section 3)


def snapped(value: Fraction, bound: Fraction) -> tuple[Fraction, Fraction]:
    """Round a decrypted total, off by at most `bound` > 0, to the nearest multiple of a unit; with the bound of that.

    A decrypted total of a real column is the data's plus noise, and its last digits are the noise's: printed in full,
    some thousands of such figures give the secret key by elimination (docs/ckks.md section 8). Every aggregate, every
    composite, every decision and every digit shown is made from the rounded total instead, in every query.

    The unit is the power of two in (bound / 2, bound], which is 3.77 to 7.54 standard deviations of the noise: totals
    of the same data under different noise mostly come out the same. The bound grows by half a unit.
    """
    unit = grid(bound)
    return round(value / unit) * unit, bound + unit / 2


def grid(bound: Fraction) -> Fraction:
    """The largest power of two that is not above `bound` > 0."""
    power = bound.numerator.bit_length() - bound.denominator.bit_length()
    unit = Fraction(2) ** power
    return unit if unit <= bound else unit / 2


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with `|value - truth| <= bound`; exact means the bound is 0 by construction."""

    value: Fraction
    bound: Fraction = Fraction(0)

    @property
    def exact(self) -> bool:
        return self.bound == 0


@dataclass(frozen=True, slots=True)
class Decoding:
    """Conversion of a column's total to a moment, and the float64 error of the column's values. It is never sent.

        moment = unit * total + count * shift,  off by  count * each + share * |unit * total|  at most

    `void`: every value of the column is 0, and so is any total, whatever its noise.
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
        # fractions are slow, and most of these are 1 or 0
        if self.unit != 1:
            value, bound = self.unit * value, self.unit * bound if bound else bound
        if self.shift:
            value += count * self.shift
        return Estimate(value, bound + count * self.each if self.each else bound)


class Moment:
    """A total over the rows of a group where none of the aggregate's arguments is NULL.

    `arguments` of its methods are those it `reads`, in that order. Of two, it is the same whichever comes first.
    Moments of one name over the same arguments and rows share a column, whatever aggregates they belong to.
    """

    __slots__ = ()
    of: int  # which of the aggregate's arguments, by number

    @property
    def name(self) -> str:
        """As `cleave plan` shows it."""
        raise NotImplementedError

    @property
    def reads(self) -> tuple[int, ...]:
        return (self.of,)

    def column(self, arguments: Sequence[Domain]) -> Column | None:
        """The type of its column, None where the domains settle that the moment is 0."""
        raise NotImplementedError

    def encode(self, arguments: Sequence[Operand]) -> tuple[Words | Doubles, Decoding]:
        """Its column's values, of the type `column` says, 0 in rows that do not count; and how to read a total."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts of an argument that a formula needs."""

    domain: Domain
    centre: Fraction  # c of the moments about it


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of one group, as DuckDB types it. `value` None is SQL NULL.

    exact: `value` is the exact mathematical value, which is rational, correctly rounded where the type is DOUBLE; the
    bound is 0. Otherwise the exact value lies within `bound` of `value`, in its units; infinite: it is not known, nor
    whether it is a number or NULL. `ball` encloses the exact mathematical value, unrounded, and is that value where it
    is a rational; None for NULL, NaN and truth values. `hidden`: a total that it adds is withheld, so it is not known.
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
    """Return DuckDB's result of a formula that divides by a deviation of 0."""
    return Figure(math.nan, 0.0, exact=True)


def undecided() -> Figure:
    """Return the ball of a statistic whose deviation may be 0, so that it may not exist."""
    return Figure(math.nan, math.inf, exact=False)


@dataclass(frozen=True, slots=True)
class ExactColumn:
    """Exact figures that need no ball: integers in units of the last of so many decimals, or doubles (None)."""

    values: Sequence[int | float | None]
    decimals: int | None


class Answers(Protocol):
    """Figures of the aggregates of a plan, by their numbers."""

    def __len__(self) -> int: ...  # groups

    def column(self, number: int) -> Sequence[Figure]:
        """Return the column of every group."""
        ...

    def exact(self, number: int) -> ExactColumn | None:
        """Return the exact totals of every group; None where some are not exact or not known to be."""
        ...


class Rows:
    """`figures[g][i]` is the figure of aggregate i for group g."""

    def __init__(self, figures: Sequence[Sequence[Figure]]) -> None:
        self._figures = figures

    def __len__(self) -> int:
        return len(self._figures)

    def column(self, number: int) -> Sequence[Figure]:
        return [row[number] for row in self._figures]

    def exact(self, number: int) -> ExactColumn | None:  # noqa: ARG002 - nothing is known beforehand
        return None
