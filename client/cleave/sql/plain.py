"""Aggregates over plain columns: what is asked of the service, and how answers about parts of the rows are combined."""

from __future__ import annotations

from sqlglot import exp

from cleave.sql.dialect import write
from cleave.sql.functions import ARBITRARY, EXACT_OF_DOUBLES
from cleave.sql.resolve import call_of
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


def decompose(node: exp.Expression, type_: str) -> Decomposition:
    """How `node`, a resolved aggregate call of `type_`, perhaps with a FILTER, is put together from parts."""
    call = call_of(node)
    name = call.name
    itself = write(node)
    is_simple = len(call.expressions) <= 1 and not any(
        isinstance(e, exp.Distinct | exp.Order) for e in call.expressions
    )
    if not is_simple:
        return Decomposition((itself,), None)
    if name == "count":
        return Decomposition((itself,), "coalesce(sum({0}), 0)")
    if name in ("count_if", "countif"):  # NULL over no rows, as DuckDB has it
        return Decomposition((itself,), "sum({0})")
    if name in _SELF:
        return Decomposition((itself,), f"{name}({{0}})")
    if name in ("avg", "mean") and type_ == "DOUBLE":
        return Decomposition((itself, _like(node, "sum"), _like(node, "count")), "sum({1}) / sum({2})")
    if name in _SPREADS:
        freedom, is_root = _SPREADS[name]
        # Chan, Golub and LeVeque (1983): deviations within the parts and of the parts' means
        combined = f"sum({{1}} * ({{3}} + ({{2}} - {{mean}}) ^ 2)) / nullif(greatest(sum({{1}}) - {freedom}, 0), 0)"
        return Decomposition(
            (itself, _like(node, "count"), _like(node, "avg"), _like(node, "var_pop")),
            f"sqrt({combined})" if is_root else combined,
            "sum({1} * {2}) OVER same_group / sum({1}) OVER same_group",
        )
    return Decomposition((itself,), None)


@dataclass(frozen=True, slots=True)
class Witnesses:
    """Two more aggregates from which the distance of a SUM or AVG to its exact value follows.

    `total`: of an AVG of an exact type the SUM; of doubles the sum of their absolute values. `count`: how many.
    """

    total: exp.Expression
    count: exp.Expression


def witnesses(node: exp.Expression, argument_type: str) -> Witnesses | None:
    """None for other aggregates, whose rounding in DuckDB is not bounded here."""
    call = call_of(node)
    is_simple = len(call.expressions) == 1 and not isinstance(call.expressions[0], exp.Distinct | exp.Order)
    if call.name not in ("sum", "avg", "mean") or not is_simple:
        return None
    total, count = node.copy(), node.copy()
    call_of(count).set("this", "count")
    call_of(total).set("this", "sum")
    if argument_type in ("FLOAT", "DOUBLE"):
        size = exp.Anonymous(this="abs", expressions=[call.expressions[0].copy()])
        call_of(total).set("expressions", [size])
    return Witnesses(total, count)


def is_exact(node: exp.Expression, type_: str) -> bool:
    """Whether DuckDB gives the same value of type `type_` for any order of rows."""
    if call_of(node).name in ARBITRARY:
        return False
    return type_ not in ("FLOAT", "DOUBLE") or call_of(node).name in EXACT_OF_DOUBLES


def _like(node: exp.Expression, function: str) -> str:
    """The same call of another function."""
    other = node.copy()
    call_of(other).set("this", function)
    return write(other)
