"""Merges the plain service's answers for consecutive parts of the rows into one answer.

This machine knows the groups and their sizes; the service's must be equal. Groups of GROUPING SETS, ROLLUP and CUBE are
combined from the finest groups, those by all keys, without another request. DuckDB decides which keys are equal. A NULL
key in the data and a key that a set omits are distinguished by the set.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import duckdb

from cleave.sql.nodes import shown
from cleave.sql.plan import QueryPlan
from cleave.sql.read import expression_of
from cleave.table.duck import create_of_texts, private
from cleave_shared.duckdb_errors import failed
from cleave_shared.errors import CheckFailed, QueryRefused, ServiceError

if TYPE_CHECKING:
    from cleave_shared.requests import PlainResponse, TypedColumn

Texts = tuple[str | None, ...]
_ANOTHER = "is it Cleave's plain service, of the same release?"


@dataclass(frozen=True, slots=True)
class Groups:
    """One entry per group in `keys`, `counts`, `plain` and `local`. Values are DuckDB's text.

    `sets`: for each group, the index of its set in the plan's `sets`; empty if that is None. `local` is empty if
    nothing is computed.
    """

    key_types: tuple[str, ...]
    keys: list[Texts]
    counts: list[int]
    plain: list[Texts]
    plain_types: tuple[str, ...]
    sets: list[int] = field(default_factory=list)
    local: list[Texts] = field(default_factory=list)


def rejoin(plan: QueryPlan, responses: Sequence[PlainResponse], keys: list[Texts], counts: list[int]) -> Groups:
    """The groups of `keys` and `counts`, in this order, with the plain service's figures.

    Raises CheckFailed if the service returned different groups, and the errors of `merge`.
    """
    plain_types = tuple(aggregate.type for aggregate in plan.plain)
    if not responses:  # it was not queried
        return Groups(plan.key_types, keys, counts, [()] * len(keys), plain_types)
    merged = merge(plan, responses)
    if merged.keys == keys and merged.counts == counts:
        return merged
    places = places_of(plan.key_types, keys, merged.keys)
    if len(merged.keys) != len(keys) or sorted(places) != list(range(len(keys))):
        raise CheckFailed("plain groups", "the plain service returned other groups than the table has")
    if [merged.counts[place] for place in places] != counts:
        raise CheckFailed("plain groups", "the plain service returned other row counts than the groups have")
    return Groups(plan.key_types, keys, counts, [merged.plain[place] for place in places], plain_types)


def places_of(types: tuple[str, ...], keys: list[Texts], others: list[Texts]) -> list[int]:
    """The index in `others` of each of `keys`, or -1. They are compared as text and, if that fails, by value.

    Equal values can have different text: 0.0 and -0.0, an interval of 30 days and one of a month.
    """
    by_text = {each: place for place, each in enumerate(others)}
    places = [by_text.get(each, -1) for each in keys]
    if -1 not in places:
        return places
    columns = [f"k{i}" for i in range(len(types))]
    same = " AND ".join(f"ours.{name} IS NOT DISTINCT FROM theirs.{name}" for name in columns)
    with private() as connection:
        try:
            for table, rows in (("ours", keys), ("theirs", others)):
                texts = list(zip(columns, types, zip(*rows, strict=True), strict=True))
                create_of_texts(connection, table, [*texts, ("place", "BIGINT", list(map(str, range(len(rows)))))])
            pairs = connection.execute(
                f"SELECT coalesce(theirs.place, -1) FROM ours LEFT JOIN theirs ON {same} ORDER BY ours.place"
            ).fetchall()
        except duckdb.Error as error:  # its message may quote values
            raise ServiceError(
                f"the plain service's keys are not of their types ({failed(error).why})", hint=_ANOTHER
            ) from None
    return [int(place) for (place,) in pairs]


def merge(plan: QueryPlan, responses: Sequence[PlainResponse]) -> Groups:
    """Merge answers into groups, in order of first appearance. Without keys there is always one group.

    Raises QueryRefused if a group is in several parts and one of its aggregates cannot be combined; ServiceError for an
    answer that does not fit the plan.
    """
    part_types = part_types_of(plan)
    for response in responses:
        _check(plan.key_types, part_types, response)
    if len(responses) == 1:
        return _single(plan, responses[0])
    with private() as connection:
        try:
            return Merger(plan, part_types, connection).merge(responses)
        except duckdb.Error as error:  # its message may quote values
            raise ServiceError(
                f"the plain service's answers cannot be merged ({failed(error).why})", hint=_ANOTHER
            ) from None


def part_types_of(plan: QueryPlan) -> tuple[str, ...]:
    return tuple(type_ for each in plan.plain for type_ in each.part_types)


def _check(key_types: tuple[str, ...], part_types: tuple[str, ...], response: PlainResponse) -> None:
    for what, columns, types in (("keys", response.keys, key_types), ("aggregates", response.aggregates, part_types)):
        if len(columns) != len(types):
            raise ServiceError(
                f"the plain service answered {len(columns)} {what}, expected {len(types)}", hint=_ANOTHER
            )
        for number, (column, type_) in enumerate(zip(columns, types, strict=True)):
            if column.type != type_:
                raise ServiceError(f"the plain service's {what}[{number}] is not {type_}", hint=_ANOTHER)
        if any(len(column.values) != len(response.counts) for column in columns):
            raise ServiceError(f"the plain service did not answer one value per group in its {what}", hint=_ANOTHER)
    if not key_types and len(response.counts) != 1:
        raise ServiceError(f"the plain service answered {len(response.counts)} groups, expected one", hint=_ANOTHER)
    if key_types and not all(response.counts):
        raise ServiceError("the plain service answered a group without rows", hint=_ANOTHER)
    if key_types and len(set(_rows(response.keys, 0))) != len(response.counts):
        raise ServiceError("the plain service answered a group more than once", hint=_ANOTHER)


def keys_of(response: PlainResponse) -> list[Texts]:
    """The keys of each group, in order."""
    return _rows(response.keys, len(response.counts))


def _single(plan: QueryPlan, response: PlainResponse) -> Groups:
    firsts, place = [], 0
    for aggregate in plan.plain:
        firsts.append(response.aggregates[place])
        place += len(aggregate.parts)
    return Groups(
        key_types=plan.key_types,
        keys=keys_of(response),
        counts=list(response.counts),
        plain=_rows(firsts, len(response.counts)),
        plain_types=tuple(aggregate.type for aggregate in plan.plain),
    )


def _rows(columns: Sequence[TypedColumn], rows: int) -> list[Texts]:
    return list(zip(*(column.values for column in columns), strict=True)) if columns else [()] * rows


class Merger:
    """Merges in DuckDB: decimals and 128-bit integers stay exact, and keys are compared by value.

    The table "partials" has a row for each group of each response: response, number, n, k0.., a0..
    """

    def __init__(self, plan: QueryPlan, part_types: tuple[str, ...], connection: duckdb.DuckDBPyConnection) -> None:
        self._plan = plan
        self._part_types = part_types
        self._connection = connection
        self._keys = [f"k{i}" for i in range(len(plan.keys))]

    def merge(self, responses: Sequence[PlainResponse]) -> Groups:
        self.load(responses)
        if not self._keys:
            self._connection.execute("CREATE TABLE groups AS SELECT 0 AS place")
        else:
            named = ", ".join(self._keys)
            self._connection.execute(
                "CREATE TABLE groups AS SELECT row_number() OVER (ORDER BY first) - 1 AS place, * EXCLUDE (first) "
                f"FROM (SELECT {named}, min((response, number)) AS first FROM partials GROUP BY {named})"
            )
        same = " AND ".join(f"partials.{key} IS NOT DISTINCT FROM groups.{key}" for key in self._keys) or "true"
        partials = [f"partials.{name}" for name in ("response", "number", "n", *self._names())]
        self._connection.execute(
            f"CREATE TABLE placed AS SELECT groups.place, {', '.join(partials)} "
            f"FROM groups LEFT JOIN partials ON {same}"
        )
        self._refuse_torn()
        texts = ", ".join(f"CAST({key} AS VARCHAR)" for key in self._keys)  # sorted before they are texts
        keys: list[Texts] = self._fetch(f"SELECT {texts} FROM (FROM groups ORDER BY place)") if self._keys else [()]
        return Groups(
            key_types=self._plan.key_types,
            keys=keys,
            counts=[int(row[0] or 0) for row in self._fetch("SELECT sum(n) FROM placed GROUP BY place ORDER BY place")],
            plain=self.combined(len(keys)),
            plain_types=tuple(aggregate.type for aggregate in self._plan.plain),
        )

    def _names(self) -> list[str]:
        return [f"a{i}" for i in range(len(self._part_types))]

    def _fetch(self, sql: str) -> list[tuple[str | None, ...]]:
        return self._connection.execute(sql).fetchall()

    def load(self, responses: Sequence[PlainResponse]) -> None:
        columns = [("response", "BIGINT"), ("number", "BIGINT"), ("n", "BIGINT")]
        columns += list(zip(self._keys, self._plan.key_types, strict=True))
        columns += list(zip(self._names(), self._part_types, strict=True))
        described = ", ".join(f"{name} {type_}" for name, type_ in columns)
        self._connection.execute(f"CREATE TABLE partials ({described})")
        selected = ", ".join(f"CAST(unnest(?::VARCHAR[]) AS {type_})" for _, type_ in columns)
        for index, response in enumerate(responses):
            groups = len(response.counts)
            values: list[Sequence[object]] = [[index] * groups, range(groups), response.counts]
            values += [column.values for column in (*response.keys, *response.aggregates)]
            texts = [[None if value is None else str(value) for value in column] for column in values]
            self._connection.execute(f"INSERT INTO partials SELECT {selected}", texts)

    def _refuse_torn(self) -> None:
        indivisible = next((aggregate for aggregate in self._plan.plain if not aggregate.decomposable), None)
        if indivisible and self._fetch("SELECT place FROM placed GROUP BY place HAVING count(*) > 1 LIMIT 1"):
            name = shown(expression_of(indivisible.sql))
            raise QueryRefused(
                f"{name} cannot be combined from several requests, and the plain columns need several",
                hint="select it alone so that fewer columns are sent, narrow WHERE, or group more finely",
            )

    def combined(self, groups: int) -> list[Texts]:
        if not self._plan.plain:
            return [()] * groups
        means, selected, first = [], [], 0
        for i, aggregate in enumerate(self._plan.plain):
            parts = [f"a{first + part}" for part in range(len(aggregate.parts))]
            first += len(parts)
            if aggregate.weighted_mean is not None:
                means.append(f", {aggregate.weighted_mean.format(*parts)} AS m{i}")
            # an aggregate that cannot be combined has one part, whose answer may be NULL
            whole = f"max({parts[0]})" if aggregate.combine is None else aggregate.combine.format(*parts, mean=f"m{i}")
            selected.append(
                f"CAST(CASE WHEN count(response) = 1 THEN any_value({parts[0]}) "
                f"ELSE CAST({whole} AS {aggregate.type}) END AS VARCHAR)"
            )
        return self._fetch(
            f"SELECT {', '.join(selected)} FROM (SELECT *{''.join(means)} FROM placed "
            "WINDOW same_group AS (PARTITION BY place)) GROUP BY place ORDER BY place"
        )


Members = tuple[int, ...]


def regroup(plan: QueryPlan, finest: Groups, responses: Sequence[PlainResponse]) -> tuple[Groups, list[Members]]:
    """All groups of all sets, set by set, and the indices of the finest groups that each combines.

    `finest` must be checked against the plain service's groups already. A group of no rows combines none. Raises
    ServiceError for plain answers that cannot be combined.
    """
    if plan.sets is None:
        return finest, [(place,) for place in range(len(finest.keys))]
    with private() as connection:
        try:
            return _Regrouping(plan, finest, connection).regrouped(responses)
        except duckdb.Error as error:  # its message may quote values
            raise ServiceError(
                f"the plain service's answers cannot be combined ({failed(error).why})",
                hint="is it Cleave's plain service, of the same release?",
            ) from None


class _Regrouping:
    def __init__(self, plan: QueryPlan, finest: Groups, connection: duckdb.DuckDBPyConnection) -> None:
        self._plan = plan
        self._finest = finest
        self._connection = connection
        names = [f"k{i}" for i in range(len(plan.keys))]
        columns: list[tuple[str, str, list[str | None]]] = [
            ("place", "BIGINT", [str(place) for place in range(len(finest.keys))])
        ]
        columns += [
            (name, type_, [keys[i] for keys in finest.keys])
            for i, (name, type_) in enumerate(zip(names, plan.key_types, strict=True))
        ]
        create_of_texts(connection, "finest", columns)

    def regrouped(self, responses: Sequence[PlainResponse]) -> tuple[Groups, list[Members]]:
        sets: list[int] = []
        members: list[Members] = []
        for number, set_ in enumerate(self._plan.sets or ()):
            of = self._members(set_)
            members += of
            sets += [number] * len(of)
        finest = self._finest
        groups = Groups(
            key_types=finest.key_types,
            keys=[self._keys(number, of) for number, of in zip(sets, members, strict=True)],
            counts=[sum(finest.counts[place] for place in of) for of in members],
            plain=self._plain(responses, members),
            plain_types=finest.plain_types,
            sets=sets,
        )
        return groups, members

    def _members(self, set_: tuple[int, ...]) -> list[Members]:
        if not set_:
            return [tuple(range(len(self._finest.keys)))]  # one group, even of no rows
        names = ", ".join(f"k{i}" for i in set_)
        rows = self._connection.execute(
            f"SELECT list(place ORDER BY place) AS places FROM finest GROUP BY {names} ORDER BY places[1]"
        ).fetchall()
        return [tuple(places) for (places,) in rows]

    def _keys(self, number: int, members: Members) -> Texts:
        shown = set((self._plan.sets or ())[number])
        texts = self._finest.keys[members[0]] if members else ()
        return tuple(texts[i] if i in shown and texts else None for i in range(len(self._plan.keys)))

    def _plain(self, responses: Sequence[PlainResponse], members: Sequence[Members]) -> list[Texts]:
        if not self._plan.plain or not responses:
            return [()] * len(members)
        merger = Merger(self._plan, part_types_of(self._plan), self._connection)
        merger.load(responses)
        self._connection.execute(
            "CREATE TABLE members AS SELECT unnest(?::BIGINT[]) AS row, unnest(?::BIGINT[]) AS place",
            [
                [row for row, of in enumerate(members) for _ in of],
                [place for of in members for place in of],
            ],
        )
        same = " AND ".join(f"partials.k{i} IS NOT DISTINCT FROM finest.k{i}" for i in range(len(self._plan.keys)))
        self._connection.execute(
            "CREATE TABLE placed AS SELECT rows.row AS place, partials.* "
            f"FROM (SELECT unnest(range({len(members)})) AS row) AS rows "
            "LEFT JOIN (members JOIN finest USING (place) "
            f"JOIN partials ON {same or 'true'}) ON members.row = rows.row"
        )
        return merger.combined(len(members))
