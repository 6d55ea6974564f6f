"""The solver finds rows that sums single out, and none where there are none."""

from __future__ import annotations

import pytest

from tests.solver import singled_out

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
