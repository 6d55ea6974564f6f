"""From text to the clauses of one SELECT over one table; whatever else SQL can say is refused here."""

from __future__ import annotations

import itertools
from collections.abc import Collection

import sqlglot
from sqlglot import TokenType, exp
from sqlglot.errors import ParseError, SqlglotError, UnsupportedError

from cleave.sql import grouping
from cleave.sql.dialect import FaithfulDuckDB, write
from cleave.sql.functions import ABOUT_DATABASE, BY_TEXT, BY_TEXT_HINT, SET_RETURNING, TODAY, UNSTEADY
from cleave.sql.uncut import Uncut, no_service
from cleave.table.duck import identifier
from cleave_shared import limits
from cleave_shared.dataclass import dataclass
from cleave_shared.errors import QueryRefused
from cleave_shared.plain_functions import AGGREGATES_BY_NAME

MAIN = "main"  # DuckDB's schema for tables of no other
ONE_TABLE = "ask one SELECT over one table; join or reshape the CSV beforehand"


@dataclass(frozen=True, slots=True)
class Item:
    """One select item; `name` is its alias, if it has one."""

    expression: exp.Expression
    name: str | None


@dataclass(frozen=True, slots=True)
class Question:
    """The clauses of one SELECT. `keys` None: GROUP BY ALL; an ordering's `this` may be the word ALL.

    `sets`: by place in `keys`, those of each set of GROUPING SETS, ROLLUP and CUBE; None where there is none of them.
    """

    text: str
    rewritten: str  # by sqlglot: what of the statement it understood
    table: str
    alias: str | None
    items: tuple[Item, ...]
    where: exp.Expression | None
    keys: tuple[exp.Expression, ...] | None
    sets: tuple[tuple[int, ...], ...] | None
    is_grouped: bool
    having: exp.Expression | None
    orderings: tuple[exp.Ordered, ...]
    limit: int | None
    offset: int
    functions: tuple[str, ...]  # names, in lower case


def parse(sql: str, table: str, columns: Collection[str] = ()) -> Question:
    """Read one SELECT over `table`, whose columns may be called what sqlglot takes for a keyword and DuckDB does not.

    Raises QueryRefused, with the position of a syntax error, and the reason and the alternative for anything else.
    """
    if len(sql) > limits.MAX_SQL_CHARS:
        raise QueryRefused(f"the query has {len(sql)} characters, at most {limits.MAX_SQL_CHARS}")
    select = _one_select(sql, table, columns)
    _refuse_clauses(select)
    _refuse_nodes(select)
    source = _source(select, table)
    group = select.args.get("group")
    is_all = bool(group and group.args.get("all"))
    keys, sets = _keys(group)
    order = select.args.get("order")
    return Question(
        text=sql,
        rewritten=_write(select),
        table=table,
        alias=source.alias or None,
        items=tuple(_item(expression) for expression in select.expressions),
        where=_condition(select, "where"),
        keys=None if is_all else keys,
        sets=sets,
        is_grouped=group is not None,
        having=_condition(select, "having"),
        orderings=tuple(order.expressions) if order else (),
        limit=_limit(select.args.get("limit")),
        offset=_number(select.args["offset"].expression, "OFFSET") if select.args.get("offset") else 0,
        functions=tuple(_functions(select)),
    )


def _statements(sql: str, names: Collection[str]) -> list[exp.Expr]:
    try:
        read = sqlglot.parse(sql, read=FaithfulDuckDB)
    except ParseError:
        quoted = _quoted(sql, names)
        if quoted == sql:
            raise
        try:
            read = sqlglot.parse(quoted, read=FaithfulDuckDB)
        except SqlglotError:
            read = []
        if not read:
            raise  # the places of the first error are those of the text
    return [each for each in read if each is not None]


def _quoted(sql: str, names: Collection[str]) -> str:
    """`sql` with quotes around the keywords that are one of `names` and stand where a name can."""
    wanted = {name.lower() for name in names}
    tokens = sqlglot.tokenize(sql, read=FaithfulDuckDB)
    pieces, end = [], 0
    for token, following in itertools.zip_longest(tokens, tokens[1:]):
        is_word = token.text.isidentifier() and token.token_type not in (TokenType.VAR, TokenType.IDENTIFIER)
        begins_more = following is not None and following.token_type in (TokenType.L_PAREN, TokenType.STRING)
        if is_word and token.token_type != TokenType.STRING and not begins_more and token.text.lower() in wanted:
            pieces += [sql[end : token.start], identifier(token.text)]
            end = token.end + 1
    return "".join([*pieces, sql[end:]])


