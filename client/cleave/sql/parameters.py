"""Parameters of DB-API's `qmark` style.

Parameters are written into the SQL as literals where DuckDB's own lexer finds a `?`, since another one might see a text
end where DuckDB does not. The values become part of the SQL as if they had been typed there: the plain service sees
those of its part.
"""

from __future__ import annotations

import datetime
import math
import uuid
from collections.abc import Sequence
from decimal import Decimal

import duckdb
import numpy as np

from cleave.table.duck import literal
from cleave_shared.errors import QueryRefused


def bound(sql: str, parameters: Sequence[object]) -> str:
    """`sql` with a literal in the place of each `?`. Raises QueryRefused for a number or a type that does not fit.

    >>> bound("SELECT '?', AVG(age) FROM t WHERE ward = ? AND bed < ?", ["O'Hara", 7])
    "SELECT '?', AVG(age) FROM t WHERE ward = 'O''Hara' AND bed < 7"
    """

    if not isinstance(sql, str):
        raise QueryRefused(f"a statement is text, not {type(sql).__name__}")
    if isinstance(parameters, str | bytes) or not isinstance(parameters, Sequence):
        raise QueryRefused("parameters are a sequence, one for each ? of the statement")
    text = sql.encode()
    places = [
        start
        for start, kind in duckdb.tokenize(sql)
        if kind == duckdb.token_type.operator and text[start : start + 1] == b"?"
    ]
    if len(places) != len(parameters):
        raise QueryRefused(f"the statement has {len(places)} placeholders, and {len(parameters)} parameters are given")
    for start, value, number in reversed(list(zip(places, parameters, range(1, len(places) + 1), strict=True))):
        text = text[:start] + _literal(value, number).encode() + text[start + 1 :]
    return text.decode()


def _literal(value: object, number: int) -> str:
    if isinstance(value, np.generic):
        value = value.item()
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case int():
            return str(value) if value >= 0 else f"({value})"
        case float():
            return _double(value)
        case Decimal() if value.is_finite():
            return f"{value:f}" if value >= 0 else f"({value:f})"
        case str() if "\0" not in value:
            return literal(value)
        case datetime.datetime():
            return f"{'TIMESTAMP' if value.tzinfo is None else 'TIMESTAMPTZ'} {literal(value.isoformat(sep=' '))}"
        case datetime.date():
            return f"DATE {literal(value.isoformat())}"
        case datetime.time() if value.tzinfo is None:
            return f"TIME {literal(value.isoformat())}"
        case datetime.timedelta():
            return f"to_microseconds({value // datetime.timedelta(microseconds=1)})"
        case uuid.UUID():
            return f"{literal(str(value))}::UUID"
        case bytes() | bytearray():
            return f"{literal(''.join(f'{chr(92)}x{byte:02X}' for byte in value))}::BLOB"
    raise QueryRefused(f"parameter {number}: this {type(value).__name__} has no literal in SQL")


def _double(value: float) -> str:
    """With an exponent: 1.5 alone is a DECIMAL to DuckDB."""
    if not math.isfinite(value):
        return f"CAST({literal(str(value))} AS DOUBLE)"
    text = repr(value)
    text = text if "e" in text else f"{text}e0"
    return text if not text.startswith("-") else f"({text})"
