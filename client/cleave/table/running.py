"""Statements over a table: with a time limit, in a catalog of their own, with errors that contain no value."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from typing import Any, TypeVar

import duckdb

from cleave.deadline import Deadline, OutOfTime, Stopped
from cleave.table.blaming import blamed, not_computable
from cleave.table.duck import identifier
from cleave.table.progress import watched
from cleave.table.table import Table
from cleave.table.types import is_shown_as_it_is
from cleave_shared.duckdb_errors import Fault, failed
from cleave_shared.errors import CleaveError

T = TypeVar("T")
_NUMBERS = itertools.count()  # of catalogs: the one of an interrupted question may still exist
_ANSWER = identifier("the answer")
_SECONDS = 0.05  # between two checks of the time


def run_select(
    table: Table, name: str, sql: str, types: Sequence[str], left: Callable[[], float], *, ordered: bool
) -> list[list[Any]]:
    """The rows of `sql`, with columns of `types`. Numbers and booleans are Python values, all others DuckDB's text.

    `ordered`: the answer depends on the order of rows. `sql` must be checked already (cleave.sql.allowed). `left()`:
    remaining seconds.

    Raises InputError if DuckDB cannot compute it, duckdb.InterruptException when no time remains.
    """
    with _own_catalog(table.connection, left) as cursor:
        table.prepare(cursor, ordered=ordered)
        derived = {name: table.schema.derived, **table.derived_of_others}
        for seen, relation in {name: table.relation, **table.others}.items():
            columns = ", ".join(["*", *(f"({each.sql}) AS {identifier(each.name)}" for each in derived[seen])])
            cursor.execute(f"CREATE VIEW {identifier(seen)} AS SELECT {columns} FROM {table.qualified(relation)}")
        failure: CleaveError | None = None
        statement = f"CREATE TEMP TABLE {_ANSWER} AS {sql}"
        try:
            if table.streamed:
                table.hold_repeated(cursor, sql)
            with table.engine.in_order() if ordered else nullcontext():
                cursor.execute(statement)
        except duckdb.InterruptException:
            raise
        except duckdb.Error as error:  # its message may quote values, so it is not chained
            failure = _failed(table, error, statement, sql)
        if failure is not None:
            raise failure
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
    """A second connection for one question: the statement of an interrupted question may still run in `connection`."""
    catalog = identifier(f"the question {next(_NUMBERS)}")  # not a table's name: qualified names would be ambiguous
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
    refusal: Callable[[Fault], Exception],
    fetch: Callable[[duckdb.DuckDBPyConnection], Any] = duckdb.DuckDBPyConnection.fetchall,
) -> Any:
    """Return what `fetch` gives for `sql`. Raises `refusal`, called with what is wrong; DuckDB's message may quote
    values.

    `fetch` is within this guard because DuckDB may compute rows only when they are fetched.
    """
    try:
        return fetch(connection.execute(sql))
    except duckdb.InterruptException:
        raise
    except duckdb.Error as error:  # not chained either
        fault = failed(error)
    raise refusal(fault)


@contextmanager
def limited(connection: duckdb.DuckDBPyConnection, left: Callable[[], float]) -> Iterator[None]:
    """Interrupt the connection's statement once `left()` is 0 or less; it raises duckdb.InterruptException."""

    def look() -> None:
        if not left():
            with suppress(duckdb.Error):  # already closed
                connection.interrupt()

    with watched(look, lambda: min(_SECONDS, left()) or _SECONDS):
        yield


def _failed(table: Table, error: duckdb.Error, executed: str, select: str) -> CleaveError:
    if isinstance(error, duckdb.OutOfMemoryException):
        return table.engine.refusal()
    found = blamed(error, executed, select)
    return found if isinstance(found, CleaveError) else not_computable("the query cannot be computed", found)


def within(deadline: Deadline, work: Callable[[], T]) -> T:
    """Run `work` of DuckDB on this machine, and interrupt it when `deadline` is over.

    Raises OutOfTime and Stopped, also for work that ended too late.
    """
    try:
        done = work()
        if deadline.left():
            return done
    except (duckdb.InterruptException, OutOfTime):
        pass
    except CleaveError:
        raise  # DuckDB has ended, and a store may be asked why
    except BaseException:
        deadline.stop()
        raise
    with suppress(OutOfTime):
        deadline.check()
        raise Stopped("the query was stopped")
    raise OutOfTime(
        f"the query was not answered within the {deadline.seconds:g} seconds it was given",
        hint="give it more with --timeout SECONDS; DuckDB on this machine was at work",
    )
