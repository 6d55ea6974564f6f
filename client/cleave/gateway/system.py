"""MySQL's system tables and SHOW, over the tables that a user may query.

Tools read them to list tables and columns. Each statement makes the tables that it names, in a DuckDB of its own that
reaches nothing else, and is answered by DuckDB.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import duckdb
from mysql_mimic.constants import INFO_SCHEMA
from sqlglot import exp

from cleave.finish.result import Records
from cleave.gateway.dialect import (
    DATABASE,
    SYSTEM,
    Parameter,
    Variables,
    condition_of,
    parsed,
    system_tables,
    translated,
)
from cleave.sql.allowed import mentioned_in as require_allowed
from cleave.sql.catalog import selects_of
from cleave.sql.read import read_statement
from cleave.table.duck import identifier, private
from cleave.table.schema import Column
from cleave.table.types import decimals_of, digits_of
from cleave_shared.errors import QueryRefused

_COLLATION: Final = "utf8mb4_general_ci"
_LONGEST_TEXT: Final = 1 << 16
_NUMBERS: Final = frozenset(
    {
        *("ordinal_position", "character_maximum_length", "character_octet_length", "numeric_precision"),
        *("numeric_scale", "datetime_precision", "version", "table_rows", "avg_row_length", "data_length"),
        *("max_data_length", "index_length", "data_free", "auto_increment", "seq_in_index", "non_unique"),
        *("cardinality", "sub_part", "position_in_unique_constraint", "id", "maxlen", "sortlen"),
    }
)
_MORE: Final[dict[tuple[str, str], tuple[str, ...]]] = {
    ("information_schema", "check_constraints"): ("constraint_schema", "constraint_name", "check_clause"),
    ("information_schema", "engines"): ("engine", "support", "comment", "transactions", "xa", "savepoints"),
    ("information_schema", "plugins"): ("plugin_name", "plugin_version", "plugin_status", "plugin_type"),
    ("information_schema", "processlist"): ("id", "user", "host", "db", "command", "time", "state", "info"),
    ("information_schema", "keywords"): ("word", "reserved"),
    ("performance_schema", "session_variables"): ("variable_name", "variable_value"),
}
_TYPES: Final = {
    "BOOLEAN": "tinyint",
    "TINYINT": "tinyint",
    "SMALLINT": "smallint",
    "INTEGER": "int",
    "BIGINT": "bigint",
    "UTINYINT": "smallint",
    "USMALLINT": "int",
    "UINTEGER": "bigint",
    "FLOAT": "float",
    "DOUBLE": "double",
    "DATE": "date",
    "TIME": "time",
    "BLOB": "longblob",
    "JSON": "json",
}
_DECIMAL: Final = ("HUGEINT", "UHUGEINT", "UBIGINT")


Catalog = Callable[[], Mapping[str, Sequence[Column]]]
"""Columns by table, read when a statement needs them."""


def type_of(duck: str) -> tuple[str, str]:
    """MySQL's data type and full type of a type of DuckDB's.

    >>> type_of("DECIMAL(9,2)"), type_of("VARCHAR"), type_of("TIMESTAMP WITH TIME ZONE")
    (('decimal', 'decimal(9,2)'), ('varchar', 'varchar(65536)'), ('datetime', 'datetime(6)'))
    """
    if duck.startswith("DECIMAL"):
        return "decimal", f"decimal({digits_of(duck)},{decimals_of(duck)})"
    if duck in _DECIMAL:
        return "decimal", "decimal(39,0)"
    if duck.startswith("TIMESTAMP"):
        return "datetime", "datetime(6)"
    name = _TYPES.get(duck, "varchar")
    return name, {"varchar": f"varchar({_LONGEST_TEXT})", "tinyint": "tinyint(1)", "time": "time(6)"}.get(name, name)


_WORD = r"(?:`(?:[^`]|``)+`|'[^']*'|(?!(?:LIKE|WHERE|FROM|IN|FOR)\b)[\w$@%]+(?:\(\))?)"
_SHOW = re.compile(
    r"\s*SHOW\s+(?P<full>(?:(?:FULL|EXTENDED|GLOBAL|SESSION|LOCAL)\s+)*)"
    r"(?P<kind>CREATE\s+(?:TABLE|DATABASE|SCHEMA|VIEW)|TABLE\s+STATUS|CHARACTER\s+SET|(?:PROCEDURE|FUNCTION)\s+STATUS"
    r"|(?:MASTER|SLAVE|REPLICA|BINARY\s+LOG)\s+STATUS|STORAGE\s+ENGINES|\w+)(?:\s+IF\s+NOT\s+EXISTS)?"
    rf"(?P<names>(?:\s+(?:FROM|IN|FOR))?(?:\s+{_WORD}(?:\.{_WORD})?)?(?:\s+(?:FROM|IN)\s+{_WORD})?)"
    r"(?:\s+(?:LIKE\s+(?P<like>'(?:[^'\\]|\\.|'')*')|WHERE\s+(?P<where>.+)))?\s*;?\s*",
    re.IGNORECASE | re.DOTALL,
)
_NAME = re.compile(r"`(?:[^`]|``)+`|'[^']*'|\w+")
_WORDS = frozenset({"from", "in", "for", "like", "where"})
_IS_SHOW = re.compile(r"\s*(?:SHOW|DESCRIBE|DESC|EXPLAIN)\b", re.IGNORECASE)
_DESCRIBE = re.compile(
    r"\s*(?:DESCRIBE|DESC|EXPLAIN)\s+(?!SELECT\b)((?:`(?:[^`]|``)+`|\w+)(?:\.(?:`(?:[^`]|``)+`|\w+))?)\s*(?:'[^']*'|\w+)?\s*;?\s*",
    re.IGNORECASE,
)
_EMPTY: Final = {
    "STATUS": ("Variable_name", "Value"),
    "ERRORS": ("Level", "Code", "Message"),
    "PROCEDURE STATUS": ("Db", "Name", "Type", "Definer", "Modified", "Created", "Security_type", "Comment"),
    "FUNCTION STATUS": ("Db", "Name", "Type", "Definer", "Modified", "Created", "Security_type", "Comment"),
    "TRIGGERS": ("Trigger", "Event", "Table", "Statement", "Timing", "Created"),
    "EVENTS": ("Db", "Name", "Definer", "Type", "Status"),
    "PRIVILEGES": ("Privilege", "Context", "Comment"),
    "MASTER STATUS": ("File", "Position"),
    "SLAVE STATUS": ("Slave_IO_State", "Master_Host"),
    "REPLICA STATUS": ("Replica_IO_State", "Source_Host"),
    "BINARY LOG STATUS": ("File", "Position"),
    "OPEN": ("Database", "Table", "In_use", "Name_locked"),
    "PROFILES": ("Query_ID", "Duration", "Query"),
}
_INDEX: Final = (
    "table_name AS `Table`, non_unique AS `Non_unique`, index_name AS `Key_name`, seq_in_index AS `Seq_in_index`, "
    "column_name AS `Column_name`, collation AS `Collation`, cardinality AS `Cardinality`, sub_part AS `Sub_part`, "
    "packed AS `Packed`, nullable AS `Null`, index_type AS `Index_type`, comment AS `Comment`"
)
_LISTS: Final = {
    "DATABASES": "SELECT schema_name AS `Database` FROM information_schema.schemata",
    "ENGINES": (
        "SELECT engine AS `Engine`, support AS `Support`, comment AS `Comment`, transactions AS `Transactions`, "
        "xa AS `XA`, savepoints AS `Savepoints` FROM information_schema.engines"
    ),
    "PLUGINS": (
        "SELECT plugin_name AS `Name`, plugin_status AS `Status`, plugin_type AS `Type` FROM information_schema.plugins"
    ),
    "PROCESSLIST": (
        "SELECT id AS `Id`, user AS `User`, host AS `Host`, db AS `db`, command AS `Command`, time AS `Time`, "
        "state AS `State`, info AS `Info` FROM information_schema.processlist"
    ),
    "COLLATION": (
        "SELECT collation_name AS `Collation`, character_set_name AS `Charset`, id AS `Id`, is_default AS `Default`, "
        "is_compiled AS `Compiled`, sortlen AS `Sortlen` FROM information_schema.collations"
    ),
    "CHARACTER SET": (
        "SELECT character_set_name AS `Charset`, description AS `Description`, "
        "default_collate_name AS `Default collation`, maxlen AS `Maxlen` FROM information_schema.character_sets"
    ),
}
_LISTS["VARIABLES"] = (
    "SELECT variable_name AS `Variable_name`, variable_value AS `Value` FROM performance_schema.session_variables "
    "ORDER BY variable_name"
)
_LISTS["CHARSET"], _LISTS["STORAGE ENGINES"] = _LISTS["CHARACTER SET"], _LISTS["ENGINES"]
_LISTS["SCHEMAS"] = _LISTS["DATABASES"]


_NOT_VARIABLES: Final = frozenset({"database", "user", "connection_id"})


def answer(sql: str, parameters: Sequence[Parameter], tables: Catalog, variables: Variables) -> Records | None:
    """Answer a statement that reads system tables alone, or none, in texts; None for any other. Raises QueryRefused."""
    if _IS_SHOW.match(sql):
        if parameters:
            raise QueryRefused("SHOW takes no parameters", hint="write the value itself")
        return _shown(sql, tables, variables)
    tree = parsed(sql, parameters)
    if not isinstance(tree, exp.Query):
        return None
    database = variables.get("database")
    named = system_tables(tree, str(database) if database else None)
    if named is None:
        return None
    if str(database or "").lower() in SYSTEM:
        for table in tree.find_all(exp.Table):
            if table.name and not table.db:
                table.set("db", exp.to_identifier(str(database).lower()))
    return _run(tree, named, tables, variables)


def _shown(sql: str, tables: Catalog, variables: Variables) -> Records | None:
    if described := _DESCRIBE.fullmatch(sql):
        names = [_unquoted(each) for each in _NAME.findall(described[1])]
        return _columns(names[-1], tables, variables)
    show = _SHOW.fullmatch(sql)
    if show is None:
        if sql.lstrip()[:4].upper() == "SHOW":
            raise QueryRefused("this SHOW is not known", hint="SHOW TABLES, SHOW COLUMNS FROM a table")
        raise QueryRefused("EXPLAIN is not answered here", hint="`cleave plan` shows how a question is answered")
    kind = " ".join(show["kind"].upper().split())
    names = [_unquoted(each) for each in _NAME.findall(show["names"] or "") if each.lower() not in _WORDS]
    condition = condition_of(show["where"]) if show["where"] else None
    full = "FULL" in show["full"].upper()

    def listed(select: exp.Select) -> Records:
        return _listed(select, show["like"], condition, tables, variables)

    match kind:
        case "TABLES":
            of = (names or [str(variables.get("database") or DATABASE)])[-1].lower()
            more = ", table_type AS `Table_type`" if full else ""
            select = _select(f"SELECT table_name{more} FROM information_schema.tables")
            select.selects[0].replace(exp.alias_("table_name", f"Tables_in_{of}", quoted=True))
            return listed(select.where(_is("table_schema", of)))
        case "COLUMNS" | "FIELDS" if names:
            table = _table_of(names, show["names"])
            return _columns(table, tables, variables, full=full, like=show["like"], condition=condition)
        case "INDEX" | "INDEXES" | "KEYS":
            return listed(_select(f"SELECT {_INDEX} FROM information_schema.statistics"))
        case "TABLE STATUS":
            select = _select(
                "SELECT table_name AS `Name`, engine AS `Engine`, version AS `Version`, row_format AS `Row_format`, "
                "table_rows AS `Rows`, create_time AS `Create_time`, table_collation AS `Collation`, "
                "table_comment AS `Comment` FROM information_schema.tables WHERE table_schema = 'cleave'"
            )
            return listed(select)
        case "CREATE TABLE" if names:
            return _create(names[-1], tables)
        case "CREATE DATABASE" | "CREATE SCHEMA":
            created = f"CREATE DATABASE `{DATABASE}` /*!40100 DEFAULT CHARACTER SET utf8mb4 */"
            return _texts(["Database", "Create Database"], [DATABASE, created])
        case "GRANTS":
            user = variables.get("user")
            return _texts([f"Grants for {user}"], [f"GRANT SELECT ON `{DATABASE}`.* TO `{user}`"])
        case "COUNT":
            return Records(("count",), ["BIGINT"], [["0"]])
    if kind in _EMPTY:
        return _texts(_EMPTY[kind])
    if kind in _LISTS:
        return listed(_select(_LISTS[kind]))
    raise QueryRefused(f"SHOW {kind} is not known", hint="SHOW TABLES, SHOW COLUMNS FROM a table")


def _texts(names: Sequence[str], *rows: list[str]) -> Records:
    return Records(tuple(names), ["VARCHAR"] * len(names), list(rows))


def _select(sql: str) -> exp.Select:
    """A SELECT in this file."""
    tree = parsed(sql)
    if not isinstance(tree, exp.Select):
        raise TypeError(sql)
    return tree


def _is(column: str, value: str) -> exp.Expr:
    return exp.EQ(this=exp.column(column), expression=exp.Literal.string(value))


def _listed(
    select: exp.Select, like: str | None, condition: exp.Expr | None, tables: Catalog, variables: Variables
) -> Records:
    """Rows of `select` that SHOW's condition holds for, or whose first column its LIKE matches."""
    named = system_tables(select, None) or set()
    whole = exp.select("*").from_(select.subquery("listed"))
    if condition is not None:
        whole = whole.where(condition)
    listed = _run(whole, named, tables, variables)
    if like is None:
        return listed
    pattern = _pattern(like)
    return Records(listed.names, listed.types, [row for row in listed.rows if pattern.fullmatch(row[0] or "")])


