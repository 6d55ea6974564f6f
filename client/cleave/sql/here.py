"""The expressions of aggregates that only this machine can compute, as they come up while a question is cut."""

from __future__ import annotations

from cleave.sql.catalog import Catalog
from cleave.sql.functions import ARBITRARY, EXACT_OF_DOUBLES, FOLLOWS_ROW_ORDER
from cleave.sql.nodes import Call, Node, Place
from cleave.sql.plan import LocalAggregate
from cleave.sql.resolve import columns_of, is_aggregate
from cleave.sql.uncut import OnlyHere
from cleave.sql.write import write
from cleave.table.schema import Schema
from cleave.table.types import FLOATS

# DuckDB's own approximations: another order of rows may give another
_APPROXIMATE = frozenset({"approx_quantile", "approx_top_k"})


class LocalParts:
    """Each part is a whole output, HAVING or ORDER BY term, `l0..` in the table of groups."""

    def __init__(self, schema: Schema, catalog: Catalog) -> None:
        self._schema = schema
        self._catalog = catalog
        self._parts: dict[str, Node] = {}  # SQL -> what it is made of
        self.reasons: dict[str, OnlyHere] = {}  # name -> why it is one

    def add(self, node: Node, sql: str, reason: OnlyHere) -> Place:
        """The column of `sql`, which is `node` or made of it."""
        self._parts.setdefault(sql, node)
        name = f"l{list(self._parts).index(sql)}"
        self.reasons.setdefault(name, reason)
        return Place((name,))

    def typed(self, grouped: str) -> tuple[LocalAggregate, ...]:
        """Raises QueryRefused with DuckDB's own reason, where it refuses one of them under the GROUP BY `grouped`."""
        if not self._parts:
            return ()
        types = self._catalog.types(list(self._parts), grouped)
        return tuple(
            LocalAggregate(
                sql=sql,
                type=type_,
                columns=tuple(column.name for column in columns_of(node, self._schema)),
                exact=self._exact(node),
                reason=str(self.reasons[f"l{place}"]),
            )
            for place, ((sql, node), type_) in enumerate(zip(self._parts.items(), types, strict=True))
        )

    def _exact(self, node: Node) -> bool:
        """Whether DuckDB gives the same value for any order of rows."""
        calls = [each for each in node.find(Call) if is_aggregate(each)]
        types = self._catalog.types([write(each) for each in calls])
        return all(self._settled(each, type_) for each, type_ in zip(calls, types, strict=True))

    @staticmethod
    def _settled(call: Call, type_: str) -> bool:
        if call.name in FOLLOWS_ROW_ORDER:
            return bool(call.order)
        return call.name not in _APPROXIMATE | ARBITRARY and (type_ not in FLOATS or call.name in EXACT_OF_DOUBLES)
