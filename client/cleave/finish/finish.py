"""Last step of a query, over one row per group: arithmetic, HAVING, ORDER BY, LIMIT and error bounds."""

from __future__ import annotations

import contextlib
import gc
import math
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import duckdb

from cleave.aggregates.balls import precision
from cleave.aggregates.base import Answers, ExactColumn, Figure, FigureRows
from cleave.finish import compare
from cleave.finish.cells import PRECISE, AnswerCell, of_figure, published
from cleave.finish.concealed import Concealed
from cleave.finish.groups import GroupTable, uncomputed
from cleave.finish.result import ResultTable
from cleave.sql.nodes import shown
from cleave.sql.plan import QueryPlan
from cleave.sql.read import expression_of
from cleave.sql.rejoin import Groups
from cleave.table.duck import private
from cleave.table.types import decimals_of, digits_of, is_integer, range_of
from cleave_shared.duckdb_errors import failed
from cleave_shared.errors import SumOverflows

if TYPE_CHECKING:
    from cleave.finish.evaluate import Expressions


_FIGURE = re.compile(r"\be\d")  # it also matches inside a text, which is harmless


def finish(
    plan: QueryPlan,
    groups: Groups,
    answers: Answers | Sequence[Sequence[Figure]],
    hidden: Sequence[Collection[int]] = (),
) -> ResultTable:
    """`answers`: the figures of `plan.encrypted` for each group; as rows, `answers[g][i]`. `hidden`: for each group,
    the hidden arguments, as indices in `plan.maybe_null`; HAVING, ORDER BY and expressions see NULL for them.

    Raises QueryRefused if a sum overflows its type or the arithmetic fails on these values (a division, a cast), and
    ServiceError for plain figures with wrong types.
    """
    with private() as connection, precision():
        columns = FigureRows(answers) if isinstance(answers, Sequence) else answers
        concealed = Concealed(plan, hidden)
        groups, columns = concealed.groups(groups), concealed.answers(columns)
        check_sums(plan, columns)
        evaluated = evaluated_in(plan)
        table = GroupTable(connection)
        table.load(plan, groups, {i: map(published, columns.column(i)) for i in evaluated})
        try:
            return _Finisher(plan, columns, evaluated, table, concealed).result()
        except duckdb.Error as error:  # its message may quote values
            raise uncomputed(failed(error).why) from None


