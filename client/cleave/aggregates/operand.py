"""Values of an argument, checked and centred. Moments are computed from them.

A DOUBLE is centred as u = x - c, where c is its rounded median, so cancellation cannot ruin a variance (docs/ckks.md
section 4). A constant column is its own centre, so all its u are 0. Exact values are counted from their domain's lower
end, and squared about its middle.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from cleave.aggregates import columns
from cleave.aggregates.columns import Domain, Doubles, Flags, Values, Words
from cleave.text.quantities import counted
from cleave_shared.errors import InputError

_HUGE = 2.0**1000  # above it x - c could overflow, so such columns are not centred
_CENTRE_BITS = 16  # any constant near the median would do; with a short one most differences are exact
_SAMPLE = 10_000
_TOGETHER = 1 << 15  # values per batch: intermediate arrays stay in the processor's cache


@dataclass(frozen=True, slots=True)
class Operand:
    """One argument's values in the job's rows. `present` None: every row counts."""

    domain: Domain
    centre: Fraction
    present: Flags | None
    above: Words  # exact: x - lower in units of the last decimal, 0 in excluded rows; else empty
    values: Doubles  # real: x, 1 in excluded rows; else empty
    distance: Doubles  # real: x - c as a double, 0 in excluded rows; else empty
    spread: float  # real: max |distance|
    lost: float  # real: bound on the error of each distance

    def counted(self, flags: NDArray[np.bool_] | np.bool_) -> Words:
        """`flags` as a column of 0 and 1; excluded rows have 0."""
        counting = flags if self.present is None else flags & self.present
        return np.asarray(counting, np.uint64)[None]

    def zeroed(self, column: Words) -> Words:
        """`column` with 0 in excluded rows."""
        if self.present is not None:
            column[:, ~self.present] = 0
        return column


def operand(name: str, domain: Domain, column: Values, present: Flags | None) -> Operand:
    """Check and centre one argument. `present`: the rows that count, in which `column` is not NULL.

    Raises InputError for a value that is infinite, NaN or outside its domain.
    """
    return (_exact if domain.is_exact else _real)(name, domain, column, present)


def require_values(name: str, domain: Domain, column: Values) -> None:
    """Raises InputError for a NULL in a column that is declared NOT NULL."""
    if column.valid is not None and not domain.nullable and not column.valid.all():
        raise InputError(
            f"{name} is NULL in {counted(int((~column.valid).sum()), 'row')}, and the schema says it never is",
            hint="set nullable = true in the schema, or run `cleave schema` again",
        )


def present_in(columns: Sequence[Values]) -> Flags | None:
    """The rows in which no column is NULL. None means every row."""
    present: Flags | None = None
    for column in columns:
        if column.valid is not None and not column.valid.all():
            present = column.valid if present is None else present & column.valid
    return present


def _exact(name: str, domain: Domain, column: Values, present: Flags | None) -> Operand:
    above, _ = columns.subtract(columns.of_integers(column.values, domain.lower, domain.upper), domain.lower)
    if column.valid is not None:
        above[:, ~column.valid] = 0
    outside = columns.exceed(above, domain.width)
    if outside.any():
        raise _outside(name, outside)
    if present is not None:
        above[:, ~present] = 0
    nothing = np.zeros(0)
    return Operand(domain, Fraction(domain.middle, domain.unit), present, above, nothing, nothing, 0.0, 0.0)


def _outside(name: str, rows: Flags) -> InputError:
    return InputError(
        f"{name} is outside its bounds in {counted(int(rows.sum()), 'row')}",
        hint="widen `lower` and `upper` in the schema, or run `cleave schema` again",
    )


def _real(name: str, domain: Domain, column: Values, present: Flags | None) -> Operand:
    values = column.values.astype(np.float64, copy=present is not None)  # excluded rows are overwritten
    usable = np.isfinite(values)
    if column.valid is not None:
        usable |= ~column.valid
    if not usable.all():
        raise InputError(
            f"{name} is infinite or NaN in {int((~usable).sum())} of {len(usable)} rows",
            hint="encrypted aggregates need finite numbers: turn the others into NULL, e.g. with CASE WHEN",
        )
    if math.isfinite(domain.low) or math.isfinite(domain.high):
        outside = (values < domain.low) | (values > domain.high)
        if column.valid is not None:
            outside &= column.valid
        if outside.any():
            raise _outside(name, outside)
    if present is not None:
        values[~present] = 1.0
    counting = values if present is None else values[present]
    centre = _centre(counting)
    distance, spread, lost = _centred(values, centre, present)
    empty = np.zeros((1, 0), np.uint64)
    return Operand(domain, Fraction(centre), present, empty, values, distance, spread, lost)


def _centred(values: Doubles, centre: float, present: Flags | None) -> tuple[Doubles, float, float]:
    """Returns `values` - `centre` (0 in excluded rows), the largest magnitude, and the largest error."""
    distance = np.empty_like(values)
    spread = lost = 0.0
    for start in range(0, len(values), _TOGETHER):
        rows = slice(start, start + _TOGETHER)
        part, off = values[rows], distance[rows]
        np.subtract(part, centre, out=off)
        if present is not None:
            off[~present[rows]] = 0.0
        spread = max(spread, float(np.abs(off).max()))
        if centre:  # the error of a difference is itself a double, and is computed exactly (TwoSum; Knuth 4.2.2)
            back = off - part
            error = np.abs((part - (off - back)) - (centre + back))
            lost = max(lost, float((error if present is None else error[present[rows]]).max(initial=0.0)))
    return distance, spread, lost


def _centre(values: Doubles) -> float:
    """About the median; the value itself if all are equal; 0 if differences could overflow."""
    if not len(values):
        return 0.0
    least, largest = float(values.min()), float(values.max())
    if least == largest:
        return least
    if max(-least, largest) >= _HUGE:
        return 0.0
    sample = values[:: 1 + len(values) // _SAMPLE]
    mantissa, exponent = math.frexp(_median(sample))
    centre = math.ldexp(round(mantissa * 2**_CENTRE_BITS), exponent - _CENTRE_BITS)
    return min(max(centre, least), largest)  # so no difference exceeds the declared range


def _median(values: Doubles) -> float:
    """Like np.median, which would import numpy.ma (9 ms)."""
    middle = [(len(values) - 1) // 2, len(values) // 2]
    return float(np.partition(values, middle)[middle].mean())
