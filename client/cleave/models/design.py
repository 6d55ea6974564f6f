"""The design of a linear model: its formula, checked against a schema, and the columns of its design matrix.

    bill ~ age + I(age ** 2) + C(ward):weight

formulaic parses the formula. No text of it is ever evaluated: before it is parsed, each expression is read here as
C(column) or a product of columns, and anything else is refused. formulaic then gets a small frame of levels, whose
columns are named like the factors, and returns the names and the coding of the design's columns.
"""

from __future__ import annotations

import ast
import itertools
import keyword
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from cleave.table.schema import Column, Kind, Schema
from cleave.table.types import FLOATS, is_number
from cleave.text.nearest import did_you_mean
from cleave_shared.errors import CleaveError, InputError, QueryRefused, extra

if TYPE_CHECKING:
    from formulaic.parser.types import Term as Parsed

MOST_PARAMETERS = 200
_MOST_CHARACTERS = 5_000
_MOST_DEGREE = 20  # of one term
_MOST_TERMS = 10_000  # before equal ones are joined
_MOST_CELLS = 100_000  # of levels in one term
_LEVELS = 'add it to the schema as a derived column: [derived.NAME] with sql = "..."; or, of a stored table, with '
_WAY_ON = _LEVELS + '`cleave derive TABLE "EXPRESSION" --as NAME`'
_SHAPE = "write RESPONSE ~ TERM + TERM, such as bill ~ age + C(ward)"
_QUOTED = re.compile(r"`([^`]+)`")
FACTORS = ("VARCHAR", "BOOLEAN")  # types of columns that are factors without C()


@dataclass(frozen=True, slots=True)
class Term:
    """A product of columns. `numbers` lists numeric columns, each as often as its power. `factors` are named as in the
    formula.
    """

    numbers: tuple[str, ...]
    factors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DesignColumn:
    """A column of the design matrix: the product of the columns `numbers` in rows with all the `levels`, else 0."""

    name: str
    numbers: tuple[str, ...]
    levels: tuple[tuple[str, Any], ...]

    @property
    def factors(self) -> frozenset[str]:
        return frozenset(factor for factor, _ in self.levels)

    @property
    def term(self) -> str:
        """The name without levels, which are cell values and belong in no error."""
        return ":".join([*(factor for factor, _ in self.levels), *self.numbers]) if self.levels else self.name