class _Finisher:
    def __init__(
        self, plan: QueryPlan, answers: Answers, evaluated: frozenset[int], table: GroupTable, concealed: Concealed
    ) -> None:
        self._plan = plan
        self._answers = answers
        self._evaluated = evaluated
        self._table = table
        self._concealed = concealed

    @cached_property
    def _expressions(self) -> Expressions:
        # most questions need no expressions
        from cleave.finish.evaluate import Expressions  # noqa: PLC0415

        return Expressions(self._plan, self._answers, self._evaluated, self._table)

    def result(self) -> ResultTable:
        plan = self._plan
        inside, doubtful = list(range(self._table.size)), frozenset[int]()
        if plan.having is not None:
            inside, doubtful = self._expressions.filtered(inside)
        ties = self._table.ranks([f"k{i} ASC NULLS LAST" for i in range(len(plan.keys))])
        terms = [self._term(number, inside) for number in range(len(plan.order_by))]
        chosen, unsure = compare.choose(inside, terms, ties, plan.limit, plan.offset, doubtful)
        plain = self._plain_cells([number for number, each in enumerate(plan.finals) if not each.encrypted], chosen)
        columns = [plain[n] if n in plain else self._cells(n, chosen) for n in range(len(plan.finals))]
        columns = [self._concealed.cells(n, chosen, column) for n, column in enumerate(columns)]
        cells = [[column[row] for column in columns] for row in range(len(chosen))]
        marks = {"HAVING": doubtful, "ORDER BY": compare.unplaced(chosen, terms), "LIMIT": unsure}
        doubts = [tuple(clause for clause, rows in marks.items() if row in rows) for row in chosen]
        return ResultTable(
            columns=list(plan.outputs),
            types=[final.type for final in plan.finals],
            rows=[[cell.value for cell in row] for row in cells],
            bounds=[[cell.bound for cell in row] for row in cells],
            exact=[[cell.exact for cell in row] for row in cells],
            undecided=[[cell.undecided for cell in row] for row in cells],
            hidden=[[cell.hidden for cell in row] for row in cells],
            doubts=doubts,
            warnings=[*self._warnings(cells, doubts), *self._without_bound(chosen)],
        )

    def _warnings(self, cells: Sequence[Sequence[AnswerCell]], doubts: Sequence[tuple[str, ...]]) -> list[str]:
        said = []
        for clause, what in (
            ("HAVING", "whether {} of the rows shown belong there"),
            ("ORDER BY", "the order of {} of the rows shown"),
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

    def _without_bound(self, rows: Sequence[int]) -> list[str]:
        """The outputs with figures whose value or error is beyond every DOUBLE, and the arguments that cause it."""
        said = []
        for number, (output, final) in enumerate(zip(self._plan.outputs, self._plan.finals, strict=True)):
            places, count = set[int](), 0
            for column in final.encrypted:
                if self._answers.exact(column) is None:
                    figures = self._answers.column(column)
                    if here := sum(_is_too_wide(figures[row]) for row in rows):
                        places.update(self._plan.encrypted[column].arguments)
                        count = max(count, here)
            if count:
                named = " and ".join(shown(expression_of(self._plan.arguments[place].sql)) for place in sorted(places))
                said.append(
                    f"SELECT item {number + 1} ({output.name}): {count} of its values have no bound, because they or "
                    f"their errors exceed the largest DOUBLE: declare narrower `lower` and `upper` for {named}, or "
                    "divide by a constant"
                )
        return said

    def _term(self, number: int, rows: Sequence[int]) -> compare.GroupRanks:
        term = self._plan.order_by[number]
        if _FIGURE.search(term) is None:
            return compare.settled(self._table.ranks([term]))
        return self._expressions.term(number, rows)

    def _cells(self, number: int, rows: Sequence[int]) -> list[AnswerCell]:
        """The cells of one output in the chosen rows."""
        final = self._plan.finals[number]
        if final.is_bare:
            return bare_cells(self._answers, final.encrypted[0], final.type, rows)
        return self._expressions.cells(number, rows)

    def _plain_cells(self, numbers: Sequence[int], rows: Sequence[int]) -> dict[int, list[AnswerCell]]:
        """By number, the outputs without encrypted figures, as DuckDB computes them."""
        if not numbers or not rows:
            return {number: [] for number in numbers}
        finals = [self._plan.finals[number] for number in numbers]
        columns = self._table.columns([(each.sql, each.type) for each in finals], rows)
        return {number: self._as_it_is(number, values) for number, values in zip(numbers, columns, strict=True)}

    def _as_it_is(self, number: int, values: Sequence[Any]) -> list[AnswerCell]:
        final = self._plan.finals[number]
        same = self._plan.outputs[number].source != "key" and not any(
            [
                final.rounded,
                *(self._plan.plain[i].has_no_bound for i in final.plain),
                *(not self._plan.local[i].exact for i in final.local),
            ]
        )
        return [AnswerCell(value, 0.0 if same else None, exact=True if same else None) for value in values]


def _is_too_wide(figure: Figure) -> bool:
    return figure.ball is not None and math.isinf(figure.bound)


def evaluated_in(plan: QueryPlan) -> frozenset[int]:
    """The encrypted aggregates that something other than an output of their own reads, perhaps some more."""
    clauses = " ".join([plan.having or "", *plan.order_by])
    read = {i for final in plan.finals if not final.is_bare for i in final.encrypted}
    return frozenset(read | {i for i in range(len(plan.encrypted)) if re.search(rf"\be{i}\b", clauses)})


def bare_cells(answers: Answers, number: int, type_: str, rows: Sequence[int]) -> list[AnswerCell]:
    """The figures of one aggregate as cells, in `rows`."""
    exact = answers.exact(number)
    values = None if exact is None else _of_type(exact, type_)
    if values is not None:
        return [AnswerCell(values[row], 0.0, exact=True) for row in rows]
    figures = answers.column(number)
    return [of_figure(figures[row], type_) for row in rows]


def _of_type(exact: ExactColumn, type_: str) -> Sequence[int | float | Decimal | None] | None:
    """The values in DuckDB's types; None if figures must be converted one by one."""
    decimals = exact.decimals
    if decimals is None:
        return exact.values if type_ == "DOUBLE" else None
    if is_integer(type_):
        return exact.values if not decimals else None
    if decimals_of(type_) != decimals:
        return None
    return [None if each is None else Decimal(each).scaleb(-decimals, PRECISE) for each in exact.values]


def check_sums(plan: QueryPlan, answers: Answers) -> None:
    """Raise SumOverflows if an encrypted sum exceeds HUGEINT or the digits of its DECIMAL."""
    for number, column_sum in enumerate(plan.encrypted):
        if column_sum.type != "HUGEINT" and digits_of(column_sum.type) is None:
            continue
        unit = 10 ** (decimals_of(column_sum.type) or 0)
        lower, upper = (Fraction(end, unit) for end in range_of(column_sum.type))
        least, most = _ends(answers, number)
        if least < lower or most > upper:
            summed = " * ".join(shown(expression_of(plan.arguments[place].sql)) for place in column_sum.arguments)
            raise SumOverflows(
                f"a sum of {summed} does not fit {column_sum.type}, the type that DuckDB gives it: it overflows",
                hint="SUM(CAST(x AS DOUBLE)) holds larger ones, with fewer digits",
            )


def _ends(answers: Answers, number: int) -> tuple[Fraction, Fraction]:
    """The smallest and largest figure of all groups; (0, 0) without groups."""
    exact = answers.exact(number)
    values: Iterable[int | float | Fraction | None]
    if exact is not None and exact.decimals is not None:
        values, unit = exact.values, 10**exact.decimals
    else:
        values, unit = (figure.value for figure in answers.column(number)), 1
    present = [value for value in values if value is not None]
    return (Fraction(min(present)) / unit, Fraction(max(present)) / unit) if present else (Fraction(0), Fraction(0))


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Switch Python's garbage collector off for the block. If two threads overlap, it is on again when the first
    leaves.
    """
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
