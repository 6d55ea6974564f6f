"""One spelling for expressions that DuckDB computes alike, bit by bit: by it a question's totals are found.

The order of the two sides of + and * does not matter, nor how a number is written: 0.10, 0.1 and .1. Whether
(a + b) + c is a + (b + c) depends on rounding, and 1 and 1.0 are of different types: those stay apart.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from cleave.sql.nodes import Call, Constant, Node, Operation
from cleave.sql.read import expressions_of
from cleave.sql.write import write

_DECIMAL = re.compile(r"(-?)(\d*)\.(\d*)")


def spellings(texts: Sequence[str]) -> dict[str, int]:
    """By their canonical spelling, the places of expressions in SQL."""
    return {canonical(node): place for place, node in enumerate(expressions_of(texts))}


def canonical(node: Node) -> str:
    """Return the canonical spelling of an expression whose names are resolved."""
    return write(_canonical(node))


def _canonical(node: Node) -> Node:
    if isinstance(node, Constant) and node.is_number and (found := _DECIMAL.fullmatch(node.text)):
        return Constant(node.kind, f"{found[1]}{found[2].lstrip('0') or '0'}.{found[3].rstrip('0') or '0'}")
    operands = [_canonical(each) for each in node.operands]
    if isinstance(node, Call | Operation) and node.name in ("+", "*", "=", "<>") and len(operands) == 2:
        operands.sort(key=write)
    return node.of(operands) if operands else node
