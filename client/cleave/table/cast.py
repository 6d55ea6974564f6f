"""SQL that converts a CSV field to a value of a column's type, without guessing.

DuckDB's casts are too permissive for exact answers: '1.005' becomes DECIMAL(18,2) 1.01, '1.5' becomes BIGINT 2, '0x10'
becomes 16, a timestamp becomes a DATE. So a field must first match the grammar of its type.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from cleave.table import types
from cleave.table.duck import literal
from cleave.table.schema import Column, CsvDialect, Kind
from cleave.table.types import pattern as date_pattern


@dataclass(frozen=True, slots=True)
class FieldCast:
    """SQL over a text column. `unreadable` is true for a field that does not fit; `value` then raises an error."""

    value: str
    unreadable: str


def number_pattern(dialect: CsvDialect, decimals: int | None) -> str:
    """Regular expression (RE2) for numbers with at most `decimals` digits after the point, not counting trailing zeros.

    `decimals` None: a float, with any number of digits and an exponent. A sign precedes the digits.
    """
    return rf"\s*[+-]?{_digits(dialect, decimals)}\s*"


def accounting_pattern(dialect: CsvDialect, decimals: int | None) -> str:
    """Like `number_pattern`, for negative numbers in accounting format: (12.50) or 12.50-"""
    digits = _digits(dialect, decimals)
    return rf"\s*(?:\({digits}\)|{digits}-)\s*"


def _digits(dialect: CsvDialect, decimals: int | None) -> str:
    thousands, point = re.escape(dialect.thousands), re.escape(dialect.decimal)
    whole = f"(?:[0-9]{{1,3}}(?:{thousands}[0-9]{{3}})+|[0-9]*)" if thousands else "[0-9]*"
    if decimals is None:
        return rf"{whole}(?:{point}[0-9]*)?(?:[eE][+-]?[0-9]+)?"
    return rf"{whole}(?:{point}[0-9]{{0,{decimals}}}0*)?"


CENSORED = r"\s*(?:[<>]=?|≤|≥)\s*"  # before a number: the value is below or above it

DATE = r"\s*[0-9]{4}[-/][0-9]{1,2}[-/][0-9]{1,2}\s*"
TIME = r"[0-9]{1,2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?)?"
TIMESTAMP = rf"[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}(?:[ T]{TIME}Z?)?"
ZONED_TIMESTAMP = rf"[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}[ T]{TIME}(?:Z|[+-][0-9]{{2}}(?::?[0-9]{{2}})?)"

# DuckDB's format: 1 year 2 months -3 days 04:05:06.789
INTERVAL = (
    r"\s*(?:[+-]?[0-9]{1,9} (?:year|month|day|hour|minute|second)s?(?:\s+|$))*"
    r"(?:[+-]?[0-9]{1,9}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?)?)?\s*"
)


def plain_number(field: str, dialect: CsvDialect) -> str:
    """SQL that rewrites a number in DuckDB's format: without thousands separators, with a decimal point."""
    if dialect.thousands:
        field = f"replace({field}, {literal(dialect.thousands)}, '')"
    return field if dialect.decimal == "." else f"replace({field}, {literal(dialect.decimal)}, '.')"


def is_null_token(field: str, tokens: tuple[str, ...]) -> str:
    spellings = ", ".join(literal(token.strip().lower()) for token in tokens)
    return f"lower(trim({field})) IN ({spellings})" if tokens else "false"


def cast(field: str, column: Column, dialect: CsvDialect) -> FieldCast:
    """The cast of the text column `field` (quoted SQL) to the type of `column`."""
    if column.type == "VARCHAR":
        tokens = ", ".join(map(literal, dialect.text_null_tokens))
        return FieldCast(f"CASE WHEN {field} NOT IN ({tokens}) THEN {field} END" if tokens else field, "false")
    read = _read(field, column, dialect)
    null = is_null_token(field, dialect.null_tokens)
    if dialect.censored == "null" and types.is_number(column.type):
        null = f"({null} OR {_limit(field, column, dialect)} IS NOT NULL)"
    if dialect.null_tokens and column.type in ("FLOAT", "DOUBLE"):
        read = f"CASE WHEN NOT {null} THEN {read} END"  # 'nan' is a number to DuckDB
    blank = f"trim({field}) = '' OR {null}"
    value = f"coalesce({read}, CASE WHEN {field} IS NULL OR {blank} THEN NULL ELSE error('unreadable') END)"
    return FieldCast(value, f"{read} IS NULL AND {field} IS NOT NULL AND NOT ({blank})")


