"""The envelopes of questions to stored tables: a service gets links to the objects it may read, and no more.

    POST /v1/sensitive/tables/{set}/sums        SumsRequest          -> SumsResponse
    POST /v1/plain/tables/{set}/aggregate       StoredPlainRequest   -> StoredPlainResponse

The set is the folder of a table's objects, 32 hex digits: it stands in the path, so that IAM can say who may ask what
of which table. A link is a presigned URL, hence a credential for a while: it stands in bodies alone.
"""

from __future__ import annotations

from typing import Annotated

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


class Kept(Part):
    """An answer that was put into the store instead of into the response."""

    bytes: Annotated[int, Field(ge=1, strict=True)]
    sha256: Sha256


class Lane(Part):
    """Objects of ciphertexts of which those with the same number are added up, of numbers `start`..`stop`.

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
    stored: Kept | None = Field(default=None, description="the whole answer, put where `result` says")
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
    members: bool = Field(default=False, description="whether the group of every row is told")
    filters: Each[Sql] = Field(
        default_factory=list,
        max_length=limits.MAX_EXPRESSIONS,
        description="conditions that are told of every row beside its group",
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
    """One entry per group in `counts` and in every column; none where `stored` is set.

    `numbers` and `filters` are empty where no members were asked for.
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
    stored: Kept | None = Field(default=None, description="the whole answer, put where `result` says")
    timings: dict[str, float] = Field(default_factory=dict)


def require_bounded(objects: list[Linked]) -> None:
    """Raises ValueError where one request would read more than a service takes."""
    if (size := sum(each.bytes for each in objects)) > limits.MAX_LINKED_BYTES:
        raise ValueError(f"the objects have {size:,} bytes together, at most {limits.MAX_LINKED_BYTES:,} are read")
    if len(objects) > limits.MAX_LINKED_OBJECTS:
        raise ValueError(f"{len(objects)} objects, at most {limits.MAX_LINKED_OBJECTS} are read")
