"""Ciphertext files joined into one object, with their sizes.

b"CLO1" | uint32 LE count | count x uint32 LE sizes | files
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Sequence
from typing import TypeVar

_MAGIC = b"CLO1"
_COUNT = struct.Struct("<4sI")
_MOST = 1 << 16

_Bytes = TypeVar("_Bytes", bytes, memoryview)


def joined(files: Sequence[bytes | memoryview]) -> bytes:
    sizes = struct.pack(f"<{len(files)}I", *map(len, files))
    return b"".join([_COUNT.pack(_MAGIC, len(files)), sizes, *files])


def head_bytes(count: int) -> int:
    """Bytes before the first of `count` files."""
    return _COUNT.size + 4 * count


def split(content: _Bytes) -> list[_Bytes]:
    """Views of the files, without copying. Raises ValueError for content that is not from `joined`."""
    try:
        magic, count = _COUNT.unpack_from(content)
        if magic != _MAGIC or count > _MOST:
            raise ValueError
        sizes = struct.unpack_from(f"<{count}I", content, _COUNT.size)
    except struct.error:
        raise ValueError("not an object of ciphertexts") from None
    ends = list(itertools.accumulate(sizes, initial=head_bytes(count)))
    if ends[-1] != len(content):
        raise ValueError("not an object of ciphertexts")
    return [content[start:stop] for start, stop in itertools.pairwise(ends)]
