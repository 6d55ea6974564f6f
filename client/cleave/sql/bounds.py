"""What the schema's declarations say of an expression: the range of its values, and whether it can be NULL.

An expression is read from the leaves up. Of what is not known here the type's own range holds, and NULL may occur:
saying too little costs width in a ciphertext, saying too much would be an overflow. The values are checked against what
is said here before they are encrypted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

from sqlglot import exp

from cleave.sql.dialect import write
from cleave.sql.ranges import BOOLEAN, Range, cast, range_of_type, round_outwards
from cleave.table.schema import Schema
from cleave.table.types import FLOATS
from cleave_shared.dataclass import dataclass
from cleave_shared.errors import QueryRefused

_MAX_NODES = 300  # of an expression: each one's type is asked of DuckDB, in one statement as long as all of them
_MAX_EXPONENT = 8


@dataclass(frozen=True, slots=True)
class Known:
    """Of an expression's values but NULL: `range` None is unknown, and `is_null` where there are none."""

    range: Range | None
    nullable: bool
    is_null: bool = False


_DAYS = Range(-Fraction(2**32), Fraction(2**32))  # between any two dates: each is a number of days in 32 bits
_MICROSECONDS_OF_A_DAY = Range(Fraction(0), Fraction(86_400_000_000))

UNKNOWN = Known(None, nullable=True)
_NULL = Known(None, nullable=True, is_null=True)

Types = Callable[[Sequence[str]], Sequence[str]]  # DuckDB's types of some SQL expressions


def known_of(node: exp.Expression, type_: str, schema: Schema, types: Types) -> Known:
    """What is known of a resolved expression of DuckDB's type `type_`."""
    reader = _Reader(schema)
    nodes = reader.nodes(node)
    if len(nodes) > _MAX_NODES:
        return Known(range_of_type(type_), nullable=True)
    try:
        texts = [write(each) for each in nodes]
        reader.types = dict(zip(map(id, nodes), types(texts), strict=True))
    except QueryRefused:  # a part that has no type by itself
        return Known(range_of_type(type_), nullable=True)
    return reader.read(node)


_NEVER_NULL = (exp.Is, exp.NullSafeEQ, exp.NullSafeNEQ)
_PREDICATES = (
    exp.EQ,
    exp.NEQ,
    exp.LT,
    exp.LTE,
    exp.GT,
    exp.GTE,
    exp.And,
    exp.Or,
    exp.Not,
    exp.Between,
    exp.Like,
    exp.ILike,
)
_FUNCTIONS = frozenset(
    {"coalesce", "ifnull", "greatest", "least", "if", "nullif", "abs", "floor", "ceil", "ceiling", "round", "trunc"}
    | {"sign", "epoch_us", "date_part"}
)
_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.Pow)


