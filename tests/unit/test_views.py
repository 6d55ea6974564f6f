"""What is left of random answers under a threshold: no combination is about few people, in the view of any party.

`tests/gateway/test_each_answer.py` does this with answers of a gateway, five a second. Here groups are made and judged
without a table.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pytest

from cleave.disclosure.suppress import suppress_small
from cleave.sql.rejoin import Groups, Members
from cleave.sql.tally import NOBODY, Tally
from tests.campaign import sampled
from tests.solver import Number, revealed

LEAST = 3
PEOPLE = 12
Cell = tuple[int, ...]
Unknown = tuple[object, int]


@dataclass(frozen=True)
class Stay:
    """`pattern`: a bit for each argument that has a value. `person`: None, or whom the row is about."""

    cell: Cell
    pattern: int
    party: int
    person: int | None


@dataclass(frozen=True)
class Asked:
    """Rows of a question with several sets of keys. `people`: they are counted, not rows."""

    stays: Sequence[Stay]
    sets: Sequence[Sequence[int]]
    arguments: int
    people: bool

    @property
    def finest(self) -> list[Cell]:
        return sorted({each.cell for each in self.stays})

    def groups(self) -> tuple[list[Members], list[int]]:
        """The finest groups of each group, and the number of its set."""
        members, numbers = list[Members](), list[int]()
        for number, names in enumerate(self.sets):
            by_key: dict[Cell, list[int]] = {}
            for place, cell in enumerate(self.finest):
                by_key.setdefault(tuple(cell[each] for each in names), []).append(place)
            members += map(tuple, by_key.values())
            numbers += [number] * len(by_key)
        return members, numbers

    def left(self) -> list[tuple[Members, frozenset[int]]]:
        """The groups that are shown, and their hidden arguments: all that is used of the product."""
        members, numbers = self.groups()
        rows = [
            (self.finest.index(each.cell), each.pattern, each.party, NOBODY if each.person is None else each.person)
            for each in self.stays
        ]
        places, patterns, parties, people = (np.array(column, np.int64) for column in zip(*rows, strict=True))
        ones = np.ones(len(rows), np.int64)
        tally = Tally(places, patterns.astype(np.uint64), parties, people if self.people else None, ones)
        empty: list[tuple[object, ...]] = [()] * len(members)
        groups = Groups((), [()] * len(members), [1] * len(members), [*empty], (), numbers)
        kept = suppress_small(groups, members, tally, LEAST, self.arguments)
        return list(zip(kept.of, kept.hidden, strict=True))

    def numbers(self) -> list[Number[Unknown]]:
        """Of each group its rows, and of each argument that is not hidden the count and the sum."""
        numbers: list[Number[Unknown]] = []
        for of, hidden in self.left():
            cells = {self.finest[each] for each in of}
            rows = [row for row, each in enumerate(self.stays) if each.cell in cells]
            numbers.append({("row", row): 1 for row in rows})
            for argument in {*range(self.arguments)} - hidden:
                having = [row for row in rows if self.stays[row].pattern >> argument & 1]
                numbers += [{("row", row): 1 for row in having}, {(argument, row): 1 for row in having}]
        return numbers

    def few(self) -> str | None:
        """Say which party learns of whom; None: of nobody."""
        numbers = self.numbers()
        unknowns = {unknown for number in numbers for unknown in number}
        for party in (None, *sorted({each.party for each in self.stays})):
            of = {
                unknown: self.stays[unknown[1]].person if self.people else unknown[1]
                for unknown in unknowns
                if self.stays[unknown[1]].party != party
            }
            found = revealed(numbers, of, LEAST)
            if found is not None:
                return f"party {party} learns of {sorted(found, key=str)} from {self.left()}"
        return None


def random_question(rng: random.Random) -> Asked:
    """Blocks of people in a cell, of one party, mostly with the same arguments NULL."""
    arguments, keys, parties = rng.randint(0, 3), rng.randint(1, 3), rng.choice([1, 2, 2, 3])
    stays = list[Stay]()
    for _ in range(rng.randint(2, 10)):
        cell = tuple(rng.randrange(3 if each == 0 else 2) for each in range(keys))
        pattern = rng.choice([(1 << arguments) - 1, (1 << arguments) - 1, rng.randrange(1 << arguments)])
        party = rng.randrange(parties)
        for person in rng.sample(range(PEOPLE), rng.choice([1, 1, 2, 3, 3, 4, 5])):
            own = pattern if rng.random() < 0.95 else rng.randrange(1 << arguments)
            stays.append(Stay(cell, own, party, None if rng.random() < 0.03 else person))
    every = [each for size in range(keys + 1) for each in combinations(range(keys), size)]
    return Asked(stays, rng.sample(every, rng.randint(1, len(every))), arguments, rng.random() < 0.8)


@pytest.mark.parametrize("answers", sampled(100, 1500, 20_000))
def test_no_combination_is_about_few_people(answers: int) -> None:
    shown = 0
    for seed in range(answers):
        asked = random_question(random.Random(seed))
        few = asked.few()
        assert few is None, f"seed {seed}: {asked}: {few}"
        shown += bool(asked.left())
    assert shown * 2 > answers, "enough is shown"


def block(ward: int, sex: int, people: range, party: int = 0, pattern: int = 0) -> list[Stay]:
    return [Stay((ward, sex), pattern, party, person) for person in people]


def test_a_class_that_is_wholly_a_partys_protects_nobody_from_it() -> None:
    """Sums by ward and by sex: the second sex less the second ward is one person less those of party 1."""
    stays = [
        *block(0, 0, range(1)),
        *block(0, 1, range(1, 4)),
        *block(1, 0, range(4, 7)),
        *block(1, 1, range(7, 10), 1),
    ]
    asked = Asked(stays, [(0,), (1,)], 0, people=True)
    assert asked.few() is None
    assert [of for of, _ in asked.left()] == [(2, 3), (1, 3)]
    alone = Asked([Stay(each.cell, 0, 0, each.person) for each in stays], asked.sets, 0, people=True)
    assert len(alone.left()) == 4, "nothing is left out where there is one party"
