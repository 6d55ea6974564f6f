"""MySQL's dialect, read by sqlglot and written as DuckDB's.

A statement that DuckDB accepts means what it means there. One that it does not accept, with texts in double quotes or
functions of MySQL, and one with names in backticks is translated.
"""

from __future__ import annotations

import datetime
import logging
import math
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Final, cast

from sqlglot import Token, TokenType, exp
from sqlglot.dialects.mysql import MySQL

from cleave.gateway.functions import in_duckdb
from cleave_shared.errors import QueryRefused

DATABASE: Final = "cleave"
VERSION: Final = "8.0.29-cleave"  # clients choose what they ask by it
SYSTEM: Final = frozenset({"information_schema", "mysql", "performance_schema", "sys"})
MOST_CHARACTERS: Final = 1 << 20  # of a statement
NO_VARIABLES: Final = "write the value itself: a connection keeps no variables of its own"

logging.getLogger("sqlglot").setLevel(logging.CRITICAL + 1)  # it logs statements

Parameter = None | bool | int | float | Decimal | str | bytes | datetime.date | datetime.datetime
Variables = Mapping[str, object]


def parsed(sql: str, parameters: Sequence[Parameter] = ()) -> exp.Expr | None:
    """The one statement of `sql`, read as MySQL's, with a literal in the place of each `?`; None where it is not
    MySQL's. Raises QueryRefused for several, and where placeholders and parameters differ in number.
    """
    try:
        tokens = MySQL().tokenize(sql)
        places = [place for place, each in enumerate(tokens) if each.token_type == TokenType.PLACEHOLDER]
        if len(places) != len(parameters):
            count = len(parameters)
            raise QueryRefused(f"the statement has {len(places)} placeholders, and {count} parameters were sent")
        for place, value in reversed(list(zip(places, parameters, strict=True))):
            tokens[place : place + 1] = _literal(value)
        statements = [each for each in MySQL().parser().parse(tokens, sql) if each is not None]
    except QueryRefused:
        raise
    except Exception:  # noqa: BLE001 - sqlglot raises errors of every class for what it does not read
        return None
    if len(statements) > 1:
        raise QueryRefused("there are several statements", hint="send one after the other")
    return statements[0] if statements else None


def condition_of(sql: str) -> exp.Expr:
    """A condition of MySQL's that stands alone. Raises QueryRefused for what is none."""
    try:
        return exp.condition(sql, dialect="mysql")
    except Exception:  # noqa: BLE001 - as above
        raise QueryRefused("this condition of SHOW cannot be read") from None


_MOST_PLACEHOLDERS: Final = 0xFFFF  # MySQL's protocol counts them in 2 bytes
_TOKENS: Final = re.compile(
    r"""'(?:[^'\\]|\\.|'')*+(?P<text>'?)|"(?:[^"\\]|\\.|"")*+(?P<double>"?)|`(?:[^`]|``)*+(?P<name>`?)"""
    r"""|/\*.*?(?:\*/|(?P<comment>\Z))|(?:--(?=\s|\Z)|\#)[^\n]*+|(?P<hole>\?)""",
    re.DOTALL,
)


def placeholders(sql: str) -> int:
    """The number of `?` in a statement. Raises QueryRefused for a text, a name or a comment that does not end.

    It runs where all clients are served, so it takes little time, in proportion to the length. `parsed`, in a worker,
    refuses a statement that has another number of them.
    """
    count = 0
    for token in _TOKENS.finditer(sql):
        kind = token.lastgroup
        if kind == "hole":
            count += 1
        elif kind is not None and not token[kind]:
            raise QueryRefused("the statement cannot be read", hint="is a text or a comment left open?")
    if count > _MOST_PLACEHOLDERS:
        raise QueryRefused(f"the statement has {count:,} placeholders, at most {_MOST_PLACEHOLDERS:,} are possible")
    return count


def _literal(value: Parameter) -> list[Token]:
    """The tokens of a literal. No parser reads the text of a value: it is one token, whatever it holds."""
    match value:
        case None | bool():
            return MySQL().tokenize({None: "NULL", True: "TRUE", False: "FALSE"}[value])
        case float() if not math.isfinite(value):
            return _filled("CAST(? AS DOUBLE)", TokenType.STRING, str(value))
        case int() | Decimal() | float():
            return _filled("(-?)" if str(value)[0] == "-" else "(?)", TokenType.NUMBER, str(value).removeprefix("-"))
        case bytes():
            return [Token(TokenType.HEX_STRING, value.hex())]
        case datetime.datetime():
            return _filled("CAST(? AS DATETIME)", TokenType.STRING, value.isoformat(sep=" "))
        case datetime.date():
            return _filled("CAST(? AS DATE)", TokenType.STRING, value.isoformat())
    return [Token(TokenType.STRING, value)]


