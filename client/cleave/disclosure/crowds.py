"""The one counter of people: how many are in classes of rows, also in the view of each party (rules P2 and P3).

A threshold asks which classes of rows are large enough. Answers, releases and models make a `Crowd` of their rows, and
give the same label to classes that they count together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cleave.sql.tally import NOBODY, Tally

Labels = NDArray[np.int64]
Bools = NDArray[np.bool_]
NO_CLASS: Final = -1


@dataclass(frozen=True, slots=True)
class Shares:
    """For each label and party with rows there: the people, or rows, of all other parties."""

    labels: Labels
    parties: Labels
    others: Labels


@dataclass(frozen=True, slots=True)
class Sizes:
    """By label: `parties` with rows, and their people, or rows. `shares` is None if all rows are of one party.

    A party knows its own rows, so it sees the people of all others, if these have rows.
    """

    parties: Labels
    whole: Labels
    shares: Shares | None = None

    @property
    def seen(self) -> Labels:
        """The people, or rows, in the view of the party that sees fewest."""
        seen = self.whole.copy()
        if self.shares is not None:
            has_others = self.parties[self.shares.labels] > 1
            np.minimum.at(seen, self.shares.labels[has_others], self.shares.others[has_others])
        return seen

    def large(self, least: int) -> Bools:
        """Which are large enough. What has no rows is not; the caller may allow it."""
        return self.seen >= least

    def views(self) -> Iterator[tuple[Bools, Labels]]:
        """For an outsider, then for each party if there are several: what has rows that it does not know, and their
        people, or rows.
        """
        yield self.parties > 0, self.whole
        if (shares := self.shares) is None:
            return
        for party in np.unique(shares.parties):
            own = shares.parties == party
            parties, people = self.parties.copy(), self.whole.copy()
            parties[shares.labels[own]] -= 1
            people[shares.labels[own]] = shares.others[own]
            yield parties > 0, people


class Crowd:
    """Rows by class, party and person."""

    def __init__(self, classes: Labels, parties: Labels, people: Labels | None, rows: Labels) -> None:
        """Arrays of one length: class, party, person or NOBODY, and how many rows, 1 or more. Entries may repeat.

        `people` None: rows are counted.
        """
        self._classes = classes
        self._rows = rows
        self._has_parties = bool(np.any(parties != parties[:1]))
        self._parties = parties if self._has_parties else np.zeros_like(parties)
        self._width = int(self._parties.max(initial=0)) + 1
        self._holders: Labels | None = None  # of each entry: number of its person and party
        if people is not None:
            pairs = (people - NOBODY) * self._width + self._parties
            if self._has_parties:  # fewer numbers, so that codes below fit 64 bits
                distinct, self._holders = np.unique(pairs, return_inverse=True)
            else:
                distinct, self._holders = np.arange(int(pairs.max(initial=0)) + 1), pairs
            self._person_of, self._party_of = distinct // self._width + NOBODY, distinct % self._width

    def sizes(self, labels: Labels, number: int) -> Sizes:
        """`labels`: by class, below `number`, or NO_CLASS."""
        found = labels[self._classes]
        chosen = found != NO_CLASS
        if self._holders is None:
            label, party = found[chosen], self._parties[chosen]
            people = alone = self._rows[chosen]
        else:
            label, party, people, alone = self._holding(found[chosen], self._holders[chosen])
        whole = _summed(label, people, number)
        if not self._has_parties:
            return Sizes((np.bincount(label, minlength=number) > 0).astype(np.int64), whole)
        pairs, of_pair = np.unique(label * self._width + party, return_inverse=True)
        label, party = pairs // self._width, pairs % self._width
        others = whole[label] - _summed(of_pair, alone, len(pairs))
        return Sizes(np.bincount(label, minlength=number), whole, Shares(label, party, others))

    def _holding(self, labels: Labels, holders: Labels) -> tuple[Labels, Labels, Bools, Bools]:
        """Every label, person and party once: label, party, whether it counts for the person in the label, and whether
        no other party has the person there.
        """
        most = len(self._person_of)
        codes = np.sort(labels * most + holders)  # np.unique hashes, which takes 30 times as long
        codes = codes[_starts(codes)]
        label, holder = codes // most, codes % most
        person = self._person_of[holder]
        first = _starts(label) | _starts(person)
        last = np.append(first[1:], True)
        named = person != NOBODY
        return label, self._party_of[holder], first & named, first & last & named


def _starts(sorted_: Labels) -> Bools:
    """Where a value differs from the one before."""
    return np.append(True, sorted_[1:] != sorted_[:-1])[: len(sorted_)]


def _summed(labels: Labels, values: NDArray[np.int64] | Bools, number: int) -> Labels:
    return np.bincount(labels, values, number).astype(np.int64)


def divided(labels: Labels, values: Bools) -> Labels:
    """Labels of classes divided by whether rows have a value, from 0 without gaps."""
    codes = 2 * labels + values
    used = np.zeros(int(codes.max(initial=-1)) + 1, np.bool_)
    used[codes] = True
    return (np.cumsum(used) - 1)[codes]


def seen_with_values(tally: Tally, arguments: int) -> int:
    """People, or rows, with a value in each of the `arguments`, in the view of the party that sees fewest."""
    complete = tally[tally.patterns == np.uint64((1 << arguments) - 1)]
    nothing = np.zeros_like(complete.groups)
    sizes = Crowd(nothing, complete.parties, complete.people, complete.rows).sizes(np.zeros(1, np.int64), 1)
    return int(sizes.seen[0])
