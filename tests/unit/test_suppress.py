"""What a minimum group size leaves out of an answer with several sets of keys: no small group by subtraction either."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

import pytest
from flint import fmpz_mat

from cleave.disclosure.crowds import Crowd
from cleave.disclosure.suppress import suppress_small
from cleave.sql.rejoin import Groups, Members
from cleave.sql.tally import tally_of_rows


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
