"""Which classes of rows a threshold calls large: by distinct people or rows, and by the others of each party."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest

from cleave.disclosure.crowds import NO_CLASS, Crowd
from cleave.disclosure.suppress import suppress_small
from cleave.sql.rejoin import Groups
from cleave.sql.tally import NOBODY, Tally

Row = tuple[int, int, int, int]  # class, party, person, number of rows


def crowd(rows: Sequence[Row], least: int, *, people: bool = True) -> Crowd:
    _, parties, persons, counts = (np.array([row[place] for row in rows], np.int64) for place in range(4))
    nothing = np.zeros(len(rows), np.int64)
    return Crowd(Tally(nothing, nothing.astype(np.uint64), parties, persons if people else None, counts), least)


def size(rows: Sequence[Row], *, people: bool) -> int:
    return len({person for *_, person, _ in rows if person != NOBODY}) if people else sum(row[3] for row in rows)


def is_large(rows: Sequence[Row], parties: set[int], least: int, *, people: bool) -> bool:
    others = [[row for row in rows if row[1] != party] for party in parties] if len(parties) > 1 else []
    return all(size(each, people=people) >= least for each in [list(rows), *filter(None, others)])


@pytest.mark.parametrize("seed", range(40))
def test_sizes_are_those_counted_one_by_one(seed: int) -> None:
    r, classes = random.Random(seed), 5
    rows = [
        (r.randrange(NO_CLASS, classes - 1), r.randrange(seed % 4 + 1), r.randrange(NOBODY, 6), r.randint(1, 3))
        for _ in range(r.randint(0, 40))
    ]
    labels, parties = np.array([row[0] for row in rows], np.int64), {row[1] for row in rows}
    members = [[row for row in rows if row[0] == each] for each in range(classes)]
    for people, least in ((True, 2), (True, 4), (False, 3), (False, 8)):
        made = crowd(rows, least, people=people)
        assert made.sizes(labels, classes).tolist() == [size(each, people=people) for each in members]
        expected = [is_large(each, parties, least, people=people) for each in members]
        assert made.large(labels, classes).tolist() == expected


def test_the_only_person_and_the_first_of_many_count() -> None:
    assert crowd([(0, 0, 0, 9)], 1).sizes(np.array([0]), 2).tolist() == [1, 0]
    assert crowd([(0, 0, 0, 1), (1, 0, 0, 1)], 1).sizes(np.array([0, 1]), 2).tolist() == [1, 1]


@pytest.mark.parametrize(
    ("rows", "large"),
    [
        ([(0, 0, 0, 1), (0, 0, 1, 1), (0, 0, 2, 1)], True),
        ([(0, 0, 0, 1), (0, 0, 1, 1), (0, 1, 2, 1)], False),  # of the others of party 0 there is one
        ([(0, 0, 0, 1), (0, 0, 1, 1), (0, 1, 2, 1), (0, 1, 3, 1)], True),
        ([(0, 0, 0, 1), (0, 1, 0, 1)], False),
        ([(0, 0, 0, 1), (0, 0, 1, 1), (NO_CLASS, 1, 2, 1)], True),  # the other party has no row of the class
        ([(0, 0, 0, 1), (0, 0, 1, 1), (0, 1, NOBODY, 1)], False),  # its row is one of nobody
    ],
)
def test_a_party_never_finds_few_people_by_taking_its_own_away(rows: list[Row], *, large: bool) -> None:
    assert crowd(rows, 2).large(np.array([row[0] for row in rows]), 1).tolist() == [large]


def test_arguments_join_one_after_the_other() -> None:
    """All have the second or not in threes, and so the third; of both together one person is alone."""
    patterns = [0b111] * 3 + [0b011] + [0b001] * 3
    count = len(patterns)
    tally = Tally(
        np.zeros(count, np.int64),
        np.array(patterns, np.uint64),
        np.zeros(count, np.int64),
        np.arange(count),
        np.ones(count, int),
    )
    groups = Groups((), [()], [count], [()], (), [])
    assert suppress_small(groups, [(0,)], Crowd(tally, 3), 3).hidden == [frozenset({2})]
