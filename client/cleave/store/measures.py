"""Totals of a measure: per cell, the number of its values, their sum, and the sum of their squares.

All are integers, so stored figures contain no noise. Exact values are counted in units of the last decimal from their
lower bound. Their squares are taken about the middle of the bounds, as in a query over a file. A double x is stored as
round((x - centre) * 2^exponent), with 52 bits, and so is (x - centre)^2. Error bounds include the rounding.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from cleave.aggregates.base import Decoding, Facts, Moment
from cleave.aggregates.columns import Domain, Exact, Values, Words
from cleave.aggregates.moments import Power, Sum
from cleave.aggregates.operand import operand
from cleave.sql.plan import Argument
from cleave.sql.split import units
from cleave.store.manifest import Measure
from cleave.table.stream import Extent
from cleave.text.quantities import counted
from cleave_shared.errors import InputError

SEGMENT_ROWS = 1 << 20
# SQL of the extent of expression {0}, which has number {1}
EXTENT = "min({0}) AS least{1}, approx_quantile({0}, 0.5) AS middle{1}, max({0}) AS largest{1}"
BITS = 52  # of a double's distance from the centre, and of its square
_HEADROOM = 8  # bits by which later rows may exceed the first ones, if no bounds are declared
_ULP = Fraction(1, 1 << 53)
_STEP = 1000  # 2^1000 and 2^-1000 are doubles
_HALF, _WORD = (1 << 32) - 1, (1 << 64) - 1
_LARGEST = 1 << 106  # a segment's rows of this size add up to less than 2^127, which HUGEINT can hold
_LARGEST_ROOT = 1 << 53
_SMALL = 1 << 31  # the square of a smaller distance fits BIGINT
_SUM, _SQUARE = Sum(), Power(2)


def unscaled(name: str, argument: Argument, *, derived: bool = False) -> Measure:
    """Describe a measure before any value is read."""
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


def measure_of(name: str, argument: Argument, extent: Extent | None, *, derived: bool = False) -> Measure:
    """The measure of `argument`. The extent of its doubles determines their centre and scale.

    Raises InputError for doubles that are infinite, NaN or outside the argument's bounds.
    """
    measure = unscaled(name, argument, derived=derived)
    if argument.decimals is not None:
        return measure
    domain = argument.domain
    values = [] if extent is None else [extent.least, extent.middle, extent.largest]
    taken = operand(name, domain, Values(np.array(values, np.float64), None), None)
    centre = float(taken.centre)
    if math.isfinite(domain.low) and math.isfinite(domain.high):
        return _within(measure, domain, centre)
    return measure.model_copy(update={"centre": centre, "exponent": BITS - math.frexp(taken.spread)[1] - _HEADROOM})


def of_bounds(measure: Measure) -> Measure | None:
    """The measure with centre and scale from its bounds, independent of values; None for doubles without bounds."""
    domain = domain_of(measure)
    if measure.decimals is not None:
        return measure
    if not (math.isfinite(domain.low) and math.isfinite(domain.high)):
        return None
    return _within(measure, domain, domain.low / 2 + domain.high / 2)


def _within(measure: Measure, domain: Domain, centre: float) -> Measure:
    reach = max(domain.high - centre, centre - domain.low)
    top = math.frexp(min(reach, sys.float_info.max))[1]
    return measure.model_copy(update={"centre": centre, "exponent": BITS - top})


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
class SumTerm:
    """SQL of an integer per row, NULL where the measure is; at most `most` in magnitude; to be multiplied by
    2^shift.
    """

    sql: str
    shift: int
    most: int


@dataclass(frozen=True, slots=True)
class Terms:
    """What a column of totals adds up for each value: `terms`, and a `constant`."""

    terms: tuple[SumTerm, ...]
    constant: int = 0


@dataclass(frozen=True, slots=True)
class TotalsColumn:
    """Column of totals: `part` of measure number `measure`."""

    measure: int
    part: str  # count, sum or square
    limit: int  # of one row's value

    @property
    def total(self) -> Exact:
        """A cell's total in one segment."""
        return Exact(self.limit * SEGMENT_ROWS)


def columns_of(measures: Sequence[Measure], first: int = 0) -> list[TotalsColumn]:
    """The columns of the totals of `measures`, which are numbered from `first`."""
    columns = []
    for number, measure in enumerate(measures, first):
        domain = domain_of(measure)
        if measure.nullable:
            columns.append(TotalsColumn(number, "count", 1))
        columns.append(TotalsColumn(number, "sum", domain.width if domain.is_exact else 2 << BITS))
        reach = domain.upper - domain.middle
        columns.append(TotalsColumn(number, "square", reach**2 if domain.is_exact else 1 << BITS))
    return columns


def value_of(measure: Measure) -> str:
    """SQL of a measure's values: doubles, or integers in units of the last decimal."""
    return units(argument_of(measure))[0] if measure.decimals is not None else f"CAST(({measure.sql}) AS DOUBLE)"


