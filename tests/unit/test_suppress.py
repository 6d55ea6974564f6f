"""What a minimum group size leaves out of an answer with several sets of keys: no small group by subtraction either."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

import numpy as np
import pytest
from flint import fmpz_mat

from cleave.disclosure.crowds import Crowd
from cleave.disclosure.suppress import suppress_small
from cleave.sql.rejoin import Groups, Members
from cleave.sql.tally import Tally, tally_of_rows


def shown(members: Sequence[Members], sizes: Sequence[int], min_group: int) -> list[Members]:
    """The rows that are shown, by the finest groups they are made of."""
    counts = [sum(sizes[place] for place in each) for each in members]
    rows = range(len(members))  # each of a set of its own
    groups = Groups(("BIGINT",), [(str(row),) for row in rows], counts, [()] * len(members), (), list(rows))
    kept = suppress_small(groups, members, Crowd(tally_of_rows(sizes), min_group))
    places = [int(keys[0] or 0) for keys in kept.groups.keys]
    assert kept.groups.counts == [counts[place] for place in places]
    assert kept.groups.sets == places
    assert kept.of == [members[place] for place in places]
    assert kept.small == sum(count < min_group for count in counts)
    assert kept.small + kept.withheld == len(members) - len(places)
    return [members[place] for place in places]


def rank(rows: Sequence[Members], places: Sequence[int]) -> int:
    return int(fmpz_mat([[int(place in row) for place in places] for row in rows]).rank()) if rows and places else 0


def leaks(rows: Sequence[Members], sizes: Sequence[int], min_group: int) -> list[tuple[int, ...]]:
    """By brute force: all sets of finest groups, of too few rows, about which some sum of multiples of `rows` tells."""
    places = range(len(sizes))
    found = []
    for size in range(1, len(sizes) + 1):
        for few in itertools.combinations(places, size):
            if sum(sizes[place] for place in few) < min_group:
                others = [place for place in places if place not in few]
                if rank(rows, list(places)) > rank(rows, others):
                    found.append(few)
    return found


A, B = (0, 1), (2, 3)  # two wards, each of two sexes
ROLLUP = [(0,), (1,), (2,), (3,), A, B, (0, 1, 2, 3)]


def test_the_oracle_finds_a_complement() -> None:
    assert leaks([(0,), A], [8, 2, 5, 5], 3) == [(1,)]
    assert leaks([(0,), B, (0, 1, 2, 3)], [8, 2, 5, 5], 3) == [(1,)]
    assert leaks([(0,), B], [8, 2, 5, 5], 3) == []


@pytest.mark.parametrize(
    ("sizes", "left_out"),
    [
        ([8, 5, 5, 5], []),
        ([8, 2, 5, 5], [(1,), A, (0, 1, 2, 3)]),  # A - first = second; and all - B - first
        ([8, 2, 5, 1], [(1,), (3,), A, B]),  # of all only 3 rows are left over, which are enough
        ([2, 2, 5, 5], [(0,), (1,)]),  # A is of 4 rows, and of which is not to be had
        ([1, 1, 5, 5], [(0,), (1,), A, (0, 1, 2, 3)]),
    ],
)
def test_a_rollup_leaves_out_what_gives_a_small_group_away(sizes: list[int], left_out: list[Members]) -> None:
    kept = shown(ROLLUP, sizes, 3)
    assert kept == [row for row in ROLLUP if row not in left_out]
    assert leaks(kept, sizes, 3) == []


def test_margins_of_small_cells_are_shown_where_nothing_follows() -> None:
    """A cross table's sums: its cells are small, but cannot be had of them."""
    margins = [(0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8)]
    assert shown(margins, [9, 2, 7, 2, 8, 9, 6, 9, 2], 3) == margins
    # but where a row of it has one cell only, which is a column's too, the rest of the column follows
    assert shown([(0, 1), (0,)], [4, 2], 3) == [(0,)]


@pytest.mark.parametrize("seed", range(60))
def test_nothing_small_follows_from_what_is_shown(seed: int) -> None:
    chance = random.Random(seed)
    cells = [(a, b) for a in range(3) for b in range(3) if chance.random() < 0.8]
    sizes = [chance.choice([1, 1, 2, 3, 5, 9]) for _ in cells]
    by = [(0, 1), (0,), (1,), ()]
    sets = chance.sample(by, chance.randint(1, 4)) + chance.sample(by, 1)  # one may come twice
    members: list[Members] = []
    for set_ in sets:
        keys = dict.fromkeys(tuple(cell[i] for i in set_) for cell in cells)
        members += [
            tuple(place for place, cell in enumerate(cells) if tuple(cell[i] for i in set_) == key) for key in keys
        ]
    kept = shown(members, sizes, 4)
    assert leaks(kept, sizes, 4) == []
    assert all(row in kept for row in members if len(sets) == 1 and sum(sizes[i] for i in row) >= 4)


