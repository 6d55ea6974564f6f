"""The versioned envelopes of both services, as JSON or as binary frames.

JSON has blobs in base64. Frames (`application/octet-stream`) have the same envelope with raw blobs:

  b"CLV1" | SHA-256 of all that follows | mark of the request that an answer is to, zeros in a request
          | uint32 LE head length | JSON head, blobs replaced by their indexes | uint32 LE count
          | count x uint32 LE sizes | blobs

A request's mark is the SHA-256 in its frame, or that of its JSON. So a damaged request, a damaged answer, and an answer
to another request are detected. This finds faults, not attackers: without TLS, anyone in between can compute a digest
too. It costs 0.6 ns per byte at either end. Between a client and a service in one process, a request is passed as
objects (`InProcessRequest`), without a digest, and has a random mark.

Base64 takes 0.25 ms per 64 KB ciphertext, a fifth of its encryption. So Cleave's client uses frames; curl uses JSON. No
field of a message can hold a secret key: see tests/architecture.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from cleave_shared import limits, reader
from cleave_shared.errors import WireError
from cleave_shared.messages import Bytes, Frames, Item, Message, Rules
from cleave_shared.version import VERSION as RELEASE

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError

VERSION = 3
JSON_TYPE = "application/json"
FRAMES_TYPE = "application/octet-stream"
_MAGIC = b"CLV1"
_PREFIX = struct.Struct("<4s32s32sI")  # magic, digest, mark, head length
_DIGESTED = 36  # start of the part that the digest covers
NO_MARK = bytes(32)
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_RULES = {  # pydantic's messages for a dataclass speak of Python
    "unexpected_keyword_argument": "Extra inputs are not permitted",
    "dataclass_type": "Input should be a valid dictionary or instance of {class_name}",
}

Hex = Annotated[str, Rules(pattern=r"^[0-9a-f]{32}$")]
BoundedCount = Annotated[int, Rules(ge=0, le=limits.MAX_JOB_ROWS, strict=True)]
Sql = Annotated[str, Rules(min_length=1, max_length=limits.MAX_SQL_CHARS)]
_RELEASE = r"^[0-9][0-9A-Za-z.+-]{0,31}$"
_Release = Annotated[str, Rules(pattern=_RELEASE)]


@dataclass(frozen=True, kw_only=True)
class Envelope(Item):
    version: Literal[3] = 3
    release: _Release = field(
        default_factory=lambda: RELEASE,  # so that documents do not contain it
        metadata={"description": "the sender's release; only error messages use it"},
    )


@dataclass(frozen=True, kw_only=True)
class Problem(Message):
    """The body of every error answer. It contains no value and may be logged. `code`: see cleave_shared.errors; None:
    the error has none.
    """

    error: str
    hint: str | None = None
    code: str | None = None


_Model = TypeVar("_Model", bound=Message)


class InProcessRequest:
    """A request in frames that never leaves its process. Its blobs are not copied. Its length is that of the frames."""

    def __init__(self, request: Message) -> None:
        self.head, self.blobs = _head_and_blobs(request)
        self.mark = os.urandom(len(NO_MARK))

    def __len__(self) -> int:
        return _PREFIX.size + len(self.head) + 4 + sum(4 + len(blob) for blob in self.blobs)


Body = bytes | InProcessRequest


def dump_json(message: Message) -> bytes:
    return _json(message, lambda blob: base64.b64encode(blob).decode("ascii"))


def dump_frames(message: Message, answering: bytes = NO_MARK) -> bytes:
    """`answering`: for an answer, the `mark` of its request."""
    head, blobs = _head_and_blobs(message)
    sizes = struct.pack(f"<I{len(blobs)}I", len(blobs), *map(len, blobs))
    parts = [answering, struct.pack("<I", len(head)), head, sizes, *blobs]
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return b"".join([_MAGIC, digest.digest(), *parts])


def _head_and_blobs(message: Message) -> tuple[bytes, list[Bytes]]:
    blobs: list[Bytes] = []

    def number(blob: Bytes) -> int:
        blobs.append(blob)
        return len(blobs) - 1

    return _json(message, number), blobs


def _json(message: Message, blob: Callable[[Bytes], str | int]) -> bytes:
    def fields(value: object) -> object:
        if isinstance(value, Message):
            return vars(value)  # in the order of declaration
        if isinstance(value, bytes | memoryview):
            return blob(value)
        raise TypeError(f"no message can hold a {type(value).__name__}")

    return json.dumps(message, default=fields, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def mark(body: Body, content_type: str) -> bytes:
    """The mark that an answer to this request must have."""
    if isinstance(body, InProcessRequest):
        return body.mark
    return body[4:_DIGESTED] if media_type(content_type) == FRAMES_TYPE else hashlib.sha256(body).digest()


def answers(body: bytes, content_type: str) -> bytes:
    """The mark of the request that an answer is to. Check the answer with `load` first; JSON has no mark."""
    return body[_DIGESTED : _DIGESTED + len(NO_MARK)] if media_type(content_type) == FRAMES_TYPE else NO_MARK


def load(model: type[_Model], body: Body, content_type: str, *, own: bool = False) -> _Model:
    """Parse and validate an envelope from a service. `own`: the service is in this process.

    Raises WireError (422, or 415 for another content type). The message names fields, never values.
    """
    head, blobs = parse(body, content_type)
    if issubclass(model, Envelope) and (version := version_of(head)) != VERSION:
        raise skewed("service", head, version)
    return validate(model, head, blobs, own=own)


def parse(body: Body, content_type: str) -> tuple[Any, Sequence[Bytes] | None]:
    """The JSON of an envelope, and its blobs if it is in frames. Raises WireError as `load` does."""
    kind = media_type(content_type)
    if kind not in (JSON_TYPE, FRAMES_TYPE):
        raise WireError(f"content type must be {JSON_TYPE} or {FRAMES_TYPE}", code="media_type")
    text, blobs = _split(body, kind)
    try:
        head = json.loads(text, object_pairs_hook=_Names().take)
    except (ValueError, RecursionError):
        raise WireError("the body is not JSON", hint="it may have been truncated on the way") from None
    if _SURROGATE.search(text):
        _require_unicode(head)
    return head, blobs


def version_of(head: Any) -> Any:
    """The wire version in an envelope; by default this one."""
    return head.get("version", VERSION) if isinstance(head, dict) else VERSION


def skewed(sender: Literal["client", "service"], head: Any, version: Any) -> WireError:
    """The error for another wire version. It names both releases, and which side to upgrade."""
    if type(version) is not int or not 0 < version < 1 << 16:
        return WireError(f"wire version is not {VERSION}", hint="upgrade the client or the service")
    receiver = "service" if sender == "client" else "client"
    named = head.get("release") if isinstance(head, dict) else None
    fit = isinstance(named, str) and re.fullmatch(_RELEASE, named) is not None
    is_older = version < VERSION
    release = named if fit else f"{'before' if is_older else 'after'} {RELEASE}"
    return WireError(
        f"wire version is not {VERSION}: the {sender} has release {release} (wire version {version}), "
        f"this {receiver} has release {RELEASE} (wire version {VERSION})",
        hint=f"upgrade the {sender if is_older else receiver}",
    )


class _Names:
    """Counts objects and names while JSON is read. Each takes at least 100 bytes, and an unknown one may be an error of
    its own.
    """

    def __init__(self) -> None:
        self._left = limits.MAX_NAMES

    def take(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        """Build one object. Raises WireError (413) above MAX_NAMES."""
        self._left -= 1 + len(pairs)
        if self._left < 0:
            raise WireError(
                f"the body has more than {limits.MAX_NAMES:,} names",
                hint="send fewer objects per request",
                code="too_large",
            )
        return dict(pairs)


def _split(body: Body, kind: str) -> tuple[bytes, Sequence[Bytes] | None]:
    """(JSON, blobs); blobs are None for a body that is JSON."""
    if isinstance(body, InProcessRequest):
        return body.head, body.blobs
    return _split_frames(body) if kind == FRAMES_TYPE else (body, None)


def _require_unicode(head: Any) -> None:
    """Raises WireError for unpaired surrogates, which JSON can contain, but neither DuckDB nor an answer."""
    try:
        json.dumps(head, ensure_ascii=False).encode()
    except (UnicodeEncodeError, RecursionError):
        raise WireError("the body holds half a surrogate pair, which is not Unicode text") from None


def validate(model: type[_Model], value: Any, blobs: Sequence[Bytes] | None = None, *, own: bool = False) -> _Model:
    """`blobs`: of a binary body. `own`: sent by a process of this machine. Raises WireError."""
    frames = None if blobs is None else Frames(blobs)
    envelope = (_read if own else _validated)(model, value, frames)
    if frames is not None and not frames.all_taken():
        raise WireError("the body holds a frame that nothing names")
    return envelope


def _read(model: type[_Model], value: Any, frames: Frames | None) -> _Model:
    try:
        return reader.read(model, value, frames)
    except reader.RefusedError as error:
        raise WireError(str(error)) from None


def _validated(model: type[_Model], value: Any, frames: Frames | None) -> _Model:
    from pydantic import ValidationError  # noqa: PLC0415 - 50 ms

    kind: Any = model
    try:
        envelope: _Model = _adapter(kind).validate_python(value, context=frames)
    except ValidationError as error:
        raise WireError(describe(error)) from None
    return envelope


@cache
def _adapter(model: Any) -> TypeAdapter[Any]:
    """pydantic's reader of a message; building it takes 5 ms."""
    from pydantic import TypeAdapter  # noqa: PLC0415 - 50 ms

    return TypeAdapter(model)


def describe(error: ValidationError) -> str:
    """The faults of an envelope, by field and rule, without values."""
    problems = []
    for item in error.errors(include_input=False, include_url=False)[:5]:
        place = ".".join(str(part) for part in item["loc"]) or "body"
        plain = _RULES.get(item["type"])
        rule = plain.format(**item.get("ctx", {})) if plain else item["msg"]
        problems.append(f"{place}: {rule.removeprefix('Value error, ')}")
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
            raise WireError(
                "the body is not what its digest says",
                hint="it was damaged or truncated on the way: send the request again",
                code="damaged",  # the client sends it once more
            )
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