@dataclass(frozen=True)
class Formula:
    """A checked formula. `factors` maps each factor, as the formula writes it, to its column. `parsed` has formulaic's
    terms in their order, and `terms` what they mean.
    """

    text: str
    response: Column
    parsed: tuple[Parsed, ...]
    terms: tuple[Term, ...]
    columns: Mapping[str, Column]
    factors: Mapping[str, Column]

    @property
    def numbers(self) -> list[Column]:
        """The numeric columns, the response too."""
        return list(self.columns.values())

    @cached_property
    def sets(self) -> list[tuple[str, ...]]:
        """The sets of factors whose groups give all sums of products of two terms, the empty set last."""
        # a column of a term may be of some of its factors: g:h alone has g[T.b] and g[a]:h[T.y]
        each = {
            frozenset(part)
            for term in self.terms
            for size in range(len(term.factors) + 1)
            for part in itertools.combinations(term.factors, size)
        } | {frozenset[str]()}
        pairs = {one | two for one in each for two in each}
        order = list(self.factors)
        sets = [tuple(sorted(pair, key=order.index)) for pair in pairs]
        return sorted(sets, key=lambda names: (-len(names), [order.index(name) for name in names]))

    def design(self, levels: Mapping[str, Sequence[Any]]) -> list[DesignColumn]:
        """Return the columns of the design matrix for the sorted `levels` of each factor.

        Raises QueryRefused for too many parameters.
        """
        columns = []
        for term, names, frame, values in self._coded(levels):
            for place, name in enumerate(names):
                rows = [row for row, one in zip(frame, values[place], strict=True) if one]
                chosen = [
                    (factor, next(iter(found)))
                    for number, factor in enumerate(term.factors)
                    if len(found := {row[number] for row in rows}) == 1
                ]
                columns.append(DesignColumn(name, term.numbers, tuple(chosen)))
        return columns

    def _coded(
        self, levels: Mapping[str, Sequence[Any]]
    ) -> list[tuple[Term, list[str], list[tuple[Any, ...]], list[list[float]]]]:
        """For each term: the names of its columns, all rows of its levels, and each column's values there."""
        with extra("models", "models"):
            import formulaic  # noqa: PLC0415 - 0.7 s
        import pandas as pd  # noqa: PLC0415 - formulaic needs it

        grids, start = [], 0
        table: dict[str, list[Any]] = {factor: [] for factor in self.factors}
        for term in self.terms:
            grid = list(itertools.islice(itertools.product(*(levels[each] for each in term.factors)), _MOST_CELLS + 1))
            if len(grid) > _MOST_CELLS or len(grid) > MOST_PARAMETERS * max(1, len(term.factors)) * 8:
                raise too_many()
            for factor in self.factors:
                inside = term.factors.index(factor) if factor in term.factors else None
                table[factor] += [levels[factor][0] if inside is None else row[inside] for row in grid]
            grids.append((start, grid))
            start += len(grid)
        named = {
            factor: pd.Categorical(table[factor], categories=list(levels[factor]), ordered=False)
            for factor in self.factors
        }
        ones = {each.expr: 1.0 for term in self.parsed for each in term.factors if each.expr not in named}
        frame = pd.DataFrame({**named, **ones}, index=range(start))
        matrix = formulaic.Formula(self._looked_up(), _ordering="none").get_model_matrix(frame)
        if matrix.shape[1] > MOST_PARAMETERS:
            raise too_many()
        spec, found = matrix.model_spec, []
        names, dense = list(matrix.columns), matrix.to_numpy()
        for places, term, (begin, grid) in zip(spec.term_indices.values(), self.terms, grids, strict=True):
            values = [dense[begin : begin + len(grid), place].tolist() for place in places]
            found.append((term, [names[place] for place in places], grid, values))
        return found

    def _looked_up(self) -> list[Parsed]:
        """The parsed terms, with each factor replaced by a column of its name."""
        from formulaic.parser.types import Factor  # noqa: PLC0415 - as above
        from formulaic.parser.types import Term as Coded  # noqa: PLC0415 - as above

        def looked_up(factor: Any) -> Any:
            return factor if _method(factor) == "literal" else Factor(factor.expr, eval_method="lookup")

        return [Coded([looked_up(each) for each in term.factors]) for term in self.parsed]


def too_many() -> QueryRefused:
    return QueryRefused(
        f"the model has more than {MOST_PARAMETERS} parameters", hint="leave terms out, or group the levels of a factor"
    )


def read_formula(text: str, schema: Schema) -> Formula:
    """Parse a formula and check each factor of it.

    Raises InputError for text that is no formula and for unknown columns, QueryRefused for what needs more than sums.
    """
    if not isinstance(text, str):
        raise InputError(f"a formula is text, not {type(text).__name__}", hint=_SHAPE)
    if len(text) > _MOST_CHARACTERS:
        raise InputError(f"the formula has {len(text)} characters, at most {_MOST_CHARACTERS}")
    responses, terms = _sides(text)
    if len(responses) != 1:
        raise InputError("the formula has no single response", hint=_SHAPE)
    reader = _FormulaReader(schema)
    (response,) = responses
    if not terms:
        raise InputError("the formula has no term", hint=_SHAPE)
    column = reader.response(response)
    meaning = tuple(map(reader.term, terms))
    return Formula(text, column, terms, meaning, dict(sorted(reader.columns.items())), reader.factors)


