"""PostgreSQL's catalog, and statements without a table. They run in a separate DuckDB that contains nothing else.

Views and macros are in catalogue.sql. A statement's tree is changed where names differ between PostgreSQL and DuckDB,
then checked, then run. A client's statement is parsed once; its text is not used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final

import duckdb

from cleave.finish.result import Records
from cleave.gateway.types import TYPES, modifier_of, oid_of, size_of
from cleave.sql.allowed import mentioned_in
from cleave.sql.catalog import parameters_of, selects_of
from cleave.sql.read import Statement, read_statement
from cleave.sql.refusals import refused
from cleave.table.duck import closed_in, identifier, parts_of, tree_of
from cleave.table.schema import Column
from cleave.table.trees import MutableTree, mapped
from cleave.table.types import is_shown_as_it_is
from cleave.text.nearest import did_you_mean
from cleave_shared.duckdb_errors import planned
from cleave_shared.errors import Exhausted, QueryRefused
from cleave_shared.exhaustion import is_met

SCHEMAS: Final = ("pg_catalog", "information_schema")
_MEMORY: Final = "512MB"
_FIRST_OID: Final = 16384  # PostgreSQL's first OID for users' tables
_NAMED: Final = re.compile(r'CREATE (?:TABLE|VIEW|MACRO) (?:"([^"]+)"|(\w+))')
_WORDS: Final = re.compile(r'"([^"]+)"|(\w+)')
_SESSION: Final = frozenset(  # functions that are written without parentheses
    {"current_catalog", "current_role", "current_schema", "current_user", "session_user", "user"}
)
_REG: Final = frozenset({"regclass", "regtype", "regproc", "regprocedure", "regnamespace", "regrole"})
_CASTS: Final = {
    **{"oid": "UINTEGER", "xid": "BIGINT", "cardinal_number": "INTEGER", "jsonb": "JSON", "varbit": "BIT"},
    **dict.fromkeys(
        ("name", "char", "cid", "inet", "unknown", "sql_identifier", "character_data", "yes_or_no"), "VARCHAR"
    ),
    **dict.fromkeys(("int2vector", "oidvector", "aclitem", "pg_node_tree", "_text", "cstring"), "VARCHAR"),
}
_FUNCTIONS: Final = frozenset({"typinput", "typoutput", "typreceive", "typsend", "typanalyze", "typmodin", "typmodout"})
_VECTORS: Final = {
    **dict.fromkeys(("indkey", "indoption"), "INT2VECTOR"),
    **dict.fromkeys(("indclass", "indcollation"), "OIDVECTOR"),
}
_OPERATORS: Final = {"~": "regexp_matches", "!~": "not_regexp", "json_build_object": "json_object"}
_SHOW: Final = "SELECT table_name AS name FROM information_schema.tables ORDER BY name"
_COLUMNS: Final = (
    'SELECT column_name, data_type AS column_type, is_nullable AS "null" FROM information_schema.columns '
    "WHERE lower(table_name) = lower(?) ORDER BY ordinal_position"
)
_EMPTY: Final = {"type": "EMPTY"}


@dataclass(frozen=True, slots=True)
class Listed:
    """A table that a user may query. `key`: the columns of its declared key."""

    columns: Sequence[Column]
    key: Sequence[str] = ()


ListedTables = Callable[[], Mapping[str, Listed]]
"""The tables that the user may query, read if a statement needs them."""


def kind_of(statement: Statement, mine: Callable[[str], bool]) -> str:
    """What a statement reads: "tables", "catalogue", or "". `mine` tests whether a name is a table's.

    Raises QueryRefused if it reads both.
    """
    tree = statement.tree
    ctes, kinds = _ctes(tree), set()
    for part in parts_of(tree):
        if part.get("type") == "SHOW_REF" and (part["show_type"] == "SHOW_SPECIAL" or _described(part)):
            kinds.add("catalogue")
            break
        if part.get("type") == "BASE_TABLE":
            path = [str(each).lower() for each in part["qualified_name"]["path"]]
            if len(path) == 1 and path[0] in ctes:
                continue
            system = path[-2] in SCHEMAS if len(path) > 1 else path[0].startswith("pg_") and not mine(path[0])
            kinds.add("catalogue" if system else "tables")
    if len(kinds) > 1:
        raise QueryRefused(
            "tables and PostgreSQL's catalogue cannot be read in one statement", hint="use two statements"
        )
    return kinds.pop() if kinds else ""


def _ctes(tree: Mapping[str, Any]) -> set[str]:
    """Names of common table expressions, in lower case."""
    return {str(each["key"]).lower() for part in parts_of(tree) for each in (part.get("cte_map") or {}).get("map", ())}


def aliases_of(tree: Mapping[str, Any]) -> set[str]:
    """Names that a statement gives to tables and columns, in lower case."""
    return {str(part.get("alias") or "").lower() for part in parts_of(tree)}


def _described(show: Mapping[str, Any]) -> str:
    """The table of `DESCRIBE table`; "" for any other SHOW or DESCRIBE."""
    query = show.get("query") or {}
    source = query.get("from_table") or {}
    bare = len(query.get("select_list", ())) == 1 and query["select_list"][0]["class"] == "STAR"
    plain = bare and source.get("type") == "BASE_TABLE" and not query.get("where_clause") and not query.get("modifiers")
    return str(source["qualified_name"]["path"][-1]) if plain and show["show_type"] == "DESCRIBE" else ""


def is_apart(statement: Statement) -> bool:
    """True if a statement without a table computes anything: it is neither constants alone nor needs the user's tables.

    It must run in a worker that is used once, because what it computes may take all memory. Raises QueryRefused.
    """
    selects_of(statement)
    for part in parts_of(statement.tree):
        if part.get("class") not in (None, "CONSTANT", "PARAMETER", "CAST", "TYPE"):
            break
        if (part.get("class") == "TYPE" and part["children"]) or part.get("from_table", _EMPTY)["type"] != "EMPTY":
            break
    else:
        return False
    return not {"base.tables", "base.columns"} & {*_needed(_changed(statement))}


def answer(
    statement: Statement,
    tables: ListedTables,
    settings: Mapping[str, str],
    most: int,
    *,
    wire: bool,
    described: bool = False,
) -> Records:
    """Answer a statement over the catalog or without a table. `most`: maximum rows.

    `wire`: with the types of cleave.gateway.types instead of DuckDB's. `described`: only the columns. Raises
    QueryRefused.
    """
    statement = _shown(statement, tables)
    selects_of(statement)
    tree = _changed(statement)
    changed = Statement(statement.text, tree)
    needed = _needed(tree)
    mentioned_in(tree, dict.fromkeys(_definitions(), ()), _definitions().keys())
    with closing(closed_in(memory_limit=_MEMORY)) as connection:
        try:
            connection.execute(";".join(needed.values()))
            _fill(connection, needed, tables, settings)
            relation = connection.sql(changed.sql)
            names = tuple(relation.columns)
            types = [
                _type(str(each), wire and bool(needed), name) for name, each in zip(names, relation.types, strict=True)
            ]
            if described:
                return Records(names, types, [])
            shown = ", ".join(_as_value(place, type_) for place, type_ in enumerate(types, 1))
            rows = [list(row) for row in relation.project(shown).limit(most + 1).fetchall()]
        except duckdb.Error as error:  # its message may quote the statement
            lacks, fault = is_met(error), planned(error)
        else:
            if len(rows) > most:
                raise QueryRefused(f"the answer has more than {most:,} rows", hint="add a LIMIT", code="limit")
            return Records(names, types, rows)
    if lacks:
        raise Exhausted("the statement needs more memory than it may use", hint="let it make fewer or shorter values")
    raise refused(fault)


def parameters(statement: Statement) -> list[str]:
    """The types of a statement's parameters, see cleave.sql.catalog.parameters_of, as cleave.gateway.types has them."""
    tree = _changed(statement)
    changed, needed = Statement(statement.text, tree), _needed(tree)
    with closing(closed_in(memory_limit=_MEMORY)) as connection:
        connection.execute(";".join(needed.values()))
        return [_type(each, bool(needed)) for each in parameters_of(connection, changed)]


