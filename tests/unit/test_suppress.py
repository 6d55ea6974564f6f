"""What a minimum group size leaves out of an answer with several sets of keys: no small group by subtraction either."""

from __future__ import annotations

import itertools
import random
from collections.abc import Hashable, Iterable, Mapping, Sequence

import numpy as np
import pytest
from flint import fmpz_mat

from cleave.disclosure.suppress import suppress_small
from cleave.sql.rejoin import Groups, Members
from cleave.sql.tally import Tally, tally_of_rows


def shown(members: Sequence[Members], sizes: Sequence[int], min_group: int) -> list[Members]:
    """The rows that are shown, by the finest groups they are made of."""
    counts = [sum(sizes[place] for place in each) for each in members]
    rows = range(len(members))  # each of a set of its own
    keys, plain, local = ([(f"{what} {row}",) for row in rows] for what in ("key", "plain", "local"))
    groups = Groups(("VARCHAR",), keys, counts, plain, ("VARCHAR",), list(rows), local)
    kept = suppress_small(groups, members, tally_of_rows(sizes), min_group, 0)
    places = [keys.index(each) for each in kept.groups.keys]
    assert kept.groups.plain == [plain[place] for place in places]
    assert kept.groups.local == [local[place] for place in places]
    assert kept.hidden == [frozenset()] * len(places)
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
MARGINS = [(0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8)]  # of a table of 3 x 3 cells


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
    assert shown(MARGINS, [9, 2, 7, 2, 8, 9, 6, 9, 2], 3) == MARGINS
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


