"""The rest of the query, over one row a group: arithmetic, HAVING, ORDER BY, LIMIT, and the bounds of it all.

Runs in a private DuckDB over the table `groups`: place, size n, keys k0.., plain aggregates p0.., encrypted ones e0..
with the ends of their bounds low0.., high0..
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

import duckdb

from cleave.aggregates.balls import nearest
from cleave.aggregates.base import UNIT, Figure, widen
from cleave.sql.engine import connect
from cleave.sql.plan import Final, Output, QueryPlan
from cleave.sql.rejoin import Groups
from cleave.table.types import is_number
from cleave_shared.errors import QueryRefused, ServiceError

Json = int | float | str | bool | None
_OTHER_INTEGERS = frozenset({"HUGEINT", "UHUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"})
_PRECISE = Context(prec=60)


@dataclass(frozen=True, slots=True)
class ResultTable:
    """The answer: `rows` hold Python values (int, float, Decimal, bool, None; other types as DuckDB's text).

    `exact` True: equal to DuckDB's on the unsplit table, bound 0. `bounds`: the largest distance to it, None where
    there is none (it may be of any size, or the value is no number). None in both: a key, or doubles of plain columns
    alone, which come out as DuckDB happens to add them up.
    """

    columns: list[Output]
    types: list[str]
    rows: list[list[Any]]
    bounds: list[list[float | None]]
    exact: list[list[bool | None]]

    def json_rows(self) -> list[list[Json]]:
        """`rows` as JSON holds them: a decimal that a double cannot, an infinity and a NaN become text."""
        return [[_to_json(value) for value in row] for row in self.rows]


def _to_json(value: Any) -> Json:
    if isinstance(value, Decimal):
        return float(value) if Decimal(repr(float(value))) == value else str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    json: Json = value
    return json


def finish(plan: QueryPlan, groups: Groups, answers: Sequence[Sequence[Figure]]) -> ResultTable:
    """`answers[g][i]` is the answer of `plan.encrypted[i]` for group g.

    Raises QueryRefused where the final arithmetic fails on these values, as a division or cast may, ServiceError for
    plain figures that are none.
    """
    with closing(connect()) as connection:
        finisher = _Finisher(plan, groups, answers, connection)
        try:
            finisher.load()
        except duckdb.Error as error:  # its message may quote values
            raise ServiceError(
                f"the plain service's figures are not of their types ({type(error).__name__})",
                hint="is it Cleave's plain service, of the same release?",
            ) from None
        try:
            rows, chosen = finisher.rows()
        except duckdb.Error as error:  # its message may quote values
            raise QueryRefused(
                f"the arithmetic over the groups' aggregates failed ({type(error).__name__})",
                hint="TRY_CAST and NULLIF(x, 0) give NULL instead of an error",
            ) from None
        columns = [finisher.certainty(number, chosen) for number in range(len(plan.finals))]
    return ResultTable(
        columns=list(plan.outputs),
        types=[final.type for final in plan.finals],
        rows=rows,
        bounds=[[column[row][0] for column in columns] for row in range(len(rows))],
        exact=[[column[row][1] for column in columns] for row in range(len(rows))],
    )


Certainty = tuple[float | None, bool | None]  # bound, exact
_EXACT: Certainty = (0.0, True)
_NO_BOUND: Certainty = (None, False)
_NOT_KNOWN: Certainty = (None, None)


class _Finisher:
    def __init__(
        self,
        plan: QueryPlan,
        groups: Groups,
        answers: Sequence[Sequence[Figure]],
        connection: duckdb.DuckDBPyConnection,
    ) -> None:
        self._plan = plan
        self._groups = groups
        self._answers = answers
        self._connection = connection

    def load(self) -> None:
        plan, groups = self._plan, self._groups
        columns: list[tuple[str, str, list[str | None]]] = [
            ("place", "BIGINT", [str(place) for place in range(len(groups.keys))]),
            ("n", "BIGINT", [str(count) for count in groups.counts]),
        ]
        for letter, types, rows in (("k", plan.key_types, groups.keys), ("p", groups.plain_types, groups.plain)):
            columns += [(f"{letter}{i}", type_, [row[i] for row in rows]) for i, type_ in enumerate(types)]
        for i, each in enumerate(plan.encrypted):
            column = [row[i] for row in self._answers]
            columns.append((f"e{i}", each.type, [_text(answer.value) for answer in column]))
            for name, sign in (("low", -1), ("high", 1)):
                columns.append((f"{name}{i}", each.type, [_shifted(answer, sign * self._slack) for answer in column]))
        selected = ", ".join(f"CAST(unnest(?::VARCHAR[]) AS {type_}) AS {name}" for name, type_, _ in columns)
        self._connection.execute(f"CREATE TABLE groups AS SELECT {selected}", [values for _, _, values in columns])

    @property
    def _slack(self) -> int:
        """How many roundings of the longest expression each aggregate's bound is widened for."""
        return max(final.operations for final in self._plan.finals)

    def rows(self) -> tuple[list[list[Any]], list[int]]:
        """The chosen rows in order, and the group each is of. Ties, and rows in no order, go by key."""
        plan = self._plan
        keys = [f"k{i} ASC NULLS LAST" for i in range(len(plan.keys))]
        sql = f"SELECT place, {', '.join(_fetched(final) for final in plan.finals)} FROM groups"
        if plan.having is not None:
            sql += f" WHERE {plan.having}"
        sql += f" ORDER BY {', '.join([*plan.order_by, *keys, 'place'])}"
        if plan.limit is not None:
            sql += f" LIMIT {plan.limit}"
        fetched = self._connection.execute(f"{sql} OFFSET {plan.offset}").fetchall()
        return [list(row[1:]) for row in fetched], [int(row[0]) for row in fetched]

    def certainty(self, number: int, chosen: Sequence[int]) -> list[Certainty]:
        """Of one output, in the chosen rows."""
        final = self._plan.finals[number]
        same = all(self._plan.plain[i].exact for i in final.plain)
        if self._plan.outputs[number].source == "key" or not (same or final.encrypted):
            return [_NOT_KNOWN] * len(chosen)
        if not same:
            return [_NO_BOUND] * len(chosen)
        inside = [[self._answers[group][i] for i in final.encrypted] for group in chosen]
        if final.is_bare and final.encrypted:
            return [_of(answer) for (answer,) in inside]
        if all(answer.exact for answers in inside for answer in answers):
            return [_EXACT] * len(chosen)
        bounds = self._bounds(final)
        return [
            _EXACT if all(answer.exact for answer in answers) else (bounds[group], False)
            for group, answers in zip(chosen, inside, strict=True)
        ]

    def _bounds(self, final: Final) -> list[float | None]:
        """Of every group: how far the output moves when each aggregate moves to either end of its bound, added up."""
        if not is_number(final.type) and final.type not in _OTHER_INTEGERS:
            return [None] * len(self._groups.keys)
        try:
            values = self._evaluate(final, "groups")
            bounds = [_rounding(value, final.operations) for value in values]
            for i in final.encrypted:
                ends = [
                    self._evaluate(final, f"(SELECT * REPLACE ({end}{i} AS e{i}) FROM groups)")
                    for end in ("low", "high")
                ]
                bounds = [
                    _add(bound, value, low, high) for bound, value, low, high in zip(bounds, values, *ends, strict=True)
                ]
        except duckdb.Error:  # an end may lie where the arithmetic fails
            return [None] * len(self._groups.keys)
        return bounds

    def _evaluate(self, final: Final, relation: str) -> list[float | None]:
        rows = self._connection.execute(
            f"SELECT CAST(({final.sql}) AS DOUBLE) FROM {relation} ORDER BY place"
        ).fetchall()
        return [row[0] for row in rows]


def _fetched(final: Final) -> str:
    """Numbers and booleans become Python's, everything else is taken as text."""
    if is_number(final.type) or final.type in _OTHER_INTEGERS or final.type == "BOOLEAN":
        return f"({final.sql})"
    return f"CAST(({final.sql}) AS VARCHAR)"


def _of(answer: Figure) -> Certainty:
    if answer.exact:
        return _EXACT
    return (answer.bound if math.isfinite(answer.bound) else None), False


def _rounding(value: float | None, operations: int) -> float | None:
    return None if value is None or not math.isfinite(value) else 2 * operations * UNIT * abs(value)


def _add(bound: float | None, value: float | None, low: float | None, high: float | None) -> float | None:
    if bound is None or value is None or low is None or high is None:
        return None
    total = widen(bound + max(abs(low - value), abs(high - value)))
    return total if math.isfinite(total) else None


def _text(value: int | float | Fraction | None) -> str | None:
    """DuckDB's text of a value; of a Fraction, which has finitely many decimals, all of them."""
    if value is None:
        return None
    if isinstance(value, Fraction):
        digits = 0
        while 10**digits % value.denominator:
            digits += 1
        return f"{Decimal(int(value * 10**digits)).scaleb(-digits, _PRECISE):f}"
    return repr(value)


def _shifted(answer: Figure, slack: int) -> str | None:
    """The value moved by its bound, and by `slack` roundings, up or down as `slack` has its sign."""
    value = answer.value
    if value is None or answer.exact:
        return _text(value)
    if not math.isfinite(answer.bound) or not math.isfinite(value):
        return None
    step = Fraction(answer.bound) + abs(Fraction(value)) * Fraction(2 * UNIT) * abs(slack)
    moved = Fraction(value) + (step if slack > 0 else -step)
    if isinstance(value, float):
        return repr(nearest(moved))
    grid = value.denominator if isinstance(value, Fraction) else 1
    return _text(Fraction(math.ceil(moved * grid) if slack > 0 else math.floor(moved * grid), grid))
