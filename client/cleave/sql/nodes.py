"""Expressions of a question as trees, read by DuckDB's parser (cleave.sql.read), for planning to cut and change.

Nodes are immutable; `replaced` makes a new tree. Brackets, spaces and the case of functions are lost. `write` adds
enough brackets that DuckDB's parser reads the same tree again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest
from typing import TypeVar

from cleave.sql.functions import AGGREGATE_NAMES
from cleave.table.duck import identifier, literal
from cleave_shared.plain_functions import ALLOWED_FUNCTIONS

T = TypeVar("T", bound="Node")


class Node:
    """An expression. `operands` are its parts, in written order."""

    __slots__ = ()

    @property
    def operands(self) -> tuple[Node, ...]:
        return ()

    def with_operands(self, operands: Sequence[Node]) -> Node:
        """The same node with new operands, equally many."""
        assert not operands  # noqa: S101 - a leaf
        return self

    def walk(self) -> Iterator[Node]:
        """This node and all nodes below it, top down."""
        waiting: list[Node] = [self]
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(reversed(node.operands))

    def find(self, kind: type[T]) -> Iterator[T]:
        return (node for node in self.walk() if isinstance(node, kind))

    def has(self, kind: type[Node]) -> bool:
        return any(True for _ in self.find(kind))

    def replaced(self, replacement: Callable[[Node], Node | None]) -> Node:
        """Return the tree with nodes replaced by `replacement`. If that returns None for a node, its operands are
        visited.
        """
        if (other := replacement(self)) is not None:
            return other
        operands = self.operands
        others = [each.replaced(replacement) for each in operands]
        if all(one is other for one, other in zip(operands, others, strict=True)):
            return self
        return self.with_operands(others)


@dataclass(frozen=True, slots=True)
class ColumnRef(Node):
    """`path`: schema and table, if written, and the name. `quoted`: it has double quotes in the question."""

    path: tuple[str, ...]
    quoted: bool = True

    @property
    def name(self) -> str:
        return self.path[-1]


class GroupColumn(ColumnRef):
    """A column of the group table: k0, e0, n, ..."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Constant(Node):
    """`kind`: DuckDB's INTEGER, NUMERIC, STRING, BOOLEAN, NULL_LITERAL, HEX or BIT. `text`: as written."""

    kind: str
    text: str

    @property
    def is_number(self) -> bool:
        return self.kind in ("INTEGER", "NUMERIC")

    @property
    def place(self) -> int | None:
        """The number of an ordinal or a LIMIT; None unless it is a whole number."""
        return int(self.text) if self.kind == "INTEGER" and self.text.isdigit() else None


NULL = Constant("NULL_LITERAL", "")


def integer(value: int) -> Constant:
    return Constant("INTEGER", str(value))


@dataclass(frozen=True, slots=True)
class Ordered:
    """A term of ORDER BY. `direction` and `nulls` are as written, "" if omitted."""

    expression: Node
    direction: str = ""  # ASC or DESC
    nulls: str = ""  # NULLS FIRST or NULLS LAST


@dataclass(frozen=True, slots=True)
class Call(Node):
    """Call of a function or operator: x + y is a call of "+". `count(*)` has no arguments.

    `names`: names of named arguments, "" for the others; empty if none is named.
    """

    name: str  # in lower case
    arguments: tuple[Node, ...] = ()
    distinct: bool = False
    order: tuple[Ordered, ...] = ()
    filter: Node | None = None
    names: tuple[str, ...] = ()

    @property
    def operands(self) -> tuple[Node, ...]:
        filter_ = () if self.filter is None else (self.filter,)
        return (*self.arguments, *(each.expression for each in self.order), *filter_)

    def with_operands(self, operands: Sequence[Node]) -> Call:
        given, ordered = len(self.arguments), len(self.arguments) + len(self.order)
        order = [replace(one, expression=two) for one, two in zip(self.order, operands[given:ordered], strict=True)]
        filter_ = operands[ordered] if self.filter is not None else None
        return replace(self, arguments=tuple(operands[:given]), order=tuple(order), filter=filter_)


