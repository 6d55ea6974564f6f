"""Answer requests to the plain service about stored tables, in a child of its own."""

from __future__ import annotations

import time
from typing import Any

from cleave_services.bodies import Large, Note
from cleave_services.links import Links
from cleave_services.plain import contained, engine, select
from cleave_shared import limits
from cleave_shared.stored import StoredPlainRequest, StoredPlainResponse

_LEAST_SECONDS = 5.0  # for DuckDB, however long reading took


def aggregate_stored(
    request: StoredPlainRequest, note: Note, table_set: str, links: Links
) -> StoredPlainResponse | Large:
    """Group and aggregate the rows of stored Parquet objects, read by links; with `members`, number rows by group.

    Raises WireError for a link or an object that is not what it must be.
    """
    started = time.monotonic()
    contents = links.read(table_set, request.objects) if request.columns else []
    taken = time.monotonic() - started
    most = limits.MAX_JSON_BYTES if request.result is None else limits.MAX_RESULT_BYTES
    where = (request.where, request.keys, request.aggregates, request.filters, request.members)
    stored = engine.Stored(contents, request.rows, request.columns, *where, most)
    left = max(_LEAST_SECONDS, limits.PLAIN_SECONDS - taken)
    selection = contained.run(select.select, stored, StoredPlainResponse, note, most, left)
    timings = {"read": taken, **selection.timings}
    note(rows=selection.rows, groups=len(selection.counts), objects=len(contents), timings=timings)
    answer = selection.model_copy(update={"timings": timings})
    if (result := request.result) is None:
        return answer
    emptied: dict[str, Any] = {name: [] for name in ("counts", "keys", "aggregates", "numbers", "filters")}
    return Large(
        answer, lambda content: answer.model_copy(update={**emptied, "stored": links.write(table_set, result, content)})
    )
