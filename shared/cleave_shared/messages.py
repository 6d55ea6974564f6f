"""Messages: dataclasses with rules for their fields, read by pydantic or by Cleave's own reader.

pydantic reads bodies from other machines (cleave_shared.wire); importing it takes 50 ms. cleave_shared.reader reads
messages between processes of one machine, and inside one process. Both follow the same annotations:

  names: Annotated[Each[str], Rules(min_length=1)] = field(metadata={"description": "..."})

Annotations that name limits are evaluated when their class is made. So modules with them must not import `annotations`
from __future__.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, TypeVar

Bytes = bytes | memoryview
_RULES = {"ge", "le", "lt", "min_length", "max_length", "pattern", "strict", "fail_fast"}


@dataclass(frozen=True, kw_only=True)
class Message:
    """Content of a body. Subclasses are dataclasses too; their __post_init__ checks that fields fit together."""


@dataclass(frozen=True, kw_only=True)
class Item(Message):
    """A message that accepts no other fields."""

    __pydantic_config__: ClassVar[Mapping[str, Any]] = {"extra": "forbid"}


class Metadata:
    """Metadata in `Annotated` that becomes pydantic's when pydantic reads it ("grouped metadata" in
    annotated-types).
    """

    __is_annotated_types_grouped_metadata__ = True

    def __iter__(self) -> Iterator[object]:
        raise NotImplementedError


class Rules(Metadata):
    """Rules of a value, named as in pydantic's Field: ge, le, lt, min_length, max_length, pattern, strict, fail_fast.

    `strict` and `fail_fast` are for pydantic; Cleave's reader always works that way.
    """

    def __init__(self, **rules: Any) -> None:
        if unknown := rules.keys() - _RULES:
            raise TypeError(f"unknown rules: {sorted(unknown)}")
        self._rules = rules
        self.limits = rules.keys() - {"strict", "fail_fast"}

    def __iter__(self) -> Iterator[object]:
        from pydantic import Field  # noqa: PLC0415 - 50 ms

        yield from Field(**self._rules).metadata

    def check(self, value: Any) -> None:
        """Raises ValueError for a value that breaks a rule."""
        rules = self._rules
        if "ge" in rules and value < rules["ge"]:
            raise ValueError(f"must be at least {rules['ge']}")
        if "le" in rules and value > rules["le"]:
            raise ValueError(f"must be at most {rules['le']}")
        if "lt" in rules and value >= rules["lt"]:
            raise ValueError(f"must be below {rules['lt']}")
        if "min_length" in rules and len(value) < rules["min_length"]:
            raise ValueError(f"must have at least {rules['min_length']} items or characters")
        if "max_length" in rules and len(value) > rules["max_length"]:
            raise ValueError(f"must have at most {rules['max_length']} items or characters")
        if "pattern" in rules and not re.fullmatch(rules["pattern"], value):
            raise ValueError(f"must match {rules['pattern']}")


class Tagged(Metadata):
    """The name of a union's member, for `Unlike`."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __iter__(self) -> Iterator[object]:
        from pydantic import Tag  # noqa: PLC0415 - 50 ms

        yield Tag(self._name)


class Unlike(Metadata):
    """A union whose members have different JSON types. `choose` returns the name of a value's member."""

    def __init__(self, choose: Callable[[object], str]) -> None:
        self._choose = choose

    def __iter__(self) -> Iterator[object]:
        from pydantic import Discriminator  # noqa: PLC0415 - 50 ms

        yield Discriminator(self._choose)


class Frames:
    """The blobs of a message. Each may be named only once: repeated names would make work for few bytes sent."""

    def __init__(self, blobs: Sequence[Bytes]) -> None:
        self._left: list[Bytes | None] = [*blobs]

    def take(self, number: int) -> Bytes:
        """The blob of that number. Raises ValueError if there is none, or if it was taken before."""
        if not 0 <= number < len(self._left):
            raise ValueError("names a frame that is not there")
        blob, self._left[number] = self._left[number], None
        if blob is None:
            raise ValueError("names a frame a second time")
        return blob

    def all_taken(self) -> bool:
        return not any(blob is not None for blob in self._left)


class Binary(Metadata):
    """Bytes: base64 in JSON, a numbered frame in binary. `copied`: always a copy, never a view of the body."""

    def __init__(self, *, copied: bool) -> None:
        self._copied = copied

    def __iter__(self) -> Iterator[object]:
        from pydantic import PlainValidator, WithJsonSchema  # noqa: PLC0415 - 50 ms
        from pydantic_core.core_schema import ValidationInfo  # noqa: PLC0415 - as above

        def load(value: object, info: ValidationInfo) -> Bytes:
            return self.load(value, info.context)

        yield PlainValidator(load)
        yield WithJsonSchema({"type": "string", "format": "base64"})

    def load(self, value: object, frames: Frames | None) -> Bytes:
        """`frames`: of a binary body. Raises ValueError."""
        content = _load(value, frames)
        return bytes(content) if self._copied else content  # bytes are not copied again


def _load(value: object, frames: Frames | None) -> Bytes:
    if isinstance(value, bytes | memoryview):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and frames is not None:
        return frames.take(value)
    if isinstance(value, str):
        try:
            return base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            raise ValueError("is not base64") from None
    raise ValueError("must be base64 text")


Blob = Annotated[bytes, Binary(copied=True)]
"""Bytes: base64 in JSON, a numbered frame in binary."""

BytesView = Annotated[Bytes, Binary(copied=False)]
"""The same without a copy: a view of the body that is read."""

_Value = TypeVar("_Value")
Each = Annotated[list[_Value], Rules(fail_fast=True)]
"""A list that is refused at its first bad item. Millions of bad ones would be millions of errors, 1 KB each."""
