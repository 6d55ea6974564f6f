"""The rest of the query, over one row a group: arithmetic, HAVING, ORDER BY, LIMIT, and the bounds of it all."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Any, cast

import duckdb
import sqlglot
from sqlglot import exp

from cleave.aggregates.answers import Answers, Rows
from cleave.aggregates.balls import precision
from cleave.aggregates.base import Figure
from cleave.sql.dialect import FaithfulDuckDB, write
from cleave.sql.finish import bare, order
from cleave.sql.finish.cells import Cell, needs_guess, of_value
from cleave.sql.finish.certify import NEVER_MINUS_ZERO, certified, certified_plain, published
from cleave.sql.finish.evaluate import Columns, Evaluator
from cleave.sql.finish.groups import GroupTable, is_shown_as_it_is
from cleave.sql.finish.numbers import Special
from cleave.sql.finish.result import ResultTable
from cleave.sql.finish.shape import Shapes
from cleave.sql.finish.values import UNKNOWN, Value
from cleave.sql.plan import PlainAggregate, QueryPlan
from cleave.sql.rejoin import Groups
from cleave.table.duck import connect
from cleave_shared.errors import QueryRefused

_TRY = "TRY_CAST and NULLIF(x, 0) give NULL instead of an error"


def finish(plan: QueryPlan, groups: Groups, answers: Answers | Sequence[Sequence[Figure]]) -> ResultTable:
    """`answers` are those of `plan.encrypted` for every group; as rows, `answers[g][i]`.

    Raises QueryRefused where the final arithmetic fails on these values, as a division or cast may, ServiceError for
    plain figures that are not of their types.
    """
    with closing(connect()) as connection, precision():
        columns = Rows(answers) if isinstance(answers, Sequence) else answers
        evaluated = bare.evaluated(plan)
        table = GroupTable(connection)
        table.load(plan, groups, {i: map(published, columns.column(i)) for i in evaluated})
        try:
            return _Finisher(plan, columns, evaluated, table).result()
        except duckdb.Error as error:  # its message may quote values
            raise _failed(type(error).__name__) from None


def _failed(reason: str) -> QueryRefused:
    return QueryRefused(f"the arithmetic over the groups' aggregates failed ({reason})", hint=_TRY)


class _Finisher:
    def __init__(self, plan: QueryPlan, answers: Answers, evaluated: frozenset[int], table: GroupTable) -> None:
        self._plan = plan
        self._answers = answers
        self._evaluated_aggregates = evaluated
        self._table = table
        self._finals = [_parsed(final.sql) for final in plan.finals]
        self._having = _parsed(f"CAST(({plan.having}) AS BOOLEAN)") if plan.having is not None else None
        self._ordered = [_ordered(term) for term in plan.order_by]
        expressions = [*self._finals, *([self._having] if self._having else []), *(each.this for each in self._ordered)]
        nonnegative = frozenset(
            f"e{i}" for i, each in enumerate(plan.encrypted) if not NEVER_MINUS_ZERO.isdisjoint(each.aggregate.names)
        )
        self._shapes = Shapes(expressions, table.types, nonnegative)
        known = self._columns()
        self._exact = known.exact
        self._evaluator = Evaluator(table, known, self._shapes)

    def _columns(self) -> Columns:
        values, exact = {}, {}
        for i in self._evaluated_aggregates:
            figures, names = self._answers.column(i), self._plan.encrypted[i].aggregate.names
            values[f"e{i}"] = [certified(figure, names) for figure in figures]
            exact[f"e{i}"] = [figure.exact for figure in figures]
        for i, plain in enumerate(self._plan.plain):
            if not plain.exact:
                values[f"p{i}"] = self._certified_plain(i, plain)
                exact[f"p{i}"] = [False] * self._table.size
        return Columns(values, exact)

    def _certified_plain(self, place: int, plain: PlainAggregate) -> list[Value]:
        if plain.certificate is None:
            return [UNKNOWN] * self._table.size
        places = (place, *plain.certificate)
        columns = [self._table.column(f"p{i}", self._plan.plain[i].type) for i in places]
        return [certified_plain(*row) for row in zip(*columns, strict=True)]

    def result(self) -> ResultTable:
        plan = self._plan
        inside, doubtful = self._filtered()
        ties = self._table.ranks([f"k{i} ASC NULLS LAST" for i in range(len(plan.keys))])
        terms = [self._term(each, inside) for each in self._ordered]
        chosen, unsure = order.choose(inside, terms, ties, plan.limit, plan.offset, doubtful)
        columns = [self._cells(number, chosen) for number in range(len(plan.finals))]
        cells = [[column[row] for column in columns] for row in range(len(chosen))]
        doubts = [(*(("HAVING",) if row in doubtful else ()), *(("LIMIT",) if row in unsure else ())) for row in chosen]
        return ResultTable(
            columns=list(plan.outputs),
            types=[final.type for final in plan.finals],
            rows=[[cell.value for cell in row] for row in cells],
            bounds=[[cell.bound for cell in row] for row in cells],
            exact=[[cell.exact for cell in row] for row in cells],
            undecided=[[cell.undecided for cell in row] for row in cells],
            doubts=doubts,
            warnings=self._warnings(cells, doubts),
        )

    def _warnings(self, cells: Sequence[Sequence[Cell]], doubts: Sequence[tuple[str, ...]]) -> list[str]:
        said = []
        for clause, what in (
            ("HAVING", "whether {} of the rows shown belong there"),
            ("LIMIT", "which rows come first: others may belong in the place of {} of those shown"),
        ):
            if count := sum(clause in each for each in doubts):
                said.append(f"{clause}: the error bounds do not decide {what.format(count)}")
        for number, output in enumerate(self._plan.outputs):
            if count := sum(row[number].undecided for row in cells):
                said.append(
                    f"SELECT item {number + 1} ({output.name}): the error bounds do not decide {count} of its values"
                )
        return said

    def _filtered(self) -> tuple[list[int], frozenset[int]]:
        """The groups that HAVING may let in, and those of them it perhaps does not."""
        rows = list(range(self._table.size))
        if self._having is None:
            return rows, frozenset()
        values = dict(zip(rows, self._evaluator.values(self._having, rows), strict=True))
        if any(value.single is Special.FAILED for value in values.values()):
            raise _failed("a division by zero, an overflow or a cast, in HAVING")
        inside = [row for row, value in values.items() if not {True, Special.UNKNOWN}.isdisjoint(value.atoms)]
        return inside, frozenset(row for row in inside if values[row].single is not True)

    def _term(self, ordered: exp.Ordered, rows: Sequence[int]) -> order.Term:
        node = ordered.this
        columns = self._shapes.columns(node)
        if not any(name[0] == "e" for name in columns):
            return order.settled(self._table.ranks([write(ordered)]))
        type_ = self._shapes.type(node)
        if type_ != "VARCHAR" and not is_shown_as_it_is(type_) and self._are_exact(columns):
            return order.settled(self._table.ranks([write(ordered)]))  # their text is not in their order
        cells = dict(zip(rows, self._evaluated(node, rows), strict=True))
        values = dict(zip(rows, self._evaluator.values(node, rows), strict=True))
        everywhere = range(self._table.size)
        return order.term(
            [values.get(row, Value((Special.NULL,))) for row in everywhere],
            [cells[row].value if row in cells else None for row in everywhere],
            type_,
            descending=bool(ordered.args.get("desc")),
            nulls_first=bool(ordered.args.get("nulls_first")),
        )

    def _are_exact(self, columns: set[str]) -> bool:
        return all(all(self._exact.get(name, ())) for name in columns)

    def _cells(self, number: int, rows: Sequence[int]) -> list[Cell]:
        """Of one output, in the rows chosen."""
        final, node = self._plan.finals[number], self._finals[number]
        if not final.encrypted:
            return self._plain_cells(number, rows)
        if final.is_bare:
            return bare.cells(self._answers, final.encrypted[0], final.type, rows)
        return self._evaluated(node, rows)

    def _plain_cells(self, number: int, rows: Sequence[int]) -> list[Cell]:
        """What no encrypted figure is in: as DuckDB has it."""
        final = self._plan.finals[number]
        same = self._plan.outputs[number].source != "key" and all(
            [*(self._plan.plain[i].exact for i in final.plain), *(self._plan.local[i].exact for i in final.local)]
        )
        values = self._table.column(final.sql, final.type, rows) if rows else []
        return [Cell(value, 0.0 if same else None, exact=True if same else None) for value in values]

    def _evaluated(self, node: exp.Expression, rows: Sequence[int]) -> list[Cell]:
        values = self._evaluator.values(node, rows)
        if any(value.single is Special.FAILED for value in values):
            raise _failed("a division by zero, an overflow or a cast")
        type_ = self._shapes.type(node)
        guesses: list[Any] = [None] * self._table.size
        if any(map(needs_guess, values)):
            guesses = self._table.guesses(write(node), type_)
        return [of_value(value, type_, guesses[row]) for row, value in zip(rows, values, strict=True)]


def _parsed(sql: str) -> exp.Expression:
    return cast(exp.Expression, sqlglot.parse_one(f"SELECT {sql}", read=FaithfulDuckDB).expressions[0])


def _ordered(term: str) -> exp.Ordered:
    select = sqlglot.parse_one(f"SELECT 1 ORDER BY {term}", read=FaithfulDuckDB)
    found: exp.Ordered = select.args["order"].expressions[0]
    return found