def test_the_safe_rule_is_for_matrices_that_are_too_large_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a cross table's 6 sums over 9 cells all may be shown. The safe rule leaves out the smaller sum of each small
    cell; the other 3 are few enough again.
    """
    sizes = [9, 2, 7, 2, 8, 9, 6, 9, 2]
    monkeypatch.setattr("cleave.disclosure.suppress._ENTRIES", 54)
    assert shown(MARGINS, sizes, 3) == MARGINS
    monkeypatch.setattr("cleave.disclosure.suppress._ENTRIES", 53)
    assert shown(MARGINS, sizes, 3) == [(3, 4, 5), (1, 4, 7), (2, 5, 8)]


def test_the_smaller_of_two_sums_that_give_a_small_group_away_is_left_out() -> None:
    """(first + second - third) / 2 is group 2, of two rows. Without the first, or the second, nothing follows."""
    assert shown([(1, 2), (0, 2), (0, 1)], [5, 9, 2], 3) == [(1, 2), (0, 1)]
    assert shown([(1, 2), (0, 2), (0, 1)], [5, 5, 2], 3) == [(0, 2), (0, 1)], "the first of equal ones"


def test_a_group_without_rows_reveals_nobody() -> None:
    assert shown(ROLLUP, [8, 0, 5, 5], 3) == [row for row in ROLLUP if row != (1,)]


def test_no_group_or_no_row_is_no_answer() -> None:
    nothing = tally_of_rows([])
    for sets in ([], [0]):
        kept = suppress_small(Groups((), [()], [0], [()], (), sets), [(0,)], nothing, 3, 2)
        assert (kept.of, kept.hidden, kept.small, kept.withheld) == ([], [], 1, 0)
    kept = suppress_small(Groups((), [], [], [], ()), [], nothing, 3, 2)
    assert (kept.of, kept.hidden, kept.small, kept.withheld) == ([], [], 0, 0)


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
    kept = suppress_small(groups, members, tally, least, arguments)
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


Kind = tuple[int, int]  # finest group, pattern


class Mirror:
    """The rule by brute force: sets of people, and ranks of matrices. Returns what is shown and hidden, no more."""

    def __init__(self, who: Mapping[Kind, set[Hashable]], members: Sequence[Members], least: int) -> None:
        self.who = who
        self.members = members
        self.least = least

    def people(self, kinds: Iterable[Kind]) -> int:
        return len(set[Hashable]().union(*(self.who[each] for each in kinds)))

    def by_size(self, row: int) -> tuple[int, int]:
        return self.people(each for each in self.who if each[0] in self.members[row]), row

    def exposed(self, shown: Sequence[int], masks: Mapping[int, int]) -> list[set[int]]:
        """The rows with each class that is too small and about which some combination of sums tells."""
        classes: dict[frozenset[tuple[int, int]], list[Kind]] = {}
        for group, pattern in self.who:
            sums = frozenset((row, pattern & masks[row]) for row in shown if group in self.members[row])
            classes.setdefault(sums, []).append((group, pattern))
        classes.pop(frozenset(), None)  # in no sum
        numbers = sorted(frozenset[tuple[int, int]]().union(*classes))
        columns = {each: [int(number in each) for number in numbers] for each in classes}
        small = [each for each, kinds in classes.items() if self.people(kinds) < self.least]
        large = [columns[each] for each in classes if each not in small]
        rank_of_large = fmpz_mat(large).rank() if large else 0
        return [{row for row, _ in each} for each in small if fmpz_mat([*large, columns[each]]).rank() > rank_of_large]

    def shown(self, *, several_sets: bool) -> list[int]:
        left = [row for row in range(len(self.members)) if self.by_size(row)[0] >= self.least]
        masks = dict.fromkeys(left, 0)
        while several_sets and (exposed := self.exposed(left, masks)):
            away = {min(rows, key=self.by_size) for rows in exposed}
            left = [row for row in left if row not in away]
        return left

    def hidden(self, shown: Sequence[int], arguments: int, *, several_sets: bool) -> list[frozenset[int]]:
        joined = dict.fromkeys(shown, 0)
        for argument in range(arguments):
            bit = 1 << argument
            left = [row for row in shown if self.may_join(row, joined[row] | bit)]
            while several_sets and left:
                masks = {row: joined[row] | (bit if row in left else 0) for row in shown}
                if not (exposed := self.exposed(shown, masks)):
                    break
                of_left = [rows & {*left} for rows in exposed if rows & {*left}] or [{*left}]
                away = {min(rows, key=self.by_size) for rows in of_left}
                left = [row for row in left if row not in away]
            joined |= {row: joined[row] | bit for row in left}
        return [frozenset(each for each in range(arguments) if not joined[row] >> each & 1) for row in shown]

    def may_join(self, row: int, mask: int) -> bool:
        classes: dict[int, list[Kind]] = {}
        for group, pattern in self.who:
            if group in self.members[row]:
                classes.setdefault(pattern & mask, []).append((group, pattern))
        return all(self.people(kinds) >= self.least for kinds in classes.values())


@pytest.mark.parametrize("seed", range(200))
def test_no_more_is_hidden_than_the_rule_says(seed: int) -> None:
    chance = random.Random(f"mirror {seed}")
    by_people = chance.random() < 0.7
    least, arguments = chance.randint(2, 4), chance.randint(0, 3)
    cells = list(itertools.product(range(2), range(2), range(2)))
    chance.shuffle(cells)
    kinds = [
        (chance.randrange(chance.randint(1, len(cells))), chance.choice([0, 1, 3, 7, chance.randrange(8)]))
        for _ in range(chance.randint(4, 60))
    ]
    groups = sorted({group for group, _ in kinds})
    tallied = [(groups.index(group), pattern, chance.randrange(30)) for group, pattern in kinds]
    who: dict[Kind, set[Hashable]] = {}
    for number, (group, pattern, person) in enumerate(tallied):
        who.setdefault((group, pattern), set()).add(person if by_people else number)
    several_sets = chance.random() < 0.8
    sets = [(0, 1, 2)]
    if several_sets:
        sets = [tuple(sorted(chance.sample(range(3), chance.randint(0, 3)))) for _ in range(chance.randint(1, 5))]
    members, numbers = list[Members](), list[int]()
    for number, set_ in enumerate(sets):
        keys: dict[tuple[int, ...], list[int]] = {}
        for place, group in enumerate(groups):
            keys.setdefault(tuple(cells[group][each] for each in set_), []).append(place)
        members += map(tuple, keys.values())
        numbers += [number] * len(keys)
    tally = Tally(
        np.array([group for group, *_ in tallied]),
        np.array([pattern for _, pattern, _ in tallied], np.uint64),
        np.zeros(len(tallied), np.int64),
        np.array([person for *_, person in tallied]) if by_people else None,
        np.ones(len(tallied), np.int64),
    )
    nothing = [()] * len(members)
    given = Groups((), list(nothing), [1] * len(members), list(nothing), (), numbers if several_sets else [])
    kept = suppress_small(given, members, tally, least, arguments)
    mirror = Mirror(who, members, least)
    expected = mirror.shown(several_sets=several_sets)
    assert kept.of == [members[row] for row in expected]
    assert kept.hidden == mirror.hidden(expected, arguments, several_sets=several_sets)


def test_an_argument_does_not_join_where_it_gives_away_a_group_that_it_does_not_join() -> None:
    """Of group 0 all 5 have a value, of groups 1 and 2 nobody. The last sum is not divided: group 2 is of two people.
    If the sum before it were, its values' part would be group 0, and the last less that group 2. The first has no part
    in that.
    """
    tally = Tally(
        np.array([0] * 5 + [1] * 5 + [2] * 2 + [3] * 12),
        np.array([1] * 5 + [0] * 7 + [1] * 12, np.uint64),
        np.zeros(24, np.int64),
        np.arange(24),
        np.ones(24, np.int64),
    )
    groups = Groups((), [(), (), ()], [12, 10, 7], [(), (), ()], (), [0, 0, 1])
    members = [(3,), (0, 1), (0, 2)]
    kept = suppress_small(groups, members, tally, 3, 1)
    assert kept.of == members
    assert kept.hidden == [frozenset(), frozenset({0}), frozenset({0})]


def test_values_are_shown_where_enough_people_have_them() -> None:
    """Two wards of twelve people, each with a value of two in one of them: of one alone it is hidden."""
    patterns = [1, 1, *[0] * 10, *[1] * 12]
    tally = Tally(
        np.repeat([0, 1], 12), np.array(patterns, np.uint64), np.zeros(24, np.int64), np.arange(24), np.ones(24, int)
    )
    single = Groups((), [(), ()], [12, 12], [(), ()], (), [])
    assert suppress_small(single, [(0,), (1,)], tally, 3, 1).hidden == [frozenset({0}), frozenset()]
    both = Groups((), [(), (), ()], [12, 12, 24], [(), (), ()], (), [0, 0, 1])
    hidden = suppress_small(both, [(0,), (1,), (0, 1)], tally, 3, 1).hidden
    assert sum(map(bool, hidden)) == 2, "the total less that of the second ward is of two people"


def test_values_of_two_arguments_do_not_follow_from_a_total() -> None:
    """In the second ward one person has a first value without a second: the total less the first ward tells of it."""
    first, second = [0b11, 0b01, 0b10, 0b00] * 3, [0b11, 0b10, 0b00] * 3 + [0b01]
    count, patterns = len(first) + len(second), np.array(first + second, np.uint64)
    wards = np.repeat([0, 1], [len(first), len(second)])
    tally = Tally(wards, patterns, np.zeros(count, np.int64), np.arange(count), np.ones(count, int))
    groups = Groups((), [(), (), ()], [12, 10, 22], [(), (), ()], (), [0, 0, 1])
    hidden = suppress_small(groups, [(0,), (1,), (0, 1)], tally, 3, 2).hidden
    assert hidden == [frozenset(), frozenset({1}), frozenset({1})]
