"""Group numbers of rows, with as few bits per row as necessary.

Number 0 is a row without a group, g + 1 a row of group g. Plane b holds bit b of every row's number: row r is bit 7 - r
mod 8 of byte r div 8. Planes follow one another, each padded with zeros to a whole byte.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cleave_shared.errors import WireError

Numbers = NDArray[np.int32]  # (rows,)


def size(rows: int, groups: int) -> int:
    """Bytes of the numbers of `rows` rows."""
    return groups.bit_length() * -(-rows // 8)


def pack(numbers: Numbers, groups: int) -> bytes:
    planes = [np.packbits((numbers >> bit & 1).astype(np.uint8)) for bit in range(groups.bit_length())]
    return b"".join(plane.tobytes() for plane in planes)


def unpack(content: bytes, rows: int, groups: int) -> Numbers:
    """Raises WireError for bytes that are no numbering of `rows` rows by `groups` groups."""
    if len(content) != size(rows, groups):
        raise WireError(f"groups of rows: {len(content)} bytes, {size(rows, groups)} are those of {rows} rows")
    planes = np.frombuffer(content, np.uint8).reshape(groups.bit_length(), -(-rows // 8))
    bits = np.unpackbits(planes, axis=1)
    numbers = np.zeros(rows, np.int32)
    for bit, plane in enumerate(bits):
        numbers |= plane[:rows].astype(np.int32) << bit
    if bits[:, rows:].any() or (numbers > groups).any():
        raise WireError("groups of rows: a row is in a group that is not there")
    return numbers
