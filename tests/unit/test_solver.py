"""The solver finds rows that sums single out, and none where there are none."""

from __future__ import annotations

import pytest

from tests.solver import revealed, singled_out

ROWS = {row: row for row in range(12)}


@pytest.mark.parametrize(
    ("sums", "found"),
    [
        ([{0, 1, 2}, {3, 4, 5}], None),
        ([{0, 1, 2}, {0, 1, 2, 3}], {3}),
        ([{0, 1, 2}, {0, 1, 2, 3, 4, 5}], None),
        ([{0, 1, 2, 3}, {4, 5, 6, 7}, {0, 1, 2, 4, 5, 6, 7}], {3}),
        ([{0, 1, 2, 3}, {2, 3, 4, 5}, {0, 1, 4, 5}], {0, 1}),  # half of a sum of all three
        ([{0, 1, 2, 3, 4}, {0, 1, 5, 6, 7}], None),
        ([{0}], {0}),
    ],
)
def test_few_rows_are_found(sums: list[set[int]], found: set[int] | None) -> None:
    few = singled_out([frozenset(each) for each in sums], ROWS, 3)
    assert (few is None) == (found is None)
    if found is not None and len(found) == 1:
        assert few == found


def test_two_values_of_one_row_are_one_row() -> None:
    rows = {"a": 0, "b": 1, "c": 1}
    assert singled_out([frozenset(rows)], rows, 3) == {0, 1}
    assert singled_out([frozenset(rows)], rows, 2) is None


def sums(*of: set[str], factors: dict[str, int] | None = None) -> list[dict[str, int]]:
    return [{each: (factors or {}).get(each, 1) for each in one} for one in of]


PEOPLE = {f"{name}{row}": name for name in "abcdefgh" for row in (1, 2)} | {"free": None}


@pytest.mark.parametrize(
    ("numbers", "found"),
    [
        (sums({"a1", "b1", "c1"}, {"d1", "e1", "f1"}), None),
        (sums({"a1", "b1", "c1"}, {"a1", "b1", "c1", "d1"}), {"d"}),
        (sums({"a1", "a2", "b1"}), {"a", "b"}),  # three rows of two people
        (sums({"a1", "b1", "c1"}, {"a2", "b2", "c2"}), None),
        (sums({"a1", "b1", "c1"}, {"a2", "b1", "c1"}), {"a"}),  # two values of one person: what changed
        (sums({"a1", "b1", "c1", "free"}, {"a1", "b1", "c1"}), set()),  # a row about nobody is shown
        (sums({"a1", "b1", "c1", "free"}), None),
        (sums({"a1", "b1", "c1", "d1"}, {"c1", "d1", "e1", "f1"}, {"a1", "b1", "e1", "f1"}), {"a", "b"}),
        ([*sums({"a1", "b1", "c1"}), {"a1": 2, "b1": 2, "c1": 3}], {"c"}),  # not every factor is 1
        ([*sums({"a1", "b1", "c1"}), {"a1": 2, "b1": 2, "c1": 2}], None),
        ([{}], None),
    ],
)
def test_few_people_are_found(numbers: list[dict[str, int]], found: set[str] | None) -> None:
    assert revealed(numbers, PEOPLE, 3) == found


def test_what_is_known_of_others_counts() -> None:
    """Someone who knows two of four rows is left with a sum over the other two."""
    numbers = sums({"a1", "b1", "c1", "d1"})
    assert revealed(numbers, PEOPLE, 3) is None
    others = {unknown: person for unknown, person in PEOPLE.items() if person not in ("a", "b")}
    assert revealed(numbers, others, 3) == {"c", "d"}
