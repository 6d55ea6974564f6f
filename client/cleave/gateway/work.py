"""A worker of the gateway: a process that holds the opened tables and answers one question at a time.

The process that speaks to clients has the passphrase and opens no table. So a query that takes too long, or too much
memory, ends its worker and nothing else. A reply is frames of JSON, or of Arrow's stream.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from sqlglot import exp

from cleave.ask.opening import open_session
from cleave.ask.options import Asking, complete
from cleave.ask.question import Options
from cleave.finish.result import Records, loaded, records
from cleave.gateway import system
from cleave.gateway.dialect import MOST_CHARACTERS, Parameter, parsed, translated
from cleave.propose.further import further_of
from cleave.sql.planner import names_in
from cleave.sql.read import Statement, read_statement
from cleave.table.duck import identifier, is_unicode
from cleave.table.progress import no_bars
from cleave.text.figures import plain
from cleave.text.quantities import counted
from cleave_shared.children import Channel
from cleave_shared.errors import CleaveError, CleaveWarning, InputError, QueryRefused

if TYPE_CHECKING:
    from pydantic import JsonValue

    from cleave.ask.plan import Plan
    from cleave.ask.question import Result
    from cleave.ask.services import Embedded
    from cleave.ask.session import Session
    from cleave.ask.stored import StoredSource
    from cleave.table.schema import Column

BATCH: Final = 4096  # rows of a frame
MOST_BYTES: Final = 64 << 20  # of an answer
_YEAR = re.compile(r"\d{4}-\d\d-\d\d(?!.*BC)")


@dataclass(frozen=True, slots=True)
class Setup:
    """Tables, services and limits that all queries share.

    `files`: further tables, read here. `tables`: names in lower case of those served; None: all. `embedded`, `prepare`:
    the services in this process, and what gets them ready; the worker looks both up by their names. `seconds`,
    `memory`, `rows`: the longest time of a query, bytes of its worker, rows of the largest answer.
    """

    asking: dict[str, Any]
    files: tuple[str, ...]
    tables: frozenset[str] | None
    embedded: Embedded
    prepare: Callable[[], None]
    seconds: float
    memory: int
    rows: int

    @property
    def session(self) -> Session:
        """The session of this process; the first call opens it."""
        if not _sessions:
            self.prepare()  # before there is a second thread
            asking = complete(Asking, cast("Asking", self.asking))
            others = list(map(further_of, self.files))
            _sessions[""] = open_session(None, others, asking, self.embedded, no_bars)
        return _sessions[""]


@dataclass(frozen=True, slots=True)
class Rights:
    """Rights of a user. `tables`: names in lower case; None: all that are served. `rows`: whether rows may be read."""

    tables: frozenset[str] | None
    min_group: int
    rows: bool

    def include(self, name: str) -> bool:
        """Check whether the user may query a table."""
        return self.tables is None or name.lower() in self.tables


@dataclass(frozen=True, slots=True)
class Request:
    """Statement of a client.

    `variables`: of the session, with `database`, `user` and `connection_id` among them. `bounds`: with a column of them
    beside each inexact figure. `most`: rows that are sent. `seconds`: less than all queries have.
    """

    sql: str
    parameters: tuple[Parameter, ...]
    variables: dict[str, Any]
    bounds: bool
    most: int | None = None
    arrow: bool = False
    seconds: float | None = None


_sessions: dict[str, Session] = {}  # the one of this process


def answer(channel: Channel, setup: Setup, rights: Rights, request: Request, seconds: float) -> None:
    """Send the reply to `request`: its head, then rows, then an empty frame. An error is a head alone.

    Before a head that is read from stored tables comes a frame with their names, so that they are known however the
    question ends.
    """
    rows: Sequence[Sequence[str | None]] = ()
    content = None
    reads: list[str] = []

    def begin(tables: list[str]) -> None:
        reads.extend(tables)
        channel.send([json.dumps({"reads": reads}).encode()])

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", CleaveWarning)
        try:
            held, warned = _answered(setup, rights, request, seconds, begin)
            head, rows, content = _sent(held, warned, request)
        except CleaveError as error:
            done = isinstance(error, InputError | QueryRefused)  # after a time-out something may still be at work
            head = {"error": error.message, "hint": error.hint, "done": done}
        except Exception as error:  # noqa: BLE001 - whatever a client's statement brings about is that statement's error
            text = f"the statement cannot be answered: a defect of Cleave ({type(error).__name__})"
            warnings.warn(f"{text} at {_place(error)}", CleaveWarning, stacklevel=1)
            head = {"error": text, "hint": "write it in another way", "done": not reads}
    head["said"] = [str(each.message) for each in said if issubclass(each.category, CleaveWarning)]
    channel.send([json.dumps(head).encode()])
    if "error" in head:
        return
    if content is not None:
        channel.send([content])
    for start in range(0, len(rows), BATCH):
        channel.send([json.dumps(rows[start : start + BATCH]).encode()])
    channel.send([])


def record(channel: Channel, setup: Setup, queries: dict[str, dict[str, JsonValue]]) -> None:
    """Record queries in the audit log of each table; send back why, by table, where that failed."""
    failed = {}
    source = setup.session.source
    for table, details in queries.items():
        try:
            cast("StoredSource", source).record(table, "queries", **details)
        except CleaveError as error:
            failed[table] = error.message
    channel.send([json.dumps(failed).encode()])


def _place(error: Exception) -> str:
    """The line that raised it, without its message, which may quote values."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{Path(last.filename).name}:{last.lineno}"


