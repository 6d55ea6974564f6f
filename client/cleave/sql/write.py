"""Expressions as DuckDB's SQL, in brackets enough that its parser makes the same tree of them again."""

from __future__ import annotations

from itertools import zip_longest

from cleave.sql.functions import AGGREGATE_NAMES
from cleave.sql.nodes import NULL, Call, Case, Cast, Column, Constant, Node, Operation, Ordered, Other, Place
from cleave.table.duck import identifier, literal
from cleave_shared.plain_functions import ALLOWED_FUNCTIONS

# names that stand without quotes; the grammar reads some of the others in its own way
_BARE = (AGGREGATE_NAMES | ALLOWED_FUNCTIONS) - {"extract", "overlay", "position", "substring", "trim"}


def write(node: Node) -> str:
    """One line of SQL; operands in brackets."""
    match node:
        case Column():
            return node.name if isinstance(node, Place) else ".".join(map(identifier, node.path))
        case Constant():
            return _constant(node)
        case Call():
            return _call(node)
        case Operation():
            return _operation(node.name, [_operand(each) for each in node.operands], node)
        case Case():
            branches = " ".join(f"WHEN {write(condition)} THEN {write(result)}" for condition, result in node.branches)
            default = "" if node.default == NULL else f" ELSE {write(node.default)}"
            return f"CASE {branches}{default} END"
        case Cast():
            return f"{'TRY_CAST' if node.may_fail else 'CAST'}({write(node.operand)} AS {node.type})"
        case Other():
            operands = [_operand(each) for each in node.operands]
            return "".join(piece + operand for piece, operand in zip_longest(node.pieces, operands, fillvalue=""))
    raise TypeError(type(node).__name__)


def write_ordered(term: Ordered) -> str:
    return " ".join(filter(None, (write(term.expression), term.direction, term.nulls)))


def _constant(node: Constant) -> str:
    match node.kind:
        case "STRING":
            return literal(node.text)
        case "HEX":
            return f"x{literal(node.text)}"
        case "NULL_LITERAL":
            return "NULL"
    return node.text


def _operand(node: Node) -> str:
    """In brackets, unless nothing can come between its parts."""
    negative = isinstance(node, Constant) and node.text.startswith("-") and node.is_number
    closed = isinstance(node, Column | Constant | Cast) or (isinstance(node, Call) and _is_word(node.name))
    closed |= isinstance(node, Operation) and node.name in ("COALESCE", "GROUPING")
    return write(node) if closed and not negative else f"({write(node)})"


def _is_word(name: str) -> bool:
    return name[:1].isalpha() or name[:1] == "_" or name == ""


def _call(node: Call) -> str:
    arguments = node.arguments
    if not _is_word(node.name) and not (node.distinct or node.order or node.filter or node.names):
        if len(arguments) == 1:
            return f"{node.name} {_operand(arguments[0])}"
        if len(arguments) == 2:
            return f"{_operand(arguments[0])} {node.name} {_operand(arguments[1])}"
    name = node.name if node.name in _BARE else identifier(node.name)
    given = [
        f"{identifier(name_)} := {write(each)}" if name_ else write(each)
        for name_, each in zip_longest(node.names, arguments, fillvalue="")
        if not isinstance(each, str)
    ]
    inside = ", ".join(given) or ("*" if node.name == "count" else "")
    inside = f"DISTINCT {inside}" if node.distinct else inside
    if node.order:
        inside = f"{inside} ORDER BY {', '.join(map(write_ordered, node.order))}".lstrip()
    filter_ = f" FILTER (WHERE {write(node.filter)})" if node.filter is not None else ""
    return f"{name}({inside}){filter_}"


def _operation(name: str, operands: list[str], node: Operation) -> str:
    match name:
        case "COALESCE" | "GROUPING":
            return f"{name}({', '.join(map(write, node.operands))})"
        case "NOT":
            return f"NOT {operands[0]}"
        case "IS NULL" | "IS NOT NULL":
            return f"{operands[0]} {name}"
        case "IN":
            return f"{operands[0]} IN ({', '.join(map(write, node.operands[1:]))})"
        case "BETWEEN":
            return f"{operands[0]} BETWEEN {operands[1]} AND {operands[2]}"
    return f" {name} ".join(operands)
