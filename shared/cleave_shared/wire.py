"""The versioned envelopes of both services, as JSON or as binary frames.

JSON carries blobs in base64. Frames (`application/octet-stream`) carry the same envelope with its blobs raw:

    b"CLV1" | SHA-256 of all that follows | mark of the request that an answer is to, zeros in a request
            | uint32 LE head length | JSON head, blobs replaced by their indexes | uint32 LE count
            | count x uint32 LE sizes | blobs

A request's mark is the SHA-256 in its frame, or that of its JSON. So neither a damaged request nor a damaged answer,
nor the answer to another request, is taken for sound. This finds faults: who sits on the way unhindered by TLS can
compute a digest too. It costs 0.6 ns per byte at either end. Between a client and a service in one process a request is
handed over as objects (`InProcessRequest`), without a digest, and named by a random mark.

A 64 KB ciphertext costs 0.25 ms to take through base64 and back, a fifth of its encryption, so our own client
speaks frames; curl speaks JSON. No field of any model here can hold a secret key: see tests/architecture.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
import re
import struct
from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    SerializationInfo,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
)

from cleave_shared import limits
from cleave_shared.errors import WireError
from cleave_shared.version import VERSION as RELEASE

VERSION = 3
PREVIOUS = 2  # which services read as well (`cleave_services.previous`)
_RELEASES = {1: "before 1.0.0", 2: "1.0.0"}  # of wire versions whose envelopes name no release
JSON_TYPE = "application/json"
FRAMES_TYPE = "application/octet-stream"
_MAGIC = b"CLV1"
_PREFIX = struct.Struct("<4s32s32sI")  # magic, digest, mark, head length
_DIGESTED = 36  # where the part begins that the digest covers
NO_MARK = bytes(32)
DAMAGED = "the body is not what its digest says"  # the client asks once more
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


Bytes = bytes | memoryview


class _Frames:
    """Blobs of a message, each to be named once: a blob named often would cost work without costing bytes."""

    def __init__(self, blobs: Sequence[Bytes]) -> None:
        self._left: list[Bytes | None] = [*blobs]

    def take(self, number: int) -> Bytes:
        if not 0 <= number < len(self._left):
            raise ValueError("names a frame that is not there")
        blob, self._left[number] = self._left[number], None
        if blob is None:
            raise ValueError("names a frame a second time")
        return blob

    def all_taken(self) -> bool:
        return not any(blob is not None for blob in self._left)


def _load_blob(value: object, info: ValidationInfo) -> bytes:
    return bytes(_load_view(value, info))  # no copy of bytes


def _load_view(value: object, info: ValidationInfo) -> Bytes:
    if isinstance(value, bytes | memoryview):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and info.context:
        frames: _Frames = info.context
        return frames.take(value)
    if isinstance(value, str):
        try:
            return base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            raise ValueError("is not base64") from None
    raise ValueError("must be base64 text")


def _dump_blob(value: Bytes, info: SerializationInfo) -> str | int:
    if info.context is None:
        return base64.b64encode(value).decode("ascii")
    if not isinstance(value, bytes | memoryview):  # of a list the union tries this first
        raise TypeError("not a blob")
    blobs: list[Bytes] = info.context
    blobs.append(value)
    return len(blobs) - 1


Blob = Annotated[
    bytes,
    PlainValidator(_load_blob),
    PlainSerializer(_dump_blob, return_type=str | int),
    WithJsonSchema({"type": "string", "format": "base64"}),
]
"""Bytes: base64 in JSON, a numbered frame in binary."""

View = Annotated[
    Bytes,
    PlainValidator(_load_view),
    PlainSerializer(_dump_blob, return_type=str | int),
    WithJsonSchema({"type": "string", "format": "base64"}),
]
"""The same without a copy: a view of the body that is read."""

Item = TypeVar("Item")
Each = Annotated[list[Item], Field(fail_fast=True)]
"""A list that is refused at its first bad item. Millions of bad ones would be millions of errors, 1 KB each."""

Hex = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
Count = Annotated[int, Field(ge=0, le=limits.MAX_JOB_ROWS, strict=True)]
Sql = Annotated[str, Field(min_length=1, max_length=limits.MAX_SQL_CHARS)]
_RELEASE = r"^[0-9][0-9A-Za-z.+-]{0,31}$"
Release = Annotated[str, Field(pattern=_RELEASE, description="of the sender; no more than its errors name it")]


class Envelope(BaseModel):
    # a validator takes 5 ms to build, and no process uses those of all envelopes
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    version: Literal[3] = 3
    release: Release = Field(default_factory=lambda: RELEASE)  # so that no document names it


class Problem(BaseModel):
    """Every error a service answers with: safe to log, no values."""

    model_config = ConfigDict(defer_build=True)

    error: str
    hint: str | None = None


Model = TypeVar("Model", bound=BaseModel)


class InProcessRequest:
    """A request in frames that never leaves its process: its blobs are not copied. Its length is that of the frames."""

    def __init__(self, request: BaseModel) -> None:
        self.head, self.blobs = _head_and_blobs(request)
        self.mark = os.urandom(len(NO_MARK))

    def __len__(self) -> int:
        return _PREFIX.size + len(self.head) + 4 + sum(4 + len(blob) for blob in self.blobs)


Body = bytes | InProcessRequest


def dump_json(model: BaseModel) -> bytes:
    return model.model_dump_json().encode()


def dump_frames(model: BaseModel, answering: bytes = NO_MARK) -> bytes:
    """`answering`: of an answer, the `mark` of its request."""
    head, blobs = _head_and_blobs(model)
    sizes = struct.pack(f"<I{len(blobs)}I", len(blobs), *map(len, blobs))
    parts = [answering, struct.pack("<I", len(head)), head, sizes, *blobs]
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return b"".join([_MAGIC, digest.digest(), *parts])


def _head_and_blobs(model: BaseModel) -> tuple[bytes, list[Bytes]]:
    blobs: list[Bytes] = []
    return model.model_dump_json(context=blobs).encode(), blobs


def mark(body: Body, content_type: str) -> bytes:
    """Return the name of a request with this body in its answer."""
    if isinstance(body, InProcessRequest):
        return body.mark
    return body[4:_DIGESTED] if media_type(content_type) == FRAMES_TYPE else hashlib.sha256(body).digest()


def answers(body: bytes, content_type: str) -> bytes:
    """The mark of the request that an answer, which `load` has taken, is to; JSON names none."""
    return body[_DIGESTED : _DIGESTED + len(NO_MARK)] if media_type(content_type) == FRAMES_TYPE else NO_MARK


def load(model: type[Model], body: Body, content_type: str) -> Model:
    """Parse and validate an envelope that a service sent.

    Raises WireError (422, or 415 for another content type); the message names fields, never values.
    """
    head, blobs = parse(body, content_type)
    if "version" in model.model_fields and (version := version_of(head)) != VERSION:
        raise skewed("service", head, version)
    return validate(model, head, blobs)


def parse(body: Body, content_type: str) -> tuple[Any, Sequence[Bytes] | None]:
    """The JSON of an envelope, and its blobs where it is in frames. Raises WireError as `load` does."""
    kind = media_type(content_type)
    if kind not in (JSON_TYPE, FRAMES_TYPE):
        raise WireError(f"content type must be {JSON_TYPE} or {FRAMES_TYPE}", status=415)
    text, blobs = _split(body, kind)
    try:
        head = json.loads(text, object_pairs_hook=_Names().take)
    except (ValueError, RecursionError):
        raise WireError("the body is not JSON", hint="it may have been truncated on the way") from None
    if _SURROGATE.search(text):
        _require_unicode(head)
    return head, blobs


def version_of(head: Any) -> Any:
    """The wire version that an envelope names, by default this one."""
    return head.get("version", VERSION) if isinstance(head, dict) else VERSION


def skewed(sender: Literal["client", "service"], head: Any, version: Any) -> WireError:
    """The error for an envelope of another wire version. It names both releases and which side to change."""
    if type(version) is not int or not 0 < version < 1 << 16:
        return WireError(f"wire version is not {VERSION}", hint="upgrade the client or the service")
    receiver = "service" if sender == "client" else "client"
    named = head.get("release") if isinstance(head, dict) and version > PREVIOUS else None
    fit = isinstance(named, str) and re.fullmatch(_RELEASE, named) is not None
    release = named if fit else _RELEASES.get(version, f"after {RELEASE}")
    older = sender if version < VERSION else receiver
    return WireError(
        f"wire version is not {VERSION}: the {sender} has release {release} (wire version {version}), "
        f"this {receiver} has release {RELEASE} (wire version {VERSION})",
        hint=f"upgrade the {older}",
    )


class _Names:
    """Counts objects and names while JSON is read: each takes 100 bytes or more, and an error of its own if unknown."""

    def __init__(self) -> None:
        self._left = limits.MAX_NAMES

    def take(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        """Build one object. Raises WireError (413) past MAX_NAMES."""
        self._left -= 1 + len(pairs)
        if self._left < 0:
            raise WireError(
                f"the body has more than {limits.MAX_NAMES:,} names", hint="send fewer objects per request", status=413
            )
        return dict(pairs)


def _split(body: Body, kind: str) -> tuple[bytes, Sequence[Bytes] | None]:
    """The JSON and the blobs; None of a body that is JSON as a whole."""
    if isinstance(body, InProcessRequest):
        return body.head, body.blobs
    return _split_frames(body) if kind == FRAMES_TYPE else (body, None)


def _require_unicode(head: Any) -> None:
    """JSON can spell halves of surrogate pairs, which neither DuckDB nor an answer can hold."""
    try:
        json.dumps(head, ensure_ascii=False).encode()
    except (UnicodeEncodeError, RecursionError):
        raise WireError("the body holds half a surrogate pair, which is not Unicode text") from None


def validate(model: type[Model], value: Any, blobs: Sequence[Bytes] | None = None) -> Model:
    """`blobs`: of a binary body. Raises WireError."""
    frames = None if blobs is None else _Frames(blobs)
    try:
        envelope = model.model_validate(value, context=frames)
    except ValidationError as error:
        raise WireError(describe(error)) from None
    if frames is not None and not frames.all_taken():
        raise WireError("the body holds a frame that nothing names")
    return envelope


def describe(error: ValidationError) -> str:
    """Describe the fault of an envelope, by field and rule, without its values."""
    problems = []
    for item in error.errors(include_input=False, include_url=False, include_context=False)[:5]:
        place = ".".join(str(part) for part in item["loc"]) or "body"
        problems.append(f"{place}: {item['msg'].removeprefix('Value error, ')}")
    return "; ".join(problems)


def media_type(content_type: str) -> str:
    """A Content-Type without its parameters."""
    return content_type.split(";", maxsplit=1)[0].strip().lower()


def _split_frames(body: bytes) -> tuple[bytes, list[memoryview]]:
    whole = memoryview(body)
    try:
        magic, digest, _, head_size = _PREFIX.unpack_from(body)
        if magic != _MAGIC:
            raise ValueError
        if hashlib.sha256(whole[_DIGESTED:]).digest() != digest:
            raise WireError(DAMAGED, hint="it was damaged or truncated on the way: send the request again")
        place = _PREFIX.size + head_size
        head = body[_PREFIX.size : place]
        (count,) = struct.unpack_from("<I", body, place)
        if count > limits.MAX_FRAMES:
            raise ValueError
        sizes = struct.unpack_from(f"<{count}I", body, place + 4)
        place += 4 + 4 * count
        if place + sum(sizes) != len(body):
            raise ValueError
    except (struct.error, ValueError):
        raise WireError("the body is not a Cleave frame", hint="it may have been truncated on the way") from None
    blobs = []
    for size in sizes:
        blobs.append(whole[place : place + size])
        place += size
    return head, blobs