def _answered(
    setup: Setup, rights: Rights, request: Request, seconds: float, begin: Callable[[list[str]], None]
) -> tuple[Records, list[str]]:
    """The answer, and warnings. `begin` is told the stored tables that are read, before they are."""
    if len(request.sql) > MOST_CHARACTERS:
        raise InputError(f"a statement has at most {MOST_CHARACTERS:,} characters")
    if not is_unicode(request.sql):
        raise InputError("the statement is no Unicode text", hint="half of a surrogate pair is no character")
    session = setup.session
    listed = system.answer(request.sql, request.parameters, lambda: _listed(setup, rights), request.variables)
    if listed is not None:
        return listed, []
    plan = _plan(session, rights, request)
    begin(session.source.logged(plan))
    result = session.ask(plan, Options(False, rights.min_group), seconds)
    table, limit = result.result, setup.rows
    if len(table.rows) > limit and (request.most is None or request.most > limit):
        raise QueryRefused(
            f"the answer has more than {limit:,} rows", hint="add a LIMIT, or use `cleave query -o FILE`"
        )
    return records(table, bounds=request.bounds), _warnings(result)


def _listed(setup: Setup, rights: Rights) -> dict[str, Sequence[Column]]:
    """Return the columns of every table that the user may query, as they are now."""
    session = setup.session
    schemas = session.schemas
    if unnamed := (setup.tables or frozenset()) - {each.lower() for each in schemas}:
        for name in unnamed:
            with contextlib.suppress(CleaveError):  # there is none; a release is listed once it was named
                session.plan(f"SELECT count(*) FROM {identifier(name)}")
        schemas = session.schemas
    return {name: schema.columns for name, schema in schemas.items() if rights.include(name)}


