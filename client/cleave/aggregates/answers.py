"""The figures of all groups, as what finishes a query takes them: a list per group, or a column at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from cleave.aggregates.base import Figure
from cleave_shared.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ExactColumn:
    """Exact figures that need no ball: integers in units of the last of so many decimals, or doubles (None)."""

    values: Sequence[int | float | None]
    decimals: int | None


class Answers(Protocol):
    """Figures of the aggregates of a plan, by their numbers."""

    def __len__(self) -> int: ...  # groups

    def column(self, number: int) -> Sequence[Figure]:
        """Return the column of every group."""
        ...

    def exact(self, number: int) -> ExactColumn | None:
        """Return the exact of every group; None where they are not all exact, or nobody knows without making them."""
        ...


class Rows:
    """`figures[g][i]` is the figure of aggregate i for group g."""

    def __init__(self, figures: Sequence[Sequence[Figure]]) -> None:
        self._figures = figures

    def __len__(self) -> int:
        return len(self._figures)

    def column(self, number: int) -> Sequence[Figure]:
        return [row[number] for row in self._figures]

    def exact(self, number: int) -> ExactColumn | None:  # noqa: ARG002 - nothing is known beforehand
        return None
