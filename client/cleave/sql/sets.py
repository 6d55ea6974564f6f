"""The groups of GROUPING SETS, ROLLUP and CUBE, put together from the finest ones: those of all keys.

Nothing more is asked of a service than the finest groups. Which of them a coarser group is made of is found by DuckDB,
which tells equal keys; a key that is NULL in the data and one that a set leaves out differ by the set.
"""

from __future__ import annotations

from collections.abc import Sequence

from cleave.sql.plan import QueryPlan
from cleave.sql.rejoin import Groups, Merger, Texts, part_types_of
from cleave.table.duck import create_of_texts, private
from cleave_shared import duckdb
from cleave_shared.dataclass import dataclass
from cleave_shared.errors import ServiceError
from cleave_shared.wire import PlainResponse

Members = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Regrouped:
    """`members`: for each of `groups`, the places of the finest groups it is made of; none in a group of no rows."""

    groups: Groups
    members: list[Members]


def regroup(plan: QueryPlan, finest: Groups, responses: Sequence[PlainResponse]) -> Regrouped:
    """Every group of every set, set by set; `finest` has been checked against what the plain service answered.

    Raises ServiceError for plain answers that cannot be put together.
    """
    if plan.sets is None:
        return Regrouped(finest, [(place,) for place in range(len(finest.keys))])
    with private() as connection:
        try:
            return _Regrouping(plan, finest, connection).regrouped(responses)
        except duckdb.Error as error:  # its message may quote values
            raise ServiceError(
                f"the plain service's answers cannot be put together ({type(error).__name__})",
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

    def regrouped(self, responses: Sequence[PlainResponse]) -> Regrouped:
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
        return Regrouped(groups, members)

    def _members(self, set_: tuple[int, ...]) -> list[Members]:
        if not set_:
            return [tuple(range(len(self._finest.keys)))]  # one group, even of no rows
        names = ", ".join(f"k{i}" for i in set_)
        rows = self._connection.execute(
            f"SELECT list(place ORDER BY place) AS places FROM finest GROUP BY {names} ORDER BY places[1]"
        ).fetchall()
        return [tuple(places) for (places,) in rows]

    def _keys(self, number: int, members: Members) -> Texts:
        kept = set((self._plan.sets or ())[number])
        texts = self._finest.keys[members[0]] if members else ()
        return tuple(texts[i] if i in kept and texts else None for i in range(len(self._plan.keys)))

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
