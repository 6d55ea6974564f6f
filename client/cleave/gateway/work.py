"""A worker of the gateway: a process with the opened tables that answers one question at a time.

The process that talks to clients has the passphrase and opens no table. So a query that needs too much time or memory
ends its worker only. A reply is a head in JSON, and frames that are sent to the client.
"""

from __future__ import annotations

import contextlib
import json
import re
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from cleave.ask.files import further_of
from cleave.ask.opening import open_session
from cleave.ask.options import Asking, complete
from cleave.ask.pointing import point
from cleave.finish.result import Records, loaded, records, shown_columns
from cleave.gateway import catalogue
from cleave.gateway.codecs import COPY_END, COPY_HEAD, line, parameter, row
from cleave.gateway.moments import is_only_postgresql
from cleave.gateway.rights import Rights, planned
from cleave.gateway.states import NOT_PUBLIC, STATES
from cleave.gateway.types import ARRAYS, JSON, TEXT, element_of, oid_of, spread
from cleave.gateway.wire import message
from cleave.sql.catalog import Catalog
from cleave.sql.planner import names_in
from cleave.sql.read import Statement, read_statement
from cleave.table.duck import identifier, is_unicode, parts_of, private, tree_of
from cleave.table.progress import no_bars
from cleave.table.trees import mapped
from cleave.table.types import is_shown_as_it_is
from cleave.text.figures import plain
from cleave.text.quantities import counted
from cleave_shared.children import Channel
from cleave_shared.errors import CleaveError, CleaveWarning, InputError, NotComputable, QueryRefused
from cleave_shared.exhaustion import exhausted, is_met, is_spent

if TYPE_CHECKING:
    from pydantic import JsonValue

    from cleave.ask.plan import AnswerPlan
    from cleave.ask.question import Answer
    from cleave.ask.services import Embedded
    from cleave.ask.session import Session
    from cleave.ask.versioned import VersionedSource
    from cleave.table.schema import Schema

MOST_BYTES: Final = 64 << 20  # of an answer
_BATCH: Final = 4096  # rows per frame of JSON
_FRAME: Final = 1 << 17  # bytes per frame of PostgreSQL's messages
_CATALOGUE: Final = {"OID[]": "UINTEGER[]", "INT2VECTOR": "SMALLINT[]", "OIDVECTOR": "UINTEGER[]"}  # DuckDB's types
_DECODER: Final = json.JSONDecoder()
_NO_NUMBER: Final = re.compile(r'"(?:[^"\\]|\\.)*+"|-?(?:NaN|Infinity)')  # and texts, in which both are allowed


