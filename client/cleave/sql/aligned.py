"""One spelling for products of columns, and for expressions over the rows where further columns have a value.

A stored table keeps totals of expressions by their spelling (cleave.sql.read.spellings). So whoever stores a product
and whoever asks for its sum write it here.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from fractions import Fraction
from functools import reduce
from itertools import accumulate

from cleave.sql.nodes import Call, Case, Cast, ColumnRef, Node, Operator, write
from cleave.sql.ranges import Range, range_of_type
from cleave.sql.read import expression_of
from cleave.table.schema import Column
from cleave.table.types import FLOATS, INT64_DIGITS, INTEGERS, decimals_of, digits_of

_MOST_DIGITS = 38
_STRICT = frozenset("+-*")  # NULL where an operand is


def product(factors: Sequence[Column]) -> str | None:
    """SQL of the product of numeric columns, which may repeat. None if a product within their bounds fits no type.

    Factors are in the order of their names. The first is cast where DuckDB's own type of the product is too small. Of
    FLOATs the product is a DOUBLE.
    """
    factors = sorted(factors, key=lambda each: each.name)
    first, *others = [ColumnRef((each.name,)) for each in factors]
    type_ = _type_of_first(factors)
    if type_ is None:
        return None
    start: Node = Cast(first, type_) if type_ != factors[0].type else first
    return write(reduce(lambda one, two: Call("*", (one, two)), others, start))


def _type_of_first(factors: Sequence[Column]) -> str | None:
    """The type from which the first factor is multiplied. None if a product may fit no type."""
    types = [each.type for each in factors]
    if any(each in FLOATS for each in types):  # FLOATs round more
        return types[0] if "DOUBLE" in types[:2] or len(types) == 1 else "DOUBLE"
    products = reduce(Range.hull, accumulate(map(_range_of, factors), Range.__mul__))
    scale = sum(decimals_of(each) or 0 for each in types)
    digits = [digits for each in types if (digits := digits_of(each)) is not None]
    if not digits:
        widest = max(types, key=lambda each: INTEGERS[each])
        fitting = next((each for each in (widest, "BIGINT", "HUGEINT") if _fits(products, each)), None)
        return types[0] if fitting == widest else fitting
    if scale > _MOST_DIGITS or not _fits(products, f"DECIMAL({_MOST_DIGITS},{scale})"):
        return None
    # DuckDB gives a product no more digits than an int64 holds, unless an operand has more
    width = min(sum(digits), INT64_DIGITS if max(digits) <= INT64_DIGITS else _MOST_DIGITS)
    starts_decimal = len(types) < 2 or any(digits_of(each) is not None for each in types[:2])
    if starts_decimal and _fits(products, f"DECIMAL({width},{scale})"):
        return types[0]
    return f"DECIMAL({_MOST_DIGITS},{decimals_of(types[0])})"


def _range_of(column: Column) -> Range:
    whole = range_of_type(column.type)
    assert whole is not None  # noqa: S101 - an exact type
    lower = whole.lower if column.lower is None else max(whole.lower, Fraction(column.lower))
    upper = whole.upper if column.upper is None else min(whole.upper, Fraction(column.upper))
    return Range(lower, max(lower, upper))


def _fits(values: Range, type_: str) -> bool:
    whole = range_of_type(type_)
    return whole is not None and whole.lower <= values.lower and values.upper <= whole.upper


def aligned(expression: str, nullable: Collection[str]) -> str:
    """SQL of `expression` over the rows where the columns `nullable` have a value; NULL in other rows."""
    node = expression_of(expression)
    own = {name.lower() for name in _strictly_read(node)}
    others = sorted({name for name in nullable if name.lower() not in own})
    if not others:
        return write(node)
    tests = [Operator("IS NOT NULL", (ColumnRef((name,)),)) for name in others]
    return write(Case(((tests[0] if len(tests) == 1 else Operator("AND", tuple(tests)), node),)))


def _strictly_read(node: Node) -> frozenset[str]:
    """Columns without which `node` is NULL."""
    match node:
        case ColumnRef():
            return frozenset({node.name})
        case Cast(may_fail=False):
            return _strictly_read(node.operand)
        case Call(name) if name in _STRICT:
            return frozenset().union(*map(_strictly_read, node.arguments))
    return frozenset()
