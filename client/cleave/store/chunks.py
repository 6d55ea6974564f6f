"""The ciphertext files of one object, or of a range of it, as the client reads them.

An object's digest says nothing of a part of it. So a segment's sealed index has each ciphertext's size and digest
(`directory`): a range of an object is known to be what was written.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Sequence

from cleave_shared import chunks
from cleave_shared.chunks import joined
from cleave_shared.errors import CheckFailed

__all__ = ["Entry", "cut", "damaged", "digest", "directory", "joined", "offsets", "split"]

_DIGEST_BYTES = 16  # of SHA-256: nobody finds another content for one that the owner has written

Entry = tuple[int, str]  # of a ciphertext: its size in bytes and its digest


def split(content: bytes) -> list[bytes]:
    """Raises CheckFailed for what `joined` did not make."""
    try:
        return chunks.split(content)
    except ValueError:
        raise damaged() from None


def directory(files: Sequence[bytes | memoryview]) -> list[Entry]:
    """What a segment's index keeps of each file."""
    return [(len(file), digest(file)) for file in files]


def digest(file: bytes | memoryview) -> str:
    return hashlib.sha256(file).hexdigest()[: 2 * _DIGEST_BYTES]


def offsets(entries: Sequence[Entry]) -> list[int]:
    """Where each file begins in the object that holds `entries`, and where the last one ends."""
    return list(itertools.accumulate((size for size, _ in entries), initial=chunks.head_bytes(len(entries))))


def cut(content: bytes, entries: Sequence[Entry]) -> list[bytes]:
    """The files of `entries`, one after the other. Raises CheckFailed where one is not what was written."""
    ends = list(itertools.accumulate((size for size, _ in entries), initial=0))
    if ends[-1] != len(content):
        raise damaged()
    files = [content[start:stop] for start, stop in itertools.pairwise(ends)]
    if any(digest(file) != known for file, (_, known) in zip(files, entries, strict=True)):
        raise damaged()
    return files


def damaged() -> CheckFailed:
    return CheckFailed("stored", "an object does not hold what the table's manifest says")