def _plan(session: Session, rights: Rights, request: Request) -> Plan:
    """The statement in DuckDB's dialect where DuckDB takes it, else in MySQL's. Raises QueryRefused.

    One with a backslash or a backtick is MySQL's in any case: MySQL's clients escape quotes within texts by the one,
    where DuckDB would see the text end, and quote names by the other, and mean MySQL's functions.
    """
    sql, parameters = request.sql, request.parameters
    refusal: QueryRefused | None = None
    if not {"\\", "`"} & set(sql):
        try:
            return _planned(session, rights, read_statement(sql, parameters))
        except QueryRefused as error:
            refusal = error
    tree = parsed(sql, parameters)
    if tree is None:
        raise refusal or QueryRefused("the statement cannot be read", hint="a backslash or a backtick makes it MySQL's")
    if not isinstance(tree, exp.Query):
        raise QueryRefused("nothing can be changed here", hint="one SELECT at a time is answered")
    try:
        return _planned(session, rights, read_statement(translated(tree, request.variables)))
    except QueryRefused as second:
        raise (second if refusal is None or "@" in sql else refusal) from None


def _planned(session: Session, rights: Rights, statement: Statement) -> Plan:
    names, _ = names_in(statement)
    try:
        for name in names:
            if not rights.include(name):
                raise QueryRefused(name)
        return session.plan(statement, cloud_only=not rights.rows)
    except (QueryRefused, InputError):  # the same error for a missing table and for one that the user may not query
        allowed = {each.lower() for each in session.schemas if rights.include(each)}
        for name in names:
            if name.lower() not in allowed:
                raise QueryRefused(f"there is no table {name!r}", hint="SHOW TABLES lists them") from None
        raise


def _sent(
    held: Records, warned: list[str], request: Request
) -> tuple[dict[str, Any], Sequence[Sequence[str | None]], bytes | None]:
    """Head of an answer, and its rows, or Arrow's stream of them."""
    if request.most is not None:
        held = Records(held.names, held.types, held.rows[: request.most])
    columns = list(zip(held.names, held.types, strict=True))
    head = {"columns": columns, "warnings": warned, "rows": len(held.rows)}
    if request.arrow:
        return head, (), _arrow(held)
    size = 0
    rows = []
    for row in held.rows:
        texts = _texts([None if value is None else plain(value) for value in row], held.types)
        size += sum(len(text) for text in texts if text is not None)
        if size > MOST_BYTES:
            raise QueryRefused(f"the answer has more than {MOST_BYTES:,} bytes", hint="add a LIMIT, or fewer columns")
        rows.append(texts)
    return head, rows, None


def _texts(row: Sequence[str | None], types: Sequence[str]) -> list[str | None]:
    """The texts of a row; None for what neither MySQL nor JSON has: NaN, infinities, years before 1 or after 9999."""
    return [None if text is None or _is_beyond(text, type_) else text for text, type_ in zip(row, types, strict=True)]


def _is_beyond(text: str, type_: str) -> bool:
    if type_ in ("DOUBLE", "FLOAT"):
        return not math.isfinite(float(text))
    return type_.startswith(("DATE", "TIMESTAMP")) and not _YEAR.match(text)


def _arrow(held: Records) -> bytes:
    import pyarrow as pa  # noqa: PLC0415 - only for answers as Arrow

    with loaded(held, "arrow") as connection:
        table = connection.sql("FROM answer").to_arrow_table()
    if table.nbytes > MOST_BYTES:
        raise QueryRefused(f"the answer has more than {MOST_BYTES:,} bytes", hint="add a LIMIT, or fewer columns")
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _warnings(result: Result) -> list[str]:
    """The largest bound of each inexact column, what was left out, and what the bounds leave open."""
    table = result.result
    lines = []
    for place, column in enumerate(table.columns):
        bounds = [row[place] for row, exact in zip(table.bounds, table.exact, strict=True) if exact[place] is False]
        largest = max((each for each in bounds if each is not None), default=None)
        if largest is not None:
            lines.append(f"column {column.name}: values are within {largest:.2g} of the exact ones")
        if hidden := sum(table.is_hidden(row, place) for row in range(len(table.rows))):
            lines.append(f"column {column.name}: {counted(hidden, 'value')} hidden, because totals are withheld")
    suppressed = result.usage.suppression
    return [*lines, *([suppressed] if suppressed else []), *table.warnings]
