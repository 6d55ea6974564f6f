"""Groups and aggregates the plain half: finds the groups, their sizes and each one's plain answers.

WHERE and the keys are evaluated once, into a table beside `rows` with one row for each of its rows:

  rows          keyed                  groups (in order of first appearance)
  a  b  ...     selected  k0  k1 ...   k0  k1 ... first  size  a0  a1 ...
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import cast

from cleave_services.plain.database import TABLE, Database
from cleave_services.plain.expressions import require
from cleave_services.plain.members import members
from cleave_shared import limits
from cleave_shared.errors import WireError
from cleave_shared.messages import Bytes
from cleave_shared.requests import PlainRequest, PlainResponse, TypedColumn

_COLUMNS_AT_ONCE = 50


Grouping = tuple[list[int], list[TypedColumn], list[TypedColumn]]
"""Counts, keys and aggregates; each has one entry per group."""


def aggregate(request: PlainRequest, contents: Sequence[Bytes], most: int) -> PlainResponse:
    """Answer one request about the `contents` of its objects, in at most `most` bytes of JSON.

    Raises WireError, which names parts of the request, never values.
    """
    started = time.perf_counter()
    with Database() as database:
        columns = request.columns or []
        unread = _may_stay_unread(request, columns) and database.view_objects(contents, request.rows, columns)
        if contents and not unread:
            database.load_objects(contents, request.rows, request.columns)
        elif not unread:
            database.load_nothing(sum(request.rows))
        loaded = time.perf_counter()
        verify(database, request)
        if unread:
            database.run("BEGIN TRANSACTION", "where")  # so that the current time is the same in every statement
            keyed = _keyed_when_read(database, request.where, request.keys)
        else:
            keyed = _make_keyed(database, request.where, request.keys)
        counts, keys, aggregates = _group_keyed(database, keyed, len(request.keys), request.aggregates, most)
        grouped = time.perf_counter()
        numbers, filters = members(database, request, keyed, len(counts)) if request.members else ([], [])
        timings = {"load": loaded - started, "group": grouped - loaded, "select": time.perf_counter() - grouped}
    return PlainResponse(
        label=request.label,
        rows=sum(request.rows),
        counts=counts,
        keys=keys,
        aggregates=aggregates,
        numbers=numbers,
        filters=filters,
        timings=timings,
    )


def _may_stay_unread(request: PlainRequest, columns: Sequence[str]) -> bool:
    """True if rows may stay in their objects and be read twice, because keys are columns and cost nothing.

    Computed keys, aggregates and filters need a table.
    """
    quoted = {'"' + name.replace('"', '""') + '"' for name in columns}
    computed = request.aggregates or request.filters or not quoted.issuperset(request.keys)
    return bool(columns) and not computed


def verify(database: Database, request: PlainRequest) -> None:
    """Raises WireError for the first text that is no expression of its kind over the table, and names it."""
    scalars = {} if request.where is None else {"where": request.where}
    scalars |= {f"keys[{index}]": sql for index, sql in enumerate(request.keys)}
    scalars |= {f"filters[{index}]": sql for index, sql in enumerate(request.filters)}
    require(database, scalars, {f"aggregates[{index}]": sql for index, sql in enumerate(request.aggregates)})


def group(database: Database, where: str | None, keys: Sequence[str], aggregates: Sequence[str]) -> Grouping:
    """Create the tables of keyed rows and of groups, and read the groups. The expressions must already be checked.

    As in SQL, without keys there is one group, even of no rows; with keys and no rows there is none.
    """
    return _group_keyed(database, _make_keyed(database, where, keys), len(keys), aggregates, limits.MAX_JSON_BYTES)


def _group_keyed(database: Database, keyed: str, keys: int, aggregates: Sequence[str], most: int) -> Grouping:
    """Group rows with their keys. `keyed`: SQL for a FROM clause."""
    size = _make_groups(database, keyed, keys, aggregates)
    if size > limits.MAX_PLAIN_GROUPS:
        raise WireError(
            f"{size:,} groups, at most {limits.MAX_PLAIN_GROUPS:,}",
            hint="group by something coarser",
            code="too_large",
        )
    columns = _read_columns(database, size, most)
    counts = [int(value or 0) for value in columns[0].values]
    return counts, columns[1 : 1 + keys], columns[1 + keys :]


def _make_keyed(database: Database, where: str | None, keys: Sequence[str]) -> str:
    """Create the table of keyed rows. Returns SQL for a FROM clause, with each row's position."""
    p = database.prefix
    database.run(f"CREATE TABLE {p}keyed AS {_keyed(database, TABLE, '', where, keys)}", "where or keys")
    return f"(SELECT rowid AS {p}place, * FROM {p}keyed)"


