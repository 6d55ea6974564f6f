"""Group numbers of all rows, and the rows where filters hold, in bit planes (cleave_shared.rowsets)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import cast

from cleave_services.plain.database import TABLE, Database
from cleave_shared.requests import PlainRequest


def members(
    database: Database, request: PlainRequest, keyed: str, groups: int
) -> tuple[list[bytes], list[list[bytes]]]:
    """For each object: the numbers of its rows' groups; and for each filter and object: the rows where it holds.

    `keyed`: rows with their keys, from cleave_services.plain.engine, whose table of groups must exist.
    """
    _number_rows(database, keyed, len(request.keys), request.filters)
    p, parts = database.prefix, list(pairwise(accumulate(request.rows, initial=0)))
    bits = [f"({p}number >> {bit}) & 1 = 1" for bit in range(groups.bit_length())]
    numbers = [_planes(database, bits, *part) for part in parts]
    return numbers, [[_planes(database, [f"{p}f{at}"], *part) for part in parts] for at in range(len(request.filters))]


def _number_rows(database: Database, keyed: str, keys: int, filters: Sequence[str]) -> None:
    """Create the table "numbered" of selected rows: position, number of the group from 1, and whether each filter
    holds.
    """
    p = database.prefix
    same = " AND ".join(f"rows_of.{p}k{i} IS NOT DISTINCT FROM groups_of.{p}k{i}" for i in range(keys)) or "true"
    # an expression is not evaluated for unselected rows, where it might fail
    held = "".join(
        f", coalesce(CAST(CASE WHEN {p}selected THEN ({sql}\n) END AS BOOLEAN), false) AS {p}f{i}"
        for i, sql in enumerate(filters)
    )
    columns = "".join(f", {p}f{i}" for i in range(len(filters)))
    least = f"(SELECT min(rowid) FROM {p}groups)"  # rowids of an uncommitted table begin at 2^60
    joined = f"{TABLE} POSITIONAL JOIN " if filters else ""  # it uses one thread
    database.run(
        f"CREATE TABLE {p}numbered AS SELECT {p}place, {p}number + 1 AS {p}number{columns} "
        f"FROM (SELECT * FROM (SELECT {p}keys.*{held} FROM {joined}{keyed} AS {p}keys) WHERE {p}selected) AS rows_of "
        f"JOIN (SELECT rowid - {least} AS {p}number, * FROM {p}groups) AS groups_of ON {same}",
        "filters",
    )


def _planes(database: Database, conditions: Sequence[str], start: int, stop: int) -> bytes:
    """For each condition over the table "numbered", a bit for each of the rows `start`..`stop`."""
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
