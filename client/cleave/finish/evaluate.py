"""Evaluates expressions over the group table with certified numbers, one group at a time.

DuckDB computes every node that reads no encrypted figure, or only exact ones in exact types. All other arithmetic and
decisions use rationals and balls. An unsupported function gives "unknown".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from typing import Any

import duckdb
from flint import arb

from cleave.aggregates.base import Answers
from cleave.finish import compare, functions
from cleave.finish.cells import HIDDEN, NEVER_MINUS_ZERO, AnswerCell, certified, certified_plain, needs_guess, of_value
from cleave.finish.functions import cast, in_range
from cleave.finish.groups import GroupTable, uncomputed
from cleave.finish.numbers import Special
from cleave.finish.shape import Shapes, name_of
from cleave.finish.values import NULL, UNKNOWN, Atom, Computed, Value, atom_of, combine, either, gather, value_of
from cleave.sql.nodes import Case, Cast, ColumnRef, Constant, Node, write, write_ordered
from cleave.sql.plan import PlainAggregate, QueryPlan
from cleave.sql.read import expressions_of, orderings_of
from cleave.table.types import FLOATS, is_integer, is_shown_as_it_is

_MOST_DIGITS = 400  # limit on the digits argument of ROUND


class _Interpreter:
    """`certified`: by column, the certified value of each group; DuckDB's values are used for all other columns.
    `exact`: by column, whether DuckDB has exactly that value.
    """

    def __init__(
        self,
        table: GroupTable,
        certified: Mapping[str, Sequence[Value]],
        exact: Mapping[str, Sequence[bool]],
        shapes: Shapes,
    ) -> None:
        self._table = table
        self._certified = certified
        self._exact = exact
        self._shapes = shapes
        self._values: dict[str, dict[int, Value]] = {}

    def values(self, node: Node, rows: Sequence[int]) -> list[Value]:
        """The values of the groups in `rows`. A branch of CASE, COALESCE or IF is only evaluated for groups that need
        it.
        """
        values = self._values.setdefault(write(node), {})
        missing = [row for row in rows if row not in values]
        if missing:
            values.update(zip(missing, self._fresh(node, missing), strict=True))
        return [values[row] for row in rows]

    def _fresh(self, node: Node, rows: Sequence[int]) -> list[Value]:
        if isinstance(node, ColumnRef):
            return self._column(node, rows)
        if self._shapes.is_plain_decision(node):
            return self._of_duckdb(node, rows)
        if self._shapes.is_exactly_typed(node):
            settled = self._settled(node, rows)
            values = dict(zip(settled, self._of_duckdb(node, settled), strict=True))
            open_ = [row for row in rows if row not in values]
            values |= zip(open_, self._computed(node, open_), strict=True)
            return [values[row] for row in rows]
        return self._computed(node, rows)

    def _settled(self, node: Node, rows: Sequence[int]) -> list[int]:
        """The rows in which every figure that the node reads is exact."""
        exact = [self._exact[name] for name in self._shapes.columns(node) if name in self._exact]
        return [row for row in rows if all(each[row] for each in exact)]

    # what DuckDB answers

    def _column(self, node: ColumnRef, rows: Sequence[int]) -> list[Value]:
        certified = self._certified.get(node.name)
        return [certified[row] for row in rows] if certified is not None else self._of_duckdb(node, rows)

    def _of_duckdb(self, node: Node, rows: Sequence[int]) -> list[Value]:
        if not rows:
            return []
        sql, type_ = write(node), self._shapes.type(node)
        guessed = not self._shapes.is_exactly_typed(node)
        try:
            values = self._table.column(sql, type_, rows)
        except duckdb.Error:
            if len(rows) == 1:
                return [value_of(Special.FAILED)]
            return [value for row in rows for value in self._of_duckdb(node, [row])]
        return [Value((atom_of(value),), guessed=guessed) for value in values]

    def _opaque(self, node: Node, rows: Sequence[int]) -> list[Value]:
        """An unsupported function: DuckDB's answer if all its inputs are exact and it is no DOUBLE, else unknown."""
        names = self._shapes.columns(node)
        if self._shapes.type(node) in FLOATS and names:
            return [UNKNOWN] * len(rows)
        settled = self._settled(node, rows)
        values = dict(zip(settled, self._of_duckdb(node, settled), strict=True))
        return [values.get(row, UNKNOWN) for row in rows]

    # nodes computed in this module

    def _computed(self, node: Node, rows: Sequence[int]) -> list[Value]:
        if not rows:
            return []
        if not self._shapes.is_known(node):
            return self._opaque(node, rows)
        if isinstance(node, Constant):
            return [self._constant(node)] * len(rows)
        if isinstance(node, Case):
            return self._branches(node.branches, node.default, rows)
        name, arguments = name_of(node), node.operands
        if name == "coalesce":
            return self._coalesce(arguments, rows)
        if name == "if":
            condition, result, default = arguments
            return self._branches([(condition, result)], default, rows)
        operands = [
            self.values(argument, rows) for argument in (arguments[:1] if name in functions.ROUNDINGS else arguments)
        ]
        function = self._function(node, name, arguments)
        return [combine(function, *values) for values in zip(*operands, strict=True)]

    def _constant(self, node: Constant) -> Value:
        if node.kind == "NULL_LITERAL":
            return NULL
        return value_of(node.text.lower() == "true" if node.kind == "BOOLEAN" else self._shapes.literal(node))

    def _branches(self, branches: Iterable[tuple[Node, Node]], default: Node, rows: Sequence[int]) -> list[Value]:
        possible: dict[int, list[Value]] = {row: [] for row in rows}
        still = list(rows)
        for condition, result in branches:
            conditions = dict(zip(still, self.values(condition, still), strict=True))
            for row, value in conditions.items():
                if Special.FAILED in value.atoms:
                    possible[row].append(value_of(Special.FAILED))
            taken = [row for row, value in conditions.items() if _may_be(value, holds=True)]
            for row, value in zip(taken, self.values(result, taken), strict=True):
                possible[row].append(value)
            still = [row for row, value in conditions.items() if _may_be(value, holds=False)]
        for row, value in zip(still, self.values(default, still), strict=True):
            possible[row].append(value)
        return [either(*possible[row]) for row in rows]

    def _coalesce(self, arguments: Sequence[Node], rows: Sequence[int]) -> list[Value]:
        possible: dict[int, list[Value]] = {row: [] for row in rows}
        still = list(rows)
        for argument in arguments:
            values = dict(zip(still, self.values(argument, still), strict=True))
            for row, value in values.items():
                present = [atom for atom in value.atoms if atom is not Special.NULL]
                if present:
                    possible[row].append(gather(present, torn=value.torn, guessed=value.guessed))
            still = [row for row, value in values.items() if Special.NULL in value.atoms]
        for row in still:
            possible[row].append(NULL)
        return [either(*possible[row]) for row in rows]

    def _function(self, node: Node, name: str, arguments: Sequence[Node]) -> Callable[..., Computed]:
        types = [self._shapes.type(argument) for argument in arguments]
        floats = any(type_ in FLOATS for type_ in types)
        checked = in_range(self._shapes.type(node))
        sides = (types[0] not in FLOATS, len(types) > 1 and types[1] not in FLOATS)
        if name in ("add", "subtract", "multiply", "negate"):
            arithmetic = {
                "add": functions.add,
                "subtract": functions.subtract,
                "multiply": functions.multiply,
                "negate": functions.negate,
            }[name]
            return _then(arithmetic, checked)
        if name == "divide" and is_integer(self._shapes.type(node)):
            return _then(functions.divide_whole, checked)
        if name in ("divide", "slash"):
            return functions.divide(self._shapes.is_plus_zero(arguments[1]), whole=name == "divide")
        if name == "mod":
            return functions.modulo(self._shapes.type(node) in FLOATS)
        if name in ("pow", "log_to", "atan2"):
            return {"pow": functions.power, "log_to": functions.logarithm_to, "atan2": functions.angle}[name]
        if name in functions.ROUNDINGS:
            digits = self._digits(arguments)
            return _then(functions.rounding(functions.ROUNDINGS[name], digits, floats=types[0] in FLOATS), checked)
        if name in functions.UNARY:
            return _then(functions.UNARY[name], checked)
        if name in compare.OPERATORS:
            return compare.comparison(name, floats=floats, exact_sides=sides)
        if name in ("and", "or"):
            logic = compare.both if name == "and" else compare.any_of
            return lambda *atoms: _all(logic, atoms)
        if name in ("same", "distinct"):
            same = compare.same(floats=floats, exact_sides=sides)
            return same if name == "same" else _then(same, compare.negation)
        if name == "between":
            least = compare.comparison(">=", floats=floats, exact_sides=sides)
            most = compare.comparison("<=", floats=floats, exact_sides=(sides[0], types[2] not in FLOATS))
            return lambda value, low, high: _all(compare.both, (least(value, low), most(value, high)))
        if name == "in":
            equal = compare.comparison("=", floats=floats, exact_sides=(sides[0], True))
            return lambda value, *others: _all(compare.any_of, [equal(value, other) for other in others])
        if name == "nullif":
            equal = compare.comparison("=", floats=floats, exact_sides=sides)
            return lambda one, other: _nullif(one, equal(one, other))
        if name in ("greatest", "least"):
            chosen = compare.extreme(greatest=name == "greatest", floats=floats)
            return lambda *atoms: _all(chosen, atoms)
        if name == "cast":
            converted = cast(types[0], self._shapes.type(node))
            assert converted is not None  # noqa: S101 - is_known has checked this
            return _then(converted, _failed_to_null) if isinstance(node, Cast) and node.may_fail else converted
        return _OTHERS[name]

    def _digits(self, arguments: Sequence[Node]) -> int:
        if len(arguments) < 2:
            return 0
        return max(-_MOST_DIGITS, min(int(self._shapes.constant(arguments[1])), _MOST_DIGITS))


