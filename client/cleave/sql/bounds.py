"""Facts about an expression that follow from the schema: the range of its values, and whether it can be NULL.

Expressions are read from the leaves up. If a part is unknown, the whole range of its type is used, and NULL may occur.
A range that is too wide costs space in a ciphertext; one that is too narrow would overflow. So values are checked
against the range before they are encrypted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from cleave.sql.nodes import Call, Case, Cast, ColumnRef, Constant, Node, Operator, write
from cleave.sql.ranges import BOOLEAN, Range, cast, range_of_type, round_outwards
from cleave.table.schema import Schema
from cleave.table.types import FLOATS
from cleave_shared.errors import QueryRefused

_MAX_NODES = 300  # per expression: DuckDB states the type of each node, in one statement for all
_MAX_EXPONENT = 8


@dataclass(frozen=True, slots=True)
class Bounds:
    """Facts about an expression's values. `range`: None if unknown; it ignores NULL. `is_null`: there are no values but
    NULL.
    """

    range: Range | None
    nullable: bool
    is_null: bool = False


_DAYS = Range(-Fraction(2**32), Fraction(2**32))  # a date is a number of days in 32 bits
_MICROSECONDS_OF_A_DAY = Range(Fraction(0), Fraction(86_400_000_000))

UNKNOWN = Bounds(None, nullable=True)
_NULL = Bounds(None, nullable=True, is_null=True)

Types = Callable[[Sequence[str]], Sequence[str]]  # DuckDB's types of SQL expressions


def bounds_of(node: Node, type_: str, schema: Schema, types: Types) -> Bounds:
    """The facts about a resolved expression with DuckDB's type `type_`."""
    reader = _BoundsReader(schema)
    nodes = reader.nodes(node)
    if len(nodes) > _MAX_NODES:
        return Bounds(range_of_type(type_), nullable=True)
    try:
        texts = [write(each) for each in nodes]
        reader.types = dict(zip(map(id, nodes), types(texts), strict=True))
    except QueryRefused:  # a part has no type by itself
        return Bounds(range_of_type(type_), nullable=True)
    return reader.read(node)


