"""Aggregates computed from others: plain ones from answers for parts of the rows, AVG of dates and times from sums.

Dates, times and intervals are encrypted as days, microseconds or months per row, so their sums are exact. The mean
equals DuckDB's, to the microsecond. DuckDB does not divide them like numbers: for a timestamp, a remainder above n / 2
rounds up. For an interval, months, days and microseconds are divided separately, with 30 days per month, and a
remainder of microseconds is added undivided.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from cleave.sql.functions import ARBITRARY, SAME_IN_ANY_ORDER
from cleave.sql.nodes import Call, ColumnRef, Node, write
from cleave.sql.read import expression_of
from cleave.table.types import FLOATS, ZONED

# Parts are combined by the same function: f(rows) = f(f(part), f(part), ...).
_SELF = frozenset(
    {"sum", "fsum", "kahan_sum", "sumkahan", "product", "min", "max", "any_value", "arbitrary"}
    | {"bool_and", "bool_or", "bit_and", "bit_or", "bit_xor"}
)
# Sums of squared deviations: (degrees of freedom, whether a root follows).
_SPREADS = {
    "var_samp": (1, False),
    "variance": (1, False),
    "var_pop": (0, False),
    "stddev_samp": (1, True),
    "stddev": (1, True),
    "stddev_pop": (0, True),
}


@dataclass(frozen=True, slots=True)
class Decomposition:
    parts: tuple[str, ...]
    combine: str | None
    weighted_mean: str | None = None


def decompose(call: Call, type_: str) -> Decomposition:
    """How `call`, a resolved aggregate of `type_`, perhaps with a FILTER, is combined from parts of the rows."""
    name = call.name
    itself = write(call)
    if len(call.arguments) > 1 or call.distinct or call.order:
        return Decomposition((itself,), None)
    if name == "count":
        return Decomposition((itself,), "coalesce(sum({0}), 0)")
    if name in ("count_if", "countif"):  # as in DuckDB, NULL over no rows
        return Decomposition((itself,), "sum({0})")
    if name in _SELF:
        return Decomposition((itself,), f"{name}({{0}})")
    if name in ("avg", "mean") and type_ == "DOUBLE":
        return Decomposition((itself, _like(call, "sum"), _like(call, "count")), "sum({1}) / sum({2})")
    if name in _SPREADS:
        freedom, is_root = _SPREADS[name]
        # Chan, Golub and LeVeque (1983): deviations within parts, and of the parts' means
        combined = f"sum({{1}} * ({{3}} + ({{2}} - {{mean}}) ^ 2)) / nullif(greatest(sum({{1}}) - {freedom}, 0), 0)"
        return Decomposition(
            (itself, _like(call, "count"), _like(call, "avg"), _like(call, "var_pop")),
            f"sqrt({combined})" if is_root else combined,
            "sum({1} * {2}) OVER same_group / sum({1}) OVER same_group",
        )
    return Decomposition((itself,), None)


def witnesses(call: Call, argument_type: str) -> tuple[Call, Call] | None:
    """Two more aggregates (total, count) that bound the distance of a SUM or AVG from its exact value.

    For an AVG of an exact type the total is the SUM; for doubles it is the sum of absolute values. None for other
    aggregates: their rounding in DuckDB has no bound.
    """
    is_simple = len(call.arguments) == 1 and not call.distinct and not call.order
    if call.name not in ("sum", "avg", "mean") or not is_simple:
        return None
    total = replace(call, name="sum")
    if argument_type in ("FLOAT", "DOUBLE"):
        total = replace(total, arguments=(Call("abs", call.arguments),))
    return total, replace(call, name="count")


def is_settled(call: Call, type_: str) -> bool:
    """True if DuckDB gives the same value, of type `type_`, in any order of rows."""
    if call.name in ARBITRARY:
        return False
    return type_ not in FLOATS or call.name in SAME_IN_ANY_ORDER


def _like(call: Call, function: str) -> str:
    """The same call with another function."""
    return write(replace(call, name=function))


# {x} is the argument; in the second part, {name} is a sum of the first part, and {n} counts the values
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
    """AVG of an argument of `type_` as sums and a count with the same FILTER; None for other types."""
    if type_ not in _TYPES:
        return None
    parts, whole = _TYPES[type_]
    (argument,) = call.arguments
    calls: dict[str, Node] = {"n": replace(call, name="count")}
    for name, sql in parts.items():
        calls[name] = replace(call, name="sum", arguments=(_filled(sql, {"x": argument}),))
    return _filled(whole, calls)


def _filled(template: str, values: Mapping[str, Node]) -> Node:
    """`template` with each {name} replaced by a node."""
    holes = {name: f"hole_{name}" for name in values}
    return expression_of(template.format(**holes)).replaced(
        lambda node: values[node.name.removeprefix("hole_")] if isinstance(node, ColumnRef) else None
    )
