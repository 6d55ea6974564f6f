"""Which measures join a part: by classes of people, for every party, in the order of the table."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from cleave.disclosure.joining import Class, Part, Size, Why, parts_of

Row = tuple[int, str, int, str]  # cell, values that are there ("ab", "a", ""), party, person


class People:
    """Sizes of classes of `rows`, counted one by one."""

    def __init__(self, rows: list[Row]) -> None:
        self.rows = rows

    @property
    def classes(self) -> set[Class]:
        return {(cell, pattern_of(values)) for cell, values, _, _ in self.rows}

    def of(self, labels: Mapping[Class, int]) -> dict[int, Size]:
        sizes = {}
        for label in labels.values():
            rows = [each for each in self.rows if labels.get((each[0], pattern_of(each[1]))) == label]
            parties = {party for _, _, party, _ in rows}
            others = {
                party: len({person for *_, of, person in rows if of != party}) if len(parties) > 1 else None
                for party in parties
            }
            sizes[label] = Size(len({person for *_, person in rows}), others)
        return sizes


def pattern_of(values: str) -> int:
    return sum(1 << place for place, name in enumerate("abc") if name in values)


def part(rows: list[Row], dominated: Mapping[int, set[int]] | None = None, least: int = 3) -> Part | None:
    people = People(rows)
    return parts_of(people.classes, people, [0, 1, 2], [True] * 3, dominated or {}, least).get(0)


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
    people = People(of("", "pqr") + of("a", "stu"))
    found = parts_of(people.classes, people, [None, 0], [False, False], {}, 3)
    assert found == {0: Part(6, (1, 1), {})}


def test_each_cell_is_decided_alone() -> None:
    few = of("abc", "pqr") + of("bc", "s")
    rows = [*few, *((1, *row[1:]) for row in of("abc", "pqr")), *((2, *row[1:]) for row in few), (3, "abc", 0, "p")]
    people = People(rows)
    found = parts_of(people.classes, people, [0, 1, 2], [True] * 3, {}, 3)
    withheld = Part(4, (0, 1, 1), {0: Why.NULLS})
    assert found == {0: withheld, 1: Part(3, (1, 1, 1), {}), 2: withheld}