_NEVER_NULL = frozenset({"IS NULL", "IS NOT NULL", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"})
_PREDICATES = frozenset({"=", "<>", "<", "<=", ">", ">=", "AND", "OR", "NOT", "BETWEEN", "IN"})
_FUNCTIONS = frozenset(
    {"greatest", "least", "if", "nullif", "abs", "@", "floor", "ceil", "ceiling", "round", "trunc"}
    | {"sign", "epoch_us", "date_part", "~~", "~~*"}
)
_ARITHMETIC = frozenset({"+", "-", "*", "/", "//", "%", "^", "**", "pow", "power"})


class _BoundsReader:
    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self.types: dict[int, str] = {}  # by id of the node

    def nodes(self, node: Node) -> list[Node]:
        """`node` and all nodes below it that `read` visits."""
        nodes = [node]
        for each in nodes:
            nodes += _operands(each)
        return nodes

    def read(self, node: Node) -> Bounds:
        bounds = self._read(node)
        type_ = self.types[id(node)]
        if bounds.is_null:
            return bounds
        whole = range_of_type(type_)
        if bounds.range is None or whole is None:
            return Bounds(bounds.range if type_ in FLOATS else whole, bounds.nullable)
        if bounds.range.lower > whole.upper or bounds.range.upper < whole.lower:
            return Bounds(whole, bounds.nullable)  # DuckDB fails for every value
        held = Range(max(bounds.range.lower, whole.lower), min(bounds.range.upper, whole.upper))
        return Bounds(held, bounds.nullable)

    def _read(self, node: Node) -> Bounds:
        match node:
            case ColumnRef():
                return self._column(node)
            case Constant():
                return self._constant(node)
            case Operator():
                return self._operation(node)
            case Cast():
                bounds = self._as_type(node.operand, node)
                return Bounds(bounds.range, bounds.nullable or node.may_fail, bounds.is_null)
            case Case():
                return self._chosen(node, _branches(node))
            case Call():
                return self._arithmetic(node) if _is_arithmetic(node) else self._call(node)
        return UNKNOWN

    def _constant(self, node: Constant) -> Bounds:
        if node.kind == "NULL_LITERAL":
            return _NULL
        if node.kind == "BOOLEAN":
            value = Fraction(node.text.lower() == "true")
            return Bounds(Range(value, value), nullable=False)
        return Bounds(self._literal(node) if node.is_number else None, nullable=False)

    def _operation(self, node: Operator) -> Bounds:
        if node.name in _NEVER_NULL:
            return Bounds(BOOLEAN, nullable=False)
        if node.name in _PREDICATES:
            return Bounds(BOOLEAN, any(self.read(each).nullable for each in node.operands))
        if node.name == "COALESCE":
            return self._first(node)
        return UNKNOWN

    def _first(self, node: Call | Operator) -> Bounds:
        """Facts about COALESCE, GREATEST and LEAST, which are NULL if all operands are."""
        bounds = [self._as_type(each, node) for each in node.operands]
        never_null = not all(each.nullable for each in bounds)
        return Bounds(_hull(bounds), not never_null, all(each.is_null for each in bounds))

    def _column(self, node: ColumnRef) -> Bounds:
        column = self._schema.column(node.name)
        bounds = range_of_type(column.type)
        if column.lower is not None and column.upper is not None:
            bounds = Range(Fraction(column.lower), Fraction(column.upper))
        elif bounds is not None:
            lower = bounds.lower if column.lower is None else max(bounds.lower, Fraction(column.lower))
            upper = bounds.upper if column.upper is None else min(bounds.upper, Fraction(column.upper))
            bounds = Range(lower, max(lower, upper))
        if bounds is not None and column.type in FLOATS:  # DuckDB compares it as a number of the column's type
            bounds = round_outwards(bounds, column.type)
        return Bounds(bounds, column.nullable)

    def _literal(self, node: Constant) -> Range | None:
        try:
            value = float(node.text)
            exact = Fraction(value) if "e" in node.text.lower() else Fraction(node.text)
        except (ValueError, OverflowError):  # 0x10, 1e999
            return None
        return self._rounded(Range(exact, exact), node)

    def _as_type(self, operand: Node, whole: Node) -> Bounds:
        """Facts about `operand` after a cast to the type of `whole`."""
        bounds = self.read(operand)
        source, target = self.types[id(operand)], self.types[id(whole)]
        return Bounds(cast(bounds.range, source, target) if bounds.range else None, bounds.nullable, bounds.is_null)

    def _rounded(self, value: Range | None, node: Node) -> Range | None:
        type_ = self.types[id(node)]
        return round_outwards(value, type_) if value and type_ in FLOATS else value

    def _of_one(self, node: Node, operand: Node, function: Callable[[Range], Range]) -> Bounds:
        bounds = self._as_type(operand, node)
        return Bounds(function(bounds.range) if bounds.range else None, bounds.nullable, bounds.is_null)

    def _arithmetic(self, node: Call) -> Bounds:
        type_ = self.types[id(node)]
        one, two = node.arguments
        if node.name == "*" and type_ not in FLOATS:  # each decimal operand keeps its own digits
            left, right = self.read(one), self.read(two)
        else:
            left, right = self._as_type(one, node), self._as_type(two, node)
        if left.is_null or right.is_null:
            return _NULL
        by_zero = node.name in ("/", "//", "%") and (right.range is None or right.range.least_magnitude == 0)
        nullable = left.nullable or right.nullable or by_zero
        if node.name == "-" and all(self.types[id(each)] == "DATE" for each in node.arguments):
            return Bounds(_DAYS, nullable)
        if range_of_type(type_) is None and type_ not in FLOATS:
            return Bounds(None, nullable=True)  # dates and other types
        value = _computed(node.name, left.range, right.range) if left.range and right.range else None
        if by_zero and type_ in FLOATS:
            value = None  # infinite or NaN
        return Bounds(self._rounded(value, node), nullable)

    def _chosen(self, node: Node, choices: Sequence[Node]) -> Bounds:
        """Facts about one of `choices`, cast to their common type."""
        bounds = [self._as_type(each, node) for each in choices]
        nullable = any(each.nullable for each in bounds)
        return Bounds(_hull(bounds), nullable, all(each.is_null for each in bounds))

    def _call(self, node: Call) -> Bounds:
        name, arguments = node.name, node.arguments
        if name in ("greatest", "least") and arguments:
            return self._first(node)
        if name == "if" and len(arguments) == 3:
            return self._chosen(node, arguments[1:])
        if name == "nullif" and len(arguments) == 2:
            first = self._as_type(arguments[0], node)
            return Bounds(first.range, nullable=True, is_null=first.is_null)
        if name in ("~~", "~~*") and len(arguments) == 2:
            return Bounds(BOOLEAN, any(self.read(each).nullable for each in arguments))
        if name == "-" and len(arguments) == 1:
            return self._of_one(node, arguments[0], lambda value: -value)
        if name in ("abs", "@") and len(arguments) == 1:
            return self._of_one(node, arguments[0], abs)
        if name in ("floor", "ceil", "ceiling", "round", "trunc") and len(arguments) == 1:
            return self._of_one(node, arguments[0], Range.whole)
        if name == "epoch_us" and len(arguments) == 1:
            is_time = self.types[id(arguments[0])] == "TIME"
            return Bounds(_MICROSECONDS_OF_A_DAY if is_time else None, self.read(arguments[0]).nullable)
        if name == "date_part" and len(arguments) == 2:
            return Bounds(None, self.read(arguments[1]).nullable)
        if name == "sign" and len(arguments) == 1:
            return Bounds(Range(Fraction(-1), Fraction(1)), self.read(arguments[0]).nullable)
        return UNKNOWN


def _is_arithmetic(node: Call) -> bool:
    return node.name in _ARITHMETIC and len(node.arguments) == 2


def _operands(node: Node) -> list[Node]:
    """The parts of `node` whose facts `_BoundsReader` needs."""
    match node:
        case Operator(name):
            return list(node.operands) if name in _PREDICATES or name == "COALESCE" else []
        case Cast():
            return [node.operand]
        case Case():
            return _branches(node)
        case Call(name):
            follows = name in _FUNCTIONS or _is_arithmetic(node) or (name == "-" and len(node.arguments) == 1)
            return list(node.arguments) if follows else []
    return []


def _branches(node: Case) -> list[Node]:
    return [*(result for _, result in node.branches), node.default]


def _hull(bounds: Sequence[Bounds]) -> Range | None:
    ranges = [each.range for each in bounds if not each.is_null]
    hull = ranges[0] if ranges else None
    for each in ranges[1:]:
        hull = hull.hull(each) if hull and each else None
    return hull


def _computed(operator: str, one: Range, two: Range) -> Range | None:
    match operator:
        case "+":
            return one + two
        case "-":
            return one - two
        case "*":
            return one * two
        case "/":
            return one.over(two)
        case "//":
            quotient = one.over(two)
            return quotient.whole() if quotient else None
        case "%":
            return one.remainder(two)
        case "^" | "**" | "pow" | "power":
            exponent = two.lower
            if two.lower != two.upper or exponent.denominator != 1 or not 0 <= exponent <= _MAX_EXPONENT:
                return None
            return one.power(int(exponent)).widened()  # pow() may be off by more than one rounding
    return None
