"""The encrypted columns of a query: their types before any value is read, their values, and figures from their totals.

Of the arguments of each aggregate two things are encrypted: where any of them may be NULL a column of flags, so that
the places of NULLs do not show, and the moments the aggregate needs. What several aggregates need is encrypted once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from cleave.aggregates.base import Aggregate, Estimate, Facts, Figure, Moment, Reading
from cleave.aggregates.columns import Column, Domain, Doubles, Exact, Values, Words
from cleave.aggregates.operand import operands, presence

Places = tuple[int, ...]  # the arguments of an aggregate, by number


@dataclass(frozen=True, slots=True)
class Asked:
    """An aggregate and the arguments it is asked of."""

    aggregate: Aggregate
    arguments: Places


@dataclass(frozen=True, slots=True)
class Name:
    """What an encrypted column is of, for `cleave plan`."""

    arguments: Places
    moment: str


class Columns:
    """`types` is known from the arguments' domains alone; `encode` must come before `figures`."""

    def __init__(self, domains: Sequence[Domain], asked: Sequence[Asked]) -> None:
        self._domains = tuple(domains)
        self._asked = tuple(asked)
        self._flags: dict[Places, int] = {}  # the column that counts the rows without a NULL
        self._moments: dict[tuple[Places, Moment], int | None] = {}  # None: known to be 0
        types: list[Column] = []
        names: list[Name] = []
        for each in self._asked:
            of = [self._domains[place] for place in each.arguments]
            if each.arguments not in self._flags and any(domain.nullable for domain in of):
                self._flags[each.arguments] = len(types)
                types.append(Exact(1))
                names.append(Name(each.arguments, "count"))
            for moment in each.aggregate.moments:
                if (each.arguments, moment) in self._moments:
                    continue
                column = moment.column(of)
                self._moments[each.arguments, moment] = None if column is None else len(types)
                if column is not None:
                    types.append(column)
                    names.append(Name(each.arguments, moment.name))
        self.types = tuple(types)
        self.names = tuple(names)
        self.readings: list[Reading] = [Reading()] * len(types)
        self._known: dict[Places, list[Facts]] = {}

    def encode(self, names: Sequence[str], values: Sequence[Values]) -> list[Words | Doubles]:
        """The columns of `types` from the arguments' values; `names` are for errors.

        Raises InputError for a value that is not finite or outside its domain, and for a NULL where there may be none.
        """
        out: list[Words | Doubles] = [np.zeros(0)] * len(self.types)
        for places in dict.fromkeys(each.arguments for each in self._asked):
            moments = [(moment, at) for (key, moment), at in self._moments.items() if key == places]
            of = [names[i] for i in places], [self._domains[i] for i in places], [values[i] for i in places]
            present = presence(*of)
            if places in self._flags:
                flags = np.ones(values[places[0]].rows, np.uint64) if present is None else present.astype(np.uint64)
                out[self._flags[places]] = flags[None]
            if not moments:
                continue
            made = operands(*of)
            self._known[places] = [Facts(operand.domain, operand.centre) for operand in made]
            for moment, column in moments:
                if column is not None:
                    out[column], self.readings[column] = moment.encode(made)
        return out

    def figures(self, totals: Sequence[Estimate], rows: int) -> list[Figure]:
        """Every aggregate's figure of one group of `rows` rows from its totals of `types`, of the values encoded."""
        estimates: dict[tuple[Places, Moment], Estimate] = {}
        counts: dict[Places, int] = {}
        figures = []
        for each in self._asked:
            places = each.arguments
            if places not in counts:
                flags = self._flags.get(places)
                counts[places] = rows if flags is None else int(totals[flags].value)
            count = counts[places]
            for moment in each.aggregate.moments:
                if (places, moment) not in estimates:
                    column = self._moments[places, moment]
                    estimates[places, moment] = (
                        Estimate(Fraction(0))
                        if column is None
                        else self.readings[column].estimate(totals[column], count)
                    )
            moments = {moment: estimates[places, moment] for moment in each.aggregate.moments}
            figures.append(each.aggregate.finish(count, moments, self._known.get(places, [])))
        return figures
