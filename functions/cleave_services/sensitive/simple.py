"""The simplest call: columns as lists of base64 ciphertexts, one operation over each, optionally by group number."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator

from cleave_shared import limits
from cleave_shared.moments import FILTERED
from cleave_shared.operations import Operation
from cleave_shared.wire import Blob, Count, MomentsRequest, MomentsResponse

_NOBODY = "0" * 32  # key and schema are the caller's business here: the answer is decrypted where the request was made
Group = Annotated[int, Field(ge=FILTERED, le=limits.MAX_GROUP, strict=True)]


class SimpleRequest(BaseModel):
    """`data` holds seeded ciphertexts of `profile`, rows interleaved as cleave_shared.moments says.

    The service adds up whatever it is sent; for var, stddev and product the caller encrypts squares or logarithms as
    further lanes. `operation` is echoed, so that the caller can finish what only the key's holder can.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    data: dict[str, list[Blob]] = Field(min_length=1, max_length=limits.MAX_LANES)
    operation: Operation
    profile: str = Field(max_length=32)
    rows: Annotated[int, Field(ge=1, le=limits.MAX_ROWS, strict=True)]
    lanes: dict[str, Annotated[int, Field(ge=1, le=limits.MAX_LANES, strict=True)]] = Field(
        default_factory=dict, description="encrypted values a row, of columns that have more than one"
    )
    group_by: list[Group] | None = Field(default=None, description="a group number a row; -1: counted nowhere")

    @model_validator(mode="after")
    def _consistent(self) -> SimpleRequest:
        if self.group_by is not None and len(self.group_by) != self.rows:
            raise ValueError(f"group_by: has {len(self.group_by)} rows, the envelope says {self.rows}")
        if unknown := [name for name in self.lanes if name not in self.data]:
            raise ValueError(f"lanes: {len(unknown)} columns are not in data")
        return self


class SimpleResponse(BaseModel):
    """Without group_by `result` holds one ciphertext a column, with it one for each of `groups`."""

    operation: str
    profile: str
    rows: Count
    groups: list[int] | None
    counts: list[int]
    result: dict[str, Blob | list[Blob]]
    sentinel: dict[str, Blob] = Field(description="what the caller checks the answer with")


def answer(request: SimpleRequest, moments: Callable[[MomentsRequest], MomentsResponse]) -> SimpleResponse:
    runs = [(0, request.rows)]
    if request.group_by is not None:
        runs = [(group, sum(1 for _ in rows)) for group, rows in groupby(request.group_by)]
    answers = {
        name: moments(
            MomentsRequest(
                profile=request.profile,
                key_id=_NOBODY,
                schema_hash=_NOBODY,
                lanes=request.lanes.get(name, 1),
                rows=request.rows,
                chunk_range=(0, len(chunks)),
                runs=runs,
                chunks=chunks,
            )
        )
        for name, chunks in request.data.items()
    }
    groups = next(iter(answers.values())).groups
    result: dict[str, bytes | list[bytes]] = {}
    for name, each in answers.items():
        totals = [group.totals for group in each.groups]
        result[name] = totals if request.group_by is not None else totals[0]
    return SimpleResponse(
        operation=request.operation,
        profile=request.profile,
        rows=request.rows,
        groups=[group.group for group in groups] if request.group_by is not None else None,
        counts=[group.rows for group in groups],
        result=result,
        sentinel={name: each.sentinel for name, each in answers.items()},
    )
