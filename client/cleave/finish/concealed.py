"""Figures that a threshold hides. Everything computed from them is NULL, and outputs that read one are marked."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from cleave.aggregates.base import Answers, ExactColumn, Figure, null
from cleave.finish.cells import HIDDEN, AnswerCell
from cleave.sql.plan import Final, QueryPlan
from cleave.sql.rejoin import Groups, Texts


class Concealed:
    """The hidden figures of `plan`. `arguments`: for each group, its hidden arguments; empty: all are shown."""

    def __init__(self, plan: QueryPlan, arguments: Sequence[Collection[int]]) -> None:
        self._plan = plan
        rows: dict[int, set[int]] = {}
        for row, each in enumerate(arguments):
            for argument in each:
                rows.setdefault(argument, set()).add(row)
        self._rows = rows
        self._by_column: dict[str, frozenset[int]] = {}

    def rows(self, name: str) -> frozenset[int]:
        """Rows in which the column `name` of the group table is hidden."""
        if name not in self._by_column:
            read = self._plan.reads_null.get(name, ())
            self._by_column[name] = frozenset().union(*(self._rows.get(each, ()) for each in read))
        return self._by_column[name]

    def groups(self, groups: Groups) -> Groups:
        """`groups` with NULL for hidden figures."""
        if not self._rows:
            return groups
        return replace(groups, plain=self._without("p", groups.plain), local=self._without("l", groups.local))

    def _without(self, letter: str, rows: list[Texts]) -> list[Texts]:
        return [
            tuple(None if number in self.rows(f"{letter}{i}") else text for i, text in enumerate(texts))
            for number, texts in enumerate(rows)
        ]

    def answers(self, answers: Answers) -> Answers:
        """`answers` with NULL for hidden figures."""
        return _Concealed(answers, self) if self._rows else answers

    def cells(self, number: int, rows: Sequence[int], cells: list[AnswerCell]) -> list[AnswerCell]:
        """The cells of output `number` in `rows`. Those that read a hidden figure are marked."""
        hidden = frozenset().union(*map(self.rows, _read(self._plan.finals[number]))) if self._rows else frozenset()
        return [HIDDEN if row in hidden else cell for row, cell in zip(rows, cells, strict=True)] if hidden else cells


class _Concealed:
    def __init__(self, answers: Answers, concealed: Concealed) -> None:
        self._answers = answers
        self._concealed = concealed

    def __len__(self) -> int:
        return len(self._answers)

    def column(self, number: int) -> Sequence[Figure]:
        hidden, figures = self._concealed.rows(f"e{number}"), self._answers.column(number)
        return [null() if row in hidden else each for row, each in enumerate(figures)] if hidden else figures

    def exact(self, number: int) -> ExactColumn | None:
        hidden, column = self._concealed.rows(f"e{number}"), self._answers.exact(number)
        if not hidden or column is None:
            return column
        return replace(column, values=[None if row in hidden else each for row, each in enumerate(column.values)])


def _read(final: Final) -> list[str]:
    """The columns of the group table with the figures that an output reads."""
    places = (("e", final.encrypted), ("p", final.plain), ("l", final.local))
    return [f"{letter}{i}" for letter, of in places for i in of]
