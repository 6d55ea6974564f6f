"""One spelling for expressions that DuckDB computes alike, bit by bit: which totals a question asks for is known by it.

Brackets and the order of the two sides of + and * do not matter, nor how a number is written: 0.10, 0.1 and .1. Whether
(a + b) + c is a + (b + c) depends on rounding, and 1 and 1.0 are of different types: those stay apart.
"""

from __future__ import annotations

import re
from typing import cast

import sqlglot
from sqlglot import exp

from cleave.sql.dialect import FaithfulDuckDB, write

_COMMUTE = (exp.Add, exp.Mul, exp.EQ, exp.NEQ)
_DECIMAL = re.compile(r"(\d*)\.(\d*)")


def canonical(node: exp.Expression) -> str:
    """Of an expression whose names are resolved."""
    root = exp.Paren(this=node.copy())
    for paren in list(root.find_all(exp.Paren)):
        if paren is not root:
            paren.replace(paren.this)
    for literal in root.find_all(exp.Literal):
        if not literal.is_string and (found := _DECIMAL.fullmatch(literal.name)):
            literal.set("this", f"{found[1].lstrip('0') or '0'}.{found[2].rstrip('0') or '0'}")
    for each in sorted(root.find_all(*_COMMUTE), key=lambda found: -found.depth):  # the innermost first
        one, two = each.this, each.expression
        if _text(two) < _text(one):
            each.set("this", two)
            each.set("expression", one)
    return _text(root.this)


def parsed(sql: str) -> exp.Expression:
    """An expression as a plan has it."""
    return cast(exp.Expression, sqlglot.parse_one(f"SELECT {sql}", read=FaithfulDuckDB).expressions[0])


def _text(node: exp.Expression) -> str:
    """With brackets around every operation, so that the tree can be told from it."""
    return repr(node) if node.find(exp.Binary) else write(node)