_ESCAPES: Final = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a"}


def _pattern(text: str) -> re.Pattern[str]:
    """The pattern of LIKE, a text of MySQL's in its quotes: % any characters, _ one, each after a backslash itself.

    https://dev.mysql.com/doc/refman/8.0/en/string-literals.html
    """
    parts = []
    for each in re.findall(r"\\.|''|.", text[1:-1], re.DOTALL):
        plain = _ESCAPES.get(each[1], each[1]) if len(each) > 1 else each
        parts.append({"%": ".*", "_": "."}.get(each, re.escape(plain)))
    return re.compile("".join(parts), re.IGNORECASE | re.DOTALL)


def _columns(
    table: str,
    tables: Catalog,
    variables: Variables,
    *,
    full: bool = False,
    like: str | None = None,
    condition: exp.Expr | None = None,
) -> Records:
    if table.lower() not in map(str.lower, tables()):
        raise QueryRefused(f"there is no table {table!r}", hint="SHOW TABLES lists them")
    middle = ", collation_name AS `Collation`" if full else ""
    more = ", privileges AS `Privileges`, column_comment AS `Comment`" if full else ""
    select = _select(
        f"SELECT column_name AS `Field`, column_type AS `Type`{middle}, is_nullable AS `Null`, column_key AS `Key`, "
        f"column_default AS `Default`, extra AS `Extra`{more} FROM information_schema.columns ORDER BY ordinal_position"
    )
    named = exp.EQ(this=exp.Lower(this=exp.column("table_name")), expression=exp.Literal.string(table.lower()))
    return _listed(select.where(named), like, condition, tables, variables)


