"""From the argument of an aggregate to the columns that are encrypted for it, and back to its moments.

An exact argument (integer, decimal, boolean) becomes non-negative integers x - minimum and stays exact throughout.
A real one is centred, u = x - c with c its rounded median, so that cancellation cannot ruin a variance
(docs/ckks.md section 4). NULLs become 0 and are counted by an encrypted column of their own, so that their places do
not show; an argument without any NULL needs none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from cleave.aggregates.base import UNIT, ColumnFacts, Estimate, Moment
from cleave.ckks.layout import Exact, Real, Source, Total
from cleave.sql.plan import Argument
from cleave_shared.errors import InputError

Number = TypeVar("Number", np.int64, np.float64)

_HUGE = 2.0**1000  # above it x - c could overflow: such columns are not centred


@dataclass(frozen=True, slots=True)
class Values:
    """An argument's value in every row, as `prepare` takes it."""

    values: NDArray[np.generic]
    valid: NDArray[np.bool_] | None


@dataclass(frozen=True, slots=True)
class Prepared:
    """An argument ready to be encoded: the columns of its moments and what the client must remember of it."""

    facts: ColumnFacts
    sources: dict[Moment, Source]
    minimum: int  # of an exact argument, in its last decimal
    square_unit: Fraction  # what 1 in the column of squares stands for
    lost: dict[Moment, tuple[float, float]]  # rounding of the client's float64: (of each value, of the total), relative


Bounds = tuple[int, int]  # the least and the largest value an exact argument is declared to have, in its last decimal


def prepare(
    argument: Argument, values: NDArray[np.generic], valid: NDArray[np.bool_] | None, bounds: Bounds | None = None
) -> Prepared:
    """`values` (rows,): int64 in units of the last decimal for exact arguments, else float64; `valid` None: no NULLs.

    Raises InputError for a value that is not finite.
    """
    sources: dict[Moment, Source] = {}
    if valid is not None:
        sources[Moment.COUNT] = Exact(valid.astype(np.uint64), limit=1)
    if not argument.moments - {Moment.COUNT}:
        facts = ColumnFacts(argument.type, argument.decimals, Fraction(0), 0.0)
        return Prepared(facts, sources, 0, Fraction(1), {})
    if argument.decimals is None:
        return _prepare_real(argument, values.astype(np.float64), valid, sources)
    return _prepare_exact(argument, values.astype(np.int64), valid, bounds, sources)


def _prepare_exact(
    argument: Argument,
    values: NDArray[np.int64],
    valid: NDArray[np.bool_] | None,
    bounds: Bounds | None,
    sources: dict[Moment, Source],
) -> Prepared:
    present = values if valid is None else values[valid]
    minimum = bounds[0] if bounds else int(present.min()) if len(present) else 0
    sample = _sample(present)
    middle = len(sample) // 2
    centre = int(np.partition(sample, middle)[middle]) if len(sample) else minimum  # a value: floats would round it
    # modulo 2^64 the difference is right whatever the signs
    above = values.view(np.uint64) - np.int64(minimum).view(np.uint64)
    if valid is not None:
        above[~valid] = 0
    if Moment.SUM in argument.moments:
        sources[Moment.SUM] = Exact(above, limit=bounds[1] - bounds[0] if bounds else None)
    offset = np.uint64(centre - minimum)
    distance = np.where(above >= offset, (above - offset).astype(np.float64), -((offset - above).astype(np.float64)))
    unit = 10.0 ** -(argument.decimals or 0)
    exponent, lost = _add_products(argument, distance, values.astype(np.float64) * unit, valid, sources)
    facts = _facts(argument, Fraction(centre, 10 ** (argument.decimals or 0)), present.astype(np.float64) * unit)
    unit_squared = Fraction(4) ** exponent / 100 ** (argument.decimals or 0)
    return Prepared(facts, sources, minimum, unit_squared, lost)


