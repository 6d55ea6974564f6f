"""The group table in a private DuckDB.

Columns: place, size n, keys k0.., GROUPING() g0.., plain aggregates p0.., encrypted aggregates e0.., and expressions
that this machine computes l0... Types other than numbers and booleans are stored as text. DuckDB computes everything
that needs no bound: keys, plain figures, text, and arithmetic over exact types.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import duckdb

from cleave.sql.plan import QueryPlan
from cleave.sql.rejoin import Groups
from cleave.table.duck import create_of_texts
from cleave.table.types import is_shown_as_it_is
from cleave_shared.duckdb_errors import failed
from cleave_shared.errors import QueryRefused, ServiceError


def uncomputed(why: str) -> QueryRefused:
    """The error for arithmetic that fails on the groups' figures."""
    return QueryRefused(
        f"the arithmetic over the groups' aggregates failed ({why})",
        hint="TRY_CAST and NULLIF(x, 0) give NULL instead of an error",
    )


class GroupTable:
    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self.size = 0

    def load(
        self,
        plan: QueryPlan,
        groups: Groups,
        figures: Mapping[int, Iterable[int | float | Fraction | bool | None]],
    ) -> None:
        """`figures`: the encrypted figures that may be shown, by number. Others are not read.

        Raises ServiceError for plain figures with wrong types.
        """
        self.size = len(groups.keys)
        columns: list[tuple[str, str, list[str | None]]] = [
            ("place", "BIGINT", [str(place) for place in range(self.size)]),
            ("n", "BIGINT", [str(count) for count in groups.counts]),
        ]
        for letter, types, rows in (("k", plan.key_types, groups.keys), ("p", groups.plain_types, groups.plain)):
            columns += [(f"{letter}{i}", type_, [row[i] for row in rows]) for i, type_ in enumerate(types)]
        columns += [
            (f"g{i}", "BIGINT", [str(_left_out(each, plan, number)) for number in groups.sets or [0] * self.size])
            for i, each in enumerate(plan.groupings)
        ]
        columns += [
            (f"l{i}", each.type if is_shown_as_it_is(each.type) else "VARCHAR", [row[i] for row in groups.local])
            for i, each in enumerate(plan.local)
        ]
        columns += [
            (f"e{i}", each.type, [_text(value) for value in figures.get(i, [None] * self.size)])
            for i, each in enumerate(plan.encrypted)
        ]
        try:
            create_of_texts(self._connection, "groups", columns)
        except duckdb.Error as error:  # its message may quote values
            raise ServiceError(
                f"the plain service's figures are not of their types ({failed(error).why})",
                hint="is it Cleave's plain service, of the same release?",
            ) from None

    def types(self, expressions: Sequence[str]) -> list[str]:
        if not expressions:
            return []
        selected = ", ".join(f"({sql})" for sql in expressions)
        rows = self._connection.execute(f"DESCRIBE SELECT {selected} FROM groups").fetchall()
        return [str(row[1]) for row in rows]

    def column(self, sql: str, type_: str, rows: Sequence[int] | None = None) -> list[Any]:
        """The values of `sql` for `rows`, or for all groups in order. Numbers and booleans are Python values, others
        text.

        Raises duckdb.Error if it fails for one of them.
        """
        return self.columns([(sql, type_)], rows)[0]

    def columns(self, expressions: Sequence[tuple[str, str]], rows: Sequence[int] | None = None) -> list[list[Any]]:
        """The values of several expressions, each given with its type, from one statement."""
        shown = ", ".join(
            f"({sql})" if is_shown_as_it_is(type_) else f"CAST(({sql}) AS VARCHAR)" for sql, type_ in expressions
        )
        rows = range(self.size) if rows is None else rows
        some = len(rows) < self.size
        wanted = " WHERE place IN (SELECT unnest(?::BIGINT[]))" if some else ""
        fetched = self._execute(f"SELECT place, {shown} FROM groups{wanted}", [list(rows)] if some else [])
        by_place = {place: values for place, *values in fetched}
        chosen = [by_place[row] for row in rows]
        return [list(each) for each in zip(*chosen, strict=True)] if chosen else [[] for _ in expressions]

    def guesses(self, sql: str, type_: str) -> list[Any]:
        """The values of `sql` for all groups; NULL where it fails."""
        try:
            return self.column(sql, type_)
        except duckdb.Error:
            return [self._guess(sql, type_, row) for row in range(self.size)]

    def _guess(self, sql: str, type_: str, row: int) -> Any:
        try:
            return self.column(sql, type_, [row])[0]
        except duckdb.Error:
            return None

    def ranks(self, terms: Sequence[str]) -> list[int]:
        """The rank of each group when ordered by `terms`. Equal groups have equal ranks."""
        if not terms:
            return [0] * self.size
        ranked = self._execute(f"SELECT dense_rank() OVER (ORDER BY {', '.join(terms)}) FROM groups ORDER BY place")
        return [int(rank) for (rank,) in ranked]

    def _execute(self, sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        return self._connection.execute(sql, parameters).fetchall()


def _left_out(keys: Sequence[int], plan: QueryPlan, number: int) -> int:
    """GROUPING() of `keys` in a grouping set: a bit for each key that the set does not have; the last key has the
    lowest bit.
    """
    grouped = plan.sets[number] if plan.sets is not None else range(len(plan.keys))
    return sum((key not in grouped) << place for place, key in enumerate(reversed(keys)))


def _text(value: int | float | Decimal | Fraction | bool | None) -> str | None:
    """DuckDB's text of a value. A Fraction has finitely many decimals; all are written."""
    if value is None:
        return None
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, Fraction):
        digits = 0
        while 10**digits % value.denominator:
            digits += 1
        scaled = int(value * 10**digits)
        text = f"{abs(scaled):0{digits + 1}d}"
        whole, after = (text[:-digits], text[-digits:]) if digits else (text, "")
        return f"{'-' if scaled < 0 else ''}{whole}{'.' if after else ''}{after}"
    return repr(value)