def _may_be(condition: Value, *, holds: bool) -> bool:
    """True if this condition may select a branch (`holds`), or may reject it."""
    if Special.UNKNOWN in condition.atoms:
        return True
    return True in condition.atoms if holds else False in condition.atoms or Special.NULL in condition.atoms


def _atoms(result: Computed) -> tuple[Atom, ...]:
    if isinstance(result, Value):
        return result.atoms
    return result if isinstance(result, tuple) else (result,)


def _then(first: Callable[..., Computed], second: Callable[..., Computed]) -> Callable[..., Computed]:
    def composed(*atoms: Atom) -> Computed:
        result = first(*atoms)
        torn = isinstance(result, Value) and result.torn
        return gather((each for atom in _atoms(result) for each in _atoms(second(atom))), torn=torn)

    return composed


def _all(function: Callable[..., Computed], results: Sequence[Computed]) -> Computed:
    return reduce(lambda one, other: combine(function, gather(_atoms(one)), gather(_atoms(other))), results)


def _nullif(one: Atom, equal: Computed) -> Computed:
    atoms: list[Atom] = []
    for atom in _atoms(equal):
        if atom is Special.FAILED:
            atoms.append(atom)
        elif atom is True:
            atoms.append(Special.NULL)
        elif atom is Special.UNKNOWN:
            atoms += [Special.NULL, one]
        else:  # not equal, or one side is NULL
            atoms.append(one)
    return tuple(atoms)