@dataclass(frozen=True, slots=True)
class Setup:
    """Tables, services and limits that all queries share.

    `files`: further tables on this machine. `tables`: lower-case names of the served tables; None: all. `embedded`,
    `prepare`: the services in this process, and the function that prepares them; the worker imports both by name.
    `seconds`, `memory`, `rows`: maximum time of a query, bytes of its worker, rows of an answer.
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
        """The session of this process, opened at the first call."""
        if not _sessions:
            self.prepare()  # before there is a second thread
            asking = complete(Asking, cast("Asking", self.asking))
            others = list(map(further_of, self.files))
            _sessions[""] = open_session(None, others, asking, self.embedded, no_bars)
        return _sessions[""]


@dataclass(frozen=True, slots=True)
class Request:
    """A client's statement.

    `parameters`: Python's values, or PostgreSQL's. `settings`: of the session, for the catalog. `bounds`: add bound
    columns for figures from ciphertexts. `form`: how rows are sent: "json": texts; "arrow": a stream; "rows": DataRows
    in `formats` (1: binary; one for all columns, or one each); "text", "csv", "binary": COPY's, the first two perhaps
    followed by " header"; "none": only columns and types of parameters, without reading rows. `fixed`: columns that
    were described before; others are refused. `seconds`: a shorter limit than that of all queries.
    """

    sql: str
    parameters: tuple[object, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    bounds: bool = False
    form: str = "json"
    formats: tuple[int, ...] = ()
    fixed: tuple[tuple[str, str], ...] | None = None
    seconds: float | None = None


_sessions: dict[str, Session] = {}  # the session of this process


def answer(channel: Channel, setup: Setup, rights: Rights, request: Request, seconds: float) -> None:
    """Send the reply to `request`: its head, frames of rows (each after its number of rows), then an empty frame. An
    error is only a head.

    If stored tables are read, a frame with their names comes before the head. So they are known even if the question
    fails. The head says whether this worker may be used again, and whether the statement needs `answer_apart`.
    """
    answered = partial(_answered, setup, rights, request, seconds)
    _reply(channel, request, answered, lambda: _named(rights, request))


def answer_apart(channel: Channel, request: Request, most: int) -> None:
    """Like `answer`, for a statement without tables, in a worker that is used once: it has no key. `most`: rows."""
    _reply(channel, request, lambda _: _without_tables(read_statement(request.sql), request, dict, most), list)


def _reply(
    channel: Channel,
    request: Request,
    work: Callable[[Callable[[list[str]], None]], tuple[Records, dict[str, Any]]],
    named: Callable[[], list[str]],
) -> None:
    """Send the reply that `work` gives. `named`: the tables that an error may name."""
    frames: list[tuple[int, bytes]] = []
    reads: list[str] = []

    def begin(tables: list[str]) -> None:
        reads.extend(tables)
        channel.send([json.dumps({"reads": reads}).encode()])

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", CleaveWarning)
        try:
            held, head = work(begin)
            head |= {"done": True, "columns": list(zip(held.names, held.types, strict=True)), "rows": len(held.rows)}
            if request.form != "none":
                frames = list(_bounded(_frames(held, request)))
        except _Apart:
            head = {"apart": True, "done": True}
        except CleaveError as error:
            if isinstance(error, QueryRefused) and error.at is None:
                with contextlib.suppress(CleaveError):  # it is no statement
                    point(error, read_statement(request.sql), ())
            head = told(error, reads or named())
            # after a time-out some work may still run
            head["done"] = isinstance(error, InputError | QueryRefused) and not is_met(error)
        except Exception as error:  # noqa: BLE001 - any exception that a client's statement causes is its error
            text = f"the statement cannot be answered: a defect of Cleave ({type(error).__name__})"
            head = {"error": text, "hint": "write it in another way", "code": "XX000"}
            head["done"] = not reads and not is_met(error)
            if lacking := exhausted(error):
                head |= told(lacking)
            else:
                warnings.warn(f"{text} at {_place(error)}", CleaveWarning, stacklevel=1)
    head["said"] = [str(each.message) for each in said if issubclass(each.category, CleaveWarning)]
    head["done"] = head["done"] and not is_spent()
    channel.send([json.dumps(head).encode()])
    if "columns" in head:
        for count, content in frames:
            channel.send([str(count).encode(), content])
        channel.send([])


class _Apart(Exception):  # noqa: N818 - no error
    """The statement must be answered in a worker that is used once."""


def record(channel: Channel, setup: Setup, queries: dict[str, dict[str, JsonValue]]) -> None:
    """Record queries in the audit log of each table. Sends back, by table, why it failed."""
    failed = {}
    source = setup.session.source
    for table, details in queries.items():
        try:
            source.record(table, "queries", **details)
        except CleaveError as error:
            failed[table] = error.message
    channel.send([json.dumps(failed).encode()])


def _place(error: Exception) -> str:
    """File and line that raised the error, without its message, which may quote values."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{Path(last.filename).name}:{last.lineno}"


def told(error: CleaveError, tables: Sequence[str] = ()) -> dict[str, Any]:
    """What a client gets of an error: message, hint, SQLSTATE and place in the statement.

    An error that is not public can name a path, a host or a key file: then the client gets only the names of the
    `tables`, and a warning tells the owner the rest.
    """
    if error.public is not None:
        code = STATES.get(error.code, NOT_PUBLIC)
        return {"error": error.public, "hint": error.hint, "code": code, "at": error.at}
    names = ", ".join(map(repr, tables))
    text = f"{'table' if len(tables) == 1 else 'tables'} {names}".strip() + " cannot be read now"
    warnings.warn(f"{text}: {error.message}" + (f" ({error.hint})" if error.hint else ""), CleaveWarning, stacklevel=2)
    hint = "try again later; if it fails again, ask the owner of the tables"
    return {"error": text, "hint": hint, "code": NOT_PUBLIC}


