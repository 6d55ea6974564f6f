"""Propose bounds of columns, and which may be NULL.

The bounds decide how wide stored rows are. So they come from a column's meaning rather than its values: two files of
the same kind get the same bounds, and later rows fit. If the meaning is unknown, or values contradict it, the bound is
at least four times the largest value. It is then the largest power of two that fits into a whole number of bytes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

from cleave.propose.detect import TOPICS
from cleave.propose.harmless import CALENDAR, QUANTITY, STOCK, runs, words
from cleave.table.cast import cast
from cleave.table.duck import identifier
from cleave.table.schema import Column, CsvDialect, Kind
from cleave.table.table import Table
from cleave.table.types import is_number, range_of

_BATCH = 10  # columns of one query: DuckDB plans hundreds of aggregates slowly
_MARGIN = 4  # times the largest value
_SMALLEST, _LARGEST = -32, 1023  # exponents of the bounds of floats
_WIDEST = 12  # bits a meaning may be wider than a float's largest value: stored totals have 52 of the bound's
_PRECISE = Context(prec=400)  # holds every power of two of a float without loss
_LONGEST_NUMBER = 1 << 14  # larger ones are written as powers of two


@dataclass(frozen=True, slots=True)
class _Meaning:
    """Bounds for numbers with a certain name or unit, in whole units."""

    label: str
    lower: int
    upper: int
    words: frozenset[str]


_PERCENTAGES = _Meaning("percentages", -256, 256, words("percent percentage pct prozent pourcentage porcentaje"))
_AMOUNTS = _Meaning("amounts", -(1 << 24), 1 << 24, TOPICS["money"].words)
# The first that fits decides: the year of a payment is a year.
_MEANINGS = (
    _PERCENTAGES,
    _Meaning("ages", 0, 128, words("age alter edad âge idade leeftijd ålder età wiek")),
    _Meaning("years", 0, 4096, words("year birthyear Jahr geburtsjahr année año anno ano jaar år rok yıl год")),
    _Meaning("parts of a date", 0, 64, CALENDAR),
    _Meaning(
        "degrees",
        -1024,
        1024,
        words("lat latitude lon lng longitude breitengrad langengrad laengengrad temperature temp temperatur"),
    ),
    _AMOUNTS,
    _Meaning("counts", 0, 1 << 20, QUANTITY | STOCK | words("visits children lengthofstay los anzahl")),
    _Meaning(
        "measurements",
        0,
        1024,
        words(
            "weight height width length depth bmi bloodpressure systolic diastolic pulse heartrate glucose cholesterol"
            " oxygen spo2 gewicht groesse größe blutdruck puls poids taille peso altura"
        ),
    ),
)


def with_bounds(text: Table, columns: Sequence[Column], dialect: CsvDialect) -> tuple[Column, ...]:
    """Return `columns` with bounds, the reason for them, and whether they may be NULL. `text` is the file as text
    columns.

    Only columns for computation get bounds; sealed and local ones do not.
    """
    bounded = list(columns)
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
            bounded[place] = _stated(replace(columns[place], nullable=filled < text.rows), least, most)
    return tuple(bounded)


def _stated(column: Column, least: Any, most: Any) -> Column:
    if least is None or not (math.isfinite(least) and math.isfinite(most)):
        return column
    largest = max(abs(Fraction(least)), abs(Fraction(most)))
    meaning = _meaning(column)
    if meaning and meaning.lower <= least and most <= meaning.upper and _is_precise(column, meaning, largest):
        label, lower, upper = meaning.label, Fraction(meaning.lower), Fraction(meaning.upper)
    else:
        label, upper = "with room", _roomy(column, largest)
        lower = -upper
    if column.decimals is not None:  # a bound beyond the type's own says nothing
        first, last = (Fraction(each, 10**column.decimals) for each in range_of(column.type))
        if lower < first or upper > last:
            return column
    elif upper > Fraction(2) ** _LARGEST:
        return column
    reason = f"{label}: {_written(lower)} to {_written(upper)}"
    return replace(
        column,
        lower=_decimal(lower),
        upper=_decimal(upper),
        reason=f"{column.reason}; {reason}" if column.reason else reason,
    )


def _meaning(column: Column) -> _Meaning | None:
    if column.unit:
        return _PERCENTAGES if column.unit in "%‰" else _AMOUNTS
    said = runs(column.name)
    return next((each for each in _MEANINGS if not each.words.isdisjoint(said)), None)


def _is_precise(column: Column, meaning: _Meaning, largest: Fraction) -> bool:
    """Return whether totals of floats keep enough digits under bounds as wide as these."""
    return column.decimals is not None or not largest or meaning.upper <= largest * 2**_WIDEST


def _roomy(column: Column, largest: Fraction) -> Fraction:
    least = _MARGIN * largest
    if column.decimals is None:
        exponent = _SMALLEST if least else 0
        while Fraction(2) ** exponent < least:
            exponent += 8
        return Fraction(2) ** exponent
    whole, size = 0, 0
    while whole == 0 or whole < least:
        size += 8
        whole = ((1 << (size - 1)) - 1) // 10**column.decimals
        whole = whole and 1 << (whole.bit_length() - 1)
    return Fraction(whole)


def _written(bound: Fraction) -> str:
    """Return a bound, which is 0 or a power of two, as a reason shows it."""
    size = abs(bound)
    if size.denominator == 1 and size <= _LONGEST_NUMBER:
        return str(bound)
    return f"{'-' if bound < 0 else ''}2^{size.numerator.bit_length() - size.denominator.bit_length()}"


def _decimal(value: Fraction) -> Decimal:
    return _PRECISE.divide(Decimal(value.numerator), Decimal(value.denominator))
