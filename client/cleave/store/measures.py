"""What is kept of a measure: how many of its values there are in each cell, their sum, and that of their squares.

All of them are integers, so that no noise is in a stored figure. Exact values are counted in units of their last
decimal from their lower bound, and squared about the middle of their bounds, as in a query over a file. A double x is
kept as round((x - centre) * 2^exponent), 52 bits of what it may be, and so is (x - centre)^2: rounding is in the bound.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from cleave.aggregates.base import Estimate, Facts, Moment, Reading
from cleave.aggregates.columns import Domain, Exact, Values, Words
from cleave.aggregates.moments import Sum
from cleave.aggregates.operand import Operand, operand, present_in, require_values
from cleave.aggregates.powers import Square
from cleave.sql.plan import Argument
from cleave.store.manifest import Measure
from cleave_shared.dataclass import dataclass
from cleave_shared.errors import InputError

SEGMENT_ROWS = 1 << 20
BITS = 52  # of a double's distance from the centre, and of its square
_HEADROOM = 8  # bits by which later rows may lie farther out than the first ones, where no bounds are declared
_ULP = Fraction(1, 1 << 53)
_SUM, _SQUARE = Sum(), Square()


def unscaled(name: str, argument: Argument, *, derived: bool = False) -> Measure:
    """All that is known of a measure before a value is read."""
    return Measure(
        name=name,
        sql=argument.sql,
        type=argument.type,
        decimals=argument.decimals,
        lower=argument.lower,
        upper=argument.upper,
        nullable=argument.nullable,
        derived=derived,
    )


def measure_of(name: str, argument: Argument, values: Values, *, derived: bool = False) -> Measure:
    """The measure of `argument`, whose values in the first segment are `values`: they choose a double's scale."""
    made = unscaled(name, argument, derived=derived)
    if argument.decimals is not None:
        return made
    domain = argument.domain
    taken = _operand(name, domain, values)
    centre = float(taken.centre)
    if math.isfinite(domain.low) and math.isfinite(domain.high):
        reach = max(domain.high - centre, centre - domain.low)
        top = math.frexp(min(reach, sys.float_info.max))[1]
    else:
        top = math.frexp(taken.spread)[1] + _HEADROOM
    return made.model_copy(update={"centre": centre, "exponent": BITS - top})


def argument_of(measure: Measure) -> Argument:
    return Argument(
        measure.sql,
        measure.type,
        measure.decimals,
        (),
        lower=measure.lower,
        upper=measure.upper,
        nullable=measure.nullable,
    )


def domain_of(measure: Measure) -> Domain:
    return argument_of(measure).domain


@dataclass(frozen=True, slots=True)
class Column:
    """One column of totals: `part` of measure number `measure`."""

    measure: int
    part: str  # count, sum or square
    limit: int  # of one row's value

    @property
    def total(self) -> Exact:
        """A cell's total in one segment."""
        return Exact(self.limit * SEGMENT_ROWS)


def columns_of(measures: Sequence[Measure], first: int = 0) -> list[Column]:
    """The columns of the totals of `measures`, the first of which is number `first` of the table."""
    found = []
    for number, measure in enumerate(measures, first):
        domain = domain_of(measure)
        if measure.nullable:
            found.append(Column(number, "count", 1))
        found.append(Column(number, "sum", domain.width if domain.is_exact else 2 << BITS))
        reach = domain.upper - domain.middle
        found.append(Column(number, "square", reach**2 if domain.is_exact else 1 << BITS))
    return found