class _Reader:
    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self.types: dict[int, str] = {}  # by id of the node

    def nodes(self, node: exp.Expression) -> list[exp.Expression]:
        """`node` and all below it that `read` comes to."""
        found = [node]
        for each in found:
            found += _operands(each)
        return found

    def read(self, node: exp.Expression) -> Known:
        known = self._read(node)
        type_ = self.types[id(node)]
        if known.is_null:
            return known
        whole = range_of_type(type_)
        if known.range is None or whole is None:
            return Known(known.range if type_ in FLOATS else whole, known.nullable)
        if known.range.lower > whole.upper or known.range.upper < whole.lower:
            return Known(whole, known.nullable)  # DuckDB fails on every value
        held = Range(max(known.range.lower, whole.lower), min(known.range.upper, whole.upper))
        return Known(held, known.nullable)

    def _read(self, node: exp.Expression) -> Known:
        if isinstance(node, exp.Paren):
            return self.read(node.this)
        if isinstance(node, exp.Column):
            return self._column(node)
        if isinstance(node, exp.Literal):
            return Known(None if node.is_string else self._literal(node), nullable=False)
        if isinstance(node, exp.Boolean):
            value = Fraction(bool(node.this))
            return Known(Range(value, value), nullable=False)
        if isinstance(node, exp.Null):
            return _NULL
        if isinstance(node, _NEVER_NULL):
            return Known(BOOLEAN, nullable=False)
        if isinstance(node, _PREDICATES):
            return Known(BOOLEAN, any(self.read(each).nullable for each in _operands(node)))
        if isinstance(node, exp.In):
            return Known(
                BOOLEAN, any(self.read(each).nullable for each in _operands(node)) if _operands(node) else True
            )
        if isinstance(node, exp.Neg):
            return self._of_one(node, node.this, lambda value: -value)
        if isinstance(node, exp.Abs):
            return self._of_one(node, node.this, abs)
        if isinstance(node, _ARITHMETIC):
            return self._arithmetic(node)
        if isinstance(node, exp.Cast):  # TRY_CAST is one
            known = self._as_type(node.this, node)
            return Known(known.range, known.nullable or isinstance(node, exp.TryCast), known.is_null)
        if isinstance(node, exp.Case):
            return self._chosen(node, _branches(node), nullable=node.args.get("default") is None)
        if isinstance(node, exp.Anonymous):
            return self._call(node)
        return UNKNOWN

    def _column(self, node: exp.Column) -> Known:
        column = self._schema.column(node.name)
        known = range_of_type(column.type)
        if column.lower is not None and column.upper is not None:
            known = Range(Fraction(column.lower), Fraction(column.upper))
        elif known is not None:
            lower = known.lower if column.lower is None else max(known.lower, Fraction(column.lower))
            upper = known.upper if column.upper is None else min(known.upper, Fraction(column.upper))
            known = Range(lower, max(lower, upper))
        if known is not None and column.type in FLOATS:  # compared with the bound as a number of the type
            known = round_outwards(known, column.type)
        return Known(known, column.nullable)

    def _literal(self, node: exp.Literal) -> Range | None:
        try:
            value = float(node.name)
            exact = Fraction(value) if "e" in node.name.lower() else Fraction(node.name)
        except (ValueError, OverflowError):  # 0x10, 1e999
            return None
        return self._rounded(Range(exact, exact), node)

    def _as_type(self, operand: exp.Expression, whole: exp.Expression) -> Known:
        """What is known of `operand` once it is cast to the type of `whole`."""
        known = self.read(operand)
        source, target = self.types[id(operand)], self.types[id(whole)]
        return Known(cast(known.range, source, target) if known.range else None, known.nullable, known.is_null)

    def _rounded(self, value: Range | None, node: exp.Expression) -> Range | None:
        type_ = self.types[id(node)]
        return round_outwards(value, type_) if value and type_ in FLOATS else value

    def _of_one(self, node: exp.Expression, operand: exp.Expression, function: Callable[[Range], Range]) -> Known:
        known = self._as_type(operand, node)
        return Known(function(known.range) if known.range else None, known.nullable, known.is_null)

    def _arithmetic(self, node: exp.Expression) -> Known:
        type_ = self.types[id(node)]
        if isinstance(node, exp.Mul) and type_ not in FLOATS:  # of decimals, each keeps its own digits
            one, two = self.read(node.this), self.read(node.expression)
        else:
            one, two = self._as_type(node.this, node), self._as_type(node.expression, node)
        if one.is_null or two.is_null:
            return _NULL
        divides = isinstance(node, exp.Div | exp.IntDiv | exp.Mod)
        by_zero = divides and (two.range is None or two.range.least_magnitude == 0)
        nullable = one.nullable or two.nullable or by_zero
        if self._are_dates(node):
            return Known(_DAYS, nullable)
        if range_of_type(type_) is None and type_ not in FLOATS:
            return Known(None, nullable=True)  # dates and the like
        value = _computed(node, one.range, two.range) if one.range and two.range else None
        if by_zero and type_ in FLOATS:
            value = None  # infinite or not a number
        return Known(self._rounded(value, node), nullable)

    def _are_dates(self, node: exp.Expression) -> bool:
        return isinstance(node, exp.Sub) and all(self.types[id(each)] == "DATE" for each in _operands(node))

    def _chosen(self, node: exp.Expression, choices: Sequence[exp.Expression], *, nullable: bool) -> Known:
        """One of the choices, cast to the type they have in common."""
        known = [self._as_type(each, node) for each in choices]
        nullable = nullable or any(each.nullable for each in known)
        return Known(_hull(known), nullable, all(each.is_null for each in known))

    def _call(self, node: exp.Anonymous) -> Known:
        name, arguments = node.name.lower(), node.expressions
        if name in ("coalesce", "ifnull", "greatest", "least") and arguments:
            known = [self._as_type(each, node) for each in arguments]
            never_null = not all(each.nullable for each in known)
            return Known(_hull(known), not never_null, all(each.is_null for each in known))
        if name == "if" and len(arguments) == 3:
            return self._chosen(node, arguments[1:], nullable=False)
        if name == "nullif" and len(arguments) == 2:
            known_first = self._as_type(arguments[0], node)
            return Known(known_first.range, nullable=True, is_null=known_first.is_null)
        if name == "abs" and len(arguments) == 1:
            return self._of_one(node, arguments[0], abs)
        if name in ("floor", "ceil", "ceiling", "round", "trunc") and len(arguments) == 1:
            return self._of_one(node, arguments[0], Range.whole)
        if name == "epoch_us" and len(arguments) == 1:
            is_time = self.types[id(arguments[0])] == "TIME"
            return Known(_MICROSECONDS_OF_A_DAY if is_time else None, self.read(arguments[0]).nullable)
        if name == "date_part" and len(arguments) == 2:
            return Known(None, self.read(arguments[1]).nullable)
        if name == "sign" and len(arguments) == 1:
            return Known(Range(Fraction(-1), Fraction(1)), self.read(arguments[0]).nullable)
        return UNKNOWN


