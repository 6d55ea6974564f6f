"""Plans a query: cuts it between the services and this machine, or answers it on this machine as a whole.

A SELECT over one table inside a larger statement may be answered separately. Its answer then is a table:

  WITH a AS (SELECT ward, SUM(bill) AS total FROM visits GROUP BY ward) SELECT * FROM wards JOIN a USING (ward)
  WITH a AS (SELECT "totals 0.0" AS ward, "totals 0.1" AS total FROM "totals 0") SELECT * FROM wards JOIN ...

Columns of such a table have names that no other table has, so a name shows what is read of it. A SELECT that DuckDB
reads by itself depends on nothing in the statement around it: names are looked up inside first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from contextlib import closing, suppress
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

from cleave.sql.allowed import Mentioned, mentioned_in, names_of
from cleave.sql.catalog import Catalog, ResultColumns, selects_of
from cleave.sql.cut import Cutter
from cleave.sql.judge import HasSums
from cleave.sql.nodes import Node
from cleave.sql.parse import Select, conditions_of_select, parse
from cleave.sql.plan import LocalPlan, Output, QueryPlan
from cleave.sql.read import Statement, read_statement
from cleave.sql.refusals import Uncut, stays_local, too_deep
from cleave.sql.resolve import columns_of, resolve
from cleave.table.duck import identifier, parts_of, tree_of
from cleave.table.schema import Kind, Schema
from cleave.table.trees import same
from cleave_shared.errors import QueryRefused


def plan_query(
    sql: str,
    schema: Schema,
    table: str,
    *,
    cloud_only: bool = False,
    others: Mapping[str, Schema] | None = None,
    sums: HasSums | None = None,
) -> QueryPlan | LocalPlan:
    """Plan a query over one source; see Planner.plan."""
    with closing(Planner(read_statement(sql), schema, table, others or {})) as planner:
        return planner.plan(sums, cloud_only=cloud_only)


class Planner:
    """Plans one SELECT over `table` and `others`, further tables by name.

    Nothing is read or sent. The query is parsed and resolved once, for all sources of sums. Close it after use.
    """

    def __init__(self, statement: Statement, schema: Schema, table: str, others: Mapping[str, Schema]) -> None:
        self._statement = statement
        self._schema = schema
        self._table = table
        self._others = others
        self._catalog = Catalog(table, schema.columns, schema.derived)

    def close(self) -> None:
        self._catalog.close()

    def plan(self, sums: HasSums | None = None, *, cloud_only: bool = False) -> QueryPlan | LocalPlan:
        """Plan a query. This machine answers what the services cannot, unless `cloud_only`.

        `sums`: what a stored table can answer without its rows. Raises QueryRefused for a query that cannot be
        answered, with the reason and an alternative.
        """
        try:
            try:
                return self.cut(sums, cloud_only=cloud_only)
            except QueryRefused as error:
                if cloud_only:
                    raise
                refusal = error
            return self._whole(refusal)
        except RecursionError:
            raise too_deep() from None

    def cut(self, sums: HasSums | None, *, cloud_only: bool, apart: bool = False) -> QueryPlan:
        """The plan if services answer at least a part. `apart`: see `Cutter`. Raises QueryRefused."""
        if isinstance(self._read, QueryRefused):
            raise self._read
        select = self._read
        cutter = partial(Cutter, select, self._schema, self._catalog)
        if cloud_only and sums is None:
            self._require_sent(select)
        plan = cutter(cloud_only=cloud_only, sums=sums, apart=apart).plan()
        if cloud_only or sums is not None or all(each.decomposable for each in plan.plain):
            return plan
        with suppress(QueryRefused):
            return replace(plan, otherwise=cutter(divided=True).plan())
        return plan

    @cached_property
    def _read(self) -> Select | QueryRefused:
        """The query's clauses with resolved names, or the reason why it has none."""
        try:
            return resolve(parse(self._statement, self._table), self._schema, self._catalog.settle)
        except QueryRefused as error:
            return error

    def _require_sent(self, select: Select) -> None:
        """Raise OnlyLocal for the first column that may not be sent."""
        for node in select.nodes:
            for column in columns_of(node, self._schema):
                if column.kind in (Kind.SEALED, Kind.LOCAL):
                    raise stays_local(column)

    def _whole(self, refusal: QueryRefused) -> LocalPlan:
        """The plan of a query that this machine answers as a whole. `refusal`: why it could not be cut.

        If DuckDB cannot answer it either, raises the more precise of the two reasons.
        """
        if isinstance(self._named, QueryRefused):
            raise self._named if isinstance(refusal, Uncut) or isinstance(self._named, Uncut) else refusal
        mentioned, described, conditions = self._named
        reason = str(refusal)
        return LocalPlan(
            statement=self._statement,
            table=self._table,
            outputs=tuple(Output(name, "local", reason) for name, _ in described),
            types=tuple(type_ for _, type_ in described),
            reads=self._reads(mentioned),
            reason=reason,
            hint=refusal.hint or "",
            conditions=conditions,
            rounds=self._catalog.decides(self._statement.sql),
        )

    def over_answers(self, plan: LocalPlan, answered: Callable[[str, Statement], QueryPlan | None]) -> LocalPlan:
        """`plan` in which each SELECT that `answered` can plan is replaced by a table with its answer."""
        over_inner, inner = taken_out(self._statement, answered)
        if not inner:
            return plan
        for name, each in inner.items():
            outputs = zip(each.outputs, each.finals, strict=True)
            self._catalog.create(name, [(output.name, final.type) for output, final in outputs])
        tables = {name: each.names for name, each in self._tables.items()}
        mentioned = mentioned_in(over_inner.tree, tables | dict.fromkeys(inner, ()))
        try:
            types = tuple(type_ for _, type_ in self._catalog.describe(over_inner.sql))
        except QueryRefused:
            return plan
        if types != plan.types:
            return plan
        return replace(plan, over_inner=over_inner, inner=inner, reads=self._reads(mentioned))

    @property
    def _tables(self) -> dict[str, Schema]:
        return {self._table: self._schema, **self._others}

    def _reads(self, mentioned: Mentioned) -> dict[str, tuple[str, ...]]:
        """By table, the columns that a statement may read."""
        named = {name: each for name, each in self._tables.items() if name.lower() in mentioned.tables}
        read = {name: mentioned.read_of(name, each) for name, each in named.items()}
        return read if self._table in read else {**read, self._table: ()}

    @cached_property
    def _named(self) -> tuple[Mentioned, ResultColumns, tuple[Node, ...]] | QueryRefused:
        """The query's names, outputs and conditions; or the reason why DuckDB here cannot answer it."""
        try:
            for name, other in self._others.items():
                self._catalog.create(name, [(column.name, column.type) for column in other.columns], other.derived)
            tree = selects_of(self._statement)
            mentioned = mentioned_in(tree, {name: each.names for name, each in self._tables.items()})
            described = self._catalog.describe(self._statement.sql)
            return mentioned, described, conditions_of_select(self._statement, self._table)
        except QueryRefused as error:
            return error