def _read(field: str, column: Column, dialect: CsvDialect) -> str:
    """SQL of the value; NULL if the field does not fit the type."""
    match column.type:
        case "BOOLEAN":
            return f"TRY_CAST(trim({field}) AS BOOLEAN)"
        case "INTERVAL":
            return _matching(field, INTERVAL, f"TRY_CAST(trim({field}) AS INTERVAL)")
        case types.ZONED:
            return _matching(field, ZONED_TIMESTAMP, f"TRY_CAST({field} AS {column.type})")
        case "DATE" | "TIME" | "TIMESTAMP":
            if column.format is not None:
                return formatted(field, column.format, column.type)
            pattern = {"DATE": DATE, "TIME": TIME, "TIMESTAMP": TIMESTAMP}[column.type]
            value = _matching(field, pattern, f"TRY_CAST({field} AS {column.type})")
            if column.type == "DATE" and dialect.date_format:
                return f"coalesce({value}, {formatted(field, dialect.date_format, 'DATE')})"
            return value
        case _:
            number = _number(field, column, dialect)
            if column.kind == Kind.ENCRYPTED and column.type in ("FLOAT", "DOUBLE"):
                return f"CASE WHEN isfinite({number}) THEN {number} END"
            return number


def _number(field: str, column: Column, dialect: CsvDialect) -> str:
    """SQL of a number in the usual format. If that fails, which is rare, in accounting format or as a limit."""
    if dialect.censored == "limit":
        exact = _number(field, column, replace(dialect, censored=""))
        return f"coalesce({exact}, {_limit(field, column, dialect)})"
    if column.unit:  # every field has the unit, before or after its digits; a sign may be apart
        bare = f"trim(replace({field}, {literal(column.unit)}, ''))"
        signed = f"regexp_replace({bare}, '^([+(-])\\s+', '\\1')"
        return _matching(field, unit_pattern(column.unit), _number(signed, replace(column, unit=""), dialect))
    number = f"TRY_CAST({plain_number(field, dialect)} AS {column.type})"
    if column.decimals is not None or dialect.thousands or dialect.decimal != ".":
        number = _matching(field, number_pattern(dialect, column.decimals), number)
    bare = f"translate(trim({field}), '()-', '')"
    negative = f"TRY_CAST('-' || {plain_number(bare, dialect)} AS {column.type})"
    return f"coalesce({number}, {_matching(field, accounting_pattern(dialect, column.decimals), negative)})"


def _limit(field: str, column: Column, dialect: CsvDialect) -> str:
    """SQL of the number in a field such as "<5"; NULL for other fields."""
    number = _number(f"regexp_replace({field}, {literal(f'^{CENSORED}')}, '')", column, replace(dialect, censored=""))
    return f"CASE WHEN regexp_matches({field}, {literal(f'^{CENSORED}')}) THEN {number} END"


def unit_pattern(unit: str) -> str:
    """Regular expression (RE2) for numbers with `unit` before or after the digits."""
    escaped = re.escape(unit)
    digit = "[0-9.,' \u00a0\u202f\u2019]*[0-9][0-9.,' \u00a0\u202f\u2019]*"
    return rf"\s*[+(-]?\s*(?:{escaped}\s*[+-]?{digit}|[+-]?{digit}\s*{escaped})\s*[)-]?\s*"


def formatted(field: str, date_format: str, type_: str) -> str:
    """SQL of a date or time written in `date_format`; NULL if the field differs or the day does not exist."""
    value = f"CAST(try_strptime(trim({field}), {literal(date_format)}) AS {type_})"
    return f"CASE WHEN regexp_full_match({field}, {literal(date_pattern(date_format))}) THEN {value} END"


def _matching(field: str, pattern: str, value: str) -> str:
    return f"CASE WHEN regexp_full_match({field}, {literal(pattern)}) THEN {value} END"
