"""Names and types as DuckDB resolves them, over empty tables in a private database."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress

import duckdb

from cleave.sql.nodes import Cast, Constant, Node
from cleave.sql.read import Statement
from cleave.sql.refusals import Uncut
from cleave.table.derived import Derived, generated
from cleave.table.duck import identifier, parts_of, private, tree_of
from cleave.table.schema import Column
from cleave.table.trees import Tree
from cleave_shared.errors import QueryRefused
from cleave_shared.plain_functions import called

_NAMED = "PIVOT wants its columns named: PIVOT t ON ward IN ('A', 'B') USING sum(x)"
Described = list[tuple[str, str]]  # (name, type) of each result column


class Catalog:
    """Empty tables whose statements are described, never run. Use as a context manager through `contextlib.closing`."""

    def __init__(self, table: str, columns: Sequence[Column], derived: Sequence[Derived] = ()) -> None:
        self._open = ExitStack()
        self._connection = self._open.enter_context(private())
        self._table = table
        self._settled: dict[str, Node] = {}
        self._types: dict[tuple[str, str], str] = {}  # by expression and GROUP BY
        # DuckDB has no table without columns; rows can be counted though all of theirs are sealed
        names = {column.name for column in columns}
        usable = [each for each in derived if names.issuperset(each.columns)]
        self.create(table, [(column.name, column.type) for column in columns] or [(" ", "BOOLEAN")], usable)

    def close(self) -> None:
        self._open.close()

    def create(self, table: str, columns: Described, derived: Sequence[Derived] = ()) -> None:
        stated = [f"{identifier(name)} {type_}" for name, type_ in columns]
        described = ", ".join([*stated, *map(generated, derived)])
        self._connection.execute(f"CREATE OR REPLACE TABLE {identifier(table)} ({described})")

    def describe(self, select: str) -> Described:
        """`select`: DuckDB's own text of a statement, or text of `cleave.sql.nodes`.

        Raises QueryRefused with DuckDB's own reason, without the values of the query's literals.
        """
        try:
            rows = self._connection.execute(f"DESCRIBE {select}").fetchall()
            return [(str(row[0]), str(row[1])) for row in rows]
        except duckdb.Error as error:  # its message quotes literals: it is neither kept nor chained
            reason = _reason(error, select)
        raise QueryRefused(f"DuckDB refuses the query: {reason}")

    def functions(self, expression: str) -> set[str]:
        """The names of the functions an expression calls, as the plain service's DuckDB reads them."""
        selected = f"SELECT {expression}"
        return {
            name for node in parts_of(tree_of(selected)) if node.get("class") == "FUNCTION" for name in called(node)
        }

    def settle(self, name: str) -> Node:
        """Return the value of current_date or the like, the same on each call."""
        if name not in self._settled:
            row = self._connection.execute(f"SELECT CAST({name} AS VARCHAR), typeof({name})").fetchone()
            text, type_ = row or ("", "")
            self._settled[name] = Cast(Constant("STRING", text), type_)
        return self._settled[name]

    def look_up(self, expressions: Sequence[str]) -> None:
        """Describe expressions, all scalar or all aggregates, at once for later calls of `types`.

        DuckDB binds all columns of the table for every statement. What it refuses is left to these calls.
        """
        with suppress(QueryRefused):
            self.types(expressions)

    def types(self, expressions: Sequence[str], grouped: str = "") -> tuple[str, ...]:
        """The types of expressions, all scalar or all aggregates, over the table; `grouped`: its GROUP BY."""
        untyped = [sql for sql in dict.fromkeys(expressions) if (sql, grouped) not in self._types]
        if untyped:
            selected = ", ".join(f"({sql})" for sql in untyped)
            described = self.describe(f"SELECT {selected} FROM {identifier(self._table)}{grouped}")
            self._types |= {(sql, grouped): type_ for sql, (_, type_) in zip(untyped, described, strict=True)}
        return tuple(self._types[sql, grouped] for sql in expressions)


def selects_of(statement: Statement) -> Tree:
    """The tree of SELECTs. Raises QueryRefused for anything else, with DuckDB's reason for what is no SQL."""
    tree = statement.tree
    if not tree.get("error"):
        return tree
    if tree.get("error_type") == "parser":
        reason = _without_literals(f"Parser Error: {tree['error_message']}", statement.text)
        keyword = 'a name that SQL also uses, such as "at" or "semi", needs double quotes'
        raise QueryRefused(f"DuckDB refuses the query: {reason}", hint=keyword)
    pivots = re.search(r"\bpivot", statement.text, re.IGNORECASE)
    raise Uncut("only SELECT is supported", hint=_NAMED if pivots else None)


def _reason(error: duckdb.Error, statement: str) -> str:
    """The first lines of a binder's message; of others, which may quote values, the class only."""
    if not isinstance(error, duckdb.BinderException | duckdb.CatalogException | duckdb.ParserException):
        return type(error).__name__
    text = _without_literals(str(error), statement)  # first: they may hold line breaks
    return re.split(r"\n\s*(?:\n|LINE |Candidate)", text)[0].replace("\n", " ").strip()


def _without_literals(text: str, statement: str) -> str:
    for literal in sorted(filter(None, _literals(statement)), key=len, reverse=True):
        text = re.sub(rf"(?<!\w){re.escape(literal)}(?!\w)", "...", text)
    return text


def _literals(statement: str) -> Iterator[str]:
    """The texts of strings and numbers in a statement."""
    content = statement.encode()
    places = duckdb.tokenize(statement)
    for (start, kind), (end, _) in zip(places, [*places[1:], (len(content), None)], strict=True):
        token = content[start:end].decode(errors="replace").strip()
        if kind == duckdb.token_type.numeric_const:
            yield token
        elif kind == duckdb.token_type.string_const:
            yield token.strip("'").replace("''", "'")
            yield token.strip("'")