def _filled(sql: str, kind: TokenType, text: str) -> list[Token]:
    tokens = MySQL().tokenize(sql)
    return [Token(kind, text) if each.token_type == TokenType.PLACEHOLDER else each for each in tokens]


def system_tables(tree: exp.Expr, database: str | None) -> set[tuple[str, str]] | None:
    """The system tables that a query reads, by database and name; None where it reads another table.

    `database`: the one that names without a database are of.
    """
    ctes = {each.alias_or_name.lower() for each in tree.find_all(exp.CTE)}
    named: set[tuple[str, str]] = set()
    for table in tree.find_all(exp.Table):
        if isinstance(table.this, exp.Func):
            return None  # query_table('...') and its like read whatever there is
        if not table.name or (not table.db and table.name.lower() in ctes):
            continue
        of = (table.db or database or DATABASE).lower()
        if of not in SYSTEM:
            if table.name.lower() == "dual":
                continue
            return None
        named.add((of, table.name.lower()))
    return named


def translated(tree: exp.Expr, variables: Variables) -> str:
    """DuckDB's SQL of a statement of MySQL's. A system table is called by both its names.

    Raises QueryRefused for databases and variables that there are not.
    """
    try:
        for function in reversed(list(tree.find_all(exp.Func))):  # those within others first
            if (expression := in_duckdb(function)) is not None:
                function.replace(_named(function, expression))
        changed = tree.transform(lambda node: _node(node, variables))
        return cast("exp.Expr", changed).sql(dialect="duckdb")  # None only for a node within
    except QueryRefused:
        raise
    except Exception:  # noqa: BLE001 - as above
        raise QueryRefused("the statement cannot be translated into DuckDB's dialect") from None


def _node(node: exp.Expr, variables: Variables) -> exp.Expr | None:
    match node:
        case exp.From() if isinstance(node.this, exp.Table) and not node.this.db and node.this.name.lower() == "dual":
            return None
        case exp.Collate():
            return cast("exp.Expr", node.this)
        case exp.SessionParameter() | exp.Func() if (value := _value(node, variables)) is not None:
            return _named(node, value)
        case exp.Parameter():
            raise QueryRefused(f"there is no variable @{node.name}", hint=NO_VARIABLES)
        case exp.Table() if node.name:
            return _table(node)
        case exp.Column() if node.args.get("db"):
            return exp.column(node.this, node.args.get("table"))
    return node


def _table(node: exp.Table) -> exp.Expr:
    database = node.db.lower()
    if database in SYSTEM:
        if not node.alias:
            node.set("alias", exp.TableAlias(this=node.this.copy()))
        node.set("this", exp.to_identifier(f"{database}.{node.name.lower()}", quoted=True))
    elif database and database != DATABASE:
        raise QueryRefused(f"there is no database {node.db!r}", hint=f"all tables are in {DATABASE!r}")
    node.set("db", None)
    node.set("catalog", None)
    return node


_FUNCTIONS: Final = {
    "DATABASE": "database",
    "SCHEMA": "database",
    "CURRENT_SCHEMA": "database",
    "CURRENT_DATABASE": "database",
    "USER": "user",
    "CURRENT_USER": "user",
    "SESSION_USER": "user",
    "SYSTEM_USER": "user",
    "VERSION": "version",
    "CURRENT_VERSION": "version",
    "CONNECTION_ID": "connection_id",
}


def _value(node: exp.Expr, variables: Variables) -> exp.Expr | None:
    """Return the value of a variable of the session, or of a function over it."""
    if isinstance(node, exp.SessionParameter):
        name = node.name.lower()
        if name not in variables:
            raise QueryRefused(f"there is no variable @@{name}")
    else:
        called = node.name.upper() if isinstance(node, exp.Anonymous) else node.sql_names()[0]  # type: ignore[attr-defined]
        name = _FUNCTIONS.get(called, "")
        if not name:
            return None
    value = variables.get(name)
    if isinstance(value, bool):
        value = int(value)
    return exp.null() if value is None else exp.convert(value)


def _named(node: exp.Expr, value: exp.Expr) -> exp.Expr:
    """`value`, under the name that MySQL gives a column of `node`."""
    if isinstance(node.parent, exp.Select) and node.arg_key == "expressions":
        return exp.alias_(value, exp.to_identifier(node.sql(dialect="mysql"), quoted=True))
    return value