def test_many_groups_fall_back_to_the_safe_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cleave.disclosure.suppress._ENTRIES", 0)
    assert shown(ROLLUP, [8, 2, 5, 5], 3) == [(0,), (2,), (3,), B]
    kept = shown([(0, 1), (2, 3), (0, 2), (1, 3)], [2, 2, 2, 2], 3)
    assert leaks(kept, [2, 2, 2, 2], 3) == []


def told(of: Members, kinds: Sequence[tuple[int, int]], argument: int | None) -> list[int]:
    """Of which (finest group, pattern) a number of rows, or of values of an argument, is a sum."""
    return [int(group in of and (argument is None or pattern >> argument & 1)) for group, pattern in kinds]


@pytest.mark.parametrize("seed", range(120))
def test_no_sum_of_values_of_few_people_follows(seed: int) -> None:
    """By brute force over each set of classes of fewer people: no sum or difference of what is shown is of it."""
    chance = random.Random(f"values {seed}")
    least, arguments = chance.randint(2, 4), chance.randint(1, 2)
    cells = [(a, b) for a in range(2) for b in range(2) if chance.random() < 0.9] or [(0, 0)]
    people: dict[tuple[int, int], set[int]] = {}
    rows = []
    for _ in range(chance.randint(4, 24)):
        kind = chance.randrange(len(cells)), chance.choice([0, *range(1 << arguments), (1 << arguments) - 1])
        rows.append((*kind, chance.randrange(12)))
        people.setdefault(kind, set()).add(rows[-1][2])
    finest = sorted({group for group, _, _ in rows})
    places = {group: place for place, group in enumerate(finest)}
    kinds = sorted((places[group], pattern) for group, pattern in people)
    who = {(places[group], pattern): each for (group, pattern), each in people.items()}
    sets = chance.sample([(0, 1), (0,), (1,), ()], chance.randint(1, 4))
    members, numbers = list[Members](), list[int]()
    for number, set_ in enumerate(sets):
        keys = dict.fromkeys(tuple(cells[group][i] for i in set_) for group in finest)
        members += [
            tuple(places[group] for group in finest if tuple(cells[group][i] for i in set_) == key) for key in keys
        ]
        numbers += [number] * len(keys)
    tally = Tally(
        np.array([places[group] for group, _, _ in rows]),
        np.array([pattern for _, pattern, _ in rows], np.uint64),
        np.zeros(len(rows), np.int64),
        np.array([person for _, _, person in rows]),
        np.ones(len(rows), np.int64),
    )
    of_all = [()] * len(members)
    groups = Groups((), list(of_all), [1] * len(members), list(of_all), (), numbers)
    kept = suppress_small(groups, members, Crowd(tally, least), arguments)
    sums = [told(of, kinds, None) for of in kept.of]
    for of, away in zip(kept.of, kept.hidden, strict=True):
        sums += [told(of, kinds, each) for each in range(arguments) if each not in away]
    if not sums:
        return
    rank_of_all = fmpz_mat(sums).rank()
    for size in range(1, len(kinds) + 1):
        for few in itertools.combinations(range(len(kinds)), size):
            if len(set().union(*(who[kinds[place]] for place in few))) < least:
                others = [[row[place] for place in range(len(kinds)) if place not in few] for row in sums]
                assert rank_of_all == (fmpz_mat(others).rank() if others[0] else 0), few


def test_values_are_shown_where_enough_people_have_them() -> None:
    """Two wards of twelve people, each with a value of two in one of them: of one alone it is hidden."""
    patterns = [1, 1, *[0] * 10, *[1] * 12]
    tally = Tally(
        np.repeat([0, 1], 12), np.array(patterns, np.uint64), np.zeros(24, np.int64), np.arange(24), np.ones(24, int)
    )
    single = Groups((), [(), ()], [12, 12], [(), ()], (), [])
    assert suppress_small(single, [(0,), (1,)], Crowd(tally, 3), 1).hidden == [frozenset({0}), frozenset()]
    both = Groups((), [(), (), ()], [12, 12, 24], [(), (), ()], (), [0, 0, 1])
    hidden = suppress_small(both, [(0,), (1,), (0, 1)], Crowd(tally, 3), 1).hidden
    assert sum(map(bool, hidden)) == 2, "the total less that of the second ward is of two people"


def test_values_of_two_arguments_do_not_follow_from_a_total() -> None:
    """In the second ward one person has a first value without a second: the total less the first ward tells of it."""
    first, second = [0b11, 0b01, 0b10, 0b00] * 3, [0b11, 0b10, 0b00] * 3 + [0b01]
    count, patterns = len(first) + len(second), np.array(first + second, np.uint64)
    wards = np.repeat([0, 1], [len(first), len(second)])
    tally = Tally(wards, patterns, np.zeros(count, np.int64), np.arange(count), np.ones(count, int))
    groups = Groups((), [(), (), ()], [12, 10, 22], [(), (), ()], (), [0, 0, 1])
    hidden = suppress_small(groups, [(0,), (1,), (0, 1)], Crowd(tally, 3), 2).hidden
    assert hidden == [frozenset(), frozenset({1}), frozenset({1})]
