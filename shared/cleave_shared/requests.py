"""The requests of both services, and their answers.

  POST /v1/plain/aggregate                    PlainRequest    -> PlainResponse    objects are inline
  POST /v1/plain/tables/{set}/aggregate       PlainRequest    -> PlainResponse    objects are linked
  POST /v1/sensitive/moments                  SumsRequest     -> SumsResponse     objects are inline
  POST /v1/sensitive/tables/{set}/sums        SumsRequest     -> SumsResponse     objects are linked
  POST /v1/sensitive/tables/{set}/scan        ScanRequest     -> ScanResponse

Objects of a file are in the request. Those of a stored table are linked: the service gets links to the objects that it
may read, and no others. The set is the folder of a table's objects, 32 hex digits. It is in the path, so that IAM can
say who may query which table. A link is a presigned URL, so it is a credential for some time: it is only in bodies.

A scan adds up the rows of each group. The plain service numbers the rows of its half by group. Only the sender knows
their positions among the ciphertexts, and requests sums of positions from the sensitive service.
"""

import itertools
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated, Literal

from cleave_shared import limits
from cleave_shared.messages import Blob, Bytes, BytesView, Each, Item, Rules, Tagged, Unlike
from cleave_shared.wire import BoundedCount, Envelope, Hex, Sql

SET = r"[0-9a-f]{32}"
Sha256 = Annotated[str, Rules(pattern=r"^[0-9a-f]{64}$")]
Url = Annotated[str, Rules(min_length=1, max_length=limits.MAX_LINK_CHARS)]
ChunkNumber = Annotated[int, Rules(ge=0, le=limits.MAX_OBJECT_CHUNKS, strict=True)]


@dataclass(frozen=True, kw_only=True)
class Linked(Item):
    """A stored object: a link to read it, and its expected size and digest."""

    link: Url = field(metadata={"description": "presigned GET of an object tables/{set}/..."})
    bytes: Annotated[int, Rules(ge=1, le=limits.MAX_LINKED_BYTES, strict=True)]
    sha256: Sha256


def _form(value: object) -> Literal["inline", "linked"]:
    return "linked" if isinstance(value, dict | Linked) else "inline"


_Object = Annotated[Annotated[BytesView, Tagged("inline")] | Annotated[Linked, Tagged("linked")], Unlike(_form)]
"""An object of a request: its bytes, or a link to them."""

_STORED = {"description": "the whole answer, if it is in the object that `result` names"}
_TIMINGS = {"description": "seconds by stage"}
_RESULT = {"description": "presigned PUT of an object results/{set}/..., for an answer over 4 MB"}


def new_label() -> str:
    return os.urandom(16).hex()


@dataclass(frozen=True, kw_only=True)
class StoredAnswer(Item):
    """An answer that is in the store instead of in the response."""

    bytes: Annotated[int, Rules(ge=1, strict=True)]
    sha256: Sha256


@dataclass(frozen=True, kw_only=True)
class TypedColumn(Item):
    """Values as DuckDB's text, so that `CAST(value AS type)` restores each exactly."""

    type: str
    values: Each[str | None]


_Name = Annotated[str, Rules(min_length=1, max_length=limits.MAX_SQL_CHARS)]
_Expressions = Annotated[Each[Sql], Rules(max_length=limits.MAX_EXPRESSIONS)]


