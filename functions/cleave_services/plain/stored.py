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
    asked: StoredPlainRequest, note: Note, table_set: str, links: Links
) -> StoredPlainResponse | Large:
    """Group and aggregate the rows of stored Parquet objects, which are read by links; with `members`, tell each row's
    group too.

    Raises WireError for a link or an object that is not what it must be.
    """
    started = time.monotonic()
    contents = links.read(table_set, asked.objects) if asked.columns else []
    taken = time.monotonic() - started
    most = limits.MAX_JSON_BYTES if asked.result is None else limits.MAX_RESULT_BYTES
    where = (asked.where, asked.keys, asked.aggregates, asked.filters, asked.members)
    stored = engine.Stored(contents, asked.rows, asked.columns, *where, most)
    try:
        left = max(_LEAST_SECONDS, limits.PLAIN_SECONDS - taken)
        found = contained.run(select.select, stored, StoredPlainResponse, most, left)
    finally:
        note(peak_worker_kb=contained.peak_kb())
    timings = {"read": taken, **found.timings}
    note(rows=found.rows, groups=len(found.counts), objects=len(contents), timings=timings)
    answer = found.model_copy(update={"timings": timings})
    if (result := asked.result) is None:
        return answer
    emptied: dict[str, Any] = {name: [] for name in ("counts", "keys", "aggregates", "numbers", "filters")}
    return Large(
        answer, lambda content: answer.model_copy(update={**emptied, "stored": links.write(table_set, result, content)})
    )
