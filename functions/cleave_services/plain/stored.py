"""What the plain service does with questions about stored tables, in a child of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from cleave_services.bodies import Large, Note
from cleave_services.links import Links
from cleave_services.plain import contained, engine, select
from cleave_shared import limits
from cleave_shared.scan import SelectRequest, SelectResponse
from cleave_shared.stored import StoredPlainRequest, StoredPlainResponse

_LEAST_SECONDS = 5.0  # for DuckDB, however long reading took

Given = TypeVar("Given")
StoredAnswer = TypeVar("StoredAnswer", bound=StoredPlainResponse)


def aggregate_stored(
    asked: StoredPlainRequest, note: Note, table_set: str, links: Links
) -> StoredPlainResponse | Large:
    """Group and aggregate the rows of stored Parquet objects, which are read by links.

    Raises WireError for a link or an object that is not what it must be.
    """
    answer = _of_objects(
        engine.aggregate_stored, lambda stored: stored, StoredPlainResponse, asked, note, table_set, links
    )
    return _kept(answer, ("counts", "keys", "aggregates"), asked, table_set, links)


def select_stored(asked: SelectRequest, note: Note, table_set: str, links: Links) -> SelectResponse | Large:
    """The same, with the group of every row."""
    answer = _of_objects(
        select.select,
        lambda stored: select.Selecting(stored, asked.filters),
        SelectResponse,
        asked,
        note,
        table_set,
        links,
    )
    return _kept(answer, ("counts", "keys", "aggregates", "numbers", "filters"), asked, table_set, links)


def _of_objects(
    work: Callable[[Given], StoredAnswer],
    given: Callable[[engine.Stored], Given],
    kind: type[StoredAnswer],
    asked: StoredPlainRequest,
    note: Note,
    table_set: str,
    links: Links,
) -> StoredAnswer:
    """`work`, in a child, on what is `given` of the objects that were asked about."""
    started = time.monotonic()
    contents = links.read(table_set, asked.objects) if asked.columns else []
    taken = time.monotonic() - started
    most = limits.MAX_JSON_BYTES if asked.result is None else limits.MAX_RESULT_BYTES
    stored = engine.Stored(contents, asked.rows, asked.columns, asked.where, asked.keys, asked.aggregates, most)
    try:
        left = max(_LEAST_SECONDS, limits.PLAIN_SECONDS - taken)
        found = contained.run(work, given(stored), kind, most, left)
    finally:
        note(peak_worker_kb=contained.peak_kb())
    timings = {"read": taken, **found.timings}
    note(rows=found.rows, groups=len(found.counts), objects=len(contents), timings=timings)
    return found.model_copy(update={"timings": timings})


def _kept(
    answer: StoredAnswer, lists: Sequence[str], asked: StoredPlainRequest, table_set: str, links: Links
) -> StoredAnswer | Large:
    """`answer`, whose `lists` go into the store where it is too large and there is a link for it."""
    if (result := asked.result) is None:
        return answer
    return Large(
        answer,
        lambda content: answer.model_copy(
            update={**{name: [] for name in lists}, "stored": links.write(table_set, result, content)}
        ),
    )