def _type(type_: str, of_catalogue: bool, name: str = "") -> str:
    """A type of an answer or a parameter, as cleave.gateway.types names it."""
    if not of_catalogue:
        return type_
    if name in _VECTORS and type_ in ("SMALLINT[]", "UINTEGER[]"):
        return _VECTORS[name]
    return type_.replace("UINTEGER", "OID") if type_ in ("UINTEGER", "UINTEGER[]") else type_


def _as_value(place: int, type_: str) -> str:
    if type_ == "OID" or is_shown_as_it_is(type_):
        return f"#{place}"
    return f"CAST(#{place} AS VARCHAR)"


@cache
def _definitions() -> dict[str, str]:
    """By name, the statements of catalogue.sql that create a table, view or macro."""
    text = re.sub(r"^--.*$", "", files(__package__).joinpath("catalogue.sql").read_text(), flags=re.MULTILINE)
    definitions = {}
    for each in re.split(r";\n", text):
        if (named := _NAMED.search(each)) is not None:
            definitions[named[1] or named[2]] = each.strip()
    return definitions


def _needed(tree: MutableTree) -> dict[str, str]:
    """The definitions that a statement needs, with those that they need, in order."""
    waiting = [str(part["qualified_name"]["path"][-1]).lower() for part in parts_of(tree) if part.get("qualified_name")]
    names: set[str] = set()
    every = _definitions()
    while waiting:
        name = waiting.pop()
        if name in every and name not in names:
            names.add(name)
            waiting += [quoted or word for quoted, word in _WORDS.findall(every[name])]
    return {name: sql for name, sql in every.items() if name in names}


