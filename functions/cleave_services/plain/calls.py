"""Answer requests to the plain service that bring their rows, in a child of its own."""

from __future__ import annotations

from cleave_services.bodies import Note
from cleave_services.plain import contained, engine
from cleave_shared.wire import PlainRequest, PlainResponse


def aggregate(request: PlainRequest, note: Note) -> PlainResponse:
    """Group the rows of a Parquet table, number every row's group, aggregate plain columns."""
    answer = contained.run(engine.aggregate, request, PlainResponse, note)
    note(rows=request.rows, groups=len(answer.counts), timings=answer.timings)
    return answer