def _sides(text: str) -> tuple[tuple[Parsed, ...], tuple[Parsed, ...]]:
    """Parse a formula into the terms before ~ and those after it, () for a side that it lacks.

    Raises InputError for whatever formulaic raises, and as `read_formula`.
    """
    with extra("models", "models"):
        from formulaic import Formula as Parser  # noqa: PLC0415 - 0.7 s
        from formulaic import SimpleFormula  # noqa: PLC0415 - as above
        from formulaic.parser import DefaultFormulaParser  # noqa: PLC0415 - as above
        from formulaic.parser.algos.tokenize import tokenize  # noqa: PLC0415 - as above
    try:
        # first: of a response's calls, formulaic evaluates the called function while it parses
        last = ""
        for token in tokenize(text):
            last = token.token if token.kind is token.Kind.OPERATOR else ""
            if token.kind is token.Kind.PYTHON:
                _expression(token.token)
            if last == "|":
                raise InputError("| divides the formula into parts, and a linear regression has one", hint=_SHAPE)
        if last == "~":
            raise InputError("the formula has no term after ~", hint=f"RESPONSE ~ 1 fits the mean; else {_SHAPE}")
        if _expanded(DefaultFormulaParser().get_ast(text)) > _MOST_TERMS:
            raise QueryRefused(
                f"the formula writes out to more than {_MOST_TERMS} terms",
                hint="cross fewer terms, or to a lower power",
            )
        parsed = Parser(text)
        lhs, rhs = (
            tuple(side) if isinstance(side := getattr(parsed, name, None), SimpleFormula) else ()
            for name in ("lhs", "rhs")
        )
    except (CleaveError, MemoryError):
        raise
    except Exception:  # noqa: BLE001 - formulaic also raises AttributeError and the like for text that is no formula
        raise InputError("the formula cannot be read", hint=_SHAPE) from None
    return lhs, rhs


def _expanded(tree: Any) -> int:
    """At least as many terms as formulaic's syntax tree writes out, but at most one more than the limit."""
    nodes: list[Any] = [tree]
    counts: dict[int, int] = {}
    for node in nodes:  # the tree of a long sum is deeper than Python recurses
        nodes += list(getattr(node, "args", ()))
    for node in reversed(nodes):
        parts = list(getattr(node, "args", ()))
        symbol = node.operator.symbol if parts else ""
        found = [counts[id(part)] for part in parts]
        total = 1 + sum(found)
        if symbol in {"*", ":", "/", "in", "%in%"}:
            total += math.prod(found)
        elif symbol in {"**", "^"}:
            total += int(found[0] ** _power(parts[1]))
        counts[id(node)] = min(total, _MOST_TERMS + 1)
    return counts[id(tree)]


def _power(node: Any) -> int:
    """Read the power of a bracket of terms."""
    text = str(node)
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(_MOST_DEGREE))):
        raise InputError("a power of terms in the formula is no small whole number", hint=_SHAPE)
    return int(text)


