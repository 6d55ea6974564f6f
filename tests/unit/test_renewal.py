"""No sum of released values, each times any number, is over fewer than N rows, whatever happens to a cell."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import pytest
from flint import fmpz_mat
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cleave.disclosure.renewal import CellValue, MeasureSums, chosen, released
from tests.campaign import FACTOR

LEAST = 3
ALONE = [frozenset(["age"])]  # columns of the only measure
Rows = frozenset[int]


def least_support(vectors: list[Rows], below: int) -> Rows | None:
    """Fewer than `below` rows that a sum of `vectors`, each times some rational, is over; None: there are none."""
    classes: dict[tuple[bool, ...], list[int]] = {}
    for row in sorted(frozenset().union(*vectors)):
        classes.setdefault(tuple(row in each for each in vectors), []).append(row)
    patterns = list(classes)
    sizes = [len(classes[each]) for each in patterns]

    def rank(columns: list[int]) -> int:
        if not columns or not vectors:
            return 0
        return fmpz_mat([[int(patterns[column][row]) for column in columns] for row in range(len(vectors))]).rank()

    whole = rank(list(range(len(patterns))))
    for count in range(1, below):
        for few in combinations(range(len(patterns)), count):
            if sum(sizes[each] for each in few) < below:
                others = [each for each in range(len(patterns)) if each not in few]
                if rank(others) < whole:
                    return frozenset(row for each in few for row in classes[patterns[each]])
    return None


class History:
    """One cell, its rows by number, and every set of rows whose total was released."""

    def __init__(self) -> None:
        self.rows: dict[int, bool] = {}  # whether it has a value of the measure
        self.gone = 0
        self.made = 0
        self.released: CellValue | None = None
        self.seen: dict[CellValue, tuple[Rows, Rows]] = {}
        self.of_rows: list[Rows] = []
        self.of_values: list[Rows] = []

    def add(self, values: list[bool]) -> None:
        for each in values:
            self.rows[self.made] = each
            self.made += 1

    def remove(self, which: list[int]) -> None:
        for row in {sorted(self.rows)[each % len(self.rows)] for each in which} if self.rows else ():
            del self.rows[row]
            self.gone += 1

    def change(self, which: list[int]) -> None:
        """Rows change their values: they are taken out, and others come."""
        for row in {sorted(self.rows)[each % len(self.rows)] for each in which} if self.rows else ():
            self.gone += 1
            self.add([self.rows.pop(row)])

    def release(self, number: int) -> None:
        values = frozenset(row for row, there in self.rows.items() if there)
        now = CellValue(0, len(self.rows), self.gone, (MeasureSums(len(values), sum(values), 0),), number)
        made = released(now, self.released, LEAST, ALONE)
        if made is not None and made.number == number:
            self.of_rows.append(frozenset(self.rows))
        old = self.released.measures[0] if self.released else None
        if made is not None and made.measures[0] is not None and (made.number == number or old is None):
            self.of_values.append(values)
            assert made.measures[0] == now.measures[0]
        self.released = made


steps = st.one_of(
    st.tuples(st.just("add"), st.lists(st.booleans(), min_size=1, max_size=7)),
    st.tuples(st.just("add"), st.integers(1, 7).map(lambda count: [True] * count)),
    st.tuples(st.just("remove"), st.lists(st.integers(0, 50), min_size=1, max_size=7)),
    st.tuples(st.just("change"), st.lists(st.integers(0, 50), min_size=1, max_size=2)),
    st.tuples(st.just("release"), st.none()),
)


@settings(max_examples=80 * FACTOR, deadline=None)
@example([("add", [1] * 6), ("release", None), ("add", [1] * 3), ("release", None), ("remove", [0, 6, 7])])
@given(st.lists(steps, max_size=10))
def test_every_combination_is_over_none_or_enough_rows(history: list[tuple[str, list[int] | None]]) -> None:
    cell = History()
    for number, (what, how) in enumerate([*history, ("release", None)], 1):
        if how is None:
            cell.release(number)
        else:
            {"add": cell.add, "remove": cell.remove, "change": cell.change}[what](how)  # type: ignore[operator]
    assert least_support([*cell.of_rows, *cell.of_values], LEAST) is None


def value(rows: int, gone: int = 0, count: int | None = None, number: int = 1) -> CellValue:
    return CellValue(0, rows, gone, (MeasureSums(rows if count is None else count, rows, rows),), number)


@pytest.mark.parametrize(
    ("now", "renewed"),
    [
        (value(13, number=2), True),  # three more
        (value(12, number=2), False),
        (value(7, 3, number=2), True),  # three less
        (value(8, 2, number=2), False),
        (value(12, 3, number=2), False),  # five more and three less
        (value(10, 3, number=2), False),  # three for three
        (value(2, 8, number=2), False),  # two are left
        (replace(value(13, number=2), cell=1), False),  # another cell under the same key
        (value(13, count=12, number=2), False),  # one NULL came
        (value(13, count=10, number=2), True),  # three did
    ],
)
def test_a_value_is_renewed_by_enough_rows_one_way(now: CellValue, *, renewed: bool) -> None:
    made = released(now, value(10), LEAST, ALONE)
    assert made is not None
    assert (made.number, made.rows) == ((2, now.rows) if renewed else (1, 10))


@pytest.mark.parametrize(
    ("rows", "gone", "renewed"), [(13, 0, True), (12, 0, False), (7, 3, True), (8, 2, False), (2, 8, False)]
)
def test_the_count_of_rows_is_renewed_by_enough_rows(rows: int, gone: int, *, renewed: bool) -> None:
    """Of a table without measures: no count of values guards it too."""
    made = released(replace(value(rows, gone, number=2), measures=()), replace(value(10), measures=()), LEAST, ())
    assert made is not None
    assert (made.number, made.rows) == ((2, rows) if renewed else (1, 10))


def test_a_cell_that_grew_is_not_renewed_when_it_shrinks() -> None:
    grown = released(value(20, number=2), value(10), LEAST, ALONE)
    shrunk = released(value(15, 5, number=3), grown, LEAST, ALONE)
    assert shrunk is not None
    assert shrunk.number == 2


def test_a_cell_that_lost_all_rows_has_no_value_any_more() -> None:
    empty = released(value(0, 20, number=3), value(20), LEAST, ALONE)
    assert empty is not None
    assert (empty.rows, empty.measures) == (0, (None,))
    filled = released(value(30, 20, number=4), empty, LEAST, ALONE)
    assert filled == empty
    assert released(value(0), None, LEAST, ALONE) is None


def test_no_added_row_is_released_once_rows_left_the_table() -> None:
    assert released(value(10), None, LEAST, ALONE, closed=True) is None
    for now, rows in ((value(20, number=2), 10), (value(6, 4, number=2), 6)):
        made = released(now, value(10), LEAST, ALONE, closed=True)
        assert made is not None
        assert made.rows == rows


def test_a_derived_measure_is_shown_where_the_value_is_of_now() -> None:
    past = replace(value(10), measures=(MeasureSums(10, 1, 1), None))
    now = replace(value(10, number=2), measures=(MeasureSums(10, 1, 1), MeasureSums(10, 2, 2)))
    reads = [*ALONE, *ALONE]
    unchanged, more = released(now, past, LEAST, reads), released(replace(now, rows=11), past, LEAST, reads)
    assert unchanged is not None
    assert more is not None
    assert unchanged.measures[1] == MeasureSums(10, 2, 2)
    assert more.measures[1] is None


AGE, BILL, BOTH = frozenset(["age"]), frozenset(["bill"]), frozenset(["age", "bill"])


@pytest.mark.parametrize(
    ("counts", "reads", "shown"),
    [
        ((8, 7, 7), (AGE, BILL, BOTH), (True, True, False)),  # one row may have an age and no bill
        ((8, 7), (AGE, BILL), (True, True)),
        ((8, 7), (AGE, AGE), (True, False)),
        ((13, 7, 7), (AGE, BILL, BOTH), (True, True, False)),
        ((12, 7, 7), (AGE, BILL, BOTH), (False, True, False)),
        ((12, 12, 7), (AGE, BILL, BOTH), (False, False, True)),
        ((8, 13, 0), (AGE, BILL, BOTH), (True, True, True)),
        ((8, 13, 13), (AGE, BILL, BOTH), (True, True, True)),
    ],
)
def test_measures_of_one_column_that_both_divide_a_cell(
    counts: tuple[int, ...], reads: tuple[frozenset[str], ...], shown: tuple[bool, ...]
) -> None:
    now = replace(value(13), measures=tuple(MeasureSums(each, each, each) for each in counts))
    made = released(now, None, LEAST, reads)
    assert made is not None
    assert tuple(each is not None for each in made.measures) == shown


@pytest.mark.parametrize(
    ("more", "gone", "counts", "renewed"),
    [
        (6, 0, (16, 13), True),
        (6, 0, (13, 16), True),
        (6, 0, (13, 13), False),  # of six rows
        (-5, 5, (5, 5), True),
        (-6, 6, (7, 7), False),  # of six rows
        (-3, 3, (7, 7), True),
    ],
)
def test_measures_of_one_column_that_both_divide_what_came(
    more: int, gone: int, counts: tuple[int, int], *, renewed: bool
) -> None:
    past = replace(value(10), measures=(MeasureSums(10, 1, 1), MeasureSums(10, 1, 1)))
    now = replace(value(10 + more, gone, number=2), measures=tuple(MeasureSums(each, 1, 1) for each in counts))
    made = released(now, past, LEAST, [AGE, BOTH])
    assert made is not None
    assert made.number == (2 if renewed else 1)
    assert renewed or made.measures == past.measures


@pytest.mark.parametrize(("least", "expected"), [(3, [0, 1]), (5, [0, 1, 2]), (7, [0, 1, 2, 3])])
def test_fewer_totals_of_a_column_than_rows_of_a_cell_are_released(least: int, expected: list[int]) -> None:
    age, bill = frozenset(["age"]), frozenset(["bill"])
    assert chosen([age, bill, age | bill, age, age], least) == expected