def terms_of(column: TotalsColumn, measure: Measure, value: str) -> Terms:
    """The terms of `column`. `value`: the SQL name of `value_of`. They are exact for values within bounds."""
    if column.part == "count":
        return Terms((), 1)
    domain = domain_of(measure)
    if not domain.is_exact:
        moved = f"({value} - {_double(measure.centre)})"
        if column.part == "sum":
            return Terms((SumTerm(f"CAST({_scaled(moved, measure.exponent)} AS BIGINT)", 0, 1 << BITS),), 1 << BITS)
        small = _scaled(moved, measure.exponent - BITS)  # at most 1, so that no square overflows
        return Terms((SumTerm(f"CAST({small} * {small} * {_double(2.0**BITS)} AS BIGINT)", 0, 1 << BITS),))
    _, type_ = units(argument_of(measure))
    wide = value if type_ == "BIGINT" else f"CAST({value} AS HUGEINT)"
    if column.part == "sum":
        most = max(abs(domain.lower), abs(domain.upper))
        if most < _LARGEST:
            return Terms((SumTerm(wide, 0, most),), -domain.lower)
        halves = SumTerm(f"({wide} & {_WORD})", 0, _WORD), SumTerm(f"({wide} >> 64)", 64, most >> 64)
        return Terms(halves, -domain.lower)
    reach = domain.upper - domain.middle
    if reach >= _SMALL:
        wide = f"CAST({value} AS HUGEINT)"
    distance = f"({wide} - {domain.middle})"
    if reach < _LARGEST_ROOT:
        return Terms((SumTerm(f"({distance} * {distance})", 0, reach**2),))
    limbs = [f"((abs({distance}) >> {shift}) & {(1 << 32) - 1})" for shift in range(0, reach.bit_length(), 32)]
    return Terms(
        tuple(
            SumTerm(f"({one} * {other})", 32 * (i + j), 1 << 64)
            for i, one in enumerate(limbs)
            for j, other in enumerate(limbs)
        )
    )


def _double(value: float) -> str:
    return f"'{value!r}'::DOUBLE"


def _scaled(sql: str, exponent: int) -> str:
    """SQL of a double times 2^exponent, in steps whose factors are doubles."""
    while exponent:
        step = max(-_STEP, min(_STEP, exponent))
        sql, exponent = f"({sql} * {_double(2.0**step)})", exponent - step
    return sql


def require_within(measure: Measure, rows: int, count: int, least: float | None, largest: float | None) -> None:
    """Raise InputError for unexpected NULLs, and for values outside the range that the table was created with.

    `count` of `rows` have a value. For exact values, `least` and `largest` are in units of the last decimal.
    """
    domain = domain_of(measure)
    if count < rows and not domain.nullable:
        raise InputError(
            f"{measure.name} is NULL in {counted(rows - count, 'row')}, and the schema says it never is",
            hint="set nullable = true in the schema, or run `cleave schema` again",
        )
    if least is None or largest is None:
        return
    low, high = (domain.lower, domain.upper) if domain.is_exact else (domain.low, domain.high)
    if not (domain.is_exact or (math.isfinite(least) and math.isfinite(largest))):
        raise InputError(
            f"{measure.name} is infinite or NaN in some row",
            hint="encrypted aggregates need finite numbers: turn the others into NULL, e.g. with CASE WHEN",
        )
    if not (low <= least and largest <= high):
        raise InputError(
            f"{measure.name} is outside its bounds in some row",
            hint="widen `lower` and `upper` in the schema, or run `cleave schema` again",
        )
    with np.errstate(over="ignore"):
        moved = np.rint(np.ldexp(np.array([least, largest], np.float64) - measure.centre, measure.exponent))
    if not domain.is_exact and (np.abs(moved) > 2.0**BITS).any():
        raise InputError(
            f"column {measure.name!r}: a value is outside the range the table was created with",
            hint="declare lower and upper in the schema, and put the table again with --replace",
        )


def combined(terms: Sequence[tuple[Words, int]], constant: int, counts: NDArray[np.int64], limit: int) -> Words:
    """The sum of `terms` (words, entries), each times 2^shift, plus `constant` for each of the `counts` (entries,).

    Words are two's complement; shifts are multiples of 32. Every result is between 0 and `limit`.
    """
    places = 2 * max(1, -(-limit.bit_length() // 64))
    sums = [(counts * ((constant >> 32 * place) & _HALF)).astype(np.uint64) for place in range(places)]
    for words, shift in terms:
        halves = [half for word in words for half in (word & np.uint64(_HALF), word >> np.uint64(32))]
        sign = (words[-1].view(np.int64) >> 63).view(np.uint64) & np.uint64(_HALF)
        for place, first in enumerate(range(shift // 32, places)):
            sums[first] += halves[place] if place < len(halves) else sign
    carry = np.zeros(len(counts), np.uint64)
    for place in range(places):
        sums[place] += carry
        carry = sums[place] >> np.uint64(32)
        sums[place] &= np.uint64(_HALF)
    return np.stack([sums[place] | (sums[place + 1] << np.uint64(32)) for place in range(0, places, 2)])


def decoding(measure: Measure, part: str) -> Decoding:
    """How a total of `part` becomes the moment of the same name."""
    domain = domain_of(measure)
    if domain.is_exact:
        if part == "sum":
            return Decoding(Fraction(1, domain.unit), Fraction(domain.lower, domain.unit))
        return Decoding(Fraction(1, domain.unit**2))
    if part == "sum":
        unit = Fraction(2) ** -measure.exponent
        # x - centre is a double of at most 2^52 units: rounded by half a unit, then to a unit
        return Decoding(unit, Fraction(measure.centre) - unit * (1 << BITS), each=unit)
    unit = Fraction(4) ** -measure.exponent * (1 << BITS)
    return Decoding(unit, each=unit / 2, share=4 * _ULP)


def reach(measure: Measure) -> Fraction:
    """The largest magnitude of a value of doubles that totals can have."""
    return abs(Fraction(measure.centre)) + Fraction(2) ** (BITS - measure.exponent)


def facts(measure: Measure) -> Facts:
    domain = domain_of(measure)
    centre = Fraction(domain.middle, domain.unit) if domain.is_exact else Fraction(measure.centre)
    return Facts(domain, centre)


def part_of(moment: Moment) -> str | None:
    """The part from which a moment of one argument is read; None if it is not stored."""
    return "sum" if moment == _SUM else "square" if moment == _SQUARE else None
