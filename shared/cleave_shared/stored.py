"""The envelopes of questions to stored tables: a service gets links to the objects it may read, and no more.

    POST /v1/sensitive/tables/{set}/sums        SumsRequest          -> SumsResponse
    POST /v1/plain/tables/{set}/aggregate       StoredPlainRequest   -> StoredPlainResponse
    POST /v1/sensitive/tables/{set}/scan        ScanRequest          -> ScanResponse

The set is the folder of a table's objects, 32 hex digits. It is in the path, so that IAM can say who may query which
table. A link is a presigned URL, hence a credential for a while: it is in bodies alone.

A job is a question of more calls than a client wants to make itself. Its questions and answers are in the store under
results/{set}/. A state machine passes steps to the function, each with presigned links to what it reads and writes. It
passes on their answers: numbers and digests.

    Call     the frames of a ScanRequest             -> those of its ScanResponse
    Reduce   answers of calls, or of other reduces   -> those of a Reduced

A link is written at most once. So that a step can be tried again after its answer was lost, it is given several.

A scan adds up the rows of each group. The plain service numbers rows of its half by group. The sender alone knows where
each stands among the ciphertexts, and asks the sensitive service for sums of positions.
"""

from __future__ import annotations

import itertools
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from cleave_shared import limits
from cleave_shared.wire import Blob, Count, Each, Envelope, Hex, Sql, TypedColumn

SET = r"[0-9a-f]{32}"
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Url = Annotated[str, Field(min_length=1, max_length=limits.MAX_LINK_CHARS)]
Place = Annotated[int, Field(ge=0, le=limits.MAX_OBJECT_CHUNKS, strict=True)]


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class Linked(Part):
    """A stored object: where it can be read for a while, and what it must turn out to be."""

    link: Url = Field(description="presigned GET of an object tables/{set}/...")
    bytes: Annotated[int, Field(ge=1, le=limits.MAX_LINKED_BYTES, strict=True)]
    sha256: Sha256


class StoredAnswer(Part):
    """An answer that was put into the store instead of into the response."""

    bytes: Annotated[int, Field(ge=1, strict=True)]
    sha256: Sha256


class Lane(Part):
    """Objects of ciphertexts; those with the same number, from `start` to before `stop`, are added up.

    An object may have fewer of them than another; every number is in one at least.
    """

    objects: Each[Linked] = Field(min_length=1, max_length=limits.MAX_LANE_OBJECTS)
    start: Place = 0
    stop: Place

    @model_validator(mode="after")
    def _some(self) -> Lane:
        if self.start >= self.stop:
            raise ValueError("has no ciphertext: start must be below stop")
        return self


class SumsRequest(Envelope):
    """Ask for sums of stored ciphertexts, lane by lane, position by position."""

    profile: str = Field(max_length=32)
    key_id: Hex
    lanes: Each[Lane] = Field(min_length=1, max_length=limits.MAX_LANES)
    result: Url | None = Field(
        default=None,
        description="presigned PUT of an object results/{set}/..., for an answer over 4 MB",
    )

    @model_validator(mode="after")
    def _bounded(self) -> SumsRequest:
        require_bounded([each for lane in self.lanes for each in lane.objects])
        if (sums := sum(lane.stop - lane.start for lane in self.lanes)) > limits.MAX_STORED_SUMS:
            raise ValueError(f"asks for {sums} sums, at most {limits.MAX_STORED_SUMS} in one request")
        return self


class SumsResponse(Envelope):
    profile: str
    key_id: Hex
    totals: Each[Each[Blob]] = Field(description="of each lane the sums, CKKS ciphertexts; empty where `stored` is set")
    stored: StoredAnswer | None = Field(default=None, description="the whole answer, put where `result` says")
    timings: dict[str, float] = Field(default_factory=dict, description="seconds by stage")


