"""Query through DB-API 2.0 (PEP 249): tables, key and services are opened once, and cursors run queries.

    with cleave.connect("patients.csv", key="key.json") as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT ward, AVG(age) FROM patients WHERE admitted >= ? GROUP BY ward", [date(2025, 1, 1)])
        cursor.fetchall(), cursor.bounds, cursor.sources

Statements are SELECTs, so there are no transactions: `commit` and `rollback` do nothing. Each statement is over the
newest version of a stored table, unless `Connection.snapshot` fixes the versions. Threads may share the module and not
a connection.
"""

from __future__ import annotations

import contextlib
import time
import warnings
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from cleave.api import errors
from cleave.api.ask import ask, session_over
from cleave.api.errors import InterfaceError, NotSupportedError, translated
from cleave.api.result import Result
from cleave.ask.options import Asking, complete, question_options, stated
from cleave.sql.read import Statement, read_statement
from cleave.table.schema import Schema
from cleave.table.types import decimals_of, digits_of
from cleave_shared.errors import QueryRefused

if TYPE_CHECKING:
    from cleave.ask.options import Data
    from cleave.ask.session import Session

_Row = tuple[Any, ...]
_ColumnDescription = tuple[str, str, None, None, int | None, int | None, None]


@stated(Asking)
def connect(data: Data | None = None, **asking: Unpack[Asking]) -> Connection:
    """Connect to one table, or with only a store, to the stored tables that statements name.

    Every argument means the same as for `cleave.query`.

    >>> import cleave
    >>> connection = cleave.connect("patients.csv")
    >>> cursor = connection.cursor()
    >>> cursor.execute("SELECT AVG(age) AS age, SUM(bill) AS bill FROM patients WHERE ward = ?", ["Surgery"]).fetchall()
    [(46.50526315789474, Decimal('241860.45'))]
    >>> cursor.bounds, cursor.sources
    ([(0.0, 0.0)], ('encrypted', 'encrypted'))
    >>> connection.close()
    """
    # pandas warns of every DB-API connection but SQLite's; it is tested with ours
    warnings.filterwarnings("ignore", "pandas only supports SQLAlchemy connectable", UserWarning)
    with translated():
        given = complete(Asking, asking)
        question_options(given)
        session = session_over(data, given)
        try:
            session.open()
        except BaseException:
            session.close()
            raise
        return Connection(session, given)


class Connection:
    """A connection, made by `connect`; as a context manager it closes itself. Cursors of a closed connection raise
    InterfaceError.
    """

    Warning = errors.Warning
    Error = errors.Error
    InterfaceError = errors.InterfaceError
    DatabaseError = errors.DatabaseError
    DataError = errors.DataError
    OperationalError = errors.OperationalError
    IntegrityError = errors.IntegrityError
    InternalError = errors.InternalError
    ProgrammingError = errors.ProgrammingError
    NotSupportedError = errors.NotSupportedError

    def __init__(self, session: Session, asking: Asking) -> None:
        self._session: Session | None = session
        weakref.finalize(self, session.close)  # one that is never closed gives up its table and key too
        self._asking = asking

    @property
    def schemas(self) -> Mapping[str, Schema]:
        """Return the tables that a statement may name, with the names and kinds of their columns."""
        with translated():
            return self._opened().schemas

    def cursor(self) -> Cursor:
        self._opened()
        return Cursor(self)

    def execute(self, operation: str, parameters: Sequence[object] = ()) -> Cursor:
        """Execute a statement on a new cursor, and return the cursor."""
        return self.cursor().execute(operation, parameters)

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[None]:
        """Answer all statements of a block over the versions that stored tables have at its start.

        A statement raises OperationalError if a later change has deleted data that it needs.
        """
        with contextlib.ExitStack() as stack:
            with translated():
                stack.enter_context(self._opened().snapshot())
            yield

    def commit(self) -> None:
        self._opened()

    def rollback(self) -> None:
        self._opened()

    def close(self) -> None:
        """Close the connection. A second call does nothing."""
        if self._session is not None:
            self._session.close()
            self._session = None

    def __enter__(self) -> Connection:
        self._opened()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, statement: Statement) -> Result:
        started = time.perf_counter()
        with translated():
            return ask(self._opened(), statement, self._asking, started)

    def _opened(self) -> Session:
        if self._session is None:
            raise InterfaceError("the connection is closed")
        return self._session


