"""The simplest call: columns as lists of base64 ciphertexts, one operation over each, optionally by group number."""

from __future__ import annotations

from itertools import groupby, islice
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator

from cleave_services.sensitive.evaluate import BlockSums, Chunk, Evaluator
from cleave_services.sensitive.masked import SENTINEL, GroupTotals, MaskedChunk
from cleave_services.sensitive.workers import evaluate_in_parallel, fair_share
from cleave_shared import limits
from cleave_shared.errors import WireError
from cleave_shared.moments import FILTERED, Run, rows_per_chunk, segments
from cleave_shared.operations import Operation
from cleave_shared.wire import Blob, Count, Each

Group = Annotated[int, Field(ge=FILTERED, le=limits.MAX_GROUP, strict=True)]


class SimpleRequest(BaseModel):
    """`data` holds seeded ciphertexts of `profile`.

    Without `group_by` the chunks of a column are just added up, wherever its values lie in them. With it, rows must be
    interleaved as cleave_shared.moments says. For var, stddev and product the caller encrypts squares or logarithms as
    further lanes. `operation` is echoed, so that the caller can finish what only the key's holder can.
    """

    # validators take 10 ms to build, and most programs with this service ask no simple call
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    data: dict[str, Annotated[Each[Blob], Field(min_length=1)]] = Field(min_length=1, max_length=limits.MAX_LANES)
    operation: Operation
    profile: str = Field(max_length=32)
    rows: Annotated[int, Field(ge=1, le=limits.MAX_MASKED_ROWS, strict=True)]
    lanes: dict[str, Annotated[int, Field(ge=1, le=limits.MAX_LANES, strict=True)]] = Field(
        default_factory=dict, description="with group_by: encrypted values per row, of columns that have more than one"
    )
    group_by: Each[Group] | None = Field(default=None, description="a group number per row; -1: counted nowhere")

    @model_validator(mode="after")
    def _consistent(self) -> SimpleRequest:
        if (chunks := sum(map(len, self.data.values()))) > limits.MAX_REQUEST_CHUNKS:
            raise ValueError(f"data: {chunks} chunks, at most {limits.MAX_REQUEST_CHUNKS} in one request")
        if self.group_by is not None and len(self.group_by) != self.rows:
            raise ValueError(f"group_by: has {len(self.group_by)} rows, the envelope says {self.rows}")
        if unknown := [name for name in self.lanes if name not in self.data]:
            raise ValueError(f"lanes: {len(unknown)} columns are not in data")
        return self


class SimpleResponse(BaseModel):
    """Without group_by `result` holds one ciphertext per column, with it one for each of `groups`."""

    model_config = ConfigDict(defer_build=True)

    operation: str
    profile: str
    rows: Count
    groups: list[int] | None
    counts: list[int]
    result: dict[str, Blob | list[Blob]]
    sentinel: dict[str, Blob] = Field(
        default_factory=dict, description="with group_by: what the caller checks the answer with"
    )


def answer(request: SimpleRequest, evaluator: Evaluator) -> SimpleResponse:
    """Raises WireError: 413 where the answer would be too large, 422 for chunks that are not what is due."""
    grouped = request.group_by is not None
    each = len(set(request.group_by or ()) - {FILTERED}) + 1 if grouped else 1
    _require_room(len(request.data) * each, limits.MASKED_RESULT_BYTES if grouped else limits.RESULT_BYTES)
    _require_chunks(request, evaluator)
    if request.group_by is None:
        return SimpleResponse(
            operation=request.operation,
            profile=request.profile,
            rows=request.rows,
            groups=None,
            counts=[request.rows],
            result={name: _sum(evaluator, blobs) for name, blobs in request.data.items()},
        )
    runs = [(group, sum(1 for _ in rows)) for group, rows in islice(groupby(request.group_by), limits.MAX_RUNS + 1)]
    if len(runs) > limits.MAX_RUNS:
        raise WireError(f"group_by: changes more than {limits.MAX_RUNS:,} times", hint="sort rows by group", status=413)
    counts: dict[int, int] = {}
    for group, rows in runs:
        if group != FILTERED:
            counts[group] = counts.get(group, 0) + rows
    groups = sorted(counts)
    totals = {name: _totals(evaluator, request.lanes.get(name, 1), runs, blobs) for name, blobs in request.data.items()}
    return SimpleResponse(
        operation=request.operation,
        profile=request.profile,
        rows=request.rows,
        groups=groups,
        counts=[counts[group] for group in groups],
        result={name: [files[group] for group in groups] for name, files in totals.items()},
        sentinel={name: files[SENTINEL] for name, files in totals.items()},
    )


def _require_room(results: int, size: int) -> None:
    """Before any work: an answer of so many ciphertexts of `size` bytes, sentinels included, must fit."""
    if results * size > limits.MAX_BODY_BYTES:
        raise WireError(
            f"an answer of {results} ciphertexts, at most {limits.MAX_BODY_BYTES // size} fit",
            hint="send fewer columns or groups per request, or ask without group_by",
            status=413,
        )


def _require_chunks(request: SimpleRequest, evaluator: Evaluator) -> None:
    """Before any work: each column of a call by group has the chunks that its rows fill."""
    for name, blobs in request.data.items() if request.group_by is not None else ():
        lanes = request.lanes.get(name, 1)
        due = -(-request.rows // rows_per_chunk(evaluator.degree, lanes))
        if due != len(blobs):
            raise WireError(f"{request.rows} rows of {lanes} lanes fill {due} chunks, {len(blobs)} were sent")


def _sum(evaluator: Evaluator, blobs: list[bytes]) -> bytes:
    with fair_share() as workers:
        return evaluate_in_parallel(BlockSums(evaluator), [Chunk(0, blob) for blob in blobs], workers).files[0]


def _totals(evaluator: Evaluator, lanes: int, runs: list[Run], blobs: list[bytes]) -> dict[int, bytes]:
    by_chunk = segments(runs, rows_per_chunk(evaluator.degree, lanes))
    chunks = [MaskedChunk(index, cut, blob) for index, (cut, blob) in enumerate(zip(by_chunk, blobs, strict=True))]
    with fair_share() as workers:
        return evaluate_in_parallel(GroupTotals(evaluator, lanes), chunks, workers).files
