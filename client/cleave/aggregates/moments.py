"""The sum of one argument, and what a product of its values follows from; see powers.py and cross.py for the others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from cleave.aggregates import words
from cleave.aggregates.base import Reading
from cleave.aggregates.columns import Column, Domain, Doubles, Exact, Flags, Real, Words
from cleave.aggregates.operand import Operand
from cleave_shared.dataclass import dataclass

UNIT = Fraction(1, 2**53)  # unit roundoff of a double: one rounding is off by this much of the result at most
# The relative error of numpy's logarithm: 2 units in the last place. Its vectorised kernels state less than 1; a test
# holds whatever processor it runs on to this.
LOGARITHM = 4 * UNIT
_FARTHEST_LOG = 746.0  # -ln of the smallest double, 2^-1074, is 744.5


@dataclass(frozen=True, slots=True)
class Sum:
    """Sum of x. Doubles are encrypted as x - c, exact values as x - lower."""

    of: int = 0
    name: str = "sum"

    @property
    def reads(self) -> tuple[int, ...]:
        return (self.of,)

    def column(self, arguments: Sequence[Domain]) -> Column:
        (domain,) = arguments
        if domain.is_exact:
            return Exact(domain.width)
        spans_zero = domain.nullable or domain.low <= 0 <= domain.high
        return Real(
            reach=math.nextafter(domain.high - domain.low, math.inf),
            least=0.0 if spans_zero else min(abs(domain.low), abs(domain.high)),
        )

    def encode(self, arguments: Sequence[Operand]) -> tuple[Words | Doubles, Reading]:
        (x,) = arguments
        if x.domain.is_exact:
            return x.above, Reading(Fraction(1, x.domain.unit), Fraction(x.domain.lower, x.domain.unit))
        return x.distance, Reading(shift=x.centre, each=Fraction(x.lost), void=x.spread == 0)


@dataclass(frozen=True, slots=True)
class Log:
    """Sum of ln|x| over the x that are not 0."""

    of: int = 0
    name: str = "log"

    @property
    def reads(self) -> tuple[int, ...]:
        return (self.of,)

    def column(self, arguments: Sequence[Domain]) -> Column:  # noqa: ARG002 - the same for every domain
        return Real(reach=_FARTHEST_LOG)

    def encode(self, arguments: Sequence[Operand]) -> tuple[Words | Doubles, Reading]:
        (x,) = arguments
        if x.domain.is_exact:
            apart, _ = _from_zero(x)
            sizes = words.doubles(apart) / float(x.domain.unit)
            rounded = (len(apart) + 3) * UNIT  # of sizes: to a double, of the unit, and the division
        else:
            sizes, rounded = np.abs(x.values), Fraction(0)
        logs = np.zeros(len(sizes))
        np.log(sizes, out=logs, where=(sizes > 0) if x.present is None else (sizes > 0) & x.present)
        largest = float(np.abs(logs).max(initial=0.0))
        # |ln(1 + r)| <= 2r; the exact logarithm may be larger than the rounded one by its error
        each = LOGARITHM * 2 * Fraction(largest) + 2 * rounded
        return logs, Reading(each=each, void=largest == 0)


@dataclass(frozen=True, slots=True)
class Negative:
    """How many x are below 0."""

    of: int = 0
    name: str = "negative"

    @property
    def reads(self) -> tuple[int, ...]:
        return (self.of,)

    def column(self, arguments: Sequence[Domain]) -> Column | None:
        (domain,) = arguments
        return None if domain.is_exact and domain.lower >= 0 else Exact(1)

    def encode(self, arguments: Sequence[Operand]) -> tuple[Words | Doubles, Reading]:
        (x,) = arguments
        return x.counted(_from_zero(x)[1] if x.domain.is_exact else x.values < 0), Reading()


@dataclass(frozen=True, slots=True)
class Zero:
    """How many x are 0."""

    of: int = 0
    name: str = "zero"

    @property
    def reads(self) -> tuple[int, ...]:
        return (self.of,)

    def column(self, arguments: Sequence[Domain]) -> Column | None:
        (domain,) = arguments
        return None if domain.is_exact and not domain.lower <= 0 <= domain.upper else Exact(1)

    def encode(self, arguments: Sequence[Operand]) -> tuple[Words | Doubles, Reading]:
        (x,) = arguments
        if x.domain.is_exact:
            return x.counted(~_from_zero(x)[0].any(axis=0)), Reading()
        return x.counted(np.logical_not(x.values)), Reading()


def _from_zero(x: Operand) -> tuple[Words, Flags]:
    """|x| in units of the last decimal, and where x < 0."""
    lower = x.domain.lower
    if lower <= 0:
        return words.distance(x.above, -lower)
    return words.subtract(x.above, -lower)[0], np.zeros(x.above.shape[1], np.bool_)
