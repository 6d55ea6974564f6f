"""The encrypted columns of a query: their types, their values, and figures from their totals. Types need no value.

The moments that the aggregates need are encrypted. For an argument that may be NULL a column of flags is encrypted too,
so NULLs stay hidden. A moment that several aggregates need is encrypted once: SUM(x) and CORR(x, y) share the sum of x
if they count the same rows, that is, if y is never NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, NamedTuple

import numpy as np

from cleave.aggregates.base import Decoding, Estimate, Facts, Figure, Moment
from cleave.aggregates.columns import ColumnType, Domain, Doubles, Exact, Values, Words
from cleave.aggregates.declared import AVG, COUNT, SUM
from cleave.aggregates.group import Aggregate, EncryptedAggregate
from cleave.aggregates.operand import operand, present_in, require_values

_MomentKind = Literal["count", "sum", "mean"]
_LINEAR: dict[Aggregate, _MomentKind] = {COUNT: "count", SUM: "sum", AVG: "mean"}
Places = tuple[int, ...]  # numbers of an aggregate's arguments


@dataclass(frozen=True, slots=True)
class ColumnName:
    """Name of an encrypted column, shown by `cleave plan`."""

    arguments: Places
    moment: str


class _Key(NamedTuple):
    """Identifies a column that moments share: the moment, its arguments, and the arguments whose NULLs exclude
    a row.
    """

    moment: str
    arguments: Places
    presence: frozenset[int]


@dataclass(frozen=True, slots=True)
class GroupMoments:
    """Moments of some rows, decoded from their totals, and how many rows count."""

    rows: int
    counts: Mapping[frozenset[int], int]
    estimates: Mapping[_Key, Estimate]


@dataclass(frozen=True, slots=True)
class LinearColumn:
    """How to read a count, sum or mean. `flags`: the column that counts rows, None if all rows count. `column`: the
    column of the sum.
    """

    kind: _MomentKind
    flags: int | None
    column: int
    decoding: Decoding
    decimals: int


class Columns:
    """`types` depends on the arguments' domains only. Call `encode` before `figures`."""

    def __init__(self, domains: Sequence[Domain], aggregates: Sequence[EncryptedAggregate]) -> None:
        self._domains = tuple(domains)
        self._aggregates = tuple(aggregates)
        self._flags: dict[frozenset[int], int] = {}  # the column that counts rows without NULL in these arguments
        self._columns: dict[_Key, tuple[Moment, int | None]] = {}  # None: the moment is always 0
        types: list[ColumnType] = []
        names: list[ColumnName] = []
        for use in self._aggregates:
            presence = self._presence(use)
            if presence and presence not in self._flags:
                self._flags[presence] = len(types)
                types.append(Exact(1))
                names.append(ColumnName(tuple(sorted(presence)), "count"))
            for moment in use.aggregate.moments:
                key = self._key(use, moment)
                if key in self._columns:
                    continue
                column = moment.column([self._domains[place] for place in key.arguments])
                self._columns[key] = moment, None if column is None else len(types)
                if column is not None:
                    types.append(column)
                    names.append(ColumnName(key.arguments, moment.name))
        self.types = tuple(types)
        self.names = tuple(names)
        self.decodings: list[Decoding] = [Decoding()] * len(types)
        self._facts: dict[tuple[int, frozenset[int]], Facts] = {}

    def _presence(self, encrypted: EncryptedAggregate) -> frozenset[int]:
        """The arguments that may be NULL. Without any, every row counts."""
        return frozenset(place for place in encrypted.arguments if self._domains[place].nullable)

    def _key(self, encrypted: EncryptedAggregate, moment: Moment) -> _Key:
        of = sorted(encrypted.arguments[place] for place in moment.reads)
        return _Key(moment.name, tuple(of), self._presence(encrypted))

    def encode(self, names: Sequence[str], values: Sequence[Values]) -> list[Words | Doubles]:
        """The columns of `types` from the arguments' values. `names` are for errors.

        Raises InputError for a value that is infinite, NaN or outside its domain, and for an unexpected NULL.
        """
        out: list[Words | Doubles] = [np.zeros(0)] * len(self.types)
        for encrypted in self._aggregates:
            for place in encrypted.arguments:
                require_values(names[place], self._domains[place], values[place])
        for presence in dict.fromkeys(map(self._presence, self._aggregates)):
            present = present_in([values[place] for place in sorted(presence)])
            if presence in self._flags:
                flags = np.ones(values[min(presence)].rows, np.uint64) if present is None else present.astype(np.uint64)
                out[self._flags[presence]] = flags[None]
            keys = [key for key in self._columns if key.presence == presence]
            operands = {
                place: operand(names[place], self._domains[place], values[place], present)
                for place in dict.fromkeys(place for key in keys for place in key.arguments)
            }
            self._facts |= {(place, presence): Facts(each.domain, each.centre) for place, each in operands.items()}
            for key in keys:
                moment, column = self._columns[key]
                if column is not None:
                    out[column], self.decodings[column] = moment.encode([operands[place] for place in key.arguments])
        return out

    def linear(self, number: int) -> LinearColumn | None:
        """How to read a count, sum or mean; None for other aggregates."""
        encrypted = self._aggregates[number]
        kind = _LINEAR.get(encrypted.aggregate)
        presence = self._presence(encrypted)
        flags = self._flags[presence] if presence else None
        if kind is None:
            return None
        if kind == "count":
            return LinearColumn(kind, flags, -1, Decoding(), 0)
        (moment,) = encrypted.aggregate.moments
        _, column = self._columns[self._key(encrypted, moment)]
        domain = self._domains[encrypted.arguments[0]]
        if column is None or (decoding := self.decodings[column]).void or decoding.share:
            return None
        if domain.is_exact != isinstance(self.types[column], Exact):
            return None
        return LinearColumn(kind, flags, column, decoding, domain.decimals or 0)

    def figures(self, totals: Sequence[Estimate], rows: int) -> list[Figure]:
        """Each aggregate's figure for one group of `rows` rows, from its totals of `types`."""
        (figures,) = self.finished([self.read(totals, rows)])
        return figures

    def read(self, totals: Sequence[Estimate], rows: int) -> GroupMoments:
        counts = {presence: int(totals[column].value) for presence, column in self._flags.items()}
        estimates = {}
        for key, (_, column) in self._columns.items():
            if column is None:
                estimates[key] = Estimate(Fraction(0))
            else:
                count = counts[key.presence] if key.presence else rows
                estimates[key] = self.decodings[column].estimate(totals[column], count)
        return GroupMoments(rows, counts, estimates)

    def added(self, parts: Sequence[GroupMoments]) -> GroupMoments:
        """The moments of several groups combined; their bounds add up.

        Only values that each part may show are combined.
        """
        if len(parts) == 1:
            return parts[0]
        return GroupMoments(
            sum(part.rows for part in parts),
            {presence: sum(part.counts[presence] for part in parts) for presence in self._flags},
            {
                key: Estimate(
                    sum((part.estimates[key].value for part in parts), Fraction(0)),
                    sum((part.estimates[key].bound for part in parts), Fraction(0)),
                )
                for key in self._columns
            },
        )

    def finished(self, groups: Iterable[GroupMoments]) -> list[list[Figure]]:
        """Each aggregate's figure for each group."""
        figures = [self._figure(each) for each in self._aggregates]
        return [[figure(moments) for figure in figures] for moments in groups]

    def _figure(self, encrypted: EncryptedAggregate) -> Callable[[GroupMoments], Figure]:
        """A function that computes the aggregate's figure. Everything that all groups share is computed once here."""
        presence = self._presence(encrypted)
        keys = [(moment, self._key(encrypted, moment)) for moment in encrypted.aggregate.moments]
        facts = [
            self._facts.get((place, presence), Facts(self._domains[place], Fraction(0)))
            for place in encrypted.arguments
        ]

        def figure(moments: GroupMoments) -> Figure:
            count = moments.counts[presence] if presence else moments.rows
            return encrypted.aggregate.finish(count, {moment: moments.estimates[key] for moment, key in keys}, facts)

        return figure