def values_of(measure: Measure, values: Values) -> dict[str, Words]:
    """The integers (words, rows) of each part of `measure`: all 0 in a row where it is NULL.

    Raises InputError for a value that is not finite or beyond the bounds the table was made with.
    """
    domain = domain_of(measure)
    taken = _operand(measure.name, domain, values)
    flags = np.ones((1, values.rows), np.uint64) if taken.present is None else taken.present.astype(np.uint64)[None]
    parts = {"count": flags}
    if domain.is_exact:
        parts["sum"] = taken.above
        squares, _ = _SQUARE.encode([taken])
        parts["square"] = squares.astype(np.uint64, copy=False)
        return parts
    moved = _about(taken, measure)
    counts = np.rint(np.ldexp(moved, measure.exponent))
    if (np.abs(counts) > 2.0**BITS).any():
        raise InputError(
            f"column {measure.name!r}: a value lies farther out than the table was made for",
            hint="declare lower and upper in the schema, and put the table anew with --replace",
        )
    parts["sum"] = (counts.astype(np.int64) + (1 << BITS)).astype(np.uint64)[None] * flags
    scaled = np.ldexp(moved, measure.exponent - BITS)  # to at most 1, so that no square overflows
    parts["square"] = np.rint(np.ldexp(np.square(scaled), BITS)).astype(np.uint64)[None]
    return parts


def _operand(name: str, domain: Domain, values: Values) -> Operand:
    require_values(name, domain, values)
    return operand(name, domain, values, present_in([values]))


def _about(x: Operand, measure: Measure) -> NDArray[np.float64]:
    """x - centre of the table, 0 where it does not count."""
    moved = x.values - measure.centre
    if x.present is not None:
        moved[~x.present] = 0.0
    return moved


def totals(column: Words, starts: NDArray[np.int64]) -> Words:
    """The exact sums (words, cells) of runs of rows that begin at `starts`; none is empty."""
    halves = [half for word in column for half in (word & np.uint64(0xFFFFFFFF), word >> np.uint64(32))]
    sums = [np.add.reduceat(half, starts) for half in halves] + [np.zeros(len(starts), np.uint64)] * 2
    carried, carry = [], np.zeros(len(starts), np.uint64)
    for each in sums:
        carry = carry + each
        carried.append(carry & np.uint64(0xFFFFFFFF))
        carry = carry >> np.uint64(32)
    return np.stack([carried[at] | (carried[at + 1] << np.uint64(32)) for at in range(0, len(carried) - 1, 2)])


def reading(measure: Measure, part: str) -> Reading:
    """How a total of `part` becomes the moment of the same name."""
    domain = domain_of(measure)
    if domain.is_exact:
        if part == "sum":
            return Reading(Fraction(1, domain.unit), Fraction(domain.lower, domain.unit))
        return Reading(Fraction(1, domain.unit**2))
    if part == "sum":
        unit = Fraction(2) ** -measure.exponent
        # the difference x - centre is a double, at most 2^52 units: rounded by half a unit, and then to a unit
        return Reading(unit, Fraction(measure.centre) - unit * (1 << BITS), each=unit)
    unit = Fraction(4) ** -measure.exponent * (1 << BITS)
    return Reading(unit, each=unit / 2, share=4 * _ULP)


def facts(measure: Measure) -> Facts:
    domain = domain_of(measure)
    centre = Fraction(domain.middle, domain.unit) if domain.is_exact else Fraction(measure.centre)
    return Facts(domain, centre)


def reach(measure: Measure) -> Fraction:
    """How far a value may be from the centre."""
    domain = domain_of(measure)
    if domain.is_exact:
        return Fraction(domain.upper - domain.lower, domain.unit)
    return Fraction(2) ** (BITS - measure.exponent)


def part_of(moment: Moment) -> str | None:
    """Which part a moment of one argument is read from; None: none is kept for it."""
    return "sum" if moment == _SUM else "square" if moment == _SQUARE else None


def moments(measure: Measure, sums: Mapping[str, int], count: int) -> dict[Moment, Estimate]:
    """The moments of a measure from the sums of its parts over `count` values."""
    kept: dict[str, Moment] = {"sum": _SUM, "square": _SQUARE}
    return {
        kept[part]: reading(measure, part).estimate(Estimate(Fraction(total)), count)
        for part, total in sums.items()
        if part in kept
    }
