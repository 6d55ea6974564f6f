"""The one counter of people, beside sets of them: sizes of classes for each party, and what joins a group (rule A1)."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from cleave.disclosure.crowds import NO_CLASS, Crowd, divided, seen_with_values
from cleave.disclosure.joining import Part, Why, parts_of
from cleave.disclosure.suppress import suppress_small
from cleave.sql.rejoin import Groups
from cleave.sql.tally import NOBODY, Tally
from tests.campaign import FACTOR


@dataclass(frozen=True)
class Row:
    """`has`: the arguments with a value. `person` None: a NULL."""

    group: int
    has: frozenset[int]
    party: int
    person: int | None


def size(rows: Sequence[Row], *, people: bool) -> int:
    return len({row.person for row in rows} - {None}) if people else len(rows)


def seen(rows: Sequence[Row], *, people: bool) -> int:
    views = [[row for row in rows if row.party != party] for party in range(9)]
    return min(size(each, people=people) for each in [rows, *filter(None, views)])


def joining(rows: Sequence[Row], arguments: int, least: int, *, people: bool) -> list[int]:
    """The arguments that join the group of `rows`."""
    joined: list[int] = []
    for each in range(arguments):
        subsets = itertools.chain.from_iterable(
            itertools.combinations([*joined, each], n) for n in range(arguments + 1)
        )
        classes = [[row for row in rows if row.has & {*joined, each} == {*subset}] for subset in subsets]
        if all(seen(of, people=people) >= least for of in classes if of):
            joined.append(each)
    return joined


@dataclass(frozen=True)
class Random:
    """A random table of few people."""

    rows: list[Row]
    arguments: int
    least: int
    people: bool

    @classmethod
    def of(cls, seed: int) -> Random:
        chance = random.Random(seed)
        arguments, parties, persons = chance.randint(0, 3), chance.randint(1, 4), chance.randint(1, 14)
        patterns = [frozenset(chance.sample(range(arguments), chance.randint(0, arguments))) for _ in range(3)]
        rows = [
            Row(
                chance.randrange(3),
                chance.choice([*patterns, frozenset(range(arguments))]),
                2 * chance.randrange(parties) + 1,
                chance.choice([None, *range(persons)]),
            )
            for _ in range(chance.randint(0, 50))
        ]
        return cls(rows, arguments, chance.randint(1, 5), chance.random() < 0.7)

    def large(self) -> list[int]:
        return [n for n in range(3) if seen(self.group(n), people=self.people) >= self.least]

    def group(self, number: int) -> list[Row]:
        return [row for row in self.rows if row.group == number]

    def joining(self, number: int) -> list[int]:
        return joining(self.group(number), self.arguments, self.least, people=self.people)

    def tally(self) -> Tally:
        """As a question counts them: rows that are alike are one entry."""
        rows = list(dict.fromkeys(self.rows))
        return Tally(
            np.array([row.group for row in rows], np.int64),
            np.array([pattern(row) for row in rows], np.uint64),
            np.array([row.party for row in rows], np.int64),
            np.array([NOBODY if row.person is None else row.person for row in rows], np.int64) if self.people else None,
            np.array([self.rows.count(row) for row in rows], np.int64),
        )


def pattern(row: Row) -> int:
    return sum(1 << each for each in row.has)


SEEDS = range(150 * FACTOR)


@pytest.mark.parametrize("seed", SEEDS)
def test_sizes_of_classes(seed: int) -> None:
    """Of any union of classes, in all and as each party sees it."""
    table, chance = Random.of(seed), random.Random(-seed)
    classes = sorted({(row.group, pattern(row)) for row in table.rows})
    labels = [chance.randrange(NO_CLASS, 4) for _ in classes]
    tally = table.tally()
    pairs = zip(tally.groups.tolist(), tally.patterns.tolist(), strict=True)
    of_class = np.array([classes.index(each) for each in pairs], np.int64)
    sizes = Crowd(of_class, tally.parties, tally.people, tally.rows).sizes(np.array(labels, np.int64), 5)
    unions = [
        [row for row in table.rows if labels[classes.index((row.group, pattern(row)))] == label] for label in range(5)
    ]
    assert sizes.whole.tolist() == [size(rows, people=table.people) for rows in unions]
    assert sizes.seen.tolist() == [seen(rows, people=table.people) for rows in unions]
    parties = sorted({row.party for row in table.rows}) if len({row.party for row in table.rows}) > 1 else []
    parties = [each for each in parties if any(row.party == each for rows in unions for row in rows)]
    views = [[[row for row in rows if row.party != party] for rows in unions] for party in [None, *parties]]
    assert [([*map(bool, unknown)], people.tolist()) for unknown, people in sizes.views()] == [
        ([*map(bool, view)], [size(rows, people=table.people) for rows in view]) for view in views
    ]
    assert np.flatnonzero(sizes.large(3)).tolist() == [n for n in range(5) if sizes.seen[n] >= 3]
    complete = [row for row in table.rows if len(row.has) == table.arguments]
    assert seen_with_values(tally, table.arguments) == seen(complete, people=table.people)


@pytest.mark.parametrize("seed", SEEDS)
def test_answers_show_what_joins(seed: int) -> None:
    table, none = Random.of(seed), [(), (), ()]
    groups = Groups((), list(none), [1] * 3, list(none), (), [])
    kept = suppress_small(groups, [(0,), (1,), (2,)], table.tally(), table.least, table.arguments)
    assert kept.of == [(number,) for number in table.large()]
    assert kept.hidden == [{*range(table.arguments)} - {*table.joining(number)} for number in table.large()]


@pytest.mark.parametrize("seed", SEEDS)
def test_releases_publish_what_joins(seed: int) -> None:
    """Also squares where three times as many people have a value; and never a measure that one person dominates."""
    table, chance = Random.of(seed), random.Random(-seed)
    chosen = chance.choice([None, *range(table.arguments)])
    dominated = {} if chosen is None else {chosen: {row.group for row in table.rows if row.group != 1}}
    shift, tally = chance.choice([0, 100]), table.tally()
    classes = list(dict.fromkeys((row.group, pattern(row) << shift) for row in table.rows))
    of_entry = zip(tally.groups.tolist(), (each << shift for each in tally.patterns.tolist()), strict=True)
    crowd = Crowd(np.array([*map(classes.index, of_entry)], np.int64), tally.parties, tally.people, tally.rows)
    bits = [each + shift for each in range(table.arguments)]
    parts = parts_of(classes, crowd, bits, [each != 1 for each in bits], dominated, table.least)
    expected = {}
    for number in table.large():
        rows, refused = table.group(number), [each for each in dominated if number in dominated[each]]
        left = [each for each in range(table.arguments) if each not in refused]
        less = [Row(row.group, frozenset(map(left.index, row.has & {*left})), row.party, row.person) for row in rows]
        joined = [left[each] for each in joining(less, len(left), table.least, people=table.people)]
        many = [rows, *([row for row in rows if each in row.has] for each in range(table.arguments))]
        enough = [not of or seen(of, people=table.people) >= 3 * table.least for of in many]
        shown = [
            (each in joined) * (1 + (enough[0] and enough[1 + each] and bits[each] != 1))
            for each in range(table.arguments)
        ]
        why = {each: Why.DOMINANCE if each in refused else Why.NULLS for each in range(table.arguments)}
        why = {each: reason for each, reason in why.items() if each not in joined}
        expected[number] = Part(size(rows, people=table.people), tuple(shown), why)  # type: ignore[arg-type]
    assert parts == expected


def test_random_tables_have_everything() -> None:
    """Groups that are shown and hidden, arguments that join and not, parties that see fewer, and rows of nobody."""
    tables = [Random.of(seed) for seed in SEEDS]
    shown = [(table, number) for table in tables for number in table.large()]
    assert len(shown) > 100
    assert sum(len(table.joining(number)) for table, number in shown) > 50
    assert sum(table.arguments - len(table.joining(number)) for table, number in shown) > 50
    whole = [(table, [row for row in table.rows if row.group == number]) for table in tables for number in range(3)]
    few = [size(of, people=it.people) >= it.least > seen(of, people=it.people) for it, of in whole]
    assert sum(few) > 20
    assert sum(row.person is None for table in tables if table.people for row in table.rows) > 50


@pytest.mark.parametrize(
    ("rows", "large"),
    [
        ([(0, 0, 0), (0, 0, 1), (0, 0, 2)], True),
        ([(0, 0, 0), (0, 0, 1), (0, 1, 2)], False),  # of the others of party 0 there is one
        ([(0, 0, 0), (0, 0, 1), (0, 1, 2), (0, 1, 3)], True),
        ([(0, 0, 0), (0, 1, 0)], False),
        ([(0, 0, 0), (0, 0, 1), (NO_CLASS, 1, 2)], True),  # the other party has no row of the class
        ([(0, 0, 0), (0, 0, 1), (0, 1, NOBODY)], False),  # its row is one of nobody
    ],
)
def test_a_party_never_finds_few_people_by_taking_its_own_away(
    rows: list[tuple[int, int, int]], *, large: bool
) -> None:
    labels, parties, people = (np.array([row[place] for row in rows], np.int64) for place in range(3))
    crowd = Crowd(np.arange(len(rows)), parties, people, np.ones(len(rows), np.int64))
    assert crowd.sizes(labels, 1).large(2).tolist() == [large]


def test_divided_classes_are_numbered_without_gaps() -> None:
    labels, value = np.array([4, 0, 4, 4], np.int64), np.array([True, False, False, True])
    assert divided(labels, value).tolist() == [2, 0, 1, 2]
    assert divided(labels[:0], value[:0]).tolist() == []


def test_arguments_join_one_after_the_other() -> None:
    """All have the second or not in threes, and so the third; of both together one person is alone."""
    rows = [Row(0, frozenset(has), 0, None) for has in [(0, 1, 2)] * 3 + [(0, 1)] + [(0,)] * 3]
    table = Random(rows, 3, 3, people=False)
    groups = Groups((), [()], [len(rows)], [()], (), [])
    assert suppress_small(groups, [(0,)], table.tally(), 3, 3).hidden == [frozenset({2})]
