"""Expressions of a question as trees: what DuckDB's own parser read (cleave.sql.read), for planning to cut and change.

A node never changes: `replaced` makes another tree of it. Brackets, spaces and the case of functions are gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TypeVar

T = TypeVar("T", bound="Node")


class Node:
    """An expression; `operands` are the expressions it is made of, in the order they are written."""

    __slots__ = ()

    @property
    def operands(self) -> tuple[Node, ...]:
        return ()

    def of(self, operands: Sequence[Node]) -> Node:
        """The same node over as many other operands."""
        assert not operands  # noqa: S101 - a leaf
        return self

    def walk(self) -> Iterator[Node]:
        """This node and all below it, from above."""
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
        """The tree in which each node gives way to its `replacement`; where that is None, its operands may."""
        if (other := replacement(self)) is not None:
            return other
        operands = self.operands
        others = [each.replaced(replacement) for each in operands]
        if all(one is other for one, other in zip(operands, others, strict=True)):
            return self
        return self.of(others)


@dataclass(frozen=True, slots=True)
class Column(Node):
    """`path`: schema and table, as far as they are written, and the name. `quoted`: in double quotes in a question."""

    path: tuple[str, ...]
    quoted: bool = True

    @property
    def name(self) -> str:
        return self.path[-1]


class Place(Column):
    """A column of the table of groups: k0, e0, n, ..."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Constant(Node):
    """`kind` is DuckDB's: INTEGER, NUMERIC, STRING, BOOLEAN, NULL_LITERAL or HEX; `text` as it is written."""

    kind: str
    text: str

    @property
    def is_number(self) -> bool:
        return self.kind in ("INTEGER", "NUMERIC")

    @property
    def place(self) -> int | None:
        """Return the number of an ordinal or a LIMIT; None for what is no whole number."""
        return int(self.text) if self.kind == "INTEGER" and self.text.isdigit() else None


NULL = Constant("NULL_LITERAL", "")


def integer(value: int) -> Constant:
    return Constant("INTEGER", str(value))


@dataclass(frozen=True, slots=True)
class Ordered:
    """A term of ORDER BY. `direction` and `nulls` as they are written, "" where they are not."""

    expression: Node
    direction: str = ""  # ASC or DESC
    nulls: str = ""  # NULLS FIRST or NULLS LAST


@dataclass(frozen=True, slots=True)
class Call(Node):
    """A function, also one that is written as an operator: + is a call of "+". `count(*)` has no arguments.

    `names`: of arguments that are given by name, "" for the others; empty where none is.
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

    def of(self, operands: Sequence[Node]) -> Call:
        given, ordered = len(self.arguments), len(self.arguments) + len(self.order)
        order = [replace(one, expression=two) for one, two in zip(self.order, operands[given:ordered], strict=True)]
        filter_ = operands[ordered] if self.filter is not None else None
        return replace(self, arguments=tuple(operands[:given]), order=tuple(order), filter=filter_)


@dataclass(frozen=True, slots=True)
class Operation(Node):
    """Operator of DuckDB's syntax: comparisons, AND, OR, NOT, IS NULL, IN, BETWEEN, COALESCE, GROUPING.

    `name` is the word or sign; AND and OR may have more than two operands.
    """

    name: str
    terms: tuple[Node, ...]

    @property
    def operands(self) -> tuple[Node, ...]:
        return self.terms

    def of(self, operands: Sequence[Node]) -> Operation:
        return Operation(self.name, tuple(operands))


@dataclass(frozen=True, slots=True)
class Case(Node):
    """`branches`: (condition, result); `default` is NULL where there is no ELSE. CASE x WHEN y is CASE WHEN x = y."""

    branches: tuple[tuple[Node, Node], ...]
    default: Node = NULL

    @property
    def operands(self) -> tuple[Node, ...]:
        return (*chain.from_iterable(self.branches), self.default)

    def of(self, operands: Sequence[Node]) -> Case:
        return Case(tuple(zip(operands[:-1:2], operands[1:-1:2], strict=True)), operands[-1])


@dataclass(frozen=True, slots=True)
class Cast(Node):
    operand: Node
    type: str  # in SQL
    may_fail: bool = False  # TRY_CAST

    @property
    def operands(self) -> tuple[Node, ...]:
        return (self.operand,)

    def of(self, operands: Sequence[Node]) -> Cast:
        (operand,) = operands
        return replace(self, operand=operand)


@dataclass(frozen=True, slots=True)
class Other(Node):
    """Expression unknown to planning: DuckDB's text of it between its operands, so one piece more than operands."""

    pieces: tuple[str, ...]
    terms: tuple[Node, ...]

    @property
    def operands(self) -> tuple[Node, ...]:
        return self.terms

    def of(self, operands: Sequence[Node]) -> Other:
        return Other(self.pieces, tuple(operands))
