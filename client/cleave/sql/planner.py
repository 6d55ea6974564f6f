"""From the text of a question to its plan: cut between the services and this machine, or answered here as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from cleave.sql.catalog import Catalog
from cleave.sql.cut import Cutter
from cleave.sql.derived import Expressions
from cleave.sql.parse import parse
from cleave.sql.plan import LocalPlan, QueryPlan
from cleave.sql.resolve import resolve
from cleave.sql.uncut import Uncut
from cleave.sql.whole import plan_whole
from cleave.table.schema import Kind, Schema
from cleave_shared import limits
from cleave_shared.errors import QueryRefused

if TYPE_CHECKING:
    from cleave.sql.kept import Kept


def plan_query(
    sql: str,
    schema: Schema,
    table: str,
    *,
    cloud_only: bool = False,
    others: Mapping[str, Schema] | None = None,
    kept: Kept | None = None,
) -> QueryPlan | LocalPlan:
    """Plan one SELECT over `table`, the file's stem, and `others`, further tables by name. Nothing is read or sent.

    What the services cannot answer is answered here, unless `cloud_only`. `kept`: the table is stored, and that is what
    its services have of it. Raises QueryRefused, with the reason and what
    to do instead, for what is not to be answered at all.
    """
    if len(sql) > limits.MAX_SQL_CHARS:
        raise QueryRefused(f"the query has {len(sql)} characters, at most {limits.MAX_SQL_CHARS}")
    try:
        try:
            return _cut(sql, schema, table, kept, cloud_only=cloud_only)
        except QueryRefused as error:
            if cloud_only:
                raise
            refusal = error
        return _whole(sql, schema, table, others or {}, refusal)
    except RecursionError:
        raise QueryRefused("the query is nested too deeply", hint="use fewer levels of brackets") from None


def _cut(sql: str, schema: Schema, table: str, kept: Kept | None, *, cloud_only: bool) -> QueryPlan:
    question = parse(sql, table)
    sends_only = cloud_only and kept is None
    asked = (Kind.PLAIN, Kind.ENCRYPTED) if sends_only else tuple(Kind)
    usable = [column for column in schema.columns if column.kind in asked]
    with closing(Catalog(question.table, usable, schema.derived)) as catalog:
        try:
            derived = Expressions(schema, cloud_only=sends_only)
            resolved = resolve(question, schema, catalog.settle, derived.find, cloud_only=sends_only)
            plan = Cutter(question, resolved, schema, catalog, cloud_only=cloud_only, kept=kept).plan()
            if cloud_only or kept is not None or all(each.decomposable for each in plan.plain):
                return plan
            with suppress(QueryRefused):
                otherwise = Cutter(question, resolved, schema, catalog, divided=True).plan()
                return replace(plan, otherwise=otherwise)
            return plan
        except QueryRefused:
            catalog.require_functions(question.functions)  # a misspelled one explains more
            raise


def _whole(sql: str, schema: Schema, table: str, others: Mapping[str, Schema], refusal: QueryRefused) -> LocalPlan:
    """Raises `refusal` itself for what DuckDB would not answer either, unless it only says that no service does."""
    try:
        return plan_whole(sql, schema, table, others, refusal)
    except QueryRefused as error:
        told = error if isinstance(refusal, Uncut) or isinstance(error, Uncut) else refusal
    raise told
