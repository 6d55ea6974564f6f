"""The sum of products of two arguments about their centres."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from cleave.aggregates import words
from cleave.aggregates.base import Reading
from cleave.aggregates.columns import Column, Domain, Doubles, Exact, Real, Words
from cleave.aggregates.moments import UNIT
from cleave.aggregates.operand import Operand
from cleave.aggregates.powers import UNDERFLOW, apart, reach
from cleave_shared.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Cross:
    """Sum of (x - c)(y - c'). Of two exact arguments as integers, counted from the least product there may be; one that
    is exact beside a real one is taken as doubles.
    """

    name: str = "cross"

    @property
    def reads(self) -> tuple[int, ...]:
        return 0, 1

    def column(self, arguments: Sequence[Domain]) -> Column:
        x, y = arguments
        return Exact(2 * reach(x) * reach(y)) if x.is_exact and y.is_exact else Real(reach=1.0)

    def encode(self, arguments: Sequence[Operand]) -> tuple[Words | Doubles, Reading]:
        x, y = arguments
        if x.domain.is_exact and y.domain.is_exact:
            (sizes, below), (others, others_below) = apart(x), apart(y)
            limit = reach(x.domain) * reach(y.domain)
            products = words.multiply(sizes, others, reach(x.domain), reach(y.domain))
            unit = Fraction(1, x.domain.unit * y.domain.unit)
            return x.kept(words.above(products, below ^ others_below, limit)), Reading(unit, shift=-limit * unit)
        (one, lost, scale), (other, other_lost, other_scale) = _doubles(x), _doubles(y)
        unit = scale * other_scale
        # each factor is at most 1 and off by what it lost; the product is rounded once
        each = UNIT + lost + other_lost + lost * other_lost + UNDERFLOW
        return one * other, Reading(unit, each=unit * each, void=not unit)


def _doubles(x: Operand) -> tuple[Doubles, Fraction, Fraction]:
    """(x - c) / scale, of at most 1 in magnitude; how far each is off; and the scale, 0 where x is c everywhere."""
    if x.domain.is_exact:
        sizes, below = apart(x)
        distance = words.doubles(sizes)
        np.negative(distance, out=distance, where=below)
        spread = float(np.abs(distance).max(initial=0.0))
        rounded = (len(sizes) + 1) * UNIT if reach(x.domain) > 1 << 53 else Fraction(0)
        unit, lost = Fraction(1, x.domain.unit), rounded * Fraction(spread)
    else:
        distance, spread, unit, lost = x.distance, x.spread, Fraction(1), Fraction(x.lost)
    if not spread:
        return distance, Fraction(0), Fraction(0)
    exponent = math.frexp(spread)[1]
    return np.ldexp(distance, -exponent), lost / Fraction(2) ** exponent, unit * Fraction(2) ** exponent