def _one_select(sql: str, table: str, columns: Collection[str]) -> exp.Select:
    try:
        statements = _statements(sql, [table, *columns])
    except ParseError as error:
        first = error.errors[0] if error.errors else {}
        # sqlglot's column is where the offending word ends
        column = first["col"] - len(first.get("highlight") or " ") + 1 if first else 0
        place = f" at line {first['line']}, column {column}" if first else ""
        quoted = "" if _spelled(table) == table else f", and this table is FROM {_spelled(table)}"
        raise QueryRefused(f"syntax error{place}", hint=f"the dialect is DuckDB's{quoted}") from None
    except SqlglotError:
        raise QueryRefused("the query holds a quote or comment that does not end") from None
    if not statements:
        raise QueryRefused("the query is empty", hint=f"for example: SELECT COUNT(*) FROM {_spelled(table)}")
    if len(statements) > 1:
        raise QueryRefused(f"{len(statements)} statements, one at a time", hint=ONE_TABLE)
    statement = statements[0]
    if isinstance(statement, exp.SetOperation):
        raise no_service(f"{statement.key.upper()} of queries", "ask them one at a time")
    if not isinstance(statement, exp.Select):
        raise Uncut("a service answers one SELECT over the table", hint=ONE_TABLE)
    return statement


def _write(select: exp.Select) -> str:
    try:
        return write(select)
    except UnsupportedError:
        raise Uncut("the query holds what no DuckDB statement can", hint=ONE_TABLE) from None


_CLAUSES = {
    "with_": ("WITH (common table expressions)", ONE_TABLE),
    "joins": ("a join", ONE_TABLE),
    "laterals": ("LATERAL", ONE_TABLE),
    "pivots": ("PIVOT", ONE_TABLE),
    "distinct": ("SELECT DISTINCT", "GROUP BY ALL gives each combination once"),
    "qualify": ("QUALIFY", "HAVING filters groups"),
    "windows": ("WINDOW", "window functions need single rows; GROUP BY gives one answer a group"),
    "sample": ("USING SAMPLE", "sample the CSV beforehand"),
    "into": ("INTO", "redirect the output instead, with --json for programs"),
    "locks": ("FOR UPDATE", "leave it out"),
}
_UNDERSTOOD = {"expressions", "from_", "where", "group", "having", "order", "limit", "offset"}


def _refuse_clauses(select: exp.Select) -> None:
    for name, value in select.args.items():
        if value and name not in _UNDERSTOOD:
            what, hint = _CLAUSES.get(name, (name.strip("_").upper().replace("_", " "), ONE_TABLE))
            raise no_service(what, hint)


_WINDOW = "GROUP BY gives one answer a group; single rows stay where they are"
_NODES: tuple[tuple[tuple[type[exp.Expr], ...], str, str], ...] = (
    ((exp.Query, exp.Exists), "a subquery", "ask the inner question first and write its answer as a literal"),
    ((exp.Window,), "a window function", _WINDOW),
    ((exp.Placeholder, exp.Parameter, exp.SessionParameter), "a parameter", "write the value itself"),
    ((exp.PositionalColumn,), "a column by its number", "write the column's name"),
    ((exp.Dot,), "a call or field after a dot", "write function(column) instead of column.function()"),
    ((exp.IgnoreNulls, exp.RespectNulls), "IGNORE or RESPECT NULLS", "use FILTER (WHERE x IS NOT NULL)"),
    ((exp.WithinGroup,), "WITHIN GROUP", "write quantile_cont(x, 0.5) or mode(x)"),
    ((exp.TableSample,), "TABLESAMPLE", "sample the CSV beforehand"),
    ((exp.Command,), "this statement", ONE_TABLE),
)


def _refuse_nodes(select: exp.Select) -> None:
    for node in select.walk():
        if node is select:
            continue
        for kinds, what, hint in _NODES:
            if isinstance(node, kinds):
                raise no_service(what, hint)
        if isinstance(node, exp.Star) and not _is_count_star(node):
            raise no_service("*: it asks for single rows", "name the aggregates you want; `--op` asks for all columns")
        if isinstance(node, exp.Anonymous):
            _refuse_function(node.name.lower())
            if node.name.lower() in AGGREGATES_BY_NAME:
                _refuse_function(_named_aggregate(node))
        elif isinstance(node, exp.Unnest | exp.Explode):
            _refuse_function("unnest")


