"""Cells whose rows a WHERE may select, so that blocks of others need not be read.

A row is selected where every conjunct of WHERE is TRUE. Conjuncts that read plain by columns alone are the same for all
rows of a cell: where one of them is not TRUE, no row of the cell is selected. By columns of other kinds rule nothing
out, for what is read would then depend on their values; nor does what cannot be evaluated.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress

import duckdb
import numpy as np
from numpy.typing import NDArray

from cleave.sql.functions import ABOUT_DATABASE, CLOCK, UNSTEADY
from cleave.sql.nodes import Call, Column, Node, Operation, Other
from cleave.sql.plan import LocalPlan
from cleave.sql.read import Reader, Tree, expression_of, require_faithful
from cleave.sql.write import write
from cleave.store.manifest import NUMBER
from cleave.sums.stored import Stored
from cleave.table.duck import identifier, parts_of, tree_of
from cleave.table.schema import Kind
from cleave_shared.errors import QueryRefused

_UNSTEADY = UNSTEADY | CLOCK | ABOUT_DATABASE


def cells_of(stored: Stored, where: str | None) -> NDArray[np.bool_] | None:
    """By number, the cells that WHERE, as a QueryPlan has it, leaves; None: all."""
    return _left(stored, list(_conjuncts(expression_of(where))), ()) if where else None


def cells_of_whole(stored: Stored, plan: LocalPlan) -> NDArray[np.bool_] | None:
    """The same of a question answered as a whole, where it is one SELECT over the table alone."""
    statements = tree_of(plan.sql).get("statements") or []
    selects = [each for each in parts_of(statements) if str(each.get("type")).endswith("_NODE")]
    if len(selects) != 1 or selects[0]["type"] != "SELECT_NODE" or not selects[0]["where_clause"]:
        return None
    source = selects[0]["from_table"]
    if source["type"] != "BASE_TABLE" or source["table_name"].lower() != plan.table.lower():
        return None
    if (
        selects[0]["sample"]
        or source["sample"]
        or source["column_name_alias"]
        or source["catalog_name"]
        or source["at_clause"]
    ):
        return None
    where = selects[0]["where_clause"]
    trees = where["children"] if where["type"] == "CONJUNCTION_AND" else [where]
    conjuncts = [each for tree in trees for each in _read(tree, plan.sql)]
    return _left(stored, conjuncts, [(source["alias"] or plan.table).lower()])


def _read(tree: Tree, sql: str) -> Sequence[Node]:
    """A conjunct, or none where it is nothing that services could answer: then it rules nothing out."""
    try:
        node = Reader(sql).node(tree)
        require_faithful([tree], [node])
    except QueryRefused:
        return []
    return list(_conjuncts(node))


def _left(stored: Stored, conjuncts: Sequence[Node], qualifiers: Collection[str]) -> NDArray[np.bool_] | None:
    plain = {each.name for each in stored.schema.columns if each.kind is Kind.PLAIN}
    by = {name.lower(): name for name in stored.manifest.by if name in plain}
    conjuncts = [each for each in conjuncts if _is_of_cells(each, by, qualifiers)]
    if not conjuncts:
        return None
    left = np.ones(len(stored.cells), np.bool_)
    table = stored.cell_table({by[column.name.lower()] for each in conjuncts for column in each.find(Column)})
    for each in conjuncts:
        alone = each.replaced(lambda node: Column((node.name,)) if isinstance(node, Column) else None)
        with suppress(duckdb.Error):  # then it rules nothing out
            statement = f"SELECT {identifier(NUMBER)} AS number FROM {table.relation} WHERE ({write(alone)}) IS TRUE"
            found = table.connection.execute(statement).fetchnumpy()["number"]
            kept = np.zeros(len(left), np.bool_)
            kept[found.astype(np.int64)] = True
            left &= kept
    return None if left.all() else left


def _conjuncts(node: Node) -> Iterator[Node]:
    if isinstance(node, Operation) and node.name == "AND":
        for each in node.terms:
            yield from _conjuncts(each)
    else:
        yield node


def _is_of_cells(node: Node, by: Collection[str], qualifiers: Collection[str]) -> bool:
    """Return whether it is the same for all rows of a cell."""
    if node.has(Other) or any(call.name in _UNSTEADY for call in node.find(Call)):
        return False
    columns = list(node.find(Column))
    return bool(columns) and all(
        each.name.lower() in by
        and (len(each.path) == 1 or (len(each.path) == 2 and each.path[0].lower() in qualifiers))
        for each in columns
    )