class StoredPlainRequest(Envelope):
    """Group and aggregate the rows of stored Parquet objects, in their order."""

    objects: Each[Linked] = Field(min_length=1, max_length=limits.MAX_PLAIN_OBJECTS)
    rows: Each[Count] = Field(description="of each object")
    columns: Each[Annotated[str, Field(min_length=1, max_length=limits.MAX_SQL_CHARS)]] = Field(
        max_length=limits.MAX_PLAIN_COLUMNS, description="those that the expressions name; no others are read"
    )
    where: Sql | None = None
    keys: Each[Sql] = Field(default_factory=list, max_length=limits.MAX_EXPRESSIONS)
    aggregates: Each[Sql] = Field(default_factory=list, max_length=limits.MAX_EXPRESSIONS)
    members: bool = Field(default=False, description="whether to number the group of every row")
    filters: Each[Sql] = Field(
        default_factory=list,
        max_length=limits.MAX_EXPRESSIONS,
        description="conditions evaluated for every row, beside its group",
    )
    result: Url | None = Field(
        default=None,
        description="presigned PUT of an object results/{set}/..., for an answer over 4 MB",
    )

    @model_validator(mode="after")
    def _consistent(self) -> StoredPlainRequest:
        if len(self.rows) != len(self.objects):
            raise ValueError(f"rows: {len(self.rows)} numbers for {len(self.objects)} objects")
        if sum(self.rows) > limits.MAX_JOB_ROWS:
            raise ValueError(f"rows: more than {limits.MAX_JOB_ROWS:,}")
        if len({name.lower() for name in self.columns}) != len(self.columns):
            raise ValueError("columns: one is named twice")
        if self.filters and not self.members:
            raise ValueError("filters: only with members")
        require_bounded(self.objects)
        return self


class StoredPlainResponse(Envelope):
    """Groups, with one entry each in `counts` and in every column; none where `stored` is set.

    `numbers` and `filters` are empty without `members`.
    """

    rows: Count
    counts: Each[Count]
    keys: Each[TypedColumn]
    aggregates: Each[TypedColumn]
    numbers: Each[Blob] = Field(
        default_factory=list,
        description="of each object its rows' groups in bit planes: 0 for a row that WHERE leaves out, else the place "
        "of its group in `counts`, from 1",
    )
    filters: Each[Each[Blob]] = Field(
        default_factory=list, description="of each filter and object, a bit for every row that it holds for"
    )
    stored: StoredAnswer | None = Field(default=None, description="the whole answer, put where `result` says")
    timings: dict[str, float] = Field(default_factory=dict)


def require_bounded(objects: list[Linked]) -> None:
    """Raises ValueError where one request would read more than a service takes."""
    if (size := sum(each.bytes for each in objects)) > limits.MAX_LINKED_BYTES:
        raise ValueError(f"the objects have {size:,} bytes together, at most {limits.MAX_LINKED_BYTES:,} are read")
    if len(objects) > limits.MAX_LINKED_OBJECTS:
        raise ValueError(f"{len(objects)} objects, at most {limits.MAX_LINKED_OBJECTS} are read")


Links = Annotated[Each[Url], Field(min_length=1, max_length=limits.MAX_STEP_ATTEMPTS)]
Number = Annotated[int, Field(ge=0, lt=limits.MAX_REDUCED, strict=True)]


class Answered(Part):
    """Answer of a step to the state machine: where its answer is, by number of the step and of the link."""

    number: Number
    attempt: Annotated[int, Field(ge=0, lt=limits.MAX_STEP_ATTEMPTS, strict=True)]
    bytes: Annotated[int, Field(ge=1, le=limits.MAX_RESULT_BYTES, strict=True)]
    sha256: Sha256


class Call(Part):
    """Request of a job. `results`: presigned PUTs for its answer."""

    step: Literal["call"]
    set: Hex
    number: Number
    question: Linked
    results: Links


class Reduce(Part):
    """Sum of steps' answers; `parts` must hold one of each step. `question`: a ReduceRequest."""

    step: Literal["reduce"]
    set: Hex
    number: Number
    question: Linked
    results: Links
    # a state machine says null of an item that failed
    parts: Each[Answered | None] = Field(max_length=limits.MAX_REDUCED)