def _refuse_function(name: str) -> None:
    if name == "columns":
        raise no_service("COLUMNS()", "name the columns; `--op` asks for all of them")
    if (name in UNSTEADY and name not in TODAY) or name in ABOUT_DATABASE:
        raise unsteady(f"{name}()")
    if name in SET_RETURNING:
        raise no_service(f"{name}(), which makes rows", "reshape the CSV beforehand")


def _named_aggregate(call: exp.Anonymous) -> str:
    """Return the name that `list_aggregate(x, 'name')` states, in lower case."""
    name = call.expressions[1] if len(call.expressions) > 1 else None
    if not isinstance(name, exp.Literal) or not name.is_string:
        raise Uncut(BY_TEXT, hint=BY_TEXT_HINT)
    return name.name.lower()


def unsteady(name: str) -> QueryRefused:
    return Uncut(f"{name} does not follow from the table", hint="write the value itself as a literal")


def _is_count_star(star: exp.Star) -> bool:
    call = star.parent
    is_count = isinstance(call, exp.Anonymous) and call.name.lower() == "count" and len(call.expressions) == 1
    return is_count and not any(star.args.values())


def _source(select: exp.Select, table: str) -> exp.Table:
    clause = select.args.get("from_")
    if clause is None:
        raise Uncut("the query has no FROM", hint=f"FROM {_spelled(table)}")
    source = clause.this
    if not isinstance(source, exp.Table) or not isinstance(source.this, exp.Identifier):
        raise Uncut("FROM must name the table", hint=f"FROM {_spelled(table)}")
    if any(value for name, value in source.args.items() if name not in ("this", "alias", "db")):
        raise Uncut("FROM may only name the table", hint=f"FROM {_spelled(table)}")
    if source.db and source.db.lower() != MAIN:
        raise Uncut("FROM may only name the table", hint=f"FROM {_spelled(table)}")
    alias = source.args.get("alias")
    if alias is not None and alias.args.get("columns"):
        raise no_service("new column names after FROM", f"FROM {_spelled(table)}")
    if source.name.lower() != table.lower():
        raise QueryRefused(f"there is no table {source.name!r}", hint=f"this one is {table!r}: FROM {_spelled(table)}")
    return source


def _spelled(name: str) -> str:
    """`name` with quotes where DuckDB wants them: around all but plain words that mean nothing else."""
    tokens = sqlglot.tokenize(name, read=FaithfulDuckDB) if name.isidentifier() else []
    return name if [token.token_type for token in tokens] == [TokenType.VAR] else identifier(name)


def _item(expression: exp.Expression) -> Item:
    if isinstance(expression, exp.Alias):
        return Item(expression.this, expression.alias)
    return Item(expression, None)


def _keys(group: exp.Group | None) -> tuple[tuple[exp.Expression, ...], tuple[tuple[int, ...], ...] | None]:
    elements = group.expressions if group else []
    sets = grouping.expanded(elements)
    keys = tuple({write(key): key for keys in sets for key in keys}.values())
    if not grouping.has_sets(elements):
        return keys, None
    places = {write(key): place for place, key in enumerate(keys)}
    return keys, tuple(tuple(places[write(key)] for key in keys) for keys in sets)


def _functions(select: exp.Select) -> dict[str, None]:
    """Names of calls; GROUPING is one in spelling only."""
    names = (call.name.lower() for call in select.find_all(exp.Anonymous))
    return dict.fromkeys(name for name in names if name not in ("grouping", "grouping_id"))


def _condition(select: exp.Select, clause: str) -> exp.Expression | None:
    node = select.args.get(clause)
    return node.this if node else None


def _limit(node: exp.Expression | None) -> int | None:
    if node is None:
        return None
    options = node.args.get("limit_options")
    if options is not None and (options.args.get("percent") or options.args.get("with_ties")):
        raise no_service("LIMIT with percent or ties", "give a number of groups")
    if isinstance(node, exp.Limit) and (isinstance(node.expression, exp.Null) or node.expression == exp.var("ALL")):
        return None
    return _number(node.args["count"] if isinstance(node, exp.Fetch) else node.expression, "LIMIT")


def _number(node: exp.Expression | None, clause: str) -> int:
    if isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit():
        return int(node.name)
    raise Uncut(f"{clause} is no whole number", hint=f"for example: {clause} 10")
