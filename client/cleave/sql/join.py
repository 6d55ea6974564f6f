"""Turns a grouped SELECT over joined tables into one over a single table of joined rows, for a minimum group size.

  SELECT w.name, SUM(bill) FROM stays s JOIN wards w USING (ward) GROUP BY w.name
  SELECT "w.name" AS name, SUM("s.bill") AS "sum(bill)" FROM joined GROUP BY "w.name"

Only inner and left joins of tables are supported. Everything else is refused when the statement is planned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, Final

import duckdb

from cleave.sql.functions import AGGREGATE_NAMES
from cleave.sql.plan import Counting, LocalPlan, QueryPlan
from cleave.sql.read import Statement
from cleave.sql.split import Halves
from cleave.table.blaming import not_computable
from cleave.table.duck import identifier, parts_of, text_of, tree_of
from cleave.table.schema import Schema
from cleave.table.table import Table
from cleave.table.trees import mapped
from cleave_shared.duckdb_errors import failed
from cleave_shared.errors import QueryRefused

JOINED: Final = "joined"
_ODD: Final = ("schema_name", "catalog_name", "column_name_alias", "sample", "at_clause")


@dataclass(frozen=True, slots=True)
class Join:
    """`statement` reads the table JOINED, whose columns are in `schema`. `tables`: joined tables by alias. `measured`:
    aliases of tables whose columns aggregates read. `source`: DuckDB's tree of the FROM clause.
    """

    statement: Statement
    schema: Schema
    tables: Mapping[str, str]
    measured: frozenset[str]
    source: Mapping[str, Any]

    def halves(self, loaded: Table, name: str, cut: QueryPlan, reads: Mapping[str, Sequence[str]]) -> Halves:
        """Join the rows of `loaded`, named `name` in questions, with the tables beside it, and group them by `cut`.

        `reads`: available columns by table.
        """
        there = {table.lower(): {*columns} for table, columns in reads.items()}
        relations = {name.lower(): loaded.relation} | {each.lower(): it for each, it in loaded.others.items()}

        def replaced(node: dict[str, Any]) -> dict[str, Any]:
            if node.get("type") != "BASE_TABLE":
                return node
            relation = relations[node["table_name"].lower()]
            alias = node["alias"] or node["table_name"]
            return {**node, "table_name": relation, "alias": alias, "qualified_name": {"path": [relation]}}

        tree = tree_of("SELECT 1")
        node = {**tree["statements"][0]["node"], "from_table": mapped(self.source, replaced)}
        text = text_of({**tree, "statements": [{**tree["statements"][0], "node": node}]})
        columns = ", ".join(
            f"{identifier(alias)}.{identifier(column)} AS {identifier(each.name)}"
            for each in self.schema.columns
            for alias, column in [_parts(each.name, self.tables)]
            if column in there.get(self.tables[alias], ())
        )
        loaded.prepare(loaded.connection, ordered=False)
        try:
            loaded.connection.execute(
                f"CREATE OR REPLACE TABLE {JOINED} AS {text.replace('SELECT 1', f'SELECT {columns}', 1)}"
            )
        except duckdb.InterruptException:
            raise
        except duckdb.OutOfMemoryException:
            raise loaded.engine.refusal() from None
        except duckdb.Error as error:  # its message may quote values
            raise not_computable("the join cannot be computed on these tables", failed(error)) from None
        table = copy(loaded)
        table.relation, table.schema, table.name = JOINED, self.schema, JOINED
        table._views, table._streams = {}, {}
        return Halves(table, cut)

    def drop(self, loaded: Table) -> None:
        """Delete the joined rows."""
        with suppress(duckdb.Error):  # an internal error may have shut down the whole instance
            loaded.connection.execute(f"DROP TABLE IF EXISTS {JOINED}")


@dataclass(frozen=True)
class JoinPlan(LocalPlan):
    """A join that is grouped on this machine because of a minimum group size. `cut` reads the joined rows."""

    join: Join = field(kw_only=True)
    cut: QueryPlan = field(kw_only=True)

    @property
    def counting(self) -> Counting | None:
        return self.cut.counting


def _parts(name: str, aliases: Mapping[str, str]) -> tuple[str, str]:
    """(Alias of the table, name) of a column of the joined table. Raises QueryRefused."""
    alias = next((each for each in aliases if name.startswith(f"{each}.")), None)
    if alias is None:  # an alias of an output, or a parameter of a lambda
        raise _no_join()
    return alias, name[len(alias) + 1 :]


def joined(statement: Statement, schemas: Mapping[str, Schema], outputs: Sequence[str]) -> Join | None:
    """The join of a statement; None for any other statement. `schemas`: by lower-case name. `outputs`: column names."""
    try:
        return _JoinReader(statement, schemas, outputs).read()
    except QueryRefused:
        return None


class _JoinReader:
    def __init__(self, statement: Statement, schemas: Mapping[str, Schema], outputs: Sequence[str]) -> None:
        self._statement = statement
        self._schemas = schemas
        self._outputs = outputs
        self._tables: dict[str, str] = {}  # by lower-case alias
        self._using: set[str] = set()
        self._nullable: set[str] = set()  # aliases whose rows may be missing (outer join)

    def read(self) -> Join:
        (whole,) = self._statement.tree["statements"]
        node = whole["node"]
        if node["type"] != "SELECT_NODE" or node["from_table"]["type"] != "JOIN" or node["cte_map"]["map"]:
            raise _no_join()
        self._walk(node["from_table"], outer=False)
        if any("." in alias for alias in self._tables):
            raise _no_join()
        items = node["select_list"]
        self._aliases = {
            alias
            for each in items
            if (alias := each["alias"].lower()) and each.get("column_names", [""])[-1].lower() != alias
        }
        clauses = {key: mapped(value, self._renamed) for key, value in node.items() if key != "from_table"}
        if len(items) != len(self._outputs):
            raise _no_join()
        named = [{**each, "alias": name} for each, name in zip(clauses["select_list"], self._outputs, strict=True)]
        table = tree_of(f"SELECT 1 FROM {JOINED}")["statements"][0]["node"]["from_table"]
        statement = self._statement.with_select({**clauses, "select_list": named, "from_table": table})
        measured = {
            _parts(part["column_names"][0], self._tables)[0]
            for call in parts_of(clauses)
            if call.get("class") == "FUNCTION" and call["function_name"].lower() in AGGREGATE_NAMES
            for part in parts_of(call)
            if part.get("class") == "COLUMN_REF"
        }
        return Join(statement, self._schema(), self._tables, frozenset(measured), node["from_table"])

    def _walk(self, source: Mapping[str, Any], *, outer: bool) -> None:
        """Collect the tables of a FROM clause."""
        if source["type"] == "BASE_TABLE":
            alias = (source["alias"] or source["table_name"]).lower()
            if any(source.get(each) for each in _ODD) or alias in self._tables:
                raise _no_join()
            self._tables[alias] = source["table_name"].lower()
            if self._tables[alias] not in self._schemas:
                raise _no_join()
            if outer:
                self._nullable.add(alias)
            return
        plain = source["type"] == "JOIN" and source["ref_type"] == "REGULAR"
        if not plain or source["join_type"] not in ("INNER", "LEFT") or source.get("sample") or source.get("alias"):
            raise _no_join()
        if any(part.get("class") in ("SUBQUERY", "WINDOW") for part in parts_of(source.get("condition") or {})):
            raise _no_join()
        self._using |= {each.lower() for each in source.get("using_columns") or ()}
        self._walk(source["left"], outer=outer)
        self._walk(source["right"], outer=outer or source["join_type"] == "LEFT")

    def _renamed(self, node: dict[str, Any]) -> dict[str, Any]:
        """A column reference rewritten for the joined table."""
        if node.get("class") != "COLUMN_REF":
            return node
        *qualifier, name = node["column_names"]
        if len(qualifier) > 1 or (qualifier and qualifier[0].lower() not in self._tables):
            raise _no_join()
        aliases = [qualifier[0].lower()] if qualifier else list(self._tables)
        having = [each for each in aliases if self._schemas[self._tables[each]].find(name)]
        if not qualifier and having and name.lower() in self._aliases:
            raise _no_join()
        if not having and not qualifier:
            return node  # an alias, or a name that is refused when planned
        if len(having) > 1 and name.lower() not in self._using:
            raise _no_join()
        column = self._schemas[self._tables[having[0]]].column(name).name
        return {**node, "column_names": [f"{having[0]}.{column}"]}

    def _schema(self) -> Schema:
        first = next(iter(self._schemas.values()))
        columns = [
            replace(column, name=f"{alias}.{column.name}", nullable=column.nullable or alias in self._nullable)
            for alias, table in self._tables.items()
            for column in self._schemas[table].columns
        ]
        if len({each.name.lower() for each in columns}) < len(columns):
            raise _no_join()
        return Schema(tuple(columns), first.dialect)


def _no_join() -> QueryRefused:
    return QueryRefused("it is no join of tables alone")