def _prepare_real(
    argument: Argument, values: NDArray[np.float64], valid: NDArray[np.bool_] | None, sources: dict[Moment, Source]
) -> Prepared:
    present = values if valid is None else values[valid]
    if not np.isfinite(present).all():
        raise InputError(
            f"{argument.sql} is infinite or not a number in {int((~np.isfinite(present)).sum())} rows",
            hint="encrypted aggregates need finite numbers: turn the others into NULL, e.g. with CASE WHEN",
        )
    largest = float(np.abs(present).max(initial=0.0))
    centre = _rounded_median(present) if largest < _HUGE else 0.0
    distance = values - centre
    if valid is not None:
        distance[~valid] = 0.0
    if Moment.SUM in argument.moments:
        sources[Moment.SUM] = Real(distance)
    exponent, lost = _add_products(argument, distance, values, valid, sources)
    if centre:
        lost[Moment.SUM] = (UNIT * float(np.abs(distance).max(initial=0.0)), 0.0)
    facts = _facts(argument, Fraction(centre), present)
    return Prepared(facts, sources, 0, Fraction(4) ** exponent, lost)


def _facts(argument: Argument, centre: Fraction, present: NDArray[np.float64]) -> ColumnFacts:
    """What bounds need to know of the values that are not NULL."""
    magnitudes = np.abs(present)
    return ColumnFacts(
        argument.type,
        argument.decimals,
        centre,
        largest=float(magnitudes.max(initial=0.0)),
        lowest=float(present.min()) if len(present) else -math.inf,
        smallest=float(magnitudes[magnitudes > 0].min(initial=math.inf)) if magnitudes.any() else 0.0,
    )


def _rounded_median(values: NDArray[np.float64]) -> float:
    """About the median, to 16 bits: any constant will do, a short one makes most differences exact."""
    if not len(values):
        return 0.0
    mantissa, exponent = math.frexp(float(np.median(_sample(values))))
    return math.ldexp(round(mantissa * 2**16), exponent - 16)


def _sample(values: NDArray[Number]) -> NDArray[Number]:
    """About ten thousand of the values, evenly spread: rows come shuffled."""
    return values[:: 1 + len(values) // 10_000]


def _add_products(
    argument: Argument,
    distance: NDArray[np.float64],
    values: NDArray[np.float64],
    valid: NDArray[np.bool_] | None,
    sources: dict[Moment, Source],
) -> tuple[int, dict[Moment, tuple[float, float]]]:
    """Columns of squares and logarithms, made on the client so that the service only ever adds.

    `distance` is x - c in units of the last decimal for exact arguments. Returns the power of
    two that squares were scaled by and what rounding lost: a value, and relative to the total.
    """
    lost: dict[Moment, tuple[float, float]] = {}
    exponent = 0
    if Moment.SQUARE in argument.moments:
        present = distance if valid is None else np.where(valid, distance, 0.0)
        exponent = math.frexp(float(np.abs(present).max(initial=0.0)))[1]
        sources[Moment.SQUARE] = Real(np.square(np.ldexp(present, -exponent)))
        lost[Moment.SQUARE] = (0.0, 4 * UNIT)
    if Moment.LOG in argument.moments:
        zero = values == 0.0
        counted = ~zero if valid is None else ~zero & valid
        logs = np.zeros(len(values))
        np.log(np.abs(values), out=logs, where=counted)
        sources[Moment.LOG] = Real(logs)
        lost[Moment.LOG] = (UNIT * (2 * float(np.abs(logs).max(initial=0.0)) + 4), 0.0)
        sources[Moment.NEGATIVE] = Exact((counted & (values < 0)).astype(np.uint64), limit=1)
        sources[Moment.ZERO] = Exact((zero if valid is None else zero & valid).astype(np.uint64), limit=1)
    return exponent, lost


def estimate(prepared: Prepared, totals: Mapping[Moment, Total], rows: int) -> dict[Moment, Estimate]:
    """The moments of one group of `rows` rows from the decoded totals of its columns."""
    moments: dict[Moment, Estimate] = {}
    count = totals[Moment.COUNT].value if Moment.COUNT in totals else Fraction(rows)
    moments[Moment.COUNT] = Estimate(count)
    for moment, total in totals.items():
        a_value, of_total = prepared.lost.get(moment, (0.0, 0.0))
        lost = Fraction(a_value) * rows + Fraction(of_total) * (abs(total.value) + total.bound)
        unit = prepared.square_unit if moment is Moment.SQUARE else 1
        moments[moment] = Estimate(total.value * unit, (total.bound + lost) * unit)
    decimals = prepared.facts.decimals
    if Moment.SUM in totals and decimals is not None:
        # sum (x - minimum) -> sum (x - c), in units of 1
        whole = Fraction(totals[Moment.SUM].value + count * prepared.minimum, 10**decimals)
        moments[Moment.SUM] = Estimate(whole - count * prepared.facts.centre)
    return moments
