"""Sums of powers of one argument about a centre c: squares, cubes and fourth powers of x - c.

Exact values are raised as integers, about the middle of their domain. A real column is scaled by a power of two to at
most 1 before it is raised, so that nothing overflows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from cleave.aggregates import words
from cleave.aggregates.base import Reading
from cleave.aggregates.columns import Column, Domain, Doubles, Exact, Flags, Real, Words
from cleave.aggregates.moments import UNIT
from cleave.aggregates.operand import Operand
from cleave_shared.dataclass import dataclass

# What powers of a column scaled to [0, 1) lose below the normal range, with room to spare: 2^-1074 would do.
UNDERFLOW = Fraction(1, 2**1000)


@dataclass(frozen=True, slots=True)
class Square:
    """Sum of (x - c)^2."""

    of: int = 0
    name: str = "square"

    @property
    def reads(self) -> tuple[int, ...]:
        return (self.of,)

    def column(self, arguments: Sequence[Domain]) -> Column:
        (domain,) = arguments
        return Exact(reach(domain) ** 2) if domain.is_exact else Real(reach=1.0)

    def encode(self, arguments: Sequence[Operand]) -> tuple[Words | Doubles, Reading]:
        (x,) = arguments
        if x.domain.is_exact:
            return _square(x), Reading(Fraction(1, x.domain.unit**2))
        scaled, exponent = _scaled(x)
        unit = Fraction(4) ** exponent if x.spread else Fraction(0)
        # the difference is off by up to 1 unit of itself, unless it is exact, and the square is rounded once more
        share = 4 * UNIT if x.lost else 2 * UNIT
        return np.square(scaled), Reading(unit, each=unit * UNDERFLOW, share=share, void=x.spread == 0)


@dataclass(frozen=True, slots=True)
class Cube:
    """Sum of (x - c)^3. Exact cubes are counted from the least one there may be."""

    of: int = 0
    name: str = "cube"

    @property
    def reads(self) -> tuple[int, ...]:
        return (self.of,)

    def column(self, arguments: Sequence[Domain]) -> Column:
        (domain,) = arguments
        return Exact(2 * reach(domain) ** 3) if domain.is_exact else Real(reach=1.0)

    def encode(self, arguments: Sequence[Operand]) -> tuple[Words | Doubles, Reading]:
        (x,) = arguments
        if x.domain.is_exact:
            farthest = reach(x.domain)
            sizes, below = apart(x)
            cubes = words.multiply(_square(x), sizes, farthest**2, farthest)
            unit = Fraction(1, x.domain.unit**3)
            return x.kept(words.above(cubes, below, farthest**3)), Reading(unit, shift=-(farthest**3) * unit)
        scaled, exponent = _scaled(x)
        unit = Fraction(8) ** exponent if x.spread else Fraction(0)
        lost = Fraction(x.lost) / Fraction(2) ** exponent if x.lost else Fraction(0)
        # two roundings of at most 1, and a difference off by `lost` three times; signs differ, so no share of the total
        each = 3 * UNIT + 4 * lost + UNDERFLOW
        return np.square(scaled) * scaled, Reading(unit, each=unit * each, void=x.spread == 0)


@dataclass(frozen=True, slots=True)
class Fourth:
    """Sum of (x - c)^4."""

    of: int = 0
    name: str = "fourth power"

    @property
    def reads(self) -> tuple[int, ...]:
        return (self.of,)

    def column(self, arguments: Sequence[Domain]) -> Column:
        (domain,) = arguments
        return Exact(reach(domain) ** 4) if domain.is_exact else Real(reach=1.0)

    def encode(self, arguments: Sequence[Operand]) -> tuple[Words | Doubles, Reading]:
        (x,) = arguments
        if x.domain.is_exact:
            squares, limit = _square(x), reach(x.domain) ** 2
            return words.multiply(squares, squares, limit, limit), Reading(Fraction(1, x.domain.unit**4))
        scaled, exponent = _scaled(x)
        unit = Fraction(16) ** exponent if x.spread else Fraction(0)
        # three roundings, that of the square counting twice; a difference that is off counts four times
        share = 8 * UNIT if x.lost else 4 * UNIT
        return np.square(np.square(scaled)), Reading(unit, each=unit * UNDERFLOW, share=share, void=x.spread == 0)


def reach(domain: Domain) -> int:
    """The largest distance from the middle of an exact `domain`."""
    return domain.upper - domain.middle


def apart(x: Operand) -> tuple[Words, Flags]:
    """|x - c| of exact values, c the middle of their domain, and where x < c; 0 and False in rows that do not count."""
    sizes, below = words.distance(x.above, x.domain.middle - x.domain.lower)
    if x.present is not None:
        sizes[:, ~x.present] = 0
        below &= x.present
    return sizes, below


def _square(x: Operand) -> Words:
    farthest = reach(x.domain)
    sizes, _ = apart(x)
    return words.multiply(sizes, sizes, farthest, farthest)


def _scaled(x: Operand) -> tuple[Doubles, int]:
    exponent = math.frexp(x.spread)[1]
    return np.ldexp(x.distance, -exponent), exponent