@dataclass(frozen=True, slots=True)
class Operator(Node):
    """An operator of DuckDB's syntax: comparison, AND, OR, NOT, IS NULL, IN, BETWEEN, COALESCE, GROUPING.

    `name` is the word or sign. AND and OR may have more than two operands.
    """

    name: str
    terms: tuple[Node, ...]

    @property
    def operands(self) -> tuple[Node, ...]:
        return self.terms

    def with_operands(self, operands: Sequence[Node]) -> Operator:
        return Operator(self.name, tuple(operands))


@dataclass(frozen=True, slots=True)
class Case(Node):
    """`branches`: (condition, result). `default`: NULL without ELSE. CASE x WHEN y is read as CASE WHEN x = y."""

    branches: tuple[tuple[Node, Node], ...]
    default: Node = NULL

    @property
    def operands(self) -> tuple[Node, ...]:
        return (*chain.from_iterable(self.branches), self.default)

    def with_operands(self, operands: Sequence[Node]) -> Case:
        return Case(tuple(zip(operands[:-1:2], operands[1:-1:2], strict=True)), operands[-1])


@dataclass(frozen=True, slots=True)
class Cast(Node):
    operand: Node
    type: str  # in SQL
    may_fail: bool = False  # TRY_CAST

    @property
    def operands(self) -> tuple[Node, ...]:
        return (self.operand,)

    def with_operands(self, operands: Sequence[Node]) -> Cast:
        (operand,) = operands
        return replace(self, operand=operand)


@dataclass(frozen=True, slots=True)
class Other(Node):
    """An expression that planning does not know: DuckDB's text in pieces, with the operands between them."""

    pieces: tuple[str, ...]
    terms: tuple[Node, ...]

    @property
    def operands(self) -> tuple[Node, ...]:
        return self.terms

    def with_operands(self, operands: Sequence[Node]) -> Other:
        return Other(self.pieces, tuple(operands))


# names that need no quotes; the grammar treats the removed ones specially
_BARE = (AGGREGATE_NAMES | ALLOWED_FUNCTIONS) - {"extract", "overlay", "position", "substring", "trim"}


def write(node: Node) -> str:
    """SQL on one line, with operands in brackets."""
    match node:
        case ColumnRef():
            return node.name if isinstance(node, GroupColumn) else ".".join(map(identifier, node.path))
        case Constant():
            return _constant(node)
        case Call():
            return _call(node)
        case Operator():
            return _operation(node)
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


def shown(node: Node) -> str:
    """`node` as a message may show it: without constants, which may be values of parameters."""
    return write(node.replaced(lambda each: GroupColumn(("...",)) if isinstance(each, Constant) else None))


def write_ordered(term: Ordered) -> str:
    return " ".join(filter(None, (write(term.expression), term.direction, term.nulls)))


def _constant(node: Constant) -> str:
    match node.kind:
        case "STRING":
            return literal(node.text)
        case "HEX":
            return f"x{literal(node.text)}"
        case "BIT":
            return f"b{literal(node.text)}"
        case "NULL_LITERAL":
            return "NULL"
    return node.text


def _operand(node: Node) -> str:
    """The operand's SQL, in brackets unless it is a unit anyway."""
    negative = isinstance(node, Constant) and node.text.startswith("-") and node.is_number
    closed = isinstance(node, ColumnRef | Constant | Cast) or (isinstance(node, Call) and _is_word(node.name))
    closed |= isinstance(node, Operator) and node.name in ("COALESCE", "GROUPING")
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


def _operation(node: Operator) -> str:
    """Writes each operand once: writing one twice would take 2^n steps for n nested operations."""
    name, operands = node.name, node.operands
    match name:
        case "COALESCE" | "GROUPING":
            return f"{name}({', '.join(map(write, operands))})"
        case "NOT":
            return f"NOT {_operand(operands[0])}"
        case "IS NULL" | "IS NOT NULL":
            return f"{_operand(operands[0])} {name}"
        case "IN":
            return f"{_operand(operands[0])} IN ({', '.join(map(write, operands[1:]))})"
        case "BETWEEN":
            return "{} BETWEEN {} AND {}".format(*map(_operand, operands))
    return f" {name} ".join(map(_operand, operands))
