"""From the text of a question to its plan: cut between the services and this machine, or answered here as a whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from contextlib import closing, suppress
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

from cleave.sql.allowed import Named, named, names_of
from cleave.sql.catalog import Catalog, Described
from cleave.sql.cut import Cutter
from cleave.sql.inner import columns_of as answer_columns
from cleave.sql.inner import taken_out
from cleave.sql.parse import Question, parse
from cleave.sql.plan import LocalPlan, Output, QueryPlan
from cleave.sql.refusals import Uncut, stays_here
from cleave.sql.resolve import columns_of, resolve
from cleave.table.schema import Kind, Schema
from cleave_shared import limits
from cleave_shared.errors import QueryRefused

if TYPE_CHECKING:
    from cleave.sql.kept import HasSums


def plan_query(
    sql: str,
    schema: Schema,
    table: str,
    *,
    cloud_only: bool = False,
    others: Mapping[str, Schema] | None = None,
    kept: HasSums | None = None,
) -> QueryPlan | LocalPlan:
    """`Planner.plan` of a question that is asked of one source."""
    with closing(Planner(sql, schema, table, others or {})) as planner:
        return planner.plan(kept, cloud_only=cloud_only)


class Planner:
    """Plans one SELECT over `table`, the file's stem, and `others`, further tables by name. Nothing is read or sent.

    The question is parsed and resolved once, whatever may be asked to sum what it needs. Use it through
    `contextlib.closing`.
    """

    def __init__(self, sql: str, schema: Schema, table: str, others: Mapping[str, Schema]) -> None:
        if len(sql) > limits.MAX_SQL_CHARS:
            raise QueryRefused(f"the query has {len(sql)} characters, at most {limits.MAX_SQL_CHARS}")
        self._sql = sql
        self._schema = schema
        self._table = table
        self._others = others
        self._catalog = Catalog(table, schema.columns, schema.derived)

    def close(self) -> None:
        self._catalog.close()

    def plan(self, kept: HasSums | None = None, *, cloud_only: bool = False) -> QueryPlan | LocalPlan:
        """Plan a query; what the services cannot answer is answered here, unless `cloud_only`. `kept`: the table is
        stored, and that
        is what its services have of it. Raises QueryRefused, with the reason and what to do instead, for what is not to
        be answered at all.
        """
        try:
            try:
                return self.cut(kept, cloud_only=cloud_only)
            except QueryRefused as error:
                if cloud_only:
                    raise
                refusal = error
            return self._whole(refusal)
        except RecursionError:
            raise QueryRefused("the query is nested too deeply", hint="use fewer levels of brackets") from None

    def cut(self, kept: HasSums | None, *, cloud_only: bool) -> QueryPlan:
        """`plan` where services answer a part at least. Raises QueryRefused."""
        if isinstance(self._read, QueryRefused):
            raise self._read
        question = self._read
        cutter = partial(Cutter, question, self._schema, self._catalog)
        try:
            if cloud_only and kept is None:
                self._require_sent(question)
            plan = cutter(cloud_only=cloud_only, kept=kept).plan()
        except QueryRefused:
            self._catalog.require_functions(question.functions)  # a misspelled one explains more
            raise
        if cloud_only or kept is not None or all(each.decomposable for each in plan.plain):
            return plan
        with suppress(QueryRefused):
            return replace(plan, otherwise=cutter(divided=True).plan())
        return plan

    @cached_property
    def _read(self) -> Question | QueryRefused:
        """The clauses of the question, with names resolved; or why it has none."""
        try:
            question = parse(self._sql, self._table)
            try:
                return resolve(question, self._schema, self._catalog.settle)
            except QueryRefused:
                self._catalog.require_functions(question.functions)
                raise
        except QueryRefused as error:
            return error

    def _require_sent(self, question: Question) -> None:
        """Raises OnlyHere for the first column that is read and of which nothing is ever sent."""
        for node in question.nodes:
            for column in columns_of(node, self._schema):
                if column.kind in (Kind.SEALED, Kind.LOCAL):
                    raise stays_here(column)

    def _whole(self, refusal: QueryRefused) -> LocalPlan:
        """The plan of a question that DuckDB answers here as a whole. `refusal`: why it could not be cut.

        Raises `refusal` itself for what DuckDB would not answer either, unless it only says that no service does.
        """
        if isinstance(self._named, QueryRefused):
            raise self._named if isinstance(refusal, Uncut) or isinstance(self._named, Uncut) else refusal
        found, described = self._named
        reason = str(refusal)
        return LocalPlan(
            sql=self._sql,
            table=self._table,
            outputs=tuple(Output(name, "local", reason) for name, _ in described),
            types=tuple(type_ for _, type_ in described),
            reads=self._reads(found),
            reason=reason,
            hint=refusal.hint or "",
        )

    def over_answers(self, plan: LocalPlan, answered: Callable[[str, str], QueryPlan | None]) -> LocalPlan:
        """`plan` with the SELECTs over one table that `answered` plans read as tables of their answers."""
        run, inner = taken_out(self._sql, answered)
        for name, each in inner.items():
            types = [final.type for final in each.finals]
            self._catalog.create(name, list(zip(answer_columns(name, each), types, strict=True)))
        tables = {name: each.names for name, each in self._tables.items()}
        found = named(self._catalog.tree(run), tables | dict.fromkeys(inner, ()))
        if not inner or tuple(type_ for _, type_ in self._catalog.describe(run)) != plan.types:
            return plan
        return replace(plan, run=run, inner=inner, reads=self._reads(found))

    @property
    def _tables(self) -> dict[str, Schema]:
        return {self._table: self._schema, **self._others}

    def _reads(self, found: Named) -> dict[str, tuple[str, ...]]:
        """By name, the columns of each table that a statement may read."""
        named = {name: each for name, each in self._tables.items() if name.lower() in found.tables}
        read = {name: _read_of(name, each, found) for name, each in named.items()}
        return read if self._table in read else {**read, self._table: ()}

    @cached_property
    def _named(self) -> tuple[Named, Described] | QueryRefused:
        """Return the names in the query, and its outputs; or why DuckDB does not answer it here."""
        try:
            for name, other in self._others.items():
                self._catalog.create(name, [(column.name, column.type) for column in other.columns], other.derived)
            found = named(self._catalog.tree(self._sql), {name: each.names for name, each in self._tables.items()})
            return found, self._catalog.describe(self._sql)
        except QueryRefused as error:
            return error


def names_in(sql: str) -> tuple[tuple[str, ...], Set[str]]:
    """The tables that a SELECT names, as it spells them, and columns, in lower case. Raises QueryRefused for what is
    none.
    """
    with closing(Catalog(" ", ())) as catalog:
        return names_of(catalog.tree(sql))


def _read_of(name: str, schema: Schema, found: Named) -> tuple[str, ...]:
    """The columns of a table that a question may read."""
    behind = (each.columns for each in schema.derived if each.name.lower() in found.columns)
    read = found.columns | {name.lower() for names in behind for name in names}
    whole = name.lower() in found.whole
    return tuple(each.name for each in schema.columns if whole or each.name.lower() in read)