def _fill(
    connection: duckdb.DuckDBPyConnection, needed: Iterable[str], tables: ListedTables, settings: Mapping[str, str]
) -> None:
    """Fill the tables of catalogue.sql that are needed."""
    rows = list(enumerate(tables().items(), _FIRST_OID)) if {*needed} & {"base.tables", "base.columns"} else []
    content: dict[str, Iterable[Sequence[object]]] = {
        "base.settings": settings.items(),
        "base.types": (list(each.values())[:6] for each in TYPES),
        "base.tables": ((oid, name) for oid, (name, _) in rows),
        "base.columns": (row for oid, (_, table) in rows for row in _columns(oid, table)),
    }
    for relation in content.keys() & {*needed}:
        texts = [[None if each is None else str(each) for each in row] for row in content[relation]]
        if columns := list(map(list, zip(*texts, strict=True))):
            holes = ", ".join(["unnest(?::VARCHAR[])"] * len(columns))
            connection.execute(f"INSERT INTO {identifier(relation)} SELECT {holes}", columns)


def _columns(relation: int, table: Listed) -> Iterator[list[Any]]:
    keys = {name.lower(): place for place, name in enumerate(table.key, 1)}
    for number, column in enumerate(table.columns, 1):
        oid, modifier = oid_of(column.type), modifier_of(column.type)
        key = keys.get(column.name.lower())
        required = not column.nullable or key is not None
        yield [relation, number, column.name, oid, size_of(oid), modifier, required, key, str(column.kind)]


def _shown(statement: Statement, tables: ListedTables) -> Statement:
    """The statement with a SELECT instead of SHOW TABLES or DESCRIBE table."""

    def put(part: MutableTree) -> MutableTree:
        if part.get("type") != "SHOW_REF":
            return part
        if part["show_type"] == "SHOW_SPECIAL" and part["table_name"].strip('"') == "tables":
            shown = read_statement(f"FROM ({_SHOW})")
        elif name := _described(part):
            if name.lower() not in map(str.lower, tables()):
                near = did_you_mean(name, tables())
                hint = near or "SHOW TABLES lists them"
                raise QueryRefused(f"there is no table {name!r}", hint=hint, code="no_table", name=name)
            shown = read_statement(f"FROM ({_COLUMNS})", [name])
        else:
            raise QueryRefused("this SHOW is not answered here", hint="SHOW TABLES, DESCRIBE table")
        return dict(shown.tree["statements"][0]["node"]["from_table"])

    return Statement(statement.text, mapped(statement.tree, put))


def _changed(statement: Statement) -> MutableTree:
    """The statement's tree with PostgreSQL's names replaced by those of catalogue.sql."""
    text = statement.text.encode()
    ctes, aliases = _ctes(statement.tree), aliases_of(statement.tree)

    def put(node: MutableTree) -> MutableTree:
        words, place = node.get("column_names", ()), node.get("query_location", 0)
        path: list[str] = node["qualified_name"]["path"] if node.get("type") == "BASE_TABLE" else []
        if (len(path) == 1 and path[0].lower() in ctes) or (len(words) > 2 and words[0].lower() in aliases):
            return node
        if len(words) == 1 and words[0].lower() in _SESSION and text[place : place + 1] != b'"':
            return _call(words[0].lower(), node["alias"])
        return _put(node)

    return dict(mapped(statement.tree, put))


