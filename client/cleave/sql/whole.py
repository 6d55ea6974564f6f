"""A question that DuckDB answers as a whole on this machine: checked for what it names, and described."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing

from cleave.sql.allowed import Named, named, tables_of
from cleave.sql.catalog import Catalog
from cleave.sql.plan import LocalPlan, Output
from cleave.table.schema import Schema
from cleave_shared.errors import QueryRefused


def plan_whole(sql: str, schema: Schema, table: str, others: Mapping[str, Schema], refusal: QueryRefused) -> LocalPlan:
    """`refusal` says why the question could not be cut.

    Raises QueryRefused for what DuckDB refuses as well, and as `cleave.sql.allowed.named` does.
    """
    tables = {table: schema, **others}
    with closing(Catalog(table, schema.columns, schema.derived)) as catalog:
        for name, other in others.items():
            catalog.create(name, [(column.name, column.type) for column in other.columns], other.derived)
        found = named(catalog.tree(sql), {name: each.names for name, each in tables.items()})
        described = catalog.describe(sql)
    reason = str(refusal)
    return LocalPlan(
        sql=sql,
        table=table,
        outputs=tuple(Output(name, "local", reason) for name, _ in described),
        types=tuple(type_ for _, type_ in described),
        reads={name: _read(name, each, found) for name, each in tables.items() if name.lower() in found.tables}
        | ({} if table.lower() in found.tables else {table: ()}),
        reason=reason,
        hint=refusal.hint or "",
    )


def _read(name: str, schema: Schema, found: Named) -> tuple[str, ...]:
    """The columns of a table that a question may read."""
    behind = (each.columns for each in schema.derived if each.name.lower() in found.columns)
    read = found.columns | {name.lower() for names in behind for name in names}
    whole = name.lower() in found.whole
    return tuple(each.name for each in schema.columns if whole or each.name.lower() in read)


def tables_named(sql: str) -> tuple[str, ...]:
    """The tables that a SELECT names, as it spells them. Raises QueryRefused for what is none."""
    with closing(Catalog(" ", ())) as catalog:
        return tables_of(catalog.tree(sql))