def _named(rights: Rights, request: Request) -> list[str]:
    """The tables that a statement names and the user may know."""
    try:
        names, _ = names_in(read_statement(request.sql))
    except CleaveError:  # it is no SELECT
        return []
    return [each for each in names if rights.include(each)]


def _answered(
    setup: Setup, rights: Rights, request: Request, seconds: float, begin: Callable[[list[str]], None]
) -> tuple[Records, dict[str, Any]]:
    """The answer, and the head of its reply. `begin` gets the stored tables before they are read."""
    if not is_unicode(request.sql):
        raise NotComputable("the statement is no Unicode text", hint="half of a surrogate pair is no character")
    source = cast("VersionedSource[Any]", setup.session.source)
    with source.showing(rights.shown):
        return _answered_of(setup, rights, request, seconds, begin)


def _answered_of(
    setup: Setup, rights: Rights, request: Request, seconds: float, begin: Callable[[list[str]], None]
) -> tuple[Records, dict[str, Any]]:
    """Like `_answered`, with a source that shows only what the user may name."""
    session = setup.session
    sent = read_statement(request.sql)
    kind = catalogue.kind_of(sent, lambda name: rights.include(name) and name in map(str.lower, session.schemas))
    tables = partial(_listed, setup, rights)
    if kind != "tables":
        if not kind and catalogue.is_apart(sent):
            raise _Apart
        return _without_tables(sent, request, tables, setup.rows)
    typed = partial(_types, schemas=session.schemas, tables=tables)
    statement, types = _with_parameters(sent, request, typed)
    plan, note = planned(session, rights, adapted(statement))
    more = ("undecided", "hidden") if request.bounds else ()  # a client learns the columns before there are values

    def columns(plan: AnswerPlan) -> Records:
        shown = shown_columns(plan.outputs, plan.types, bounds=request.bounds, more=more)
        return Records(tuple(name for name, _ in shown), [type_ for _, type_ in shown], [])

    if request.form == "none":
        return columns(plan), {"warnings": [], "parameters": types}
    if request.fixed is not None and _names(request.fixed) != columns(plan).names:
        # DuckDB names a column after the values in its expression, which were NULL when described
        nulls, _ = _with_parameters(sent, replace(request, form="none"), typed)
        if _names(request.fixed) != columns(planned(session, rights, adapted(nulls))[0]).names:
            raise _described_otherwise()
    begin(session.source.logged(plan))
    try:
        result = session.ask(plan, seconds)
    except (InputError, QueryRefused):  # the error may depend on a shown value; with rows the user may see it
        if rights.rows:
            raise
        raise QueryRefused("the statement cannot be computed over the figures that are shown") from None
    table, limit = result.result, setup.rows
    if len(table.rows) > limit:
        hint = "add a LIMIT, or use `cleave query -o FILE`"
        raise QueryRefused(f"the answer has more than {limit:,} rows", hint=hint, code="limit")
    # the columns undecided, hidden and scanned are then in the answer only if a value needs them
    follows_rows = request.form in ("json", "arrow") and not note
    held = records(table, bounds=request.bounds, more=None if follows_rows else more)
    head = {"warnings": _warnings(result, note), "parameters": types}
    return _as_described(held, request), head | ({"hidden": _hidden(result)} if note else {})


def _without_tables(
    sent: Statement, request: Request, tables: catalogue.ListedTables, most: int
) -> tuple[Records, dict[str, Any]]:
    """The answer to a statement over the catalogue or without a table, and the head of its reply."""
    statement, types = _with_parameters(sent, request, catalogue.parameters)
    statement = Statement(statement.text, mapped(statement.tree, _time))
    wire, described = request.form not in ("json", "arrow"), request.form == "none"
    held = catalogue.answer(statement, tables, request.settings, most, wire=wire, described=described)
    return _as_described(held, request), {"warnings": [], "parameters": types}


def _as_described(held: Records, request: Request) -> Records:
    """Return `held`. Raises QueryRefused if its types differ from those described to the client."""
    if request.fixed is None:
        return held
    if tuple(map(oid_of, held.types)) != tuple(oid_of(type_) for _, type_ in request.fixed):
        raise _described_otherwise()
    return held