def _put(node: MutableTree) -> MutableTree:
    """Rewrite one node of DuckDB's tree. (`put` handles functions without parentheses.)"""
    for each in node.get("select_list", ()):
        if each["class"] == "FUNCTION" and not each["alias"] and not each["is_operator"]:
            each["alias"] = re.sub(r"^(reg\w+)_(oid|name)$", r"\1", each["function_name"])
    match node.get("class") or node.get("type"):
        case "BASE_TABLE":
            return _table(node)
        case "COLLATE":
            return dict(node["child"])
        case "FUNCTION":
            name = str(node["function_name"])
            return _renamed(node, _OPERATORS.get(name, name), node["alias"])
        case "COLUMN_REF":
            words = node["column_names"]
            return node | {"column_names": words[1:] if len(words) > 2 and words[0].lower() in _QUALIFIERS else words}
        case "CAST":
            return _cast(node)
        case "TYPE":
            return _named_type(node)
        case "OPERATOR" if node["type"] == "ARRAY_EXTRACT":  # counted from 0 for PostgreSQL's vectors
            of, place = node["children"]
            if str(of.get("column_names", [""])[-1]).lower() in _VECTORS:
                moved = _parsed("1 + 1")
                moved["arguments"][0]["expression"] = place
                return node | {"children": [of, moved]}
        case "COMPARISON":  # functions are names here; 0 means none
            sides = [str(node[side].get("column_names", [""])[-1]).lower() for side in ("left", "right")]
            for side, other in (("left", sides[1]), ("right", sides[0])):
                if other in _FUNCTIONS and node[side].get("literal", {}).get("text") == "0":
                    node[side] = _parsed("'-'")
    return node


_QUALIFIERS: Final = frozenset({*SCHEMAS, "public"})


def _table(node: MutableTree) -> MutableTree:
    path = [str(each).lower() for each in node["qualified_name"]["path"]]
    if len(path) == 1 and not path[0].startswith("pg_"):
        return node  # a common table expression
    schema = path[-2] if len(path) > 1 else "pg_catalog"
    name = f"{schema}.{path[-1]}"
    if name not in _definitions():
        hint = "the catalogue has what common tools read"
        raise QueryRefused(f"there is no table {name} here", hint=hint, code="no_table", name=name)
    empty = {"schema_name": "", "catalog_name": "", "qualified_name": {"path": [name]}}
    return node | empty | {"table_name": name, "alias": node["alias"] or path[-1]}


def _renamed(call: MutableTree, name: str, alias: str) -> MutableTree:
    path = call["qualified_name"]["path"]
    if len(path) > 1 and path[-2].lower() not in SCHEMAS:  # DuckDB's function of that name may describe this machine
        if name.lower() in _definitions():
            name, hint = ".".join(path), "write its name alone"
            raise QueryRefused(f"there is no function {name} here", hint=hint, code="no_function", name=name)
        return call
    own = {"function_name": name, "qualified_name": {"path": [name]}, "schema": "", "catalog": "", "alias": alias}
    return call | own | ({"is_operator": False} if name != call["function_name"] else {})


def _call(name: str, alias: str, *arguments: MutableTree) -> MutableTree:
    return _renamed(_parsed("f()"), name, alias) | {
        "arguments": [{"name": "", "expression": each} for each in arguments]
    }


def _cast(node: MutableTree) -> MutableTree:
    name = str(node["type_expr"].get("type_name", "")).lower()
    if name not in _REG:
        return node
    child = node["child"]
    given = child["child"] if child["class"] == "CAST" else child  # a NULL of some type replaces a parameter
    if given["class"] not in ("CONSTANT", "PARAMETER"):
        return _call(f"{name}_name", node["alias"], child)
    return _call(f"{name}_oid", node["alias"], {**_parsed("CAST(1 AS VARCHAR)"), "child": child})


def _parsed(sql: str) -> MutableTree:
    """DuckDB's tree of an expression, which is constant in this file."""
    tree: MutableTree = tree_of(f"SELECT {sql}")["statements"][0]["node"]["select_list"][0]
    return tree


def _named_type(node: MutableTree) -> MutableTree:
    name = str(node["type_name"]).lower()
    if name in _CASTS:
        return dict(_parsed(f"CAST(1 AS {_CASTS[name]})")["type_expr"])
    return node if name in _REG else node | {"catalog": "", "schema": "", "qualified_name": {"path": [name]}}