def _keyed_when_read(database: Database, where: str | None, keys: Sequence[str]) -> str:
    """Like `_make_keyed` over the view of positions, but computed each time it is read."""
    return f"({_keyed(database, database.placed, f'{database.place}, ', where, keys)})"


def _keyed(database: Database, table: str, place: str, where: str | None, keys: Sequence[str]) -> str:
    p = database.prefix
    selected = "true" if where is None else f"coalesce(CAST(({where}\n) AS BOOLEAN), false)"
    # a key is not evaluated for unselected rows, where it might fail
    columns = "".join(
        f", ({sql}\n) AS {p}k{i}" if where is None else f", CASE WHEN {p}selected THEN ({sql}\n) END AS {p}k{i}"
        for i, sql in enumerate(keys)
    )
    return f"SELECT {place}{p}selected{columns} FROM (SELECT *, {selected} AS {p}selected FROM {table}) AS {TABLE}"


def _make_groups(database: Database, keyed: str, keys: int, aggregates: Sequence[str]) -> int:
    """Aggregate rows beside their keys, and store groups in order of first appearance. Returns their number."""
    p = database.prefix
    named = "".join(f", {p}k{i}" for i in range(keys))
    wanted = "".join(f", ({sql}\n) AS {p}a{i}" for i, sql in enumerate(aggregates))
    grouped = f"GROUP BY {named[2:]}" if keys else ""
    # A column may be called rowid, so the table may not be joined by rowid. Without aggregates over the table it is
    # omitted: a positional join uses one thread
    joined = f"{TABLE} POSITIONAL JOIN " if aggregates else ""
    ((size,),) = database.fetch(
        f"CREATE TABLE {p}groups AS SELECT * EXCLUDE ({p}first) FROM ("
        f"SELECT min({p}place) AS {p}first, count(*) AS {p}size{named}{wanted} "
        f"FROM {joined}{keyed} WHERE {p}selected {grouped}"
        f") ORDER BY {p}first",
        "aggregates",
    )
    return cast(int, size)


def _read_columns(database: Database, size: int, most: int) -> list[TypedColumn]:
    """The table of groups as text that casts back to exactly each value; this is verified."""
    p = database.prefix
    described = cast(list[tuple[str, str]], database.fetch(f"DESCRIBE {p}groups", "groups"))
    if 4 * size * len(described) > most:  # a value with quotes and comma takes at least 4 bytes
        raise WireError("the answer is too large", hint="request fewer groups at a time", code="too_large")
    texts = ", ".join(f"CAST({row[0]} AS VARCHAR)" for row in described)
    values = database.fetch(f"SELECT {texts} FROM {p}groups ORDER BY rowid", "groups")
    back = [
        f"coalesce(bool_and(CAST(CAST({row[0]} AS VARCHAR) AS {row[1]}) IS NOT DISTINCT FROM {row[0]}), true)"
        for row in described
    ]
    # a few at a time: DuckDB compares each with every other, which took 30 s for 2,000
    faithful = [
        same
        for start in range(0, len(back), _COLUMNS_AT_ONCE)
        for same in database.fetch(
            f"SELECT {', '.join(back[start : start + _COLUMNS_AT_ONCE])} FROM {p}groups", "answer"
        )[0]
    ]
    for row, same in zip(described, faithful, strict=True):
        if not same:
            kind = row[0].removeprefix(p)
            raise WireError(f"{kind}: its type has no exact text", hint="cast it to VARCHAR or to a simpler type")
    columns = zip(*values, strict=True) if values else ([] for _ in described)
    return [
        TypedColumn(type=row[1], values=list(cast(Sequence[str | None], column)))
        for row, column in zip(described, columns, strict=True)
    ]