@dataclass(frozen=True, kw_only=True)
class PlainRequest(Envelope):
    """Group and aggregate the rows of Parquet objects, in their order."""

    label: Hex = field(default_factory=new_label, metadata={"description": "names the request in its answer"})
    objects: Annotated[Each[_Object], Rules(max_length=limits.MAX_PLAIN_OBJECTS)] = field(
        default_factory=list, metadata={"description": "Parquet files; none if the expressions name no column"}
    )
    rows: Annotated[Each[BoundedCount], Rules(min_length=1, max_length=limits.MAX_PLAIN_OBJECTS)] = field(
        metadata={"description": "rows of each object; needed without objects too"}
    )
    columns: Annotated[Each[_Name], Rules(max_length=limits.MAX_PLAIN_COLUMNS)] | None = field(
        default=None, metadata={"description": "the columns to read; default: all"}
    )
    where: Sql | None = None
    keys: _Expressions = field(default_factory=list)
    aggregates: _Expressions = field(default_factory=list)
    members: bool = field(default=False, metadata={"description": "whether to answer the number of each row's group"})
    filters: _Expressions = field(default_factory=list, metadata={"description": "conditions to evaluate for each row"})
    result: Url | None = field(default=None, metadata=_RESULT)

    def __post_init__(self) -> None:
        if self.objects and len(self.rows) != len(self.objects):
            raise ValueError(f"rows: {len(self.rows)} numbers for {len(self.objects)} objects")
        if sum(self.rows) > limits.MAX_JOB_ROWS:
            raise ValueError(f"rows: more than {limits.MAX_JOB_ROWS:,}")
        columns = self.columns or []
        if len({name.lower() for name in columns}) != len(columns):
            raise ValueError("columns: one is named twice")
        if self.columns is not None and bool(self.columns) != bool(self.objects):
            raise ValueError("columns: none without objects, and no objects without columns")
        if self.filters and not self.members:
            raise ValueError("filters: only with members")
        require_bounded(self.objects)


@dataclass(frozen=True, kw_only=True)
class PlainResponse(Envelope):
    """Groups, with one entry each in `counts` and in every column; empty if `stored` is set.

    `numbers` and `filters` are empty without `members`.
    """

    label: Hex
    rows: BoundedCount
    counts: Each[BoundedCount]
    keys: Each[TypedColumn]
    aggregates: Each[TypedColumn]
    numbers: Each[Blob] = field(
        default_factory=list,
        metadata={
            "description": "for each object, the group numbers of its rows in bit planes; 0: WHERE excludes the row, "
            "1: the first group of `counts`"
        },
    )
    filters: Each[Each[Blob]] = field(
        default_factory=list,
        metadata={"description": "for each filter and object, one bit per row: whether the condition is true"},
    )
    stored: StoredAnswer | None = field(default=None, metadata=_STORED)
    timings: dict[str, float] = field(default_factory=dict, metadata=_TIMINGS)


@dataclass(frozen=True, kw_only=True)
class Lane(Item):
    """Objects with ciphertexts. Ciphertexts with the same number, from `start` to before `stop`, are added up.

    An object may have fewer of them than another; every number must be in at least one. Only the sender knows the row,
    group and column of each coefficient.
    """

    objects: Annotated[Each[_Object], Rules(min_length=1, max_length=limits.MAX_LANE_OBJECTS)]
    start: ChunkNumber = 0
    stop: ChunkNumber

    def __post_init__(self) -> None:
        if self.start >= self.stop:
            raise ValueError("has no ciphertext: start must be below stop")


@dataclass(frozen=True, kw_only=True)
class SumsRequest(Envelope):
    """Request for sums of ciphertexts, lane by lane, position by position."""

    profile: Annotated[str, Rules(max_length=32)]
    key_id: Hex
    label: Hex = field(default_factory=new_label, metadata={"description": "names the request in its answer"})
    lanes: Annotated[Each[Lane], Rules(min_length=1, max_length=limits.MAX_LANES)]
    result: Url | None = field(default=None, metadata=_RESULT)

    @property
    def objects(self) -> list[Bytes | Linked]:
        return [each for lane in self.lanes for each in lane.objects]

    @property
    def sums(self) -> int:
        return sum(lane.stop - lane.start for lane in self.lanes)

    def __post_init__(self) -> None:
        require_bounded(self.objects)
        inline = sum(not isinstance(each, Linked) for each in self.objects)
        if inline > limits.MAX_REQUEST_CHUNKS:
            raise ValueError(f"{inline} inline objects, at most {limits.MAX_REQUEST_CHUNKS} in one request")
        most = limits.MAX_REQUEST_SUMS if inline else limits.MAX_STORED_SUMS
        if self.sums > most:
            raise ValueError(f"asks for {self.sums} sums, at most {most} in one request")


