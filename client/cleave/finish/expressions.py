"""Expressions over the groups' figures: arithmetic, HAVING and ORDER BY, evaluated on certified numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cleave.aggregates.base import Answers
from cleave.finish import order
from cleave.finish.cells import NEVER_MINUS_ZERO, Cell, certified, certified_plain, needs_guess, of_value
from cleave.finish.evaluate import Evaluator
from cleave.finish.groups import GroupTable, failed
from cleave.finish.numbers import Special
from cleave.finish.shape import Shapes
from cleave.finish.values import UNKNOWN, Value
from cleave.sql.nodes import Node
from cleave.sql.plan import PlainAggregate, QueryPlan
from cleave.sql.read import expressions_of, orderings_of
from cleave.sql.write import write, write_ordered
from cleave.table.types import is_shown_as_it_is


class Expressions:
    """Expressions of `plan`, over a table of groups in which the encrypted aggregates that are `evaluated` have been
    published.
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
        certified, self._exact = self._columns()
        self._evaluator = Evaluator(table, certified, self._exact, self._shapes)

    def _columns(self) -> tuple[dict[str, list[Value]], dict[str, list[bool]]]:
        """By column, the certified value of each group, and whether DuckDB holds that very value."""
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
        """The groups of `rows` that HAVING may let in, and those of them it perhaps does not."""
        if self._having is None:
            return list(rows), frozenset()
        values = dict(zip(rows, self._evaluator.values(self._having, rows), strict=True))
        if any(value.single is Special.FAILED for value in values.values()):
            raise failed("a division by zero, an overflow or a cast, in HAVING")
        inside = [row for row, value in values.items() if not {True, Special.UNKNOWN}.isdisjoint(value.atoms)]
        return inside, frozenset(row for row in inside if values[row].single is not True)

    def term(self, number: int, rows: Sequence[int]) -> order.Term:
        """The ORDER BY term of that number, of which only the values in `rows` matter."""
        ordered = self._ordered[number]
        node = ordered.expression
        columns = self._shapes.columns(node)
        if not any(name[0] == "e" for name in columns):
            return order.settled(self._table.ranks([write_ordered(ordered)]))
        type_ = self._shapes.type(node)
        if type_ != "VARCHAR" and not is_shown_as_it_is(type_) and self._are_exact(columns):
            return order.settled(self._table.ranks([write_ordered(ordered)]))  # their text is not in their order
        cells = dict(zip(rows, self._cells(node, rows), strict=True))
        values = dict(zip(rows, self._evaluator.values(node, rows), strict=True))
        everywhere = range(self._table.size)
        return order.term(
            [values.get(row, Value((Special.NULL,))) for row in everywhere],
            [cells[row].value if row in cells else None for row in everywhere],
            type_,
            descending=ordered.direction == "DESC",
            nulls_first=ordered.nulls == "NULLS FIRST",
        )

    def _are_exact(self, columns: set[str]) -> bool:
        return all(all(self._exact.get(name, ())) for name in columns)

    def cells(self, number: int, rows: Sequence[int]) -> list[Cell]:
        """Return the cells of the output of that number."""
        return self._cells(self._finals[number], rows)

    def _cells(self, node: Node, rows: Sequence[int]) -> list[Cell]:
        values = self._evaluator.values(node, rows)
        if any(value.single is Special.FAILED for value in values):
            raise failed("a division by zero, an overflow or a cast")
        type_ = self._shapes.type(node)
        guesses: list[Any] = [None] * self._table.size
        if any(map(needs_guess, values)):
            guesses = self._table.guesses(write(node), type_)
        return [of_value(value, type_, guesses[row]) for row, value in zip(rows, values, strict=True)]
