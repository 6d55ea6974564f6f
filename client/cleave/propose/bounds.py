"""What a file shows of a column's range and NULLs, as the schema may say it: bounds rounded outwards to powers of two.

The least and the largest value are cells of somebody; a power of two beyond them tells their magnitude only. Zero is
the bound of whatever has one sign, so that a later zero is no surprise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Context, Decimal
from fractions import Fraction
from math import isfinite
from typing import Any

from cleave.table.cast import cast
from cleave.table.duck import identifier
from cleave.table.schema import Column, CsvDialect, Kind
from cleave.table.table import Table
from cleave.table.types import INTEGERS, digits_of, is_number

_BATCH = 10  # columns asked about in one query: DuckDB plans hundreds of aggregates slowly
_SMALLEST = Fraction(1, 2**30)  # the bound of smaller floats, to stay readable
_LARGEST = 2**1023  # a larger power of two is no float64
_PRECISE = Context(prec=400)  # holds all of them without loss


def with_bounds(text: Table, columns: Sequence[Column], dialect: CsvDialect) -> tuple[Column, ...]:
    """`columns` with bounds and nullability as the file shows them; `text` is the file as text columns.

    Only of columns that are computed on: of sealed and local ones nothing is stated.
    """
    found = list(columns)
    computed = [place for place, one in enumerate(columns) if one.kind in (Kind.PLAIN, Kind.ENCRYPTED)]
    for start in range(0, len(computed), _BATCH):
        batch = computed[start : start + _BATCH]
        values = [cast(identifier(columns[place].name), columns[place], dialect).value for place in batch]
        figures = ", ".join(
            f"count({one}), min({one}), max({one})" if is_number(columns[place].type) else f"count({one}), NULL, NULL"
            for place, one in zip(batch, values, strict=True)
        )
        row = text.connection.execute(f"SELECT {figures} FROM {text.relation}").fetchall()[0]
        for place, filled, least, most in zip(batch, row[::3], row[1::3], row[2::3], strict=True):
            found[place] = _stated(columns[place], text.rows - filled, least, most)
    return tuple(found)


def _stated(column: Column, nulls: int, least: Any, most: Any) -> Column:
    column = replace(column, nullable=nulls > 0)
    if not is_number(column.type) or least is None or not (isfinite(least) and isfinite(most)):
        return column
    exact = column.decimals is not None
    lower, upper = -_power(-Fraction(least), exact=exact), _power(Fraction(most), exact=exact)
    if not exact and max(-lower, upper) > _LARGEST:
        return column
    if exact:  # a power of two beyond the type's own range says nothing
        first, last = _range(column.type)
        unit = 10 ** (column.decimals or 0)
        lower, upper = max(lower, Fraction(first, unit)), min(upper, Fraction(last, unit))
    return replace(column, lower=_decimal(lower), upper=_decimal(upper))


def _power(value: Fraction, *, exact: bool) -> Fraction:
    """The least power of two that is not below `value`, at least 1 for exact types; 0 for what is not positive."""
    if value <= 0:
        return Fraction(0)
    bound = Fraction(1) if exact else _SMALLEST
    while bound < value:
        bound *= 2
    return bound


def _range(type_: str) -> tuple[int, int]:
    """The least and the largest number of an exact type, in units of its last decimal."""
    if type_ in INTEGERS:
        return -(2 ** (INTEGERS[type_] - 1)), 2 ** (INTEGERS[type_] - 1) - 1
    most = 10 ** (digits_of(type_) or 0) - 1
    return -most, most


def _decimal(value: Fraction) -> Decimal:
    return _PRECISE.divide(Decimal(value.numerator), Decimal(value.denominator))
