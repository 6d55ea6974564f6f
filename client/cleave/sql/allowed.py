"""Which names a statement may use if DuckDB on this machine answers it: its tables, and functions of their rows.

This walks over DuckDB's tree of the statement. Everything that is not listed is refused, so a newer DuckDB's grammar
opens nothing. The question runs in a connection that has only those tables and cannot reach files
(cleave.table.running).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from typing import Any

from cleave.sql.functions import NO_ROWID, NO_ROWID_HINT, ROW_MAKING
from cleave.sql.parse import MAIN
from cleave.sql.refusals import no_function, require_by_text, several
from cleave.table.duck import parts_of
from cleave.table.functions import CLOCK, FUNCTIONS, UNSTEADY
from cleave.table.schema import Schema
from cleave_shared.errors import QueryRefused
from cleave_shared.plain_functions import called

_QUERIES = frozenset({"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE"})
_PASSED = frozenset(
    {"JOIN", "SUBQUERY", "EMPTY", "EXPRESSION_LIST", "PIVOT"}
    | {"ORDER_MODIFIER", "LIMIT_MODIFIER", "LIMIT_PERCENT_MODIFIER", "DISTINCT_MODIFIER"}
    | {"ORDER_DEFAULT", "ASCENDING", "DESCENDING"}
)
_CLASSES = frozenset(
    {"BETWEEN", "CASE", "CAST", "COLLATE", "COLUMN_REF", "COMPARISON", "CONJUNCTION", "CONSTANT", "FUNCTION"}
    | {"LAMBDA", "LAMBDA_REF", "OPERATOR", "POSITIONAL_REFERENCE", "STAR", "SUBQUERY", "TYPE", "WINDOW"}
)


def _no_select() -> QueryRefused:
    hint = "it contains something that is not part of a SELECT over tables"
    return QueryRefused("only SELECT is supported", hint=hint, code="not_select")


@dataclass
class Mentioned:
    """Names in a statement, in lower case: tables and columns. All columns are read of the tables `whole`."""

    tables: set[str] = field(default_factory=set)
    columns: set[str] = field(default_factory=set)
    whole: set[str] = field(default_factory=set)

    def read_of(self, name: str, schema: Schema) -> tuple[str, ...]:
        """The columns of a table that the statement may read."""
        behind = (each.columns for each in schema.derived if each.name.lower() in self.columns)
        read = self.columns | {name.lower() for names in behind for name in names}
        whole = name.lower() in self.whole
        return tuple(each.name for each in schema.columns if whole or each.name.lower() in read)


def mentioned_in(
    tree: Mapping[str, Any], tables: Mapping[str, tuple[str, ...]], more: Set[str] = frozenset()
) -> Mentioned:
    """The names in a statement. `tree`: from json_serialize_sql. `tables`: existing tables and their columns. `more`:
    additional functions that it may call, in lower case.

    Raises QueryRefused for other tables, for functions that read files, describe this machine or differ between calls,
    for parameters, and for anything but one SELECT.
    """
    statements = tree["statements"]
    if len(statements) != 1:
        raise several(len(statements))
    names = {column.lower() for columns in tables.values() for column in columns}
    names |= {word.lower() for word in _given(statements)}
    walk = _Walk(tables, names, more)
    walk.node(statements[0]["node"], frozenset())
    for name in walk.alone & walk.relations.keys():  # a table name used as a column means all columns of its row
        walk.mentioned.whole |= walk.relations[name]
    return walk.mentioned


def names_of(tree: Mapping[str, Any]) -> tuple[tuple[str, ...], Set[str]]:
    """The tables that statements name, as spelled there, and the columns, in lower case. Raises QueryRefused as
    `mentioned_in` does, except for unknown tables and columns.
    """
    walk = _Walk(None, {word.lower() for word in _given(tree["statements"])})
    walk.node([each["node"] for each in tree["statements"]], frozenset())
    return tuple(walk.spelled.values()), walk.mentioned.columns


def _given(statements: Any) -> Iterator[str]:
    """Names that the statements define themselves."""
    for node in parts_of(statements):
        if isinstance(alias := node.get("alias"), str):
            yield alias
        for names in ("column_name_alias", "aliases", "expected_names"):
            yield from (each for each in node.get(names) or () if isinstance(each, str))


class _Walk:
    def __init__(self, tables: Iterable[str] | None, names: set[str], more: Set[str] = frozenset()) -> None:
        """`tables`: names a statement may use; None allows every name."""
        self.mentioned = Mentioned()
        self.spelled: dict[str, str] = {}  # named tables: lower case -> as spelled
        self._tables = {name.lower() for name in tables} if tables is not None else None
        self._there_are = list(tables or ())
        self._more = more
        self._names = names  # of columns, or defined in the statement
        self.relations: dict[str, set[str]] = {}  # names and aliases of tables -> tables
        self.alone: set[str] = set()  # columns without a table name, and tables named by a star
        self._from: set[str] = set()  # tables in the FROM of the innermost SELECT

    def node(self, node: Any, scope: frozenset[str]) -> None:
        """`scope`: common table expressions in scope, in lower case."""
        if isinstance(node, list):
            for each in node:
                self.node(each, scope)
        elif isinstance(node, dict):
            if "class" in node:
                self._expression(node)
                if node.get("subquery_type") == "EXISTS":
                    node = _without_star(node)
            elif isinstance(node.get("type"), str) and self._relation(node, scope):
                return
            self._children(node, scope)

    def _children(self, node: Mapping[str, Any], scope: frozenset[str], *, but: str = "") -> None:
        for key, value in node.items():
            if key != but:
                self.node(value, scope)

    def _relation(self, node: Mapping[str, Any], scope: frozenset[str]) -> bool:
        """Handle a relation. True if its children have been visited."""
        kind = node["type"]
        if kind in _QUERIES:
            self._query(node, scope)
            return True
        if kind == "BASE_TABLE":
            self._table([str(part) for part in node["qualified_name"]["path"]], scope)
            name = str(node["qualified_name"]["path"][-1]).lower()
            self.relations.setdefault(str(node["alias"]).lower() or name, set()).add(name)
            if node.get("column_name_alias"):  # columns are named by position
                self.mentioned.whole.add(name)
        elif kind == "PIVOT":
            # all columns that it does not name are grouping keys
            self.mentioned.whole |= _tables_of_from(node["source"])
        elif kind == "JOIN":
            self.mentioned.columns.update(str(name).lower() for name in node["using_columns"])
            if node["ref_type"] == "NATURAL":
                self.mentioned.whole |= _tables_of_from(node)
        elif kind == "TABLE_FUNCTION":
            self._makes_rows(node["function"])
        elif kind == "SHOW_REF":
            if node.get("show_type") not in ("DESCRIBE", "SUMMARY") or not node.get("query"):
                raise QueryRefused("there is no table of the database's own", hint=self._there(), code="no_table")
        elif kind not in _PASSED and "type_info" not in node and "id" not in node:
            raise _no_select()
        return False

    def _query(self, node: Mapping[str, Any], scope: frozenset[str]) -> None:
        for each in node.get("cte_map", {}).get("map", ()):
            self.node(each["value"], scope)
            scope |= {str(each["key"]).lower()}
        if node["type"] == "RECURSIVE_CTE_NODE":
            scope |= {str(node["cte_name"]).lower()}
        outer, self._from = self._from, _tables_of_from(node.get("from_table"))
        self._children(node, scope, but="cte_map")
        self._from = outer

    def _table(self, path: list[str], scope: frozenset[str]) -> None:
        name = path[-1].lower()
        qualifier = [part.lower() for part in path[:-1]]
        if (not qualifier and name in scope) or (qualifier == ["recurring"] and name in scope):
            return
        if (self._tables is not None and name not in self._tables) or qualifier not in ([], [MAIN]):
            raise self._other(".".join(path))
        self.mentioned.tables.add(name)
        self.spelled.setdefault(name, path[-1])

    def _other(self, name: str) -> QueryRefused:
        return QueryRefused(f"there is no table {name!r}", hint=self._there(), code="no_table", name=name)

    def _there(self) -> str:
        if self._more:
            return "the catalogue has what common tools read"
        tables = f"tables here: {', '.join(self._there_are)}; " if self._there_are else ""
        return f"{tables}--with FILE adds a file, and nothing else of this machine can be read"

    def _makes_rows(self, call: Mapping[str, Any]) -> None:
        name = _called(call)
        if name not in ROW_MAKING and name not in self._more:
            raise QueryRefused(f"{name}() reads something other than the table", hint=self._there(), name=name)

    def _refuse_function(self, name: str) -> None:
        if name not in self._more:
            _refuse_unsteady(name)
            if name not in FUNCTIONS:
                raise no_function(name)

    def _expression(self, node: Mapping[str, Any]) -> None:
        kind = node["class"]
        if kind == "PARAMETER":
            raise QueryRefused("a parameter has no value", hint="write the value itself", code="parameter")
        if kind not in _CLASSES:
            raise _no_select()
        if kind in ("FUNCTION", "WINDOW"):
            self._refuse_function(_called(node))
            if kind == "FUNCTION":
                name, *by_text = called(node)
                self._refuse_function(name)
                for each in by_text:
                    require_by_text(each)
        elif kind == "STAR":
            if node["relation_name"]:
                self.alone.add(str(node["relation_name"]).lower())
            else:
                self.mentioned.whole |= self._from
        elif kind == "COLUMN_REF":
            words = [str(word).lower() for word in node["column_names"]]
            self.mentioned.columns.update(words)
            if self._tables is None:  # then columns are unknown too
                return
            if words[-1] == "rowid" and words[-1] not in self._names:
                raise QueryRefused(NO_ROWID, hint=NO_ROWID_HINT, name=words[-1])
            if len(words) == 1:
                self.alone.add(words[0])
                if words[0] not in self._names:
                    _refuse_unsteady(words[0])


def _tables_of_from(node: Any) -> set[str]:
    """The tables, in lower case, that a star over this FROM selects columns of. Subqueries have their own FROM."""
    if not isinstance(node, dict):
        return set()
    if node["type"] == "BASE_TABLE":
        return {str(node["qualified_name"]["path"][-1]).lower()}
    return {name for side in ("left", "right", "source") for name in _tables_of_from(node.get(side))}


def _without_star(exists: Mapping[str, Any]) -> Mapping[str, Any]:
    """EXISTS without a bare star in its subquery, because such a star reads no column."""
    query = exists["subquery"]["node"]
    selected = [each for each in query.get("select_list", ()) if not _is_bare_star(each)]
    return {**exists, "subquery": {**exists["subquery"], "node": {**query, "select_list": selected}}}


def _is_bare_star(node: Mapping[str, Any]) -> bool:
    return node["class"] == "STAR" and not any(node[key] for key in node if key.endswith("_list") or key == "expr")


def _called(call: Mapping[str, Any]) -> str:
    return str(call["qualified_name"]["path"][-1] if call.get("qualified_name") else call["function_name"]).lower()


def _refuse_unsteady(name: str) -> None:
    if name in UNSTEADY and name not in CLOCK:
        raise QueryRefused(f"{name} does not depend on the table alone", hint="write the value itself as a literal")
