"""Rights of a gateway user, and plans of the queries they allow.

A statement is planned with a schema that has only the user's columns. For a user without rows,
cleave.disclosure.askable checks the statement before it is planned.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cleave.ask.question import Options
from cleave.disclosure.askable import G1, ONE_TABLE, Askable, is_bare, refused
from cleave.logins.users import columns_of
from cleave.sql.planner import names_in
from cleave.sql.read import Statement
from cleave.text.nearest import did_you_mean
from cleave_shared.errors import InputError, QueryRefused

if TYPE_CHECKING:
    from cleave.ask.plan import AnswerPlan
    from cleave.ask.session import Session
    from cleave.table.schema import Schema


@dataclass(frozen=True, slots=True)
class Rights:
    """Rights of a user. `tables`: lower-case names; None: all served tables. `rows`: the user may read rows; if not,
    groups have at least `min_group` people. `columns`: see cleave.logins.users.
    """

    tables: frozenset[str] | None
    min_group: int
    rows: bool
    columns: tuple[str, ...] = ()

    def include(self, name: str) -> bool:
        """True if the user may query the table."""
        return self.tables is None or name.lower() in self.tables

    def shown(self, name: str, schema: Schema) -> Schema:
        """The schema with only the user's columns, and the columns derived from these."""
        names = columns_of(self.columns, name)
        if names is None:
            return schema
        columns = {each.name for each in schema.columns if each.name.lower() in names}
        derived = [each for each in schema.derived if each.name.lower() in names and columns.issuperset(each.columns)]
        return replace(schema.only(columns), derived=tuple(derived))


def planned(session: Session, rights: Rights, statement: Statement) -> tuple[AnswerPlan, str]:
    """The plan of a statement over tables, and a note on what the user is not shown. The note depends on the question
    only. Raises QueryRefused if the user may not ask it.
    """
    names, _ = names_in(statement)
    try:
        for name in names:
            if not rights.include(name):
                raise QueryRefused(name)
        if rights.rows:
            return session.plan(statement, _least(1)), ""
        return session.source.on_newest(lambda: _without_rows(session, rights, statement, names))
    except (QueryRefused, InputError):  # a missing table and a forbidden table give the same error
        allowed = {each.lower(): each for each in session.schemas if rights.include(each)}
        for name in names:
            if name.lower() not in allowed:
                near = did_you_mean(name, allowed.values())
                hint = near or "SHOW TABLES lists them"
                raise QueryRefused(f"there is no table {name!r}", hint=hint, code="no_table", name=name) from None
        raise


def _without_rows(
    session: Session, rights: Rights, statement: Statement, names: Sequence[str]
) -> tuple[AnswerPlan, str]:
    """The plan for a user without rows. Planning reads only descriptions of tables."""
    if not session.source.has_rows:  # everything in a release may be seen
        return session.plan(statement, _least(rights.min_group)), ""
    tables = [each for each in map(session.asked_by, names) if each is not None]
    if len(tables) != 1 or len(names) != 1:
        raise refused(ONE_TABLE)
    (name,), (table,) = names, tables
    privacy = table.schema.privacy
    askable = Askable(name, rights.shown(name, table.schema), table.by, privacy.entity)
    admitted = askable.admitted(statement)
    number = max(rights.min_group, privacy.min_group, table.min_group)
    try:
        by_cells = None if privacy.entity else _by_cells(session, admitted, number)
        plan = by_cells or session.plan(admitted, _least(number))
    except QueryRefused:  # its message may depend on row counts
        raise QueryRefused(
            f"the gateway cannot answer this, or cannot count the {privacy.counted} that it is about (rule P4)",
            hint="`cleave plan --min-group N` says why to the owner of the table",
        ) from None
    if not is_bare(plan.cut):
        raise refused(G1)
    session.source.require_assumed(plan, table)
    few = f"Groups of fewer than {number} {privacy.counted} are left out, if there are any, and figures over fewer"
    return plan, f"{few} (rule G3)."


def _least(number: int) -> Options:
    """The gateway decides on the threshold, and logs every question itself."""
    return Options(min_group=number, yes=True, logged=True)


def _by_cells(session: Session, statement: Statement, number: int) -> AnswerPlan | None:
    """The plan that reads no rows; None if rows with a value must be counted."""
    with contextlib.suppress(QueryRefused):
        return session.plan(statement, _least(number), cloud_only=True)
    return None
