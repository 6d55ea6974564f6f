"""Damage to messages, by structure: in their JSON, frames, blobs and bytes, and in the head of the request."""

from __future__ import annotations

import copy
import hashlib
import json
import struct
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from cleave_shared import wire


@dataclass(frozen=True)
class Message:
    """A request; `judge` is of its answers (see `tests.fuzz.truth`)."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    judge: Callable[..., str] | None = field(default=None, compare=False, repr=False)

    @property
    def kind(self) -> str:
        return self.headers.get("content-type", "")


ODD: list[Callable[[Random], Any]] = [
    lambda r: r.choice([None, True, False]),
    lambda r: r.choice([0, -1, 1, 2, 255, 2**31 - 1, 2**31, 2**53, 2**63 - 1, 2**63, 2**64, -(2**127), 10**4000]),
    lambda r: r.choice([0.5, -0.0, 1e308, float("inf"), float("nan"), 5e-324]),
    lambda r: r.choice(
        ["", " ", "0", "\0", "null", "é", "\U0001f600", "'", '"', "1; DROP TABLE rows", "%s%n", "../.."]
    ),
    lambda r: "x" * r.choice([33, 1000, 25_000]),
    lambda r: r.choice(["AAAA", "A", "====", "not base64!"]),
    lambda r: r.choice([[], {}]),
    lambda r: nested(r.choice([2, 50, 250]), r.choice([list, dict])),
    lambda r: [r.randrange(100) for _ in range(r.choice([1, 100, 5000]))],
    lambda r: {"a" * r.choice([1, 3000]): None},
]
LARGEST = 16 << 20  # bytes of a body: three times what any way lets through
EXPRESSIONS = ["1", "count(*)", "sum(x)", "rows", "(", "1)", "getenv('HOME')", "unnest([1])", "1/0", "repeat('x', 9)"]


def nested(levels: int, kind: type) -> Any:
    value: Any = 0
    for _ in range(levels):
        value = [value] if kind is list else {"a": value}
    return value


# --- the value that the JSON holds -----------------------------------------------------------------------------------


def places(value: Any) -> list[tuple[Any, Any]]:
    """(container, key or index) of everything inside `value`; of a long list its ends."""
    found: list[tuple[Any, Any]] = []
    waiting = [value]
    while waiting:
        item = waiting.pop()
        keys = item if isinstance(item, dict) else range(len(item)) if isinstance(item, list) else ()
        for key in [*list(keys)[:8], *list(keys)[8:][-2:]]:
            found.append((item, key))
            waiting.append(item[key])
    return found


def odd_value(r: Random, tree: Any) -> Any:
    container, key = r.choice(places(tree))
    container[key] = r.choice(EXPRESSIONS) if r.random() < 0.15 else r.choice(ODD)(r)
    return tree


def missing(r: Random, tree: Any) -> Any:
    container, key = r.choice(places(tree))
    del container[key]
    return tree


def added(r: Random, tree: Any) -> Any:
    container, _ = r.choice(places(tree))
    value = r.choice(ODD)(r)
    if isinstance(container, dict):
        container[r.choice(["secret_key", "version", "", "__class__", "\ud800", "x" * 300])] = value
    else:
        container.insert(r.randrange(len(container) + 1), value)
    return tree


def repeated(r: Random, tree: Any) -> Any:
    inside = [container[key] for container, key in places(tree)]
    lists = [item for item in inside if isinstance(item, list) and 0 < len(item) < 100]
    if lists:
        chosen = r.choice(lists)
        chosen *= r.choice([2, 3, 100])
    return tree


def swapped(r: Random, tree: Any) -> Any:
    (one, a), (other, b) = r.choice(places(tree)), r.choice(places(tree))
    one[a], other[b] = copy.deepcopy(other[b]), copy.deepcopy(one[a])
    return tree


def nudged(r: Random, tree: Any) -> Any:
    numbers = [(c, k) for c, k in places(tree) if isinstance(c[k], int) and not isinstance(c[k], bool)]
    if numbers:
        container, key = r.choice(numbers)
        container[key] += r.choice([-1, 1, -(2**31), 2**31])
    return tree


def wrapped(r: Random, tree: Any) -> Any:
    return r.choice([[tree], {"body": tree}, [], None, 7, "text", [tree, tree]])


VALUES = [odd_value, odd_value, odd_value, missing, added, repeated, swapped, nudged, wrapped]


def in_json(r: Random, message: Message) -> Message:
    head, blobs = parts(message)
    tree = json.loads(head)
    for _ in range(r.choice([1, 1, 1, 2, 4])):
        if places(tree):
            tree = r.choice(VALUES)(r, tree)
    text = json.dumps(tree).encode()
    if r.random() < 0.1:
        text = text.replace(b",", r.choice([b",,", b", ", b"\n,"]), 1).replace(b"}", b',"version":1}', 1)
    return joined(message, text, blobs)


def spelled(r: Random, message: Message) -> Message:
    """Bytes that are no JSON, or JSON of an unusual kind."""
    head, blobs = parts(message)
    text = r.choice(
        [
            b"",
            b"{",
            b"\xef\xbb\xbf" + head,
            head.decode().encode("utf-16"),
            head + head,
            head[: r.randrange(len(head))],
            b"[" * r.choice([10, 5000, 400_000]),
            b'{"a":' * r.choice([10, 5000, 100_000]),
            b"1" * 5000,
            b"1e999",
            b"NaN",
            b'"\\ud800"',
            head.replace(b"1", b"1e400"),
            head.replace(b'"', b"'"),
            b"\0" * 1000,
        ]
    )
    return joined(message, text, blobs)


# --- frames ----------------------------------------------------------------------------------------------------------

_PREFIX = struct.Struct("<4s32s32sI")


def parts(message: Message) -> tuple[bytes, list[bytes]]:
    if message.kind != wire.FRAMES_TYPE:
        return message.body, []
    return wire._split_frames(message.body)


def joined(message: Message, head: bytes, blobs: list[bytes]) -> Message:
    if message.kind != wire.FRAMES_TYPE:
        return replace(message, body=head)
    sizes = struct.pack(f"<I{len(blobs)}I", len(blobs), *map(len, blobs))
    return sealed(message, bytes(32) + struct.pack("<I", len(head)) + head + sizes + b"".join(blobs))


def sealed(message: Message, rest: bytes) -> Message:
    """With a digest that is right, so that what lies behind it is reached."""
    return replace(message, body=b"CLV1" + hashlib.sha256(rest).digest() + rest)


def in_frames(r: Random, message: Message) -> Message:
    """Lengths, counts and order of frames; blobs damaged inside."""
    if message.kind != wire.FRAMES_TYPE:
        return in_json(r, message)
    head, blobs = parts(message)
    choice = r.randrange(6)
    if choice == 0:
        rest = bytearray(message.body[36:])
        place = 32 if r.random() < 0.5 else 36 + len(head)  # the head's length, or the count of blobs
        rest[place : place + 4] = struct.pack("<I", r.choice([0, 1, 2, 2**16, 2**31, 2**32 - 1]))
        return sealed(message, bytes(rest))
    if choice == 1 or not blobs:
        blobs = [*blobs, r.randbytes(r.choice([0, 1, 1000]))]
    elif choice == 2:
        blobs = blobs[1:]
    elif choice == 3:
        r.shuffle(blobs)
        blobs = [*blobs, b""] if r.random() < 0.5 else blobs
    else:
        place = r.randrange(len(blobs))
        blobs[place] = damaged(r, blobs[place])
    return joined(message, head, blobs)


def damaged(r: Random, blob: bytes) -> bytes:
    """One blob: its own header is met more often than its size would have it."""
    if not blob:
        return r.randbytes(10)
    changed = bytearray(blob)
    choice = r.randrange(5)
    if choice == 0:
        return bytes(changed[: r.randrange(len(changed))])
    if choice == 1:
        return r.randbytes(len(changed))
    if choice == 2:
        return bytes(changed) + r.randbytes(9)
    for _ in range(r.choice([1, 1, 8])):
        place = r.randrange(min(len(changed), 120)) if choice == 3 else r.randrange(len(changed))
        changed[place] ^= 1 << r.randrange(8)
    return bytes(changed)


# --- bytes and the request's head ------------------------------------------------------------------------------------


def in_bytes(r: Random, message: Message) -> Message:
    return replace(message, body=damaged(r, message.body))


def in_head(r: Random, message: Message) -> Message:
    headers = dict(message.headers)
    choice = r.randrange(4)
    if choice == 0:
        headers["content-type"] = r.choice(
            ["", "text/plain", "application/json; charset=utf-16", "application/JSON", "text/xml",
             wire.JSON_TYPE, wire.FRAMES_TYPE, "application/json" * 100, ";", "a/b/c"]
        )  # fmt: skip
    elif choice == 1:
        headers["content-encoding"] = r.choice(
            ["gzip", "br", "deflate", "zstd", "identity, gzip", "x" * 500, "identity"]
        )
    elif choice == 2:
        headers["accept"] = r.choice(
            ["", "*/*", "text/html", wire.FRAMES_TYPE, wire.JSON_TYPE, "q=;;;", "é".encode().decode("latin-1")]
        )
    else:
        method = r.choice(["GET", "PUT", "DELETE", "PATCH", "HEAD", "POST"])
        path = r.choice(
            [message.path, message.path + "/", "/v1/plain/../plain", "/v1/%00", "/" + "x" * 3000, "/openapi.json"]
        )
        return replace(message, method=method, path=path)
    return replace(message, headers=headers)


MUTATIONS = [in_json, in_json, in_json, in_frames, in_frames, spelled, in_bytes, in_head]


def mutated(r: Random, message: Message) -> Message:
    try:
        found = r.choice(MUTATIONS)(r, message)
    except RecursionError:  # nested into itself too often for this side
        return spelled(r, message)
    return replace(found, body=found.body[:LARGEST])  # lists repeated in repeated lists were 868 MB once
