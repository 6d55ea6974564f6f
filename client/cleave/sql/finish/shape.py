"""What an expression is made of: which parts of it are known here, their types, and the columns they read."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from fractions import Fraction

from sqlglot import exp

from cleave.aggregates.flints import fmpq
from cleave.sql.dialect import write
from cleave.sql.finish.casts import FLOATS, cast, is_numeric
from cleave.sql.finish.compare import OPERATORS
from cleave.sql.finish.functions import ROUNDINGS, UNARY
from cleave.sql.finish.numbers import exact

_BINARY: dict[type[exp.Expression], str] = {
    exp.Add: "add",
    exp.Sub: "subtract",
    exp.Mul: "multiply",
    exp.Div: "slash",
    exp.IntDiv: "divide",
    exp.Mod: "mod",
    exp.Pow: "pow",
    exp.And: "and",
    exp.Or: "or",
    exp.NullSafeEQ: "same",
    exp.NullSafeNEQ: "distinct",
    **{getattr(exp, name): name for name in OPERATORS},
}
_UNARY: dict[type[exp.Expression], str] = {
    exp.Neg: "negate",
    exp.Not: "not",
    exp.Abs: "abs",
    exp.Cast: "cast",
    exp.TryCast: "cast",
}
# DuckDB's function -> (name here, how many arguments it may have)
_CALLS: dict[str, tuple[str, tuple[int, ...]]] = {
    **{name: (name, (1,)) for name in (*UNARY, "isnan", "isinf", "isfinite")},
    **{name: (name, (1, 2) if name in ("round", "trunc") else (1,)) for name in ROUNDINGS},
    "round_even": ("round_even", (2,)),
    "roundbankers": ("roundbankers", (2,)),
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
    "ifnull": ("ifnull", (2,)),
    "if": ("if", (3,)),
    "pi": ("pi", (0,)),
}
_MANY = ("coalesce", "greatest", "least")
_COLUMN = re.compile(r"n|[kpegl]\d+")  # everything else is a parameter of a lambda
_LONGEST = 400  # characters and powers of ten of a literal
_SAME_CLASS = ("if", "coalesce", "ifnull", "greatest", "least", "nullif")


def name_of(node: exp.Expression) -> str:
    """What a node does, "" where that is not known here."""
    if isinstance(node, exp.Is):
        return "is_null" if isinstance(node.expression, exp.Null) else "same"
    if isinstance(node, exp.Between):
        return "between"
    if isinstance(node, exp.In):
        return "in" if node.expressions and not node.args.get("query") else ""
    for kinds in (_BINARY, _UNARY):
        if type(node) in kinds:
            return kinds[type(node)]
    if not isinstance(node, exp.Anonymous):
        return ""
    call = node.name.lower()
    if call == "log" and len(node.expressions) == 2:
        return "log_to"
    if call in _MANY:
        return call if node.expressions else ""
    name, counts = _CALLS.get(call, ("", ()))
    return name if len(node.expressions) in counts else ""


def arguments_of(node: exp.Expression) -> list[exp.Expression]:
    if isinstance(node, exp.Is):
        return [node.this] if isinstance(node.expression, exp.Null) else [node.this, node.expression]
    if isinstance(node, exp.Between):
        return [node.this, node.args["low"], node.args["high"]]
    if isinstance(node, exp.In):
        return [node.this, *node.expressions]
    if isinstance(node, exp.Anonymous):
        return list(node.expressions)
    if type(node) in _UNARY:
        return [node.this]
    return [node.this, node.expression]


def branches_of(node: exp.Case) -> list[tuple[exp.Expression, exp.Expression]]:
    """Condition and result of every branch; CASE x WHEN y means CASE WHEN x = y."""
    return [
        (exp.EQ(this=node.this.copy(), expression=each.this.copy()) if node.this else each.this, each.args["true"])
        for each in node.args["ifs"]
    ]


def children_of(node: exp.Expression) -> list[exp.Expression]:
    """The parts that are evaluated one by one, of a node that is known here."""
    if isinstance(node, exp.Paren):
        return [node.this]
    if isinstance(node, exp.Case):
        branches = [part for branch in branches_of(node) for part in branch]
        return [*branches, *([node.args["default"]] if node.args.get("default") is not None else [])]
    return arguments_of(node) if name_of(node) else []


class Shapes:
    """Types are DuckDB's own, asked once for every part of the expressions.

    `nonnegative`: columns that are never -0.0.
    """

    def __init__(
        self,
        expressions: Sequence[exp.Expression],
        types: Callable[[Sequence[str]], list[str]],
        nonnegative: frozenset[str],
    ) -> None:
        self._nonnegative = nonnegative
        parts = {write(part) for expression in expressions for part in _parts(expression)}
        parts |= {name for expression in expressions for name in self.columns(expression)}
        ordered = sorted(parts)
        self._types = dict(zip(ordered, types(ordered), strict=True))

    def type(self, node: exp.Expression) -> str:
        return self._types[write(node)]

    def columns(self, node: exp.Expression) -> set[str]:
        return {column.name for column in node.find_all(exp.Column) if _COLUMN.fullmatch(column.name)}

    def is_known(self, node: exp.Expression) -> bool:
        """Whether it is evaluated here, given that its parts are."""
        if isinstance(node, exp.Literal):
            return self.is_number(node)
        if isinstance(node, exp.Boolean | exp.Null | exp.Paren):
            return True
        name = "if" if isinstance(node, exp.Case) else name_of(node)
        if not name:
            return False
        if name in ("and", "or", "not", "if") and not self._are_boolean(node):
            return False
        if name == "cast":
            return cast(self.type(node.this), self.type(node)) is not None
        if name in ROUNDINGS and len(arguments_of(node)) > 1 and not self.is_number(arguments_of(node)[1]):
            return False
        if name in ROUNDINGS or name in UNARY:
            return is_numeric(self.type(arguments_of(node)[0]))
        if name in _SAME_CLASS:
            return self._are_alike(node)
        if name in OPERATORS or name in ("same", "distinct", "between", "in"):
            kinds = {_kind(self.type(each)) for each in arguments_of(node)} - {"null"}
            return len(kinds) < 2 and kinds <= {"number", "boolean", "VARCHAR"}
        if name in ("add", "subtract", "multiply", "slash", "divide", "mod", "negate", "pow", "atan2", "log_to"):
            return all(_kind(self.type(each)) in ("number", "null") for each in arguments_of(node))
        return True

    def _are_boolean(self, node: exp.Expression) -> bool:
        """Conditions are: DuckDB takes numbers and text for one too."""
        if isinstance(node, exp.Case):
            conditions = [condition for condition, _ in branches_of(node)]
        else:
            conditions = arguments_of(node)[: 1 if name_of(node) == "if" else None]
        return all(_kind(self.type(condition)) in ("boolean", "null") for condition in conditions)

    def _are_alike(self, node: exp.Expression) -> bool:
        """Numbers stay numbers: nothing is cast to text on the way out."""
        if isinstance(node, exp.Case):
            results = [branch.args["true"] for branch in node.args["ifs"]]
            results += [node.args["default"]] if node.args.get("default") is not None else []
        else:
            results = arguments_of(node)[1:] if name_of(node) == "if" else arguments_of(node)
        kinds = {_kind(self.type(result)) for result in results} | {_kind(self.type(node))}
        return len(kinds - {"null"}) < 2 and self.type(node) != "FLOAT"

    def is_number(self, node: exp.Expression) -> bool:
        """A literal number, perhaps negated, that is not absurdly long."""
        if isinstance(node, exp.Neg | exp.Paren):
            return self.is_number(node.this)
        if not isinstance(node, exp.Literal) or node.is_string or len(node.name) > _LONGEST:
            return False
        _, _, power = node.name.lower().partition("e")
        return len(power) < 5 and abs(int(power or 0)) <= _LONGEST

    def literal(self, node: exp.Literal) -> fmpq:
        return exact(Fraction(node.name))

    def constant(self, node: exp.Expression) -> Fraction:
        if isinstance(node, exp.Neg):
            return -self.constant(node.this)
        return self.constant(node.this) if isinstance(node, exp.Paren) else Fraction(node.name)

    def is_plain_decision(self, node: exp.Expression) -> bool:
        """No encrypted figure is inside, and it is no DOUBLE, whose rounding on the way matters."""
        return self.type(node) not in FLOATS and not any(name[0] == "e" for name in self.columns(node))

    def is_exactly_typed(self, node: exp.Expression) -> bool:
        """No DOUBLE is made anywhere inside, so that DuckDB itself loses nothing; to cast one to text loses nothing."""
        if isinstance(node, exp.Column):
            return True
        if self.type(node) in FLOATS:
            return False
        is_text = isinstance(node, exp.Cast) and not is_numeric(self.type(node)) and self.type(node) != "BOOLEAN"
        children = children_of(node)
        if not children:
            return not any(self._types[name] in FLOATS for name in self.columns(node))
        return all(self.is_exactly_typed(child) and (is_text or self.type(child) not in FLOATS) for child in children)

    def is_plus_zero(self, node: exp.Expression) -> bool:
        """Whether it is never -0.0, which turns the sign of an infinity around."""
        if self.type(node) not in FLOATS or isinstance(node, exp.Literal):
            return True
        if isinstance(node, exp.Paren):
            return self.is_plus_zero(node.this)
        if isinstance(node, exp.Column):
            return node.name in self._nonnegative
        name, arguments = name_of(node), arguments_of(node) if name_of(node) else []
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


def _parts(node: exp.Expression) -> list[exp.Expression]:
    return [node, *(part for child in children_of(node) for part in _parts(child))]