@dataclass(frozen=True, kw_only=True)
class SumsResponse(Envelope):
    profile: str
    key_id: Hex
    label: Hex
    totals: Each[Each[Blob]] = field(
        metadata={"description": "sums of each lane, as CKKS ciphertexts; empty if `stored` is set"}
    )
    stored: StoredAnswer | None = field(default=None, metadata=_STORED)
    timings: dict[str, float] = field(default_factory=dict, metadata=_TIMINGS)


def require_bounded(objects: Iterable[Bytes | Linked]) -> None:
    """Raises ValueError if a request would read more through links than a service reads."""
    linked = [each for each in objects if isinstance(each, Linked)]
    if (size := sum(each.bytes for each in linked)) > limits.MAX_LINKED_BYTES:
        raise ValueError(f"the objects have {size:,} bytes together, at most {limits.MAX_LINKED_BYTES:,} are read")
    if len(linked) > limits.MAX_LINKED_OBJECTS:
        raise ValueError(f"{len(linked)} objects, at most {limits.MAX_LINKED_OBJECTS} are read")


Weight = Annotated[int, Rules(ge=1, lt=1 << 15, strict=True)]


@dataclass(frozen=True, kw_only=True)
class ScanObject(Linked):
    """A stored object with some of a lane's ciphertexts."""

    first: ChunkNumber = field(metadata={"description": "number of its first ciphertext in the lane"})


@dataclass(frozen=True, kw_only=True)
class ScanRequest(Envelope):
    """Request for sums of each group's rows, over lanes with the same layout.

    A row is one coefficient of a ciphertext in each lane; a chunk has N - 16 rows. A partial sum of a group begins at
    each of its `cuts`, which are indices in `chunks`, and ends before the next.
    """

    profile: Annotated[str, Rules(max_length=32)]
    key_id: Hex
    label: Hex = field(metadata={"description": "makes the weights of the sentinels unique to this request"})
    lanes: Annotated[
        Each[Annotated[Each[ScanObject], Rules(min_length=1, max_length=limits.MAX_SCAN_CHUNKS)]],
        Rules(min_length=1, max_length=limits.MAX_SCAN_RESULTS),
    ]
    chunks: Annotated[Each[ChunkNumber], Rules(min_length=1, max_length=limits.MAX_SCAN_CHUNKS)] = field(
        metadata={"description": "chunk numbers, ascending; only these are read"}
    )
    numbers: Blob = field(
        metadata={"description": "for each chunk, the group numbers of its rows in bit planes; 0: no group"}
    )
    cuts: Annotated[
        Each[Annotated[Each[ChunkNumber], Rules(min_length=1)]], Rules(min_length=1, max_length=limits.MAX_SCAN_RESULTS)
    ] = field(metadata={"description": "for each group, where its partial sums begin"})
    weights: Each[Weight] = field(metadata={"description": "weight of each group in its lane's check result"})

    @property
    def results(self) -> int:
        """Number of results of one lane."""
        return 1 + sum(map(len, self.cuts))

    def __post_init__(self) -> None:
        if not _rises(self.chunks):
            raise ValueError("chunks: their numbers must be in rising order")
        if len(self.weights) != len(self.cuts):
            raise ValueError(f"weights: {len(self.weights)} for {len(self.cuts)} groups")
        if any(not _rises(each) or each[-1] >= len(self.chunks) for each in self.cuts):
            raise ValueError("cuts: places in chunks must rise")
        most = limits.MAX_SCAN_RESULTS
        if len(self.lanes) * self.results > most:
            raise ValueError(f"asks for {len(self.lanes) * self.results} results, at most {most} in one request")
        require_bounded([each for lane in self.lanes for each in lane])


@dataclass(frozen=True, kw_only=True)
class ScanResponse(Envelope):
    profile: str
    key_id: Hex
    label: Hex
    totals: Annotated[Each[Each[Blob]], Rules(max_length=limits.MAX_SCAN_RESULTS)] = field(
        metadata={"description": "for each lane, CKKS ciphertexts: the check result, then each group's partial sums"}
    )
    timings: dict[str, float] = field(default_factory=dict, metadata=_TIMINGS)


def _rises(numbers: list[int]) -> bool:
    return all(one < other for one, other in itertools.pairwise(numbers))