def _create(table: str, tables: Catalog) -> Records:
    schemas = tables()
    name = next((each for each in schemas if each.lower() == table.lower()), None)
    if name is None:
        raise QueryRefused(f"there is no table {table!r}", hint="SHOW TABLES lists them")
    columns = ",\n".join(
        f"  `{each.name.replace('`', '``')}` {type_of(each.type)[1]}{'' if each.nullable else ' NOT NULL'}"
        f" COMMENT '{each.kind}'"
        for each in schemas[name]
    )
    sql = f"CREATE TABLE `{name.replace('`', '``')}` (\n{columns}\n) ENGINE=Cleave DEFAULT CHARSET=utf8mb4"
    return _texts(["Table", "Create Table"], [name, sql])


def _run(tree: exp.Expr, named: set[tuple[str, str]], tables: Catalog, variables: Variables) -> Records:
    """Answer a SELECT over the system tables `named`. Raises QueryRefused for what a SELECT over tables may not have,
    and for what DuckDB refuses.
    """
    statement = read_statement(translated(tree, variables))
    columns = {}
    for database, table in sorted(named):
        names = _MORE.get((database, table)) or tuple(INFO_SCHEMA.get(database, {}).get(table, ()))
        if not names:
            raise QueryRefused(f"there is no table {database}.{table}")
        columns[f"{database}.{table}"] = names
    require_allowed(selects_of(statement), columns)
    with private() as connection:
        for name, names in columns.items():
            types = (f"{identifier(each)} {'BIGINT' if each in _NUMBERS else 'VARCHAR'}" for each in names)
            connection.execute(f"CREATE TABLE {identifier(name)} ({', '.join(types)})")
            for row in _rows(name.partition(".")[2], tables, variables):
                given = [each for each in names if each in row]
                marks = ", ".join("?" * len(given))
                connection.execute(
                    f"INSERT INTO {identifier(name)} ({', '.join(map(identifier, given))}) VALUES ({marks})",
                    [row[each] for each in given],
                )
        try:
            answer = connection.sql(statement.sql)
            texts = ", ".join(f"CAST(#{place} AS VARCHAR)" for place, _ in enumerate(answer.columns, 1))
            rows = [list(row) for row in answer.project(texts).fetchall()]
            return Records(tuple(answer.columns), list(map(str, answer.types)), rows)
        except duckdb.Error:  # its message may quote the statement
            raise QueryRefused(
                "this statement over no table of yours, or over system tables, cannot be answered",
                hint="DuckDB's dialect, or MySQL's",
            ) from None