def _failed_to_null(atom: Atom) -> Computed:
    return Special.NULL if atom is Special.FAILED else atom


_OTHERS: dict[str, Callable[..., Computed]] = {
    "not": compare.negation,
    "is_null": compare.is_null,
    "is_not_null": _then(compare.is_null, compare.negation),
    "pi": arb.pi,
    "isnan": functions.is_special(Special.NAN),
    "isinf": functions.is_special(Special.UP, Special.DOWN),
    "isfinite": functions.is_special(Special.NAN, Special.UP, Special.DOWN, negated=True),
}


class Expressions:
    """The expressions of `plan` over a group table, which contains the published values of the aggregates
    `evaluated`.
    """

    def __init__(self, plan: QueryPlan, answers: Answers, evaluated: frozenset[int], table: GroupTable) -> None:
        self._plan = plan
        self._answers = answers
        self._evaluated = evaluated
        self._table = table
        having = [f"CAST(({plan.having}) AS BOOLEAN)"] if plan.having is not None else []
        expressions = expressions_of([*(final.sql for final in plan.finals), *having])
        self._finals = expressions[: len(plan.finals)]
        self._having = expressions[-1] if having else None
        self._ordered = orderings_of(plan.order_by)
        expressions += [each.expression for each in self._ordered]
        nonnegative = frozenset(
            f"e{i}" for i, each in enumerate(plan.encrypted) if not NEVER_MINUS_ZERO.isdisjoint(each.aggregate.names)
        )
        self._shapes = Shapes(expressions, table.types, nonnegative)
        self._hidden = self._withheld()
        certified, self._exact = self._columns()
        self._evaluator = _Interpreter(table, certified, self._exact, self._shapes)

    def _withheld(self) -> dict[str, set[int]]:
        """By column, the groups whose figure is unknown because a total is withheld."""
        hidden = {}
        for i in self._evaluated:
            if rows := {row for row, figure in enumerate(self._answers.column(i)) if figure.hidden}:
                hidden[f"e{i}"] = rows
        return hidden

    def _columns(self) -> tuple[dict[str, list[Value]], dict[str, list[bool]]]:
        """By column: the certified value of each group, and whether DuckDB has exactly that value."""
        values, exact = {}, {}
        for i in self._evaluated:
            figures, names = self._answers.column(i), self._plan.encrypted[i].aggregate.names
            values[f"e{i}"] = [certified(figure, names) for figure in figures]
            exact[f"e{i}"] = [figure.exact for figure in figures]
        for i, plain in enumerate(self._plan.plain):
            if not plain.exact:
                values[f"p{i}"] = self._certified_plain(i, plain)
                exact[f"p{i}"] = [False] * self._table.size
        return values, exact

    def _certified_plain(self, place: int, plain: PlainAggregate) -> list[Value]:
        if plain.certificate is None:
            return [UNKNOWN] * self._table.size
        places = (place, *plain.certificate)
        columns = [self._table.column(f"p{i}", self._plan.plain[i].type) for i in places]
        return [certified_plain(*row) for row in zip(*columns, strict=True)]

    def filtered(self, rows: Sequence[int]) -> tuple[list[int], frozenset[int]]:
        """The groups of `rows` that HAVING may select, and those of them that it may exclude."""
        if self._having is None:
            return list(rows), frozenset()
        values = dict(zip(rows, self._evaluator.values(self._having, rows), strict=True))
        if any(value.single is Special.FAILED for value in values.values()):
            raise uncomputed("a division by zero, an overflow or a cast, in HAVING")
        inside = [row for row, value in values.items() if not {True, Special.UNKNOWN}.isdisjoint(value.atoms)]
        return inside, frozenset(row for row in inside if values[row].single is not True)

    def term(self, number: int, rows: Sequence[int]) -> compare.GroupRanks:
        """ORDER BY term `number`. Only its values in `rows` are computed."""
        ordered = self._ordered[number]
        node = ordered.expression
        columns = self._shapes.columns(node)
        if not any(name[0] == "e" for name in columns):
            return compare.settled(self._table.ranks([write_ordered(ordered)]))
        type_ = self._shapes.type(node)
        if type_ != "VARCHAR" and not is_shown_as_it_is(type_) and self._are_exact(columns):
            return compare.settled(self._table.ranks([write_ordered(ordered)]))  # their text sorts differently
        cells = dict(zip(rows, self._cells(node, rows), strict=True))
        values = dict(zip(rows, self._evaluator.values(node, rows), strict=True))
        everywhere = range(self._table.size)
        return compare.term(
            [values.get(row, Value((Special.NULL,))) for row in everywhere],
            [cells[row].value if row in cells else None for row in everywhere],
            type_,
            descending=ordered.direction == "DESC",
            nulls_first=ordered.nulls == "NULLS FIRST",
        )

    def _are_exact(self, columns: set[str]) -> bool:
        return all(all(self._exact.get(name, ())) for name in columns)

    def cells(self, number: int, rows: Sequence[int]) -> list[AnswerCell]:
        """The cells of output `number` in `rows`."""
        return self._cells(self._finals[number], rows)

    def _cells(self, node: Node, rows: Sequence[int]) -> list[AnswerCell]:
        values = self._evaluator.values(node, rows)
        if any(value.single is Special.FAILED for value in values):
            raise uncomputed("a division by zero, an overflow or a cast")
        type_ = self._shapes.type(node)
        guesses: list[Any] = [None] * self._table.size
        if any(map(needs_guess, values)):
            guesses = self._table.guesses(write(node), type_)
        hidden = set[int]().union(*(self._hidden.get(name, ()) for name in self._shapes.columns(node)))
        return [
            HIDDEN if row in hidden else of_value(value, type_, guesses[row])
            for row, value in zip(rows, values, strict=True)
        ]
