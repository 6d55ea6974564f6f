"""Apply a minimum group size to a join: count the people of the table that the aggregated columns belong to."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, fields, replace

from cleave.sql.join import JOINED, JoinPlan, joined
from cleave.sql.plan import Counting, LocalPlan
from cleave.sql.planner import Planner
from cleave.sums.needs import NoSums
from cleave.table.schema import Schema
from cleave_shared.errors import QueryRefused

_WHY = "a minimum group size counts people over a join"


@dataclass(frozen=True, slots=True)
class Joinable:
    """A table that may be joined.

    `party` is the column that says who contributed each row; "" if all rows are the owner's.
    """

    schema: Schema
    party: str = ""


def counted_join(whole: LocalPlan, tables: Mapping[str, Joinable]) -> JoinPlan:
    """Return `whole` as a join that is grouped here, with its people counted.

    `tables` is keyed by name in lower case. Raises QueryRefused if it is no such join, or if it is unclear whose people
    to count.
    """
    names = {name: each.schema for name, each in tables.items()}
    join = None if whole.inner else joined(whole.statement, names, [each.name for each in whole.outputs])
    if join is None:
        raise _uncounted(whole)
    entities = {alias: tables[table].schema.privacy.entity for alias, table in join.tables.items()}
    if not any(entities.values()):
        raise _uncounted(whole)
    about = join.measured or {alias for alias, entity in entities.items() if entity}
    if len(about) > 1:
        raise QueryRefused(
            "a minimum group size counts the people of one table, and this query is about those of "
            f"{len(about)} (rule P4)",
            hint=f"aggregate columns of {' and of '.join(sorted(about))} one at a time",
        )
    (alias,) = about
    others = {other for other in join.tables if other != alias}
    if not entities[alias] or any(tables[join.tables[each]].party for each in others):
        raise QueryRefused(
            "a minimum group size over a join counts the people of the table whose columns are added up, and "
            f"{alias!r} names none (rule P4)"
            if not entities[alias]
            else "a minimum group size cannot be kept where a joined table has contributors (rule P4)",
            hint="--entity names the columns of the people; join only tables of your own to it",
        )
    table = tables[join.tables[alias]]
    entity = tuple(name for name in entities[alias] if table.schema.find(name))
    counting = Counting(tuple(f"{alias}.{each}" for each in entity), f"{alias}.{table.party}" if table.party else "")
    if not entity:
        raise QueryRefused("a minimum group size counts people, and this table has no column of them (rule P4)")
    try:
        with closing(Planner(join.statement, join.schema, JOINED, {})) as planner:
            cut = planner.cut(NoSums(_WHY), cloud_only=False)
    except QueryRefused:
        raise _uncounted(whole) from None
    more = (*entity, *([table.party] if table.party else []))
    reads = {
        name: tuple(dict.fromkeys([*columns, *(more if name.lower() == join.tables[alias] else ())]))
        for name, columns in whole.reads.items()
    }
    given = {each.name: getattr(whole, each.name) for each in fields(whole)} | {"reads": reads}
    return JoinPlan(**given, join=join, cut=replace(cut, table=whole.table).counted_by(counting))


def _uncounted(whole: LocalPlan) -> QueryRefused:
    return QueryRefused(
        f"a minimum group size cannot be kept: {whole.reason}, and DuckDB answers the query as a whole (rule P4)",
        hint=whole.hint or "select aggregates of groups",
    )