def names_in(statement: Statement) -> tuple[tuple[str, ...], Set[str]]:
    """The tables that a SELECT names, as spelled there, and the columns, in lower case. Raises QueryRefused for other
    statements.
    """
    return names_of(selects_of(statement))


def taken_out(
    statement: Statement, answered: Callable[[str, Statement], QueryPlan | None]
) -> tuple[Statement, dict[str, QueryPlan]]:
    """(The statement with a table for each SELECT that `answered` has a plan for, those plans by name of the table).

    `answered` gets the SELECT's table and the SELECT. A plan's outputs are named after its table.
    """
    tree = statement.tree
    given = {str(each["key"]).lower() for part in parts_of(tree) for each in (part.get("cte_map") or {}).get("map", ())}
    tables: list[tuple[dict[str, Any], dict[str, Any]]] = []  # (replaced SELECT, the table that replaces it)
    answers: dict[str, QueryPlan] = {}

    def table_of(node: dict[str, Any]) -> dict[str, Any] | None:
        source = node["from_table"]
        if source["type"] != "BASE_TABLE" or source["table_name"].lower() in given:
            return None
        for select, each in tables:
            if same(select, node):
                return each
        answer, name = answered(source["table_name"], statement.with_select(node)), f"totals {len(answers)}"
        if answer is None or name in statement.text.lower():
            return None
        outputs = tuple(replace(each, name=f"{name}.{place}") for place, each in enumerate(answer.outputs))
        both = zip(outputs, answer.outputs, strict=True)
        items = [f"{identifier(mine.name)} AS {identifier(given.name)}" for mine, given in both]
        table: dict[str, Any] = tree_of(f"SELECT {', '.join(items)} FROM {identifier(name)}")["statements"][0]["node"]
        tables.append((node, table))
        answers[name] = replace(answer, outputs=outputs)
        return table

    (whole,) = tree["statements"]
    node = {key: _replaced(value, table_of) for key, value in whole["node"].items()}
    return statement.with_select(node), answers


def _replaced(tree: Any, table_of: Callable[[dict[str, Any]], dict[str, Any] | None]) -> Any:
    if isinstance(tree, list):
        return [_replaced(each, table_of) for each in tree]
    if not isinstance(tree, dict):
        return tree
    if tree.get("type") == "SELECT_NODE" and (table := table_of(tree)) is not None:
        return table
    return {key: _replaced(value, table_of) for key, value in tree.items()}
