"""Groups of stored objects, as `engine` makes them; on request also the number of every row's group."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import cast

from cleave_services.plain import engine
from cleave_services.plain.database import TABLE, Database
from cleave_shared.stored import StoredPlainResponse


def select(question: engine.Stored) -> StoredPlainResponse:
    """Answer one request. Raises WireError as `engine.aggregate` does."""
    started = time.perf_counter()
    with Database() as database:
        left = _may_be_left(question) and database.leave_objects(question.objects, question.rows, question.columns)
        if question.columns and not left:
            database.load_objects(question.objects, question.rows, question.columns)
        elif not left:
            database.load_nothing(sum(question.rows))
        loaded = time.perf_counter()
        engine.verify(database, question, question.filters)
        if left:
            database.run("BEGIN TRANSACTION", "where")  # so that the current time is one, whenever WHERE is evaluated
            keyed = engine.keyed_where_they_are(database, question.where, question.keys)
        else:
            keyed = engine.make_keyed(database, question.where, question.keys)
        grouping = engine.group_keyed(database, keyed, len(question.keys), question.aggregates, question.most)
        grouped = time.perf_counter()
        numbers, filters = _members(database, question, keyed, len(grouping.counts)) if question.members else ([], [])
        timings = {"load": loaded - started, "group": grouped - loaded, "select": time.perf_counter() - grouped}
    return StoredPlainResponse(
        rows=sum(question.rows),
        counts=grouping.counts,
        keys=grouping.keys,
        aggregates=grouping.aggregates,
        numbers=numbers,
        filters=filters,
        timings=timings,
    )


def _may_be_left(question: engine.Stored) -> bool:
    """Return whether rows may stay in their objects, to be read twice: as long as keys are columns, which cost nothing.

    What is computed of a row beside its keys, aggregates and filters, takes a table.
    """
    quoted = {'"' + name.replace('"', '""') + '"' for name in question.columns}
    computed = question.aggregates or question.filters or not quoted.issuperset(question.keys)
    return bool(question.columns) and not computed


def _members(
    database: Database, question: engine.Stored, keyed: str, groups: int
) -> tuple[list[bytes], list[list[bytes]]]:
    """Number every row's group, and say for which rows each filter holds: of each object, in bit planes."""
    _number_rows(database, keyed, len(question.keys), question.filters)
    p, parts = database.prefix, list(pairwise(accumulate(question.rows, initial=0)))
    bits = [f"({p}number >> {bit}) & 1 = 1" for bit in range(groups.bit_length())]
    numbers = [_planes(database, bits, *part) for part in parts]
    return numbers, [[_planes(database, [f"{p}f{at}"], *part) for part in parts] for at in range(len(question.filters))]


def _number_rows(database: Database, keyed: str, keys: int, filters: Sequence[str]) -> None:
    """Make the table `numbered` of selected rows: place, number of the group from 1, and whether each filter holds."""
    p = database.prefix
    same = " AND ".join(f"rows_of.{p}k{i} IS NOT DISTINCT FROM groups_of.{p}k{i}" for i in range(keys)) or "true"
    # an expression is not evaluated where WHERE has said no: it may be an error there
    held = "".join(
        f", coalesce(CAST(CASE WHEN {p}selected THEN ({sql}\n) END AS BOOLEAN), false) AS {p}f{i}"
        for i, sql in enumerate(filters)
    )
    columns = "".join(f", {p}f{i}" for i in range(len(filters)))
    least = f"(SELECT min(rowid) FROM {p}groups)"  # of a table that is not committed yet they begin at 2^60
    joined = f"{TABLE} POSITIONAL JOIN " if filters else ""  # by one thread
    database.run(
        f"CREATE TABLE {p}numbered AS SELECT {p}place, {p}number + 1 AS {p}number{columns} "
        f"FROM (SELECT * FROM (SELECT {p}keys.*{held} FROM {joined}{keyed} AS {p}keys) WHERE {p}selected) AS rows_of "
        f"JOIN (SELECT rowid - {least} AS {p}number, * FROM {p}groups) AS groups_of ON {same}",
        "filters",
    )


def _planes(database: Database, conditions: Sequence[str], start: int, stop: int) -> bytes:
    """A bit for each of the rows `start`..`stop`, for each condition over `numbered` (cleave_shared.rowsets)."""
    size = -(-(stop - start) // 8)
    if not size or not conditions:
        return b""
    place = f"{database.prefix}place"
    last = start + 8 * size - 1
    planes = ", ".join(
        f"CAST(bitstring_agg({place}, {start}, {last}) FILTER (WHERE {condition}) AS BLOB)" for condition in conditions
    )
    numbered = f"{database.prefix}numbered WHERE {place} >= {start} AND {place} < {stop}"
    (row,) = database.fetch(f"SELECT {planes} FROM {numbered}", "numbers")
    return b"".join(cast(bytes, plane) or bytes(size) for plane in row)
