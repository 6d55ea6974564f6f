"""Which measures join a part: by classes of people, for every party, in the order of the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np
import pytest

from cleave.disclosure.crowds import Crowd
from cleave.disclosure.joining import Part, Why, parts_of

Row = tuple[int, str, int, str]  # cell, values that are there ("ab", "a", ""), party, person


def pattern_of(values: str) -> int:
    return sum(1 << place for place, name in enumerate("abc") if name in values)


def parts(
    rows: list[Row],
    bits: Sequence[int | None] = (0, 1, 2),
    dominated: Mapping[int, set[int]] = MappingProxyType({}),
    least: int = 3,
    *,
    squared: bool = True,
) -> dict[int, Part]:
    classes = list(dict.fromkeys((cell, pattern_of(values)) for cell, values, _, _ in rows))
    crowd = Crowd(
        np.array([classes.index((cell, pattern_of(values))) for cell, values, _, _ in rows], np.int64),
        np.array([party for _, _, party, _ in rows], np.int64),
        np.array([ord(person) for *_, person in rows], np.int64),
        np.ones(len(rows), np.int64),
    )
    return parts_of(classes, crowd, bits, [squared] * len(bits), dominated, least)


def part(rows: list[Row], dominated: Mapping[int, set[int]] = MappingProxyType({})) -> Part | None:
    return parts(rows, dominated=dominated).get(0)


def of(values: str, people: str, party: int = 0) -> list[Row]:
    return [(0, values, party, person) for person in people]


@pytest.mark.parametrize(
    ("rows", "shown"),
    [
        (of("abc", "pq"), None),
        (of("abc", "ppppp"), None),
        (of("abc", "pqr"), (1, 1, 1)),
        (of("abc", "pqrstuvw"), (1, 1, 1)),
        (of("abc", "pqrstuvwx"), (2, 2, 2)),
        (of("ab", "pqr"), (1, 1, 1)),
        (of("abc", "pqr") + of("bc", "st"), (0, 1, 1)),
        (of("abc", "pqr") + of("bc", "stu"), (1, 1, 1)),
        (of("bc", "pqr") + of("abc", "stss"), (0, 1, 1)),
        (of("abc", "pqr") + of("bc", "pqr"), (1, 1, 1)),
        (of("ac", "pqr") + of("bc", "stu") + of("abc", "v"), (1, 0, 1)),
        (of("ab", "pqr") + of("c", "stu") + of("abc", "v"), (1, 1, 0)),
        (of("abc", "pqrs") + of("bc", "tuvwxy"), (1, 2, 2)),
        (of("abc", "pqrs") + of("ac", "tuvwxy"), (2, 1, 2)),
        (of("abc", "pqrstuvwx") + of("bc", "yzo"), (2, 2, 2)),
        (of("abc", "pqr") + of("ab", "s") + of("b", "tuv"), (1, 1, 0)),
        (of("abc", "pqr") + of("ab", "s") + of("a", "tuv"), (1, 1, 0)),
    ],
    ids=str,
)
def test_measures_join_where_every_class_is_large_enough(rows: list[Row], shown: tuple[int, ...] | None) -> None:
    found = part(rows)
    assert (found.shown if found else None) == shown


@pytest.mark.parametrize(
    ("rows", "shown"),
    [
        (of("abc", "pqr", 1), (1, 1, 1)),
        (of("abc", "pqr", 0) + of("abc", "st", 1), None),
        (of("abc", "pqr", 0) + of("abc", "stu", 1), (1, 1, 1)),
        (of("abc", "pq", 0) + of("abc", "st", 1) + of("abc", "uv", 2), (1, 1, 1)),
        (of("abc", "pqr", 0) + of("abc", "pqr", 1), (1, 1, 1)),
        (of("abc", "pqr", 0) + of("abc", "stu", 1) + of("bc", "wxy", 0) + of("bc", "z", 1), (0, 1, 1)),
        (of("abc", "pqr", 0) + of("abc", "stu", 1) + of("bc", "wxy", 0), (1, 1, 1)),
    ],
    ids=str,
)
def test_the_others_of_each_party_are_enough_too(rows: list[Row], shown: tuple[int, ...] | None) -> None:
    found = part(rows)
    assert (found.shown if found else None) == shown


def test_a_dominated_measure_divides_no_part() -> None:
    """`a` alone would leave two people; where it is withheld, `b` is not withheld for it."""
    rows = of("abc", "pqr") + of("b", "stu")
    found = part(rows, {0: {0}})
    assert found is not None
    assert found.shown == (0, 1, 1)
    assert found.why == {0: Why.DOMINANCE}
    found = part(of("abc", "pqr") + of("bc", "s"))
    assert found is not None
    assert found.why == {0: Why.NULLS}


def test_a_withheld_measure_divides_no_class_of_a_later_one() -> None:
    found = part(of("abc", "pqr") + of("bc", "s") + of("b", "tuv"), {0: {0}})
    assert found is not None
    assert found.shown == (0, 1, 1)


def test_a_measure_that_is_never_null_joins_every_part() -> None:
    found = parts(of("", "pqr") + of("a", "stu"), [None, 0], squared=False)
    assert found == {0: Part(6, (1, 1), {})}


def test_a_release_of_no_rows_has_no_parts() -> None:
    assert parts([]) == {}


def test_each_cell_is_decided_alone() -> None:
    few = of("abc", "pqr") + of("bc", "s")
    rows = [*few, *((1, *row[1:]) for row in of("abc", "pqr")), *((2, *row[1:]) for row in few), (3, "abc", 0, "p")]
    found = parts(rows)
    withheld = Part(4, (0, 1, 1), {0: Why.NULLS})
    assert found == {0: withheld, 1: Part(3, (1, 1, 1), {}), 2: withheld}