def _names(columns: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    return tuple(name for name, _ in columns)


def _described_otherwise() -> QueryRefused:
    return QueryRefused("the columns are not those that were described before", hint="prepare the statement again")


def _with_parameters(
    statement: Statement, request: Request, types_in: Callable[[Statement], list[str]]
) -> tuple[Statement, list[int]]:
    """The statement with values for its parameters, and PostgreSQL's types of these. `types_in` finds DuckDB's."""
    given = [each for each in request.parameters if isinstance(each, tuple)]
    if request.form in ("json", "arrow"):
        return statement.with_parameters(request.parameters), []
    oids, types = [oid for oid, *_ in given], list[str]()
    marked, constants = _with_constants(statement)
    if request.form == "none" or 0 in oids or constants:
        types = types_in(marked)
        count = len(types) - len(constants)
        shown = (oid_of(each) if each else TEXT for each in types[:count])
        oids = [given or type_ for given, type_ in zip_longest(oids, shown, fillvalue=0)]
    if request.form != "none" and len(oids) != len(given):
        said = f"the statement has {counted(len(oids), 'parameter')}, and {len(given)} are bound"
        raise QueryRefused(said, code="parameter")
    contents = [(None, False)] * len(oids) if request.form == "none" else [each[1:] for each in given]
    values = [parameter(oid, each, binary=binary) for oid, (each, binary) in zip(oids, contents, strict=True)]
    values += map(_constant, constants, types[len(oids) :])
    return marked.with_parameters(values), oids


_BRACES: Final = re.compile(r"\s*+\{.*\}\s*+", re.DOTALL)


def _with_constants(statement: Statement) -> tuple[Statement, list[str]]:
    """The statement with further parameters instead of texts that PostgreSQL reads in another way, and these texts.

    These are arrays and times. As for a parameter, the place of such a text tells its type.
    """
    parameters = {part["identifier"] for part in parts_of(statement.tree) if part.get("class") == "PARAMETER"}
    texts: list[str] = []

    def put(node: dict[str, Any]) -> dict[str, Any]:
        literal = node.get("literal") or {} if node.get("class") == "CONSTANT" else {}
        text = literal.get("text", "")
        if literal.get("kind") != "STRING" or not (_BRACES.fullmatch(text) or is_only_postgresql(text)):
            return node
        texts.append(text)
        place = {key: node[key] for key in ("alias", "query_location", "query_location_length") if key in node}
        return _placeholder() | place | {"identifier": str(len(parameters) + len(texts))}

    tree = mapped(statement.tree, put)
    return (Statement(statement.text, tree), texts) if texts else (statement, [])


@cache
def _placeholder() -> dict[str, Any]:
    node: dict[str, Any] = tree_of("SELECT $1")["statements"][0]["node"]["select_list"][0]
    return node


def _constant(text: str, type_: str) -> object:
    """The value of a constant whose place has a type; the text itself if that is no array or time, or has no such
    value.
    """
    oid = oid_of(type_) if type_ else TEXT
    if oid in (TEXT, JSON) or not (oid in ARRAYS or type_.startswith(("DATE", "TIMESTAMP"))):
        return text
    with contextlib.suppress(QueryRefused):
        return parameter(oid, text.encode(), binary=False)
    return text


def _types(statement: Statement, schemas: Mapping[str, Schema], tables: catalogue.ListedTables) -> list[str]:
    """Types of the parameters of a statement over tables."""
    statement = adapted(statement)
    paths = [part["qualified_name"]["path"] for part in parts_of(statement.tree) if part.get("type") == "BASE_TABLE"]
    named = {path[-1].lower() for path in paths}
    visible = [(name, schemas[name]) for name in tables() if name.lower() in named]
    with closing(Catalog(" ", ())) as catalog:
        for name, schema in visible:
            catalog.create(name, [(each.name, each.type) for each in schema.columns], schema.derived)
        return catalog.parameters(statement)


_TIMES: Final = {  # PostgreSQL's functions that DuckDB lacks, by name and format, as tools use them in time ranges
    ("to_date", "YYYY-MM-DD"): "DATE",
    **{("to_timestamp", f"YYYY-MM-DD HH24:MI:SS{more}"): "TIMESTAMP" for more in ("", ".US", ".MS")},
}


def adapted(statement: Statement) -> Statement:
    """The statement with "public.NAME" as NAME, and with casts in TO_DATE(text, format)."""
    aliases = catalogue.aliases_of(statement.tree)

    def put(node: dict[str, Any]) -> dict[str, Any]:
        if node.get("type") == "BASE_TABLE":
            path = node["qualified_name"]["path"]
            if [each.lower() for each in path[:-1]] in (["public"], ["cleave", "public"]):
                return node | {"schema_name": "", "catalog_name": "", "qualified_name": {"path": path[-1:]}}
        elif node.get("class") == "COLUMN_REF" and len(node["column_names"]) > 2:
            words = [each.lower() for each in node["column_names"]]
            if words[0] in aliases:
                return node
            skipped = 1 if words[0] == "public" else 2 if words[:2] == ["cleave", "public"] else 0
            return node | {"column_names": node["column_names"][skipped:]}
        return _time(node)

    return Statement(statement.text, mapped(statement.tree, put))


def _time(node: dict[str, Any]) -> dict[str, Any]:
    """A cast instead of TO_DATE or TO_TIMESTAMP of a constant; other nodes are returned unchanged."""
    if node.get("class") == "FUNCTION" and len(node["arguments"]) == 2:
        text, form = (each["expression"] for each in node["arguments"])
        type_ = _TIMES.get((node["function_name"].lower(), form.get("literal", {}).get("text")))
        if type_ and text["class"] == "CONSTANT":
            cast: dict[str, Any] = tree_of(f"SELECT CAST('' AS {type_})")["statements"][0]["node"]["select_list"][0]
            return cast | {"child": text, "alias": node["alias"]}
    return node


def _listed(setup: Setup, rights: Rights) -> dict[str, catalogue.Listed]:
    """Every table that the user may query, in its current version."""
    session = setup.session
    schemas = session.schemas
    if unnamed := (setup.tables or frozenset()) - {each.lower() for each in schemas}:
        for name in unnamed:
            with contextlib.suppress(CleaveError):  # none exists; a release is listed after it was named once
                session.plan(f"SELECT count(*) FROM {identifier(name)}")
        schemas = session.schemas
    return {
        name: catalogue.Listed(schema.columns, session.source.key(name))
        for name, schema in schemas.items()
        if rights.include(name)
    }


def _frames(held: Records, request: Request) -> Iterator[tuple[int, bytes]]:
    """(number of rows, bytes) in the requested form."""
    if request.form == "arrow":
        yield len(held.rows), _arrow(held)
    elif request.form == "json":
        for start in range(0, len(held.rows), _BATCH):
            rows = [[*map(_plain, row)] for row in held.rows[start : start + _BATCH]]
            yield len(rows), json.dumps(rows)[1:-1].encode()
    else:
        yield from _messages(held, request)


def _messages(held: Records, request: Request) -> Iterator[tuple[int, bytes]]:
    """Messages of PostgreSQL's protocol, in frames of 128 kB and more."""
    oids = [oid_of(type_) for type_ in held.types]
    kind, before, after, encode = b"d", b"", b"", row(oids, [1] * len(oids))
    if request.form == "rows":
        try:
            kind, encode = b"D", row(oids, spread(request.formats, len(oids)))
        except ValueError:
            said = f"the message has {len(request.formats)} formats for {len(oids)} columns, or unknown ones"
            raise QueryRefused(said, hint="0 is text, 1 is binary", code="message") from None
    elif request.form == "binary":  # as in PostgreSQL, the format's header and trailer are in messages of rows
        before, after = COPY_HEAD, COPY_END
    else:
        is_csv, header = request.form.startswith("csv"), request.form.endswith("header")
        encode = line(oids, is_csv=is_csv)
        if header:
            yield 0, message(kind, line([TEXT] * len(oids), is_csv=is_csv)(held.names))
    parts, count, size = [], 0, 0
    for values in _with_lists(held).rows:
        parts.append(message(kind, before + encode(values)))
        before, count, size = b"", count + 1, size + len(parts[-1])
        if size > _FRAME:
            yield count, b"".join(parts)
            parts, count, size = [], 0, 0
    yield count, b"".join([*parts, message(kind, before + after)] if after else parts)


def _with_lists(held: Records) -> Records:
    """`held` with arrays as Python's lists, and structs, maps and lists of lists as JSON."""
    nested = {place: sql for place, type_ in enumerate(held.types) if (sql := _as_list(type_))}
    if not nested or not held.rows:
        return held
    columns = list(map(list, zip(*held.rows, strict=True)))
    with private() as connection:
        for place, shown in nested.items():
            texts = [None if each is None else str(each) for each in columns[place]]
            if held.types[place] == "JSON[]":  # DuckDB does not read its own text of such a list
                columns[place] = [None if each is None else _documents(each) for each in texts]
                continue
            sql = f"SELECT {shown} FROM (SELECT unnest(?::VARCHAR[]) AS v)"
            columns[place] = [_as_json(value) for (value,) in connection.execute(sql, [texts]).fetchall()]
    return Records(held.names, held.types, list(map(list, zip(*columns, strict=True))))


def _as_list(type_: str) -> str:
    """SQL for the list or the JSON of DuckDB's text v of a type; "" for a type that needs neither."""
    type_ = _CATALOGUE.get(type_, type_)
    value = f"CAST(v AS {type_})"
    if element := element_of(type_):
        return value if is_shown_as_it_is(element) else f"list_transform({value}, lambda x: CAST(x AS VARCHAR))"
    return f"CAST(to_json({value}) AS VARCHAR)" if oid_of(type_) == JSON and type_ != "JSON" else ""


def _documents(text: str) -> list[str | None]:
    """The texts in DuckDB's text of a list of JSON."""
    items: list[str | None] = []
    place = 1
    while place < len(text) - 1:
        if text.startswith("NULL", place):
            items.append(None)
            end = place + 4
        else:
            _, end = _DECODER.raw_decode(text, place)
            items.append(text[place:end])
        place = end + 2  # a comma and a blank
    return items


def _as_json(value: Any) -> Any:
    """DuckDB's JSON with texts instead of NaN and infinities, as in PostgreSQL; a list unchanged."""
    if not isinstance(value, str):
        return value
    return _NO_NUMBER.sub(lambda found: found[0] if found[0][0] == '"' else f'"{found[0]}"', value)


def _bounded(frames: Iterator[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
    """Pass frames on. Raises QueryRefused if the answer has too many bytes."""
    size = 0
    for count, content in frames:
        size += len(content)
        if size > MOST_BYTES:
            raise _too_large()
        yield count, content


def _too_large() -> QueryRefused:
    hint = "add a LIMIT, or fewer columns"
    return QueryRefused(f"the answer has more than {MOST_BYTES:,} bytes", hint=hint, code="limit")


def _plain(value: object) -> str | None:
    return None if value is None else plain(value)


def _arrow(held: Records) -> bytes:
    import pyarrow as pa  # noqa: PLC0415 - only for answers as Arrow

    with loaded(held, "arrow") as connection:
        table = connection.sql("FROM answer").to_arrow_table()
    if table.nbytes > MOST_BYTES:
        raise _too_large()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _hidden(result: Answer) -> list[float | None]:
    """Facts of an answer for the log: hidden groups, hidden figures, bytes read, seconds. The user may not see them."""
    usage = result.usage
    groups = (usage.suppressed_groups or 0) + (usage.withheld_groups or 0)
    return [groups, usage.hidden_figures, usage.bytes_read, round(sum(result.timings.values()), 3)]


def _warnings(result: Answer, note: str = "") -> list[str]:
    """The largest bound of each inexact column, hidden groups, and open decisions.

    With a `note` on hidden groups, nothing here depends on rows that are not in the answer.
    """
    table = result.result
    lines = []
    for place, column in enumerate(table.columns):
        bounds = [row[place] for row, exact in zip(table.bounds, table.exact, strict=True) if exact[place] is False]
        largest = max((each for each in bounds if each is not None), default=None)
        if largest is not None:
            lines.append(f"column {column.name}: values are within {largest:.2g} of the exact ones")
        if note:
            continue
        if hidden := sum(table.is_hidden(row, place) for row in range(len(table.rows))):
            lines.append(f"column {column.name}: {counted(hidden, 'value')} hidden, because totals are withheld")
    suppressed = note or result.usage.suppression
    return [*lines, *([suppressed] if suppressed else []), *table.warnings]
