"""The simplest call: columns as lists of base64 ciphertexts, those of each column added up."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator

from cleave_services.bodies import Note
from cleave_services.sensitive import workers
from cleave_services.sensitive.evaluate import BlockSums, Chunk, Evaluator
from cleave_shared import limits
from cleave_shared.errors import WireError
from cleave_shared.params import Operation
from cleave_shared.seal import seal_evaluator
from cleave_shared.wire import Blob, Count, Each


class SimpleRequest(BaseModel):
    """`data` holds seeded ciphertexts of `profile`.

    The chunks of a column are added up, wherever its values lie in them. For var, stddev and product the caller
    encrypts squares or logarithms as further lanes. `operation` and `rows` are echoed, so that the caller can finish
    what only the key's holder can.
    """

    # validators take 10 ms to build, and most programs with this service ask no simple call
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    data: dict[str, Annotated[Each[Blob], Field(min_length=1)]] = Field(min_length=1, max_length=limits.MAX_LANES)
    operation: Operation
    profile: str = Field(max_length=32)
    rows: Annotated[int, Field(ge=1, le=limits.MAX_SIMPLE_ROWS, strict=True)]

    @model_validator(mode="after")
    def _consistent(self) -> SimpleRequest:
        if (chunks := sum(map(len, self.data.values()))) > limits.MAX_REQUEST_CHUNKS:
            raise ValueError(f"data: {chunks} chunks, at most {limits.MAX_REQUEST_CHUNKS} in one request")
        return self


class SimpleResponse(BaseModel):
    """`result` holds one ciphertext per column."""

    model_config = ConfigDict(defer_build=True)

    operation: str
    profile: str
    rows: Count
    result: dict[str, Blob]


def answer_simple(request: SimpleRequest, note: Note, _links: None = None) -> SimpleResponse:
    """The sum of the ciphertexts of each column."""
    response = answer(request, seal_evaluator(request.profile))
    note(rows=response.rows, chunks=sum(map(len, request.data.values())))
    return response


def answer(request: SimpleRequest, evaluator: Evaluator) -> SimpleResponse:
    """Raises WireError: 413 where the answer would be too large, 422 for chunks that are no ciphertexts."""
    most = limits.MAX_BODY_BYTES // limits.RESULT_BYTES
    if len(request.data) > most:  # before any work
        raise WireError(
            f"an answer of {len(request.data)} ciphertexts, at most {most} fit",
            hint="send fewer columns per request",
            status=413,
        )
    return SimpleResponse(
        operation=request.operation,
        profile=request.profile,
        rows=request.rows,
        result={name: _sum(evaluator, blobs) for name, blobs in request.data.items()},
    )


def _sum(evaluator: Evaluator, blobs: list[bytes]) -> bytes:
    with workers.fair_share() as share:
        return workers.evaluate(BlockSums(evaluator), [Chunk(0, blob) for blob in blobs], share).files[0]
