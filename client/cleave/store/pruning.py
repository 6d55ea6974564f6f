"""Cells whose rows a WHERE may select, so that blocks of others need not be read.

A row is selected where every conjunct of WHERE is TRUE. Conjuncts that read plain by columns alone are the same for all
rows of a cell: where one of them is not TRUE, no row of the cell is selected. By columns of other kinds rule nothing
out, for what is read would then depend on their values; nor does what cannot be evaluated.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress

import numpy as np
import sqlglot
from numpy.typing import NDArray
from sqlglot import exp
from sqlglot.errors import SqlglotError, UnsupportedError

from cleave.sql.canonical import parsed
from cleave.sql.dialect import FaithfulDuckDB, write
from cleave.sql.fidelity import same_statement
from cleave.sql.functions import ABOUT_DATABASE, CLOCK, UNSTEADY
from cleave.sql.plan import LocalPlan
from cleave.store.names import NUMBER
from cleave.store.stored import Stored
from cleave.table.duck import identifier, private
from cleave.table.schema import Kind
from cleave_shared import duckdb

_SIMPLE = frozenset(
    {"expressions", "from_", "where", "group", "having", "order", "limit", "offset", "distinct", "qualify", "windows"}
)
_UNSTEADY = UNSTEADY | CLOCK | ABOUT_DATABASE


def cells_of(stored: Stored, where: str | None) -> NDArray[np.bool_] | None:
    """By number, the cells that WHERE, as a QueryPlan has it, leaves; None: all."""
    return _left(stored, parsed(where), frozenset()) if where else None


def columns_of(where: str | None) -> frozenset[str]:
    """What WHERE, as a QueryPlan has it, reads: where these are by columns, planning looks at them of every cell."""
    return frozenset(column.name for column in parsed(where).find_all(exp.Column)) if where else frozenset()


def cells_of_whole(stored: Stored, plan: LocalPlan) -> NDArray[np.bool_] | None:
    """The same of a question answered as a whole, where it is one SELECT over the table alone."""
    try:
        read = sqlglot.parse(plan.sql, read=FaithfulDuckDB)
        select = read[0] if len(read) == 1 else None
        if not isinstance(select, exp.Select) or any(
            value and key not in _SIMPLE for key, value in select.args.items()
        ):
            return None
        sources, where = list(select.find_all(exp.Table)), select.args.get("where")
        if where is None or len(sources) != 1 or len(list(select.find_all(exp.Query))) != 1:
            return None
        (source,) = sources
        if source.parent is not select.args["from_"] or source.name.lower() != plan.table.lower():
            return None
        if _given(source) - {"this", "alias", "db"}:
            return None
        alias = source.args.get("alias")
        if (alias and alias.args.get("columns")) or not _understood(plan.sql, select):
            return None
        return _left(stored, where.this, frozenset({(source.alias or plan.table).lower()}))
    except SqlglotError:
        return None


def _given(node: exp.Expression) -> set[str]:
    return {key for key, value in node.args.items() if value}


def _understood(sql: str, select: exp.Select) -> bool:
    with private() as connection:
        return same_statement(connection, sql, write(select))


def _left(stored: Stored, where: exp.Expression, qualifiers: Collection[str]) -> NDArray[np.bool_] | None:
    plain = {each.name for each in stored.schema.columns if each.kind is Kind.PLAIN}
    by = {name.lower(): name for name in stored.manifest.by if name in plain}
    conjuncts = [each for each in _conjuncts(where) if _is_of_cells(each, by, qualifiers)]
    if not conjuncts:
        return None
    left = np.ones(len(stored.cells), np.bool_)
    table = stored.cell_table({by[column.name.lower()] for each in conjuncts for column in each.find_all(exp.Column)})
    for each in conjuncts:
        for column in each.find_all(exp.Column):
            column.set("table", None)
        with suppress(duckdb.Error, UnsupportedError):  # then it rules nothing out
            statement = f"SELECT {identifier(NUMBER)} AS number FROM {table.relation} WHERE ({write(each)}) IS TRUE"
            found = table.connection.execute(statement).fetchnumpy()["number"]
            kept = np.zeros(len(left), np.bool_)
            kept[found.astype(np.int64)] = True
            left &= kept
    return None if left.all() else left


def _conjuncts(node: exp.Expression) -> Iterator[exp.Expression]:
    if isinstance(node, exp.Paren):
        yield from _conjuncts(node.this)
    elif isinstance(node, exp.And):
        yield from _conjuncts(node.this)
        yield from _conjuncts(node.expression)
    else:
        yield node.copy()


def _is_of_cells(node: exp.Expression, by: Collection[str], qualifiers: Collection[str]) -> bool:
    """Whether it is the same for all rows of a cell."""
    columns = list(node.find_all(exp.Column))
    if any(node.find_all(exp.Dot, exp.Lambda, exp.Query, exp.Star, exp.Window, exp.Placeholder, exp.Parameter)):
        return False
    if any(call.name.lower() in _UNSTEADY for call in node.find_all(exp.Anonymous)):
        return False
    return bool(columns) and all(
        each.name.lower() in by
        and (not each.table or each.table.lower() in qualifiers)
        and not (each.text("db") or each.text("catalog"))
        for each in columns
    )