class Cursor:
    """Runs one statement at a time and returns the rows of its answer. Iterating returns the remaining rows."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.arraysize = 1
        self._result: Result | None = None
        self._rows: list[_Row] = []
        self._next = 0
        self._closed = False

    def execute(self, operation: str, parameters: Sequence[object] = ()) -> Cursor:
        """Run one SELECT, with a "?" for each of `parameters`."""
        self._opened()
        self._result, self._rows, self._next = None, [], 0
        with translated():
            if not isinstance(operation, str):
                raise QueryRefused(f"a statement is text, not {type(operation).__name__}")
            statement = read_statement(operation, parameters or ())
        result = self.connection._ask(statement)
        self._result, self._rows = result, result.rows
        return self

    def executemany(self, operation: str, seq_of_parameters: Sequence[Sequence[object]]) -> Cursor:
        """Execute with each set of parameters in turn, and keep the rows of the last."""
        self._opened()
        for parameters in seq_of_parameters:
            self.execute(operation, parameters)
        return self

    def callproc(self, procname: str, parameters: Sequence[object] = ()) -> None:  # noqa: ARG002 - PEP 249's signature
        raise NotSupportedError("there are no stored procedures")

    def fetchone(self) -> _Row | None:
        rows = self.fetchmany(1)
        return rows[0] if rows else None

    def fetchmany(self, size: int | None = None) -> list[_Row]:
        self._answered()
        rows = self._rows[self._next : self._next + (self.arraysize if size is None else size)]
        self._next += len(rows)
        return rows

    def fetchall(self) -> list[_Row]:
        return self.fetchmany(len(self._answered()))

    @property
    def description(self) -> list[_ColumnDescription] | None:
        """Return name, type code, None, None, precision, scale and None for each column; None before the first
        statement.
        """
        if self._result is None:
            return None
        return [
            (name, type_, None, None, digits_of(type_), decimals_of(type_) if digits_of(type_) else None, None)
            for name, type_ in zip(self._result.columns, self._result.types, strict=True)
        ]

    @property
    def rowcount(self) -> int:
        return -1 if self._result is None else len(self._rows)

    @property
    def rownumber(self) -> int | None:
        """Return the position of the next row."""
        return None if self._result is None else self._next

    @property
    def result(self) -> Result:
        """Return the whole answer, with its `df()`, `arrow()`, checks and usage."""
        return self._answered()

    @property
    def bounds(self) -> list[tuple[float | None, ...]]:
        """Return the largest possible distance of each value to the exact one, by row and column."""
        return self._answered().bounds

    @property
    def sources(self) -> tuple[str, ...]:
        """Return where each column comes from: "key", "plain", "encrypted" or "local"."""
        return self._answered().sources

    def setinputsizes(self, sizes: Sequence[object]) -> None:
        """Do nothing."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Do nothing."""

    def close(self) -> None:
        self._closed = True
        self._result, self._rows = None, []

    def __enter__(self) -> Cursor:
        self._opened()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[_Row]:
        return self

    def __next__(self) -> _Row:
        row = self.fetchone()
        if row is None:
            raise StopIteration
        return row

    def _opened(self) -> None:
        if self._closed:
            raise InterfaceError("the cursor is closed")
        self.connection._opened()

    def _answered(self) -> Result:
        self._opened()
        if self._result is None:
            raise InterfaceError("nothing has been executed yet")
        return self._result