class _FormulaReader:
    """Reads factors. `columns` has the numeric columns so far, by name; `factors` the columns of factors."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self.columns: dict[str, Column] = {}
        self.factors: dict[str, Column] = {}
        self._methods: dict[str, str] = {}  # of each factor's text

    def response(self, term: Parsed) -> Column:
        factors = list(term.factors)
        if len(factors) != 1 or _method(factors[0]) != "lookup":
            raise QueryRefused(f"the response {str(term)!r} is no column", hint=_WAY_ON)
        column = self._column(factors[0].expr)
        if column.type == "BOOLEAN":
            raise QueryRefused(
                f"the response {column.name!r} is true or false, and a logistic regression needs rows",
                hint="fetch the rows with a query and fit them on this machine: see docs/models.md",
            )
        return self._number(column)

    def term(self, term: Parsed) -> Term:
        numbers: Counter[str] = Counter()
        factors: list[str] = []
        for factor in term.factors:
            text, method = factor.expr, _method(factor)
            if method == "literal":
                if text != "1" or len(list(term.factors)) > 1:
                    raise QueryRefused(f"the term {str(term)!r} scales a column", hint=_WAY_ON)
            elif self._methods.setdefault(text, method) != method:
                raise QueryRefused(f"{text!r} is a column and an expression", hint="give the column another name")
            elif method == "lookup":
                column = self._column(text)
                if column.type in FACTORS:
                    self._add_factor(text, column, factors)
                else:
                    numbers[self._number(column).name] += 1
            else:
                self._python(text, numbers, factors)
        if numbers.total() > _MOST_DEGREE:
            raise QueryRefused(f"the term {str(term)!r} has a degree above {_MOST_DEGREE}", hint="use lower powers")
        return Term(tuple(sorted(numbers.elements())), tuple(factors))

    def _python(self, text: str, numbers: Counter[str], factors: list[str]) -> None:
        """Read C(column), I(product) or a product."""
        factor, powers = _expression(text)
        if factor is not None:
            self._add_factor(text, self._column(factor), factors)
        for name, power in powers.items():
            numbers[self._number(self._column(name)).name] += power

    def _add_factor(self, text: str, column: Column, factors: list[str]) -> None:
        if column.type in FLOATS:
            raise QueryRefused(f"{column.name!r} is {column.type}, and such a column has no levels", hint=_WAY_ON)
        known = next((name for name, other in self.factors.items() if other.name == column.name), text)
        if known != text:
            raise QueryRefused(
                f"{column.name!r} is a factor under two names, {known!r} and {text!r}", hint="write it in one way"
            )
        self.factors[text] = column
        factors.append(text)

    def _number(self, column: Column) -> Column:
        if not is_number(column.type):
            raise QueryRefused(
                f"{column.name!r} is {column.type}, not a number",
                hint=f"C({column.name}) uses its values as levels",
            )
        self.columns[column.name] = column
        return column

    def _column(self, name: str) -> Column:
        if (column := self._schema.find(name)) is not None:
            return column
        for derived in self._schema.derived:
            if derived.name.lower() == name.lower():
                return Column(derived.name, Kind.ENCRYPTED, derived.type)
        names = self._schema.names
        raise InputError(
            f"there is no column {name!r}",
            hint=did_you_mean(name, names) or f"the schema names {', '.join(list(names)[:20])}",
            name=name,
        )


def _method(factor: Any) -> str:
    """How formulaic would get a factor's values: "lookup", "python" or "literal"."""
    return str(factor.eval_method.value)


def _expression(text: str) -> tuple[str | None, Counter[str]]:
    """Read an expression, which is parsed and never evaluated: the column of C(column), or the powers of a product.

    Raises QueryRefused for any other.
    """
    names: dict[str, str] = {}

    def unquoted(match: re.Match[str]) -> str:
        if keyword.iskeyword(match[1]):  # formulaic takes its backticks away
            raise QueryRefused(
                f"the term {text!r} names the column {match[1]!r}, which is a word of Python", hint=_WAY_ON
            )
        names[name := f"quoted_column_{len(names)}"] = match[1]
        return name

    refused = QueryRefused(
        f"the term {text!r} is more than C(column), or a product of columns and whole powers", hint=_WAY_ON
    )
    try:
        node = ast.parse(_QUOTED.sub(unquoted, text), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise refused from None
    match node:
        case ast.Call(ast.Name("C"), [ast.Name(name)], []):
            return names.get(name, name), Counter()
        case ast.Call(ast.Name("C"), [ast.Name(), *_], _):
            raise QueryRefused(
                f"the term {text!r} chooses another coding, and the first level of a factor is its reference",
                hint="differences of two coefficients do not depend on the reference",
            )
        case ast.Call(ast.Name("I"), [inner], []):
            node = inner
    powers = _powers(node)
    if powers is None:
        raise refused
    return None, Counter({names.get(name, name): power for name, power in powers.items()})


def _powers(node: ast.expr) -> Counter[str] | None:
    """How often each name is a factor of a product; None if `node` is no product of names and whole powers."""
    match node:
        case ast.Name(name):
            return Counter([name])
        case ast.BinOp(left, ast.Mult(), right):
            one, two = _powers(left), _powers(right)
            return None if one is None or two is None else one + two
        case ast.BinOp(base, ast.Pow(), ast.Constant(int(power))) if 1 <= power <= _MOST_DEGREE:
            of_base = _powers(base)
            return None if of_base is None else Counter({name: count * power for name, count in of_base.items()})
    return None
