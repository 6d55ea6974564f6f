"""Which expressions are supported, their types, and the columns they read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

from flint import fmpq

from cleave.aggregates.balls import rational
from cleave.finish.compare import OPERATORS
from cleave.finish.functions import ROUNDINGS, UNARY, cast
from cleave.sql.nodes import Call, Case, Cast, ColumnRef, Constant, Node, Operator, write
from cleave.table.types import FLOATS, is_numeric

# DuckDB's function -> (its name in this room, possible numbers of arguments)
_CALLS: dict[str, tuple[str, tuple[int, ...]]] = {
    **{name: (name, (1,)) for name in (*UNARY, "isnan", "isinf", "isfinite")},
    **{name: (name, (1, 2) if name in ("round", "trunc") else (1,)) for name in ROUNDINGS},
    "round_even": ("round_even", (2,)),
    "roundbankers": ("roundbankers", (2,)),
    "+": ("add", (2,)),
    "*": ("multiply", (2,)),
    "/": ("slash", (2,)),
    "//": ("divide", (2,)),
    "%": ("mod", (2,)),
    "^": ("pow", (2,)),
    "**": ("pow", (2,)),
    "@": ("abs", (1,)),
    "add": ("add", (2,)),
    "subtract": ("subtract", (2,)),
    "multiply": ("multiply", (2,)),
    "divide": ("divide", (2,)),
    "mod": ("mod", (2,)),
    "fmod": ("mod", (2,)),
    "pow": ("pow", (2,)),
    "power": ("pow", (2,)),
    "atan2": ("atan2", (2,)),
    "nullif": ("nullif", (2,)),
    "if": ("if", (3,)),
    "pi": ("pi", (0,)),
}
_OPERATIONS = {
    **{name: name for name in OPERATORS},
    "IS NOT DISTINCT FROM": "same",
    "IS DISTINCT FROM": "distinct",
    "AND": "and",
    "OR": "or",
    "NOT": "not",
    "IS NULL": "is_null",
    "IS NOT NULL": "is_not_null",
    "IN": "in",
    "BETWEEN": "between",
    "COALESCE": "coalesce",
}
_LONGEST = 400  # characters of a literal, and powers of ten
_SAME_CLASS = ("if", "coalesce", "greatest", "least", "nullif")


def name_of(node: Node) -> str:
    """The operation of a node; "" if it is not supported."""
    match node:
        case Operator(name):
            return _OPERATIONS.get(name, "")
        case Cast():
            return "cast"
        case Call(name, arguments) if not node.names:
            if name == "-":
                return "negate" if len(arguments) == 1 else "subtract"
            if name == "log" and len(arguments) == 2:
                return "log_to"
            if name in ("greatest", "least"):
                return name if arguments else ""
            operation, counts = _CALLS.get(name, ("", ()))
            return operation if len(arguments) in counts else ""
    return ""


def children_of(node: Node) -> tuple[Node, ...]:
    """The parts of a supported node, which are evaluated one by one."""
    return node.operands if isinstance(node, Case) or name_of(node) else ()


class Shapes:
    """Types and columns of each part of the expressions. DuckDB states the types, once.

    `nonnegative`: columns that are never -0.0.
    """

    def __init__(
        self,
        expressions: Sequence[Node],
        types: Callable[[Sequence[str]], list[str]],
        nonnegative: frozenset[str],
    ) -> None:
        self._nonnegative = nonnegative
        parts = {write(part) for expression in expressions for part in _parts(expression)}
        parts |= {name for expression in expressions for name in self.columns(expression)}
        ordered = sorted(parts)
        self._types = dict(zip(ordered, types(ordered), strict=True))

    def type(self, node: Node) -> str:
        return self._types[write(node)]

    def columns(self, node: Node) -> set[str]:
        return {column.name for column in node.find(ColumnRef)}

    def is_known(self, node: Node) -> bool:
        """True if the node can be evaluated from its parts."""
        if isinstance(node, Constant):
            return node.kind in ("BOOLEAN", "NULL_LITERAL") or self.is_number(node)
        name = "if" if isinstance(node, Case) else name_of(node)
        if not name:
            return False
        if name in ("and", "or", "not", "if") and not self._are_boolean(node):
            return False
        if isinstance(node, Cast):
            return cast(self.type(node.operand), self.type(node)) is not None
        if name in ROUNDINGS and len(node.operands) > 1 and not self.is_number(node.operands[1]):
            return False
        if name in ROUNDINGS or name in UNARY:
            return is_numeric(self.type(node.operands[0]))
        if name in _SAME_CLASS:
            return self._are_alike(node)
        if name in OPERATORS or name in ("same", "distinct", "between", "in"):
            kinds = {_kind(self.type(each)) for each in node.operands} - {"null"}
            return len(kinds) < 2 and kinds <= {"number", "boolean", "VARCHAR"}
        if name in ("add", "subtract", "multiply", "slash", "divide", "mod", "negate", "pow", "atan2", "log_to"):
            return all(_kind(self.type(each)) in ("number", "null") for each in node.operands)
        return True

    def _are_boolean(self, node: Node) -> bool:
        """True if its conditions are booleans. (DuckDB also accepts numbers and text.)"""
        if isinstance(node, Case):
            conditions: Sequence[Node] = [condition for condition, _ in node.branches]
        else:
            conditions = node.operands[: 1 if name_of(node) == "if" else None]
        return all(_kind(self.type(condition)) in ("boolean", "null") for condition in conditions)

    def _are_alike(self, node: Node) -> bool:
        """True if all branches have one kind of type, so that no number is cast to text."""
        if isinstance(node, Case):
            results: Sequence[Node] = [*(result for _, result in node.branches), node.default]
        else:
            results = node.operands[1:] if name_of(node) == "if" else node.operands
        kinds = {_kind(self.type(result)) for result in results} | {_kind(self.type(node))}
        return len(kinds - {"null"}) < 2 and self.type(node) != "FLOAT"

    def is_number(self, node: Node) -> bool:
        """True for a literal number, perhaps negated, of reasonable length."""
        if name_of(node) == "negate":
            return self.is_number(*node.operands)
        if not isinstance(node, Constant) or not node.is_number or len(node.text) > _LONGEST:
            return False
        _, _, power = node.text.lower().partition("e")
        return len(power) < 5 and abs(int(power or 0)) <= _LONGEST

    def literal(self, node: Constant) -> fmpq:
        return rational(Fraction(node.text))

    def constant(self, node: Node) -> Fraction:
        if isinstance(node, Constant):
            return Fraction(node.text)
        return -self.constant(*node.operands)

    def is_plain_decision(self, node: Node) -> bool:
        """True if the node reads no encrypted figure and is no DOUBLE, whose rounding would matter."""
        return self.type(node) not in FLOATS and not any(name[0] == "e" for name in self.columns(node))

    def is_exactly_typed(self, node: Node) -> bool:
        """True if no DOUBLE is computed inside, so that DuckDB loses nothing. (Casting a DOUBLE to text loses
        nothing.)
        """
        if isinstance(node, ColumnRef):
            return True
        if self.type(node) in FLOATS:
            return False
        is_text = isinstance(node, Cast) and not is_numeric(self.type(node)) and self.type(node) != "BOOLEAN"
        children = children_of(node)
        if not children:
            return not any(self._types[name] in FLOATS for name in self.columns(node))
        return all(self.is_exactly_typed(child) and (is_text or self.type(child) not in FLOATS) for child in children)

    def is_plus_zero(self, node: Node) -> bool:
        """True if the node is never -0.0, which would change the sign of an infinity."""
        if self.type(node) not in FLOATS or isinstance(node, Constant):
            return True
        if isinstance(node, ColumnRef):
            return node.name in self._nonnegative
        name, arguments = name_of(node), node.operands
        if name == "abs":
            return True
        if name == "add":
            return any(map(self.is_plus_zero, arguments))
        if name in ("subtract", "sqrt", "cast"):
            return self.is_plus_zero(arguments[0])
        return False


def _kind(type_: str) -> str:
    if is_numeric(type_):
        return "number"
    if type_ == "BOOLEAN":
        return "boolean"
    return "null" if type_ in ('"NULL"', "NULL", "SQLNULL") else type_


def _parts(node: Node) -> list[Node]:
    return [node, *(part for child in children_of(node) for part in _parts(child))]