class ReduceRequest(Envelope):
    """`answers[i]`: presigned GETs of step i's answer, one for each of its links, and of what kind it is.

    `sums[j]`: which ciphertexts make up sum j, as pairs of a step and a place among all ciphertexts of its answer. Each
    is a term at most once, so a request asks for no more work than its answers hold.
    """

    profile: str = Field(max_length=32)
    key_id: Hex
    answers: Each[Links] = Field(min_length=1, max_length=limits.MAX_REDUCED)
    kind: Literal["scan", "reduced"]
    sums: Each[Each[tuple[Number, Count]]] = Field(min_length=1, max_length=limits.MAX_STORED_SUMS)

    @model_validator(mode="after")
    def _consistent(self) -> ReduceRequest:
        if any(not terms for terms in self.sums):
            raise ValueError("sums: one has no terms")
        if any(step >= len(self.answers) for terms in self.sums for step, _ in terms):
            raise ValueError("sums: one has a term of a step that is not there")
        most = limits.MAX_SCAN_RESULTS if self.kind == "scan" else limits.MAX_STORED_SUMS
        if any(place >= most for terms in self.sums for _, place in terms):
            raise ValueError(f"sums: one has a term beyond the {most} ciphertexts of an answer")
        if len({term for terms in self.sums for term in terms}) != sum(map(len, self.sums)):
            raise ValueError("sums: a ciphertext is added more than once")
        return self


class Reduced(Envelope):
    profile: str
    key_id: Hex
    totals: Each[Each[Blob]] = Field(description="the sums, in one list")


Weight = Annotated[int, Field(ge=1, lt=1 << 15, strict=True)]


class ScanObject(Linked):
    """Stored object with some of a lane's ciphertexts."""

    first: Place = Field(description="number of the first of them in the lane")


class ScanRequest(Envelope):
    """Ask for sums of the rows of each group, over lanes with the same layout.

    A row is one coefficient of a ciphertext of each lane; a chunk has N - 16 of them. A group's partial sum begins at
    each of its `cuts`, places in `chunks`, and goes on to the next.
    """

    profile: str = Field(max_length=32)
    key_id: Hex
    label: Hex = Field(description="makes the weights of the sentinels this request's own")
    lanes: Each[Annotated[Each[ScanObject], Field(min_length=1, max_length=limits.MAX_SCAN_CHUNKS)]] = Field(
        min_length=1, max_length=limits.MAX_SCAN_RESULTS
    )
    chunks: Each[Place] = Field(
        min_length=1, max_length=limits.MAX_SCAN_CHUNKS, description="numbers of chunks, rising; no others are read"
    )
    numbers: Blob = Field(description="chunk after chunk, its rows' groups in bit planes: 0 for a row of none")
    cuts: Each[Annotated[Each[Place], Field(min_length=1)]] = Field(
        min_length=1, max_length=limits.MAX_SCAN_RESULTS, description="of each group"
    )
    weights: Each[Weight] = Field(description="of each group in its lane's check result")

    @property
    def results(self) -> int:
        """Return the results of one lane."""
        return 1 + sum(map(len, self.cuts))

    @model_validator(mode="after")
    def _consistent(self) -> ScanRequest:
        if not _rises(self.chunks):
            raise ValueError("chunks: their numbers must rise")
        if len(self.weights) != len(self.cuts):
            raise ValueError(f"weights: {len(self.weights)} for {len(self.cuts)} groups")
        if any(not _rises(each) or each[-1] >= len(self.chunks) for each in self.cuts):
            raise ValueError("cuts: places in chunks must rise")
        most = limits.MAX_SCAN_RESULTS
        if len(self.lanes) * self.results > most:
            raise ValueError(f"asks for {len(self.lanes) * self.results} results, at most {most} in one request")
        require_bounded([each for lane in self.lanes for each in lane])
        return self


class ScanResponse(Envelope):
    profile: str
    key_id: Hex
    label: Hex
    totals: Each[Each[Blob]] = Field(
        max_length=limits.MAX_SCAN_RESULTS,
        description="of each lane CKKS ciphertexts: the check result, then each group's partial sums",
    )
    timings: dict[str, float] = Field(default_factory=dict, description="seconds by stage")


def _rises(numbers: list[int]) -> bool:
    return all(one < other for one, other in itertools.pairwise(numbers))
