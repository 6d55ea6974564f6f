"""Answer requests to the plain service that bring their rows, in a child of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from pydantic import BaseModel

from cleave_services.bodies import Note
from cleave_services.plain import contained, engine
from cleave_shared.wire import PlainRequest, PlainResponse

Request = TypeVar("Request", bound=BaseModel)
Answered = TypeVar("Answered", bound=BaseModel)


def aggregate(asked: PlainRequest, note: Note) -> PlainResponse:
    """Group the rows of a Parquet table, number every row's group, aggregate plain columns."""
    answer = answered(engine.aggregate, asked, PlainResponse, note)
    note(rows=asked.rows, groups=len(answer.counts), timings=answer.timings)
    return answer


def answered(work: Callable[[Request], Answered], asked: Request, kind: type[Answered], note: Note) -> Answered:
    """`work`, in a child."""
    try:
        return contained.run(work, asked, kind)
    finally:
        note(peak_worker_kb=contained.peak_kb())
