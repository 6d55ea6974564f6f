"""Sums of groups of cells, and figures from these sums.

If WHERE, keys and filters read by columns only, a group is a set of cells, and each moment is the sum of theirs. The
cells are a small table on this machine. DuckDB selects and groups them as it would the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from cleave.aggregates.base import HIDDEN, Figure
from cleave.aggregates.group import EncryptedAggregate
from cleave.sql.plan import Argument
from cleave.sql.rejoin import Members, Texts
from cleave.sql.split import Halves
from cleave.sql.tally import Tally
from cleave.store.lanes import Integers
from cleave.store.manifest import NUMBER
from cleave.sums.combination import TotalOf
from cleave.sums.needs import CutSums
from cleave.sums.pairs import AggregateOperand
from cleave.table.duck import identifier
from cleave.table.table import Table


@dataclass(frozen=True, slots=True)
class OperandSums:
    """Sums of one operand by group: its totals, and the number of values.

    `withheld`: for each total, how many of the group's cells do not have it. Without entries all are known.
    """

    totals: dict[TotalOf, list[int]]
    counts: list[int]
    withheld: dict[TotalOf, list[int]] = field(default_factory=dict)


def figures_of(
    needs: CutSums, sums: Sequence[OperandSums]
) -> Callable[[Sequence[Members], Sequence[int]], list[list[Figure]]]:
    """Return a function that computes the encrypted aggregates of combined groups from their members. `sums`: by
    operand.
    """
    figures = [
        _figure(needs, each, needs.operands[place], sums[place])
        for each, place in zip(needs.cut.encrypted, needs.places, strict=True)
    ]
    return lambda members, _: [[figure(of) for figure in figures] for of in members]


def _figure(
    needs: CutSums, encrypted: EncryptedAggregate, operand: AggregateOperand, sums: OperandSums
) -> Callable[[Members], Figure]:
    """A function that computes one aggregate over combined groups. `sums`: of its operand."""
    facts = operand.facts([needs.cut.arguments[at] for at in encrypted.arguments], needs.measures)
    moments = operand.moments(encrypted.aggregate, needs.measures)
    counts, totals = sums.counts, sums.totals.items()
    needed = operand.needs(encrypted.aggregate, needs.measures)
    withheld = [cells for which, cells in sums.withheld.items() if which in needed]

    def figure(members: Members) -> Figure:
        if withheld and any(cells[group] for group in members for cells in withheld):
            return HIDDEN
        count = sum(counts[group] for group in members)
        total = {which: sum(entries[group] for group in members) for which, entries in totals}
        return encrypted.aggregate.finish(count, moments(total, count), facts)

    return figure


class Selection:
    """The cells that a cut question selects, by group."""

    def __init__(self, rows: Sequence[int], table: Callable[[Collection[str]], Table], needs: CutSums) -> None:
        """`rows`: number of rows per cell. `table` returns the cells as rows, with some of the by columns. Raises
        CheckFailed.
        """
        self._needs = needs
        self._rows = np.asarray(rows, np.int64)
        self.cells: NDArray[np.int64] = np.flatnonzero(self._rows)
        self._flags: dict[str, NDArray[np.bool_]] = {}
        self._ends = np.array([0, len(self.cells)])
        self.keys: list[Texts] = [()]
        if needs.tells_cells_apart:
            self._select(table(needs.columns))

    @cached_property
    def counts(self) -> list[int]:
        """Number of rows of each group."""
        return self.total(self._rows, None)

    def _select(self, cells: Table) -> None:
        needs = self._needs
        number = Argument(identifier(NUMBER), "BIGINT", 0, (), lower=0, upper=cells.rows, nullable=False)
        flags = [
            Argument(f"(({each}) IS TRUE)", "BOOLEAN", 0, (), lower=0, upper=1, nullable=False)
            for each in needs.filters
        ]
        halves = Halves(
            cells, replace(needs.cut, arguments=(number, *flags), plain=(), plain_columns=(), local=(), counting=None)
        )
        numbers, *flagged = halves.values()
        self.cells = numbers.values.astype(np.int64)
        self._flags = {each: flag.values.astype(bool) for each, flag in zip(needs.filters, flagged, strict=True)}
        self._ends = np.concatenate([[0], np.cumsum(halves.counts)])
        self.keys = halves.keys
        halves.close()

    def tally(self, cells_of_a_party: int) -> Tally:
        """The rows of each group by party. Each party has `cells_of_a_party` consecutive cells."""
        groups = np.repeat(np.arange(len(self.keys), dtype=np.int64), np.diff(self._ends))
        patterns = np.zeros(len(groups), np.uint64)
        return Tally(groups, patterns, self.cells // max(1, cells_of_a_party), None, self._rows[self.cells])

    def sums(
        self,
        totals: Mapping[TotalOf, Integers],
        withheld: Mapping[TotalOf, NDArray[np.bool_]] = MappingProxyType({}),
    ) -> list[OperandSums]:
        """Sums by operand, from the totals of the cells.

        `withheld`: for each total, a flag (cells,) where it is unknown.
        """
        sums: list[OperandSums] = []
        for operand in self._needs.operands:
            of = operand.numbers
            summed = {
                which: self.total(totals[which], operand.filter) for which in self._needs.totals if which[0] in of
            }
            counted = operand.counted(self._needs.measures)
            counts = self.total(self._rows, operand.filter) if counted is None else summed[counted, "count"]
            unknown = {
                which: self.total(withheld[which].astype(np.int64), operand.filter)
                for which in summed
                if which in withheld
            }
            sums.append(OperandSums(summed, counts, unknown))
        return sums

    def total(self, entries: Integers, filter_: str | None) -> list[int]:
        """Sums of `entries` (cells,) over the cells of each group where `filter_` holds."""
        taken = entries[self.cells] if len(self.cells) else np.zeros(0, entries.dtype)
        if filter_ is not None:
            taken = np.where(self._flags[filter_], taken, 0)
        running = np.concatenate([np.zeros(1, entries.dtype), np.cumsum(taken)])
        return [int(running[stop] - running[start]) for start, stop in zip(self._ends, self._ends[1:], strict=False)]
