"""Sizes of classes of rows under a threshold, in people or in rows (rules P2 and P3)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cleave.sql.tally import NOBODY, Tally

Labels = NDArray[np.int64]
NO_CLASS: Final = -1


@dataclass(frozen=True)
class Crowd:
    """The selected rows and the threshold: `least` people, or rows if `tally` has no people.

    Labels give the class of each entry of `tally`; NO_CLASS means none.
    """

    tally: Tally
    least: int

    @property
    def counted(self) -> str:
        """What is counted: "people" or "rows"."""
        return "rows" if self.tally.people is None else "people"

    @cached_property
    def _people(self) -> int:
        """Number of people."""
        people = self.tally.people
        return 0 if people is None or not len(people) else int(people.max()) + 1

    def sizes(self, labels: Labels, classes: int) -> Labels:
        """People, or rows, of each class."""
        if self.tally.people is None:
            return self._rows(labels, classes)
        named = (labels != NO_CLASS) & (self.tally.people != NOBODY)
        # np.unique hashes, which takes 30 times as long
        pairs = np.sort(labels[named] * self._people + self.tally.people[named])
        distinct = pairs[np.flatnonzero(np.diff(pairs, prepend=-1))]
        return np.bincount(distinct // max(1, self._people), minlength=classes)

    def _rows(self, labels: Labels, classes: int) -> Labels:
        sizes = np.zeros(classes, np.int64)
        named = labels != NO_CLASS
        np.add.at(sizes, labels[named], self.tally.rows[named])
        return sizes

    def large(self, labels: Labels, classes: int) -> NDArray[np.bool_]:
        """For each class, whether it is large enough. A class without rows is not; the caller may allow it.

        For each party, the rows of all others must be none or of enough people, because a party knows its own rows.
        """
        (_, large), *parties = self.views(labels, classes)
        for others, enough in parties:
            large &= ~others | enough
        return large

    def views(self, labels: Labels, classes: int) -> Iterator[tuple[NDArray[np.bool_], NDArray[np.bool_]]]:
        """For an outsider, then for each party if there are several: which classes have rows that it does not know, and
        for which these are of enough people.
        """
        yield self._rows(labels, classes) > 0, self.sizes(labels, classes) >= self.least
        parties = np.unique(self.tally.parties)
        for party in parties if len(parties) > 1 else ():
            others = np.where(self.tally.parties == party, NO_CLASS, labels)
            yield self._rows(others, classes) > 0, self.sizes(others, classes) >= self.least