def _text(value: object) -> str:
    """The value of a variable, as SHOW VARIABLES has it."""
    if isinstance(value, bool):
        return "ON" if value else "OFF"
    return "" if value is None else str(value)


def _rows(table: str, tables: Catalog, variables: Variables) -> list[dict[str, Any]]:
    """The rows of a system table."""
    of = {"table_catalog": "def", "table_schema": DATABASE}
    match table:
        case "schemata":
            sets = {"default_character_set_name": "utf8mb4", "default_collation_name": _COLLATION}
            return [{"catalog_name": "def", "schema_name": each, **sets} for each in (DATABASE, "information_schema")]
        case "tables":
            more = {"table_type": "BASE TABLE", "engine": "Cleave", "version": 10, "table_collation": _COLLATION}
            return [{**of, "table_name": name, **more, "table_comment": ""} for name in tables()]
        case "columns":
            return [
                {**of, "table_name": name, **_column(each, place)}
                for name, columns in tables().items()
                for place, each in enumerate(columns, 1)
            ]
        case "character_sets":
            held = {"default_collate_name": _COLLATION, "description": "UTF-8 Unicode", "maxlen": 4}
            return [{"character_set_name": "utf8mb4", **held}]
        case "collations":
            held = {"character_set_name": "utf8mb4", "id": 45, "is_default": "Yes", "is_compiled": "Yes", "sortlen": 1}
            return [{"collation_name": _COLLATION, **held}]
        case "session_variables":
            shown = sorted(variables.keys() - _NOT_VARIABLES)
            return [{"variable_name": name, "variable_value": _text(variables[name])} for name in shown]
        case "engines":
            return [{"engine": "Cleave", "support": "DEFAULT", "comment": "read only", "transactions": "NO"}]
    return []


