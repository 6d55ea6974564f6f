"""What the plain service does with each request, in a child of its own.

A client that has the service in it and asks of files imports nothing that only stored tables and simple calls need.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel

from cleave_services.bodies import Large, Note
from cleave_services.plain import contained, engine
from cleave_shared import limits
from cleave_shared.wire import PlainRequest, PlainResponse

if TYPE_CHECKING:
    from cleave_services.links import Links
    from cleave_services.plain import simple
    from cleave_shared.scan import SelectRequest, SelectResponse
    from cleave_shared.stored import StoredPlainRequest, StoredPlainResponse

_LEAST_SECONDS = 5.0  # for DuckDB, however long reading took

Asked = TypeVar("Asked", bound=BaseModel)
Answered = TypeVar("Answered", bound=BaseModel)
Given = TypeVar("Given")
StoredAnswer = TypeVar("StoredAnswer", bound="StoredPlainResponse")


def aggregate(asked: PlainRequest, note: Note) -> PlainResponse:
    """Group the rows of a Parquet table, number every row's group, aggregate plain columns."""
    answer = _contained(engine.aggregate, asked, PlainResponse, note)
    note(rows=asked.rows, groups=len(answer.counts), timings=answer.timings)
    return answer


def aggregate_stored(
    asked: StoredPlainRequest, note: Note, table_set: str, links: Links
) -> StoredPlainResponse | Large:
    """The same over stored Parquet objects. Raises WireError for a link or an object that is not what it must be."""
    from cleave_shared.stored import StoredPlainResponse  # noqa: PLC0415 - see above

    answer = _of_objects(
        engine.aggregate_stored, lambda stored: stored, StoredPlainResponse, asked, note, table_set, links
    )
    return _kept(answer, ("counts", "keys", "aggregates"), asked, table_set, links)


def select_stored(asked: SelectRequest, note: Note, table_set: str, links: Links) -> SelectResponse | Large:
    """The group of every row of stored Parquet objects. Raises what `aggregate_stored` raises."""
    from cleave_services.plain import select  # noqa: PLC0415 - see above
    from cleave_shared.scan import SelectResponse  # noqa: PLC0415

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


def operate(asked: simple.SimpleRequest, note: Note) -> simple.SimpleResponse:
    """One operation over every numeric column of `data`, by group where `group_by` names columns."""
    from cleave_services.plain import simple  # noqa: PLC0415 - see above

    answer = _contained(simple.answer, asked, simple.SimpleResponse, note)
    groups = next(iter(answer.groups.values())) if answer.groups else [None]
    note(rows=answer.rows, groups=len(groups))
    return answer


def _contained(work: Callable[[Asked], Answered], asked: Asked, kind: type[Answered], note: Note) -> Answered:
    try:
        return contained.run(work, asked, kind)
    finally:
        note(peak_worker_kb=contained.peak_kb())
