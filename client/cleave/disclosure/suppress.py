"""Small groups are left out before an answer is finished: a sum over a few people tells about each of them.

Before, not after: HAVING, ORDER BY and LIMIT then see only what is shown, and no total over groups can hold a
suppressed one. A size is the number of rows the group has after WHERE. What one answer cannot cover: two questions
whose difference is a small group, and expressions that pick rows within a large one.

With GROUPING SETS, ROLLUP or CUBE one answer holds sums of sums, and a suppressed group could be had by subtraction. So
more rows are left out until none can: see `_exposed`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from cleave.sql.rejoin import Groups, Members

Figure = TypeVar("Figure")
_ENTRIES = 1 << 20  # of a matrix of rows by classes: elimination takes about a second here


def suppress_small(
    groups: Groups, of: Sequence[Members], figures: Sequence[Figure], sizes: Sequence[int], min_group: int
) -> tuple[Groups, list[Figure], int, int]:
    """The groups that may be shown, their `figures` (or what those are made of), and how many are left out.

    Those are too small, or large enough but telling of a small one. `sizes` are the finest groups'. Without GROUP BY
    the selected rows are one group.
    """
    places = [place for place, rows in enumerate(groups.counts) if rows >= min_group]
    if groups.sets and min_group:
        places = _unexposed(places, of, sizes, min_group)
    shown = replace(
        groups,
        keys=[groups.keys[place] for place in places],
        counts=[groups.counts[place] for place in places],
        plain=[groups.plain[place] for place in places],
        sets=[groups.sets[place] for place in places] if groups.sets else [],
        local=[groups.local[place] for place in places] if groups.local else [],
    )
    small = sum(rows < min_group for rows in groups.counts)
    return shown, [figures[place] for place in places], small, len(groups.counts) - len(places) - small


def _unexposed(shown: Sequence[int], members: Sequence[Members], sizes: Sequence[int], min_group: int) -> list[int]:
    """Those of the rows `shown` that may be: the smallest that holds an exposed class is left out, until none does."""
    rows_left = list(shown)
    rows_of = {row: sum(sizes[place] for place in members[row]) for row in rows_left}
    while True:
        classes = _classes(rows_left, members)
        exposed = _exposed(rows_left, classes, sizes, min_group)
        if not exposed:
            return rows_left
        smallest = {min(rows, key=lambda row: (rows_of[row], row)) for rows in exposed}
        rows_left = [row for row in rows_left if row not in smallest]


def _classes(shown: Sequence[int], members: Sequence[Members]) -> dict[tuple[int, ...], list[int]]:
    """The finest groups by the rows shown that hold them: what is shown cannot tell those of one class apart."""
    holding: dict[int, list[int]] = {}
    for row in shown:
        for place in members[row]:
            holding.setdefault(place, []).append(row)
    classes: dict[tuple[int, ...], list[int]] = {}
    for place, rows in holding.items():
        classes.setdefault(tuple(rows), []).append(place)
    return classes


def _exposed(
    shown: Sequence[int], classes: dict[tuple[int, ...], list[int]], sizes: Sequence[int], min_group: int
) -> list[tuple[int, ...]]:
    """The classes of fewer than `min_group` rows of which something follows from the rows shown.

    What can be had of the rows shown by adding and subtracting is the row space of the matrix that says which row holds
    which class. Nothing of the small classes alone can be had if no vector of it, but 0, vanishes on all large ones:
    where the matrix is reduced with the large classes first, such vectors are the rows without a pivot among those.
    Some that are refused would still be of `min_group` rows together; that is the safe side.
    """
    small = [rows for rows, places in classes.items() if sum(sizes[place] for place in places) < min_group]
    if not small:
        return []
    if len(shown) * len(classes) > _ENTRIES:
        return small
    large = list(classes.keys() - set(small))
    place = {row: number for number, row in enumerate(shown)}
    ordered = [*large, *small]
    from flint import fmpz_mat  # noqa: PLC0415 - 20 ms

    matrix = [[0] * len(ordered) for _ in shown]
    for column, rows in enumerate(ordered):
        for row in rows:
            matrix[place[row]][column] = 1

    reduced, _, rank = fmpz_mat(matrix).rref()
    columns = set()
    for row in range(rank):
        entries = [int(reduced[row, column]) for column in range(len(ordered))]
        if not any(entries[: len(large)]):
            columns |= {column for column in range(len(large), len(ordered)) if entries[column]}
    return [ordered[column] for column in sorted(columns)]
