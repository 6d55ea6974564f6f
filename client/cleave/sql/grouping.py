"""GROUPING SETS, ROLLUP and CUBE as sets of keys.

    GROUP BY a, ROLLUP (b, c)   is   (a, b, c), (a, b), (a)

Several elements of one GROUP BY are multiplied out, as in DuckDB; a set that comes twice is answered twice.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from sqlglot import exp

from cleave_shared import limits
from cleave_shared.errors import QueryRefused

Keys = tuple[exp.Expression, ...]
_SETS = (exp.GroupingSets, exp.Rollup, exp.Cube)


def has_sets(elements: Iterable[exp.Expression]) -> bool:
    return any(isinstance(element, _SETS) for element in elements)


def expanded(elements: Sequence[exp.Expression]) -> list[Keys]:
    """The sets that a GROUP BY of `elements` asks for. Raises QueryRefused for more than `MAX_GROUPING_SETS`."""
    sets: list[Keys] = [()]
    for element in elements:
        of = _sets(element)
        _require_few(len(sets) * len(of))
        sets = [(*one, *other) for one in sets for other in of]
    return sets


def _sets(element: exp.Expression) -> list[Keys]:
    if isinstance(element, exp.Rollup):
        units = [_keys(unit) for unit in element.expressions]
        return [_joined(units[:size]) for size in range(len(units), -1, -1)]
    if isinstance(element, exp.Cube):
        units = [_keys(unit) for unit in element.expressions]
        _require_few(2 ** len(units))
        return [_joined(chosen) for size in range(len(units), -1, -1) for chosen in itertools.combinations(units, size)]
    if isinstance(element, exp.GroupingSets):
        return [each for member in element.expressions for each in _sets(member)]
    return [_keys(element)]


def _keys(unit: exp.Expression) -> Keys:
    """Return the keys in a unit: DuckDB opens brackets and rows at any depth, so `((1, (2)))` is the set (1, 2)."""
    if isinstance(unit, exp.Paren):
        return _keys(unit.this)
    is_row = isinstance(unit, exp.Anonymous) and unit.name.lower() == "row"
    if isinstance(unit, exp.Tuple) or is_row:
        return _joined(_keys(each) for each in unit.expressions)
    return (unit,)


def _joined(units: Iterable[Keys]) -> Keys:
    return tuple(itertools.chain.from_iterable(units))


def _require_few(number: int) -> None:
    if number > limits.MAX_GROUPING_SETS:
        raise QueryRefused(
            f"GROUP BY asks for {number} sets of keys, at most {limits.MAX_GROUPING_SETS} at a time",
            hint="name the sets you need: GROUPING SETS ((a, b), (a), ())",
        )
