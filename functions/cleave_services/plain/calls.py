"""What the plain service does with each request, in a child of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from pydantic import BaseModel

from cleave_services.bodies import Note
from cleave_services.plain import contained, engine, simple
from cleave_shared.wire import PlainRequest, PlainResponse

Asked = TypeVar("Asked", bound=BaseModel)
Answered = TypeVar("Answered", bound=BaseModel)


def aggregate(asked: PlainRequest, note: Note) -> PlainResponse:
    """Group the rows of a Parquet table, number every row's group, aggregate plain columns."""
    answer = _contained(engine.aggregate, asked, PlainResponse, note)
    note(rows=asked.rows, groups=len(answer.counts), timings=answer.timings)
    return answer


def operate(asked: simple.SimpleRequest, note: Note) -> simple.SimpleResponse:
    """One operation over every numeric column of `data`, by group where `group_by` names columns."""
    answer = _contained(simple.answer, asked, simple.SimpleResponse, note)
    groups = next(iter(answer.groups.values())) if answer.groups else [None]
    note(rows=answer.rows, groups=len(groups))
    return answer


def _contained(work: Callable[[Asked], Answered], asked: Asked, kind: type[Answered], note: Note) -> Answered:
    try:
        return contained.run(work, asked, kind)
    finally:
        note(peak_worker_kb=contained.peak_kb())
