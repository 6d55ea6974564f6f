"""Answers requests to the plain service, each in its own child process."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from cleave_services import links as objects_of
from cleave_services.bodies import Large, Note
from cleave_services.links import TableLinks
from cleave_services.plain import contained, engine
from cleave_shared import limits
from cleave_shared.requests import PlainRequest, PlainResponse


def aggregate(request: PlainRequest, note: Note, links: TableLinks | None) -> PlainResponse | Large:
    """Group and aggregate the rows of Parquet objects; with `members`, number rows by group.

    Raises WireError for a wrong link or object.
    """
    started = time.monotonic()
    contents = objects_of.read(request.objects, links, request.result)
    read = time.monotonic() - started
    stored = links is not None and request.result is not None
    most = limits.MAX_RESULT_BYTES if stored else limits.MAX_JSON_BYTES
    left = objects_of.seconds_left(limits.PLAIN_SECONDS, read)
    # the child, which evaluates expressions, gets no link
    question = replace(request, objects=[b""] * len(request.objects), result=None)
    arguments = (question, [memoryview(each) for each in contents], most)
    selection = contained.run(engine.aggregate, arguments, PlainResponse, note, most, left)
    timings = {"read": read, **selection.timings}
    note(rows=selection.rows, groups=len(selection.counts), objects=len(contents), timings=timings)
    answer = replace(selection, timings=timings)
    if links is None or (result := request.result) is None:
        return answer
    emptied: dict[str, Any] = {name: [] for name in ("counts", "keys", "aggregates", "numbers", "filters")}
    return Large(answer, lambda content: replace(answer, **emptied, stored=links.write(result, content)))
