"""Aggregates over plain columns: what is asked of the service, and how answers about parts of the rows are combined."""

from __future__ import annotations

from dataclasses import replace

from cleave.sql.functions import ARBITRARY, EXACT_OF_DOUBLES
from cleave.sql.nodes import Call
from cleave.sql.write import write
from cleave_shared.dataclass import dataclass

# Combined by the same function: f(rows) = f(f(part), f(part), ...).
_SELF = frozenset(
    {"sum", "fsum", "kahan_sum", "sumkahan", "product", "min", "max", "any_value", "arbitrary"}
    | {"bool_and", "bool_or", "bit_and", "bit_or", "bit_xor"}
)
# Sums of squared deviations: (degrees of freedom, is a root taken).
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
    """How `call`, a resolved aggregate of `type_`, perhaps with a FILTER, is put together from parts."""
    name = call.name
    itself = write(call)
    if len(call.arguments) > 1 or call.distinct or call.order:
        return Decomposition((itself,), None)
    if name == "count":
        return Decomposition((itself,), "coalesce(sum({0}), 0)")
    if name in ("count_if", "countif"):  # NULL over no rows, as DuckDB has it
        return Decomposition((itself,), "sum({0})")
    if name in _SELF:
        return Decomposition((itself,), f"{name}({{0}})")
    if name in ("avg", "mean") and type_ == "DOUBLE":
        return Decomposition((itself, _like(call, "sum"), _like(call, "count")), "sum({1}) / sum({2})")
    if name in _SPREADS:
        freedom, is_root = _SPREADS[name]
        # Chan, Golub and LeVeque (1983): deviations within the parts and of the parts' means
        combined = f"sum({{1}} * ({{3}} + ({{2}} - {{mean}}) ^ 2)) / nullif(greatest(sum({{1}}) - {freedom}, 0), 0)"
        return Decomposition(
            (itself, _like(call, "count"), _like(call, "avg"), _like(call, "var_pop")),
            f"sqrt({combined})" if is_root else combined,
            "sum({1} * {2}) OVER same_group / sum({1}) OVER same_group",
        )
    return Decomposition((itself,), None)


@dataclass(frozen=True, slots=True)
class Witnesses:
    """Two more aggregates from which the distance of a SUM or AVG to its exact value follows.

    `total`: of an AVG of an exact type the SUM; of doubles the sum of their absolute values. `count`: how many.
    """

    total: Call
    count: Call


def witnesses(call: Call, argument_type: str) -> Witnesses | None:
    """None for other aggregates, whose rounding in DuckDB is not bounded here."""
    is_simple = len(call.arguments) == 1 and not call.distinct and not call.order
    if call.name not in ("sum", "avg", "mean") or not is_simple:
        return None
    total = replace(call, name="sum")
    if argument_type in ("FLOAT", "DOUBLE"):
        total = replace(total, arguments=(Call("abs", call.arguments),))
    return Witnesses(total, replace(call, name="count"))


def is_exact(call: Call, type_: str) -> bool:
    """Check whether DuckDB gives the same value of type `type_` for any order of rows."""
    if call.name in ARBITRARY:
        return False
    return type_ not in ("FLOAT", "DOUBLE") or call.name in EXACT_OF_DOUBLES


def _like(call: Call, function: str) -> str:
    """The same call of another function."""
    return write(replace(call, name=function))