def _operands(node: exp.Expression) -> list[exp.Expression]:
    """The parts of `node` whose values `_Reader` asks for."""
    if isinstance(node, exp.Paren | exp.Neg | exp.Abs | exp.Not | exp.Cast):
        return [node.this]
    if isinstance(node, exp.Between):
        return [node.this, node.args["low"], node.args["high"]]
    if isinstance(node, exp.In):
        return [node.this, *node.expressions] if set(_given(node)) <= {"this", "expressions"} else []
    if isinstance(node, (*_PREDICATES, *_ARITHMETIC)):
        return [node.this, node.expression]
    if isinstance(node, exp.Case):
        return _branches(node)
    if isinstance(node, exp.Anonymous):
        return list(node.expressions) if node.name.lower() in _FUNCTIONS else []
    return []


def _given(node: exp.Expression) -> list[str]:
    return [name for name, value in node.args.items() if value]


def _branches(node: exp.Case) -> list[exp.Expression]:
    default = node.args.get("default")
    return [branch.args["true"] for branch in node.args["ifs"]] + ([default] if default is not None else [])


def _hull(known: Sequence[Known]) -> Range | None:
    ranges = [each.range for each in known if not each.is_null]
    hull = ranges[0] if ranges else None
    for each in ranges[1:]:
        hull = hull.hull(each) if hull and each else None
    return hull


def _computed(node: exp.Expression, one: Range, two: Range) -> Range | None:
    match node:
        case exp.Add():
            return one + two
        case exp.Sub():
            return one - two
        case exp.Mul():
            return one * two
        case exp.Div():
            return one.over(two)
        case exp.IntDiv():
            quotient = one.over(two)
            return quotient.whole() if quotient else None
        case exp.Mod():
            return one.remainder(two)
        case exp.Pow():
            exponent = two.lower
            if two.lower != two.upper or exponent.denominator != 1 or not 0 <= exponent <= _MAX_EXPONENT:
                return None
            return one.power(int(exponent)).widened()  # pow() may be off by more than a rounding
    return None