def _column(each: Column, place: int) -> dict[str, Any]:
    data_type, column_type = type_of(each.type)
    is_text = data_type == "varchar"
    whole = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19, "float": 12, "double": 22}
    precision = (digits_of(each.type) or 39) if data_type == "decimal" else whole.get(data_type)
    scale = decimals_of(each.type) or 0 if data_type == "decimal" else 0 if precision and "int" in data_type else None
    return {
        "column_name": each.name,
        "ordinal_position": place,
        "is_nullable": "YES" if each.nullable else "NO",
        "data_type": data_type,
        "character_maximum_length": _LONGEST_TEXT if is_text else None,
        "character_octet_length": 4 * _LONGEST_TEXT if is_text else None,
        "numeric_precision": precision,
        "numeric_scale": scale,
        "datetime_precision": 6 if data_type in ("datetime", "time") else None,
        "character_set_name": "utf8mb4" if is_text else None,
        "collation_name": _COLLATION if is_text else None,
        "column_type": column_type,
        "column_key": "",
        "extra": "",
        "privileges": "select",
        "column_comment": str(each.kind),
        "generation_expression": "",
    }


def _table_of(names: Sequence[str], written: str) -> str:
    """The table of `FROM table`, `FROM table FROM database` or `FROM database.table`."""
    return names[1] if re.search(r"[`\w]\.[`\w]", written) and len(names) > 1 else names[0]


def _unquoted(name: str) -> str:
    return name[1:-1].replace("``", "`") if name[0] in "`'" else name
