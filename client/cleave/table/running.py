"""Statements run over a table: within a time, in a catalog of their own, without a value in an error."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from typing import Any

import duckdb

from cleave.table.duck import identifier
from cleave.table.progress import watched
from cleave.table.table import Table
from cleave.table.types import is_shown_as_it_is
from cleave_shared.errors import CleaveError, InputError

_NUMBERS = itertools.count()  # of catalogs: one that was left to end by itself may still be there
_ANSWER = identifier("the answer")
_SECONDS = 0.05  # between two looks at the time


def run_select(
    table: Table, name: str, sql: str, types: Sequence[str], left: Callable[[], float], *, ordered: bool
) -> list[list[Any]]:
    """The rows of `sql`, columns of `types`: Python's value of numbers and booleans, else DuckDB's text of it.

    `ordered`: the answer depends on the order of rows. The statement was checked (cleave.sql.allowed).

    Raises InputError where it cannot be computed on these rows, duckdb.InterruptException once `left()`, in seconds, is
    none.
    """
    with _own_catalog(table.connection, left) as cursor:
        table.prepare(cursor, ordered=ordered)
        derived = {name: table.schema.derived, **table.derived_of_others}
        for seen, relation in {name: table.relation, **table.others}.items():
            columns = ", ".join(["*", *(f"({each.sql}) AS {identifier(each.name)}" for each in derived[seen])])
            cursor.execute(f"CREATE VIEW {identifier(seen)} AS SELECT {columns} FROM {table.qualified(relation)}")
        failure = None
        try:
            if table.streamed:
                table.hold_repeated(cursor, sql)
            with table.engine.in_order() if ordered else nullcontext():
                cursor.execute(f"CREATE TEMP TABLE {_ANSWER} AS {sql}")
        except duckdb.InterruptException:
            raise
        except duckdb.Error as error:  # its message may quote values: it is neither kept nor chained
            failure = error.__class__
        if failure is not None:
            raise _failed(table, failure)
        names = [f"c{place}" for place in range(len(types))]
        shown = [
            name if is_shown_as_it_is(type_) else f"CAST({name} AS VARCHAR)"
            for name, type_ in zip(names, types, strict=True)
        ]
        rows = cursor.execute(f"SELECT {', '.join(shown)} FROM {_ANSWER} AS answer({', '.join(names)})").fetchall()
    return [list(row) for row in rows]


@contextmanager
def _own_catalog(
    connection: duckdb.DuckDBPyConnection, left: Callable[[], float]
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Another connection, for one question: `connection` itself may be busy with one that was left to end by itself."""
    catalog = identifier(f"the question {next(_NUMBERS)}")  # no table's name: a qualified one would be ambiguous
    with closing(connection.cursor()) as outside:
        outside.execute(f"ATTACH ':memory:' AS {catalog}")
        try:
            with closing(outside.cursor()) as cursor, limited(cursor, left):
                cursor.execute(f"USE {catalog}")
                yield cursor
        finally:
            outside.execute(f"DETACH {catalog}")


def fetched(
    connection: duckdb.DuckDBPyConnection,
    sql: str,
    refusal: Callable[[str], Exception],
    fetch: Callable[[duckdb.DuckDBPyConnection], Any] = duckdb.DuckDBPyConnection.fetchall,
) -> Any:
    """Return the rows of `sql`. Raises `refusal` of the class of DuckDB's error, whose message may quote values.

    `fetch` is called as well: DuckDB may compute rows only when they are fetched.
    """
    try:
        return fetch(connection.execute(sql))
    except duckdb.InterruptException:
        raise
    except duckdb.Error as error:  # not chained either
        failure = type(error).__name__
    raise refusal(failure)


@contextmanager
def limited(connection: duckdb.DuckDBPyConnection, left: Callable[[], float]) -> Iterator[None]:
    """Once `left()` is none, whatever `connection` is at within the block raises duckdb.InterruptException."""

    def look() -> None:
        if not left():
            with suppress(duckdb.Error):  # closed meanwhile
                connection.interrupt()

    with watched(look, lambda: min(_SECONDS, left()) or _SECONDS):
        yield


def _failed(table: Table, kind: type[duckdb.Error]) -> CleaveError:
    if issubclass(kind, duckdb.OutOfMemoryException):
        return table.engine.refusal()
    return InputError(
        f"the query cannot be computed on this table ({kind.__name__})",
        hint="use TRY_CAST where a value may not fit, NULLIF(x, 0) where one divides",
    )
