"""A question that DuckDB answers as a whole on this machine: checked for what it names, and described."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing

from cleave.sql.allowed import named
from cleave.sql.catalog import Catalog
from cleave.sql.plan import LocalPlan, Output
from cleave.table.schema import Schema
from cleave_shared.errors import QueryRefused


def plan_whole(sql: str, schema: Schema, table: str, others: Mapping[str, Schema], refusal: QueryRefused) -> LocalPlan:
    """`refusal` says why the question could not be cut.

    Raises QueryRefused for what DuckDB refuses as well, and as `cleave.sql.allowed.named` does.
    """
    with closing(Catalog(table, schema.columns, schema.derived)) as catalog:
        for name, other in others.items():
            catalog.create(name, [(column.name, column.type) for column in other.columns], other.derived)
        tables = {name: each.names for name, each in {table: schema, **others}.items()}
        found = named(catalog.tree(sql), tables)
        described = catalog.describe(sql)
    reason = str(refusal)
    behind = [each.columns for each in schema.derived if each.name.lower() in found.columns]
    read = found.columns | {name.lower() for names in behind for name in names}
    return LocalPlan(
        sql=sql,
        table=table,
        outputs=tuple(Output(name, "local", reason) for name, _ in described),
        types=tuple(type_ for _, type_ in described),
        columns=tuple(column.name for column in schema.columns if found.everything or column.name.lower() in read)
        if table.lower() in found.tables
        else (),
        others=tuple(name for name in others if name.lower() in found.tables),
        reason=reason,
        hint=refusal.hint or "",
    )
