"""AVG of dates, times, timestamps and intervals: sums of whole numbers, put together again as DuckDB does it.

    AVG(day)  of DATE   ->  SUM(days since 1970), COUNT(day)  ->  a TIMESTAMP

What is encrypted are the days, microseconds or months of each row; their sums are exact, and the mean made of them is
DuckDB's own, to the microsecond. DuckDB does not divide them like a number: of a timestamp a remainder above half of n
counts up, and an interval's months, days and microseconds are divided one after the other, 30 days to a month, with a
remainder of microseconds added as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from cleave.sql.nodes import Call, Column, Node
from cleave.sql.read import expression_of
from cleave.table.types import ZONED

# {x} is the argument; the sums of the first are {name} in the second, {n} counts the values
_MEAN = "(CAST(({s}) // {n} + CASE WHEN ({s}) % {n} > {n} // 2 THEN 1 ELSE 0 END AS BIGINT))"
_DAY = "86400000000"
_REST = "({d} % {n} + ({m} % {n}) * 30 % {n})"
_TYPES: dict[str, tuple[Mapping[str, str], str]] = {
    "DATE": (
        {"s": "CAST({x} - DATE '1970-01-01' AS INTEGER)"},
        f"make_timestamp({_MEAN.replace('{s}', '{s} * ' + _DAY)})",
    ),
    "TIMESTAMP": ({"s": "epoch_us({x})"}, f"make_timestamp({_MEAN})"),
    ZONED: ({"s": "epoch_us({x})"}, f"make_timestamptz({_MEAN})"),
    "TIME": ({"s": "epoch_us({x})"}, f"TIME '00:00:00' + to_microseconds({_MEAN})"),
    "INTERVAL": (
        {
            "m": "CAST(date_part('year', {x}) * 12 + date_part('month', {x}) AS INTEGER)",
            "d": "CAST(date_part('day', {x}) AS INTEGER)",
            "u": "(date_part('hour', {x}) * 60 + date_part('minute', {x})) * 60000000 + date_part('microsecond', {x})",
        },
        "to_months(CAST({m} // {n} AS INTEGER)) + to_days(CAST({d} // {n} + ({m} % {n}) * 30 // {n} AS INTEGER)) + "
        f"to_microseconds(CAST({{u}} // {{n}} + {{u}} % {{n}} + {_REST} * {_DAY} // {{n}} AS BIGINT))",
    ),
}


def mean(call: Call, type_: str) -> Node | None:
    """Return AVG of an argument of `type_` as sums and a count, with the same FILTER; None for other types."""
    if type_ not in _TYPES:
        return None
    parts, whole = _TYPES[type_]
    (argument,) = call.arguments
    calls: dict[str, Node] = {"n": replace(call, name="count")}
    for name, sql in parts.items():
        calls[name] = replace(call, name="sum", arguments=(_filled(sql, {"x": argument}),))
    return _filled(whole, calls)


def _filled(template: str, values: Mapping[str, Node]) -> Node:
    """`template` with {name} replaced."""
    holes = {name: f"hole_{name}" for name in values}
    return expression_of(template.format(**holes)).replaced(
        lambda node: values[node.name.removeprefix("hole_")] if isinstance(node, Column) else None
    )
