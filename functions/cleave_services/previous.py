"""Wire version 2, which Cleave 1.0.0 speaks: converts its requests to this version, and answers back.

Version 2 had two requests per question and service: one for a file, with rows or chunks inline, and one for a stored
table. Only this module knows it; without it and `wire.PREVIOUS`, services refuse version 2.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, Literal, TypeVar

from cleave_shared import limits, wire
from cleave_shared.chunks import joined
from cleave_shared.errors import WireError
from cleave_shared.jobs import ReduceRequest
from cleave_shared.messages import Blob, Bytes, Each, Item, Message, Rules, View
from cleave_shared.requests import (
    Expressions,
    Lane,
    PlainRequest,
    PlainResponse,
    ScanRequest,
    StoredAnswer,
    SumsRequest,
    SumsResponse,
    TypedColumn,
)
from cleave_shared.wire import Count, Hex, Sql

Model = TypeVar("Model", bound=Message)
_Answer = Callable[[Any], Message]


@dataclass(frozen=True, kw_only=True)
class _Envelope(Item):
    version: Literal[2] = 2


@dataclass(frozen=True, kw_only=True)
class _Moments(_Envelope):
    """Sums of inline chunks, block by block."""

    profile: Annotated[str, Rules(max_length=32)]
    key_id: Hex
    schema_hash: Hex
    chunk_range: tuple[Count, Count]
    blocks: Annotated[
        Each[Annotated[int, Rules(ge=1, le=limits.MAX_REQUEST_CHUNKS, strict=True)]],
        Rules(min_length=1, max_length=limits.MAX_REQUEST_SUMS),
    ]
    chunks: Annotated[Each[View], Rules(min_length=1, max_length=limits.MAX_REQUEST_CHUNKS)]

    def __post_init__(self) -> None:
        start, stop = self.chunk_range
        if stop - start != len(self.chunks):
            raise ValueError(f"chunk_range covers {stop - start} chunks, {len(self.chunks)} were sent")
        if sum(self.blocks) != len(self.chunks):
            raise ValueError(f"blocks cover {sum(self.blocks)} chunks, {len(self.chunks)} were sent")

    def request(self) -> SumsRequest:
        objects = iter([joined([chunk]) for chunk in self.chunks])
        lanes = [Lane(objects=[next(objects) for _ in range(count)], stop=1) for count in self.blocks]
        return SumsRequest(profile=self.profile, key_id=self.key_id, lanes=lanes)

    def answer(self, answer: SumsResponse) -> Message:
        totals = [total for (total,) in answer.totals]
        return _copied(
            _MomentsAnswer, answer, schema_hash=self.schema_hash, chunk_range=self.chunk_range, totals=totals
        )


@dataclass(frozen=True, kw_only=True)
class _Rows(_Envelope):
    """Groups of the rows of an inline table."""

    schema_hash: Hex
    rows: Count
    table: View | None = None
    where: Sql | None = None
    keys: Expressions = field(default_factory=list)
    aggregates: Expressions = field(default_factory=list)

    def request(self) -> PlainRequest:
        return PlainRequest(
            objects=[] if self.table is None else [self.table],
            rows=[self.rows],
            where=self.where,
            keys=self.keys,
            aggregates=self.aggregates,
        )

    def answer(self, answer: PlainResponse) -> Message:
        return _copied(_RowsAnswer, answer, schema_hash=self.schema_hash)


@dataclass(frozen=True, kw_only=True)
class _MomentsAnswer(_Envelope):
    profile: str
    key_id: Hex
    schema_hash: Hex
    chunk_range: tuple[Count, Count]
    totals: Each[Blob]
    timings: dict[str, float]


@dataclass(frozen=True, kw_only=True)
class _RowsAnswer(_Envelope):
    schema_hash: Hex
    rows: Count
    counts: Each[Count]
    keys: Each[TypedColumn]
    aggregates: Each[TypedColumn]
    timings: dict[str, float]


@dataclass(frozen=True, kw_only=True)
class _SumsAnswer(_Envelope):
    profile: str
    key_id: Hex
    totals: Each[Each[Blob]]
    stored: StoredAnswer | None
    timings: dict[str, float]


@dataclass(frozen=True, kw_only=True)
class _PlainAnswer(_Envelope):
    rows: Count
    counts: Each[Count]
    keys: Each[TypedColumn]
    aggregates: Each[TypedColumn]
    numbers: Each[Blob]
    filters: Each[Each[Blob]]
    stored: StoredAnswer | None
    timings: dict[str, float]


@dataclass(frozen=True, kw_only=True)
class _ScanAnswer(_Envelope):
    profile: str
    key_id: Hex
    label: Hex
    totals: Each[Each[Blob]]
    timings: dict[str, float]


@dataclass(frozen=True, kw_only=True)
class _Reduced(_Envelope):
    profile: str
    key_id: Hex
    totals: Each[Each[Blob]]


_INLINE: dict[type[Message], tuple[str, type[_Moments | _Rows]]] = {
    SumsRequest: ("lanes", _Moments),
    PlainRequest: ("objects", _Rows),
}
"""By this version's request: the field that version 2's has only for stored tables, and version 2's for files."""
_ANSWERS: dict[type[Message], type[_Envelope]] = {
    SumsRequest: _SumsAnswer,
    PlainRequest: _PlainAnswer,
    ScanRequest: _ScanAnswer,
    ReduceRequest: _Reduced,
}
_ADDED = {SumsRequest: {"label", "release"}, PlainRequest: {"label", "release"}}


def translated(model: type[Message], head: dict[str, Any], blobs: Sequence[Bytes] | None) -> tuple[Message, _Answer]:
    """A request of version 2 as a `model`, and a function that converts its answer to version 2. Raises WireError."""
    stored, inline = _INLINE.get(model, ("", None))
    if inline is not None and stored not in head:
        received = wire.validate(inline, head, blobs)
        return received.request(), received.answer
    if added := head.keys() & _ADDED.get(model, {"release"}):
        raise WireError(f"{min(added)}: Extra inputs are not permitted")
    if head.get("columns") == []:  # objects of which nothing is read
        head = head | {"objects": []}
    return _raised(model, head, blobs), lambda answer: _copied(_ANSWERS[model], answer)


def answer(model: type[Model], content: bytes) -> Model:
    """A step's answer in frames, written by a function of either version. Raises WireError."""
    head, blobs = wire.parse(content, wire.FRAMES_TYPE)
    if wire.version_of(head) == wire.PREVIOUS:
        return _raised(model, head, blobs)
    return wire.load(model, content, wire.FRAMES_TYPE)


def _raised(model: type[Model], head: dict[str, Any], blobs: Sequence[Bytes] | None) -> Model:
    return wire.validate(model, head | {"version": wire.VERSION}, blobs)


def _copied(model: type[_Envelope], answer: Message, **more: Any) -> Message:
    names = {each.name for each in fields(model)} - more.keys() - {"version"}
    return model(**{name: getattr(answer, name) for name in names}, **more)
