"""Seals one column of a segment in blocks with AES-256-GCM, and opens ranges of them (docs/format.md).

A block has 65,536 rows: nonce, ciphertext, tag. Values of fixed width are as wide as the declared bounds need, so their
object's size follows from the schema and the number of rows. For values of variable length, padding hides most of what
the size would reveal. A block's associated data contain its table, object, segment, column, format and number, so it
opens nowhere else.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from numpy.typing import NDArray

from cleave.store.manifest import SealedColumn
from cleave.store.padding import padded
from cleave_shared.errors import CheckFailed

BLOCK_ROWS = 1 << 16
SMALL_ROWS = 1000  # fewer rows are padded to their longest text
OVERHEAD = 28  # nonce and tag
_NONCE = 12
_FORMAT = b"cleave sealed column 3"
_SIZE = struct.Struct("<Q")  # bytes of a block's content
_SHORTEST = 64  # minimum bytes of a padded text in a small segment
_MOST_CONTENT = 1 << 32  # bytes of a block


@dataclass(frozen=True, slots=True)
class ColumnValues:
    """Values of a column, in the order of the rows.

    `data`: (rows, width) little-endian bytes of fixed width, zero for NULL; or the concatenated bytes of variable
    values, with `lengths` (rows,). `valid`: (rows,), or None if NULL is not allowed.
    """

    data: NDArray[np.uint8]
    valid: NDArray[np.bool_] | None
    lengths: NDArray[np.uint32] | None = None

    @property
    def rows(self) -> int:
        return len(self.data) if self.lengths is None else len(self.lengths)

    def blocks(self, numbers: Iterable[int]) -> list[ColumnBlock]:
        """The blocks with these numbers."""
        ends = None if self.lengths is None else offsets_of(self.lengths)
        blocks = []
        for number in numbers:
            start, stop = number * BLOCK_ROWS, min((number + 1) * BLOCK_ROWS, self.rows)
            bitmap = None
            if self.valid is not None and not self.valid[start:stop].all():
                bitmap = memoryview(np.packbits(self.valid[start:stop], bitorder="little").tobytes())
            if ends is None or self.lengths is None:
                blocks.append(ColumnBlock(stop - start, bitmap, self.data[start:stop].reshape(-1).data, None))
            else:
                data = self.data[ends[start] : ends[stop]].data
                blocks.append(ColumnBlock(stop - start, bitmap, data, self.lengths[start:stop]))
        return blocks


@dataclass(frozen=True, slots=True)
class ColumnBlock:
    """`bitmap`: valid rows (lowest bit first; None: all are valid).

    `data`: the concatenated values; `lengths`: of each, if variable.
    """

    rows: int
    bitmap: memoryview | None
    data: memoryview
    lengths: NDArray[np.uint32] | None

    def content(self, *, nullable: bool) -> bytes:
        """The content that is sealed, without size and padding."""
        valid = self.bitmap or np.packbits(np.ones(self.rows, np.bool_), bitorder="little").data
        return b"".join(
            [valid if nullable else b"", b"" if self.lengths is None else self.lengths.tobytes(), self.data]
        )


@dataclass(frozen=True, slots=True)
class ColumnPlace:
    """Position of a sealed column's object: everything that its blocks are bound to."""

    table_id: str
    object_id: str
    segment: str
    column: SealedColumn
    rows: int

    @property
    def blocks(self) -> int:
        return -(-self.rows // BLOCK_ROWS)

    def rows_of(self, block: int) -> int:
        """Number of rows of a block."""
        return min(BLOCK_ROWS, self.rows - block * BLOCK_ROWS)

    def sizes(self, lengths: tuple[int, ...]) -> list[int]:
        """Bytes of each sealed block. `lengths`: from the manifest, for variable values. Raises CheckFailed."""
        if width := self.column.width:
            counts = [self.rows_of(block) for block in range(self.blocks)]
            return [rows * width + self.column.nullable * _bitmap_bytes(rows) + OVERHEAD for rows in counts]
        if len(lengths) != self.blocks:
            raise damaged()
        return list(lengths)

    def bound(self, block: int) -> bytes:
        """Associated data of a block: each field after its length."""
        column = self.column
        fields = (
            _FORMAT,
            bytes.fromhex(self.table_id),
            bytes.fromhex(self.object_id),
            bytes.fromhex(self.segment),
            bytes.fromhex(column.id),
            column.type.encode(),
            column.width.to_bytes(1, "big"),
            bytes([column.nullable]),
            block.to_bytes(8, "big"),
            self.blocks.to_bytes(8, "big"),
            self.rows.to_bytes(8, "big"),
        )
        return b"".join(len(each).to_bytes(4, "big") + each for each in fields)


def values_of(column: SealedColumn, blocks: Sequence[ColumnBlock]) -> ColumnValues:
    """All values of a column of a segment, from its opened blocks."""
    data = np.concatenate([np.frombuffer(each.data, np.uint8) for each in blocks])
    valid = np.concatenate([_valid(each) for each in blocks]) if column.nullable else None
    if column.width:
        return ColumnValues(data.reshape(-1, column.width), valid)
    lengths = [each.lengths for each in blocks if each.lengths is not None]
    return ColumnValues(data, valid, np.concatenate(lengths))


def _valid(block: ColumnBlock) -> NDArray[np.bool_]:
    if block.bitmap is None:
        return np.ones(block.rows, np.bool_)
    bits = np.unpackbits(np.frombuffer(block.bitmap, np.uint8), count=block.rows, bitorder="little")
    return bits.astype(np.bool_)


def offsets_of(lengths: NDArray[np.uint32]) -> NDArray[np.int64]:
    """The start of each text, and the end of the last one."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    offsets[1:] = lengths  # cumsum's own cast takes ten times as long
    np.cumsum(offsets[1:], out=offsets[1:])
    return offsets


def seal_column(key: bytes, place: ColumnPlace, values: ColumnValues) -> list[bytes]:
    """The sealed blocks of a column."""
    cipher, column = AESGCM(key), place.column
    contents = [each.content(nullable=column.nullable) for each in values.blocks(range(place.blocks))]
    if contents and not column.width:
        contents = [_SIZE.pack(len(each)) + each for each in contents]
        contents[-1] += bytes(_padding(values, list(map(len, contents))))
    nonces = [os.urandom(_NONCE) for _ in contents]
    return [
        nonce + cipher.encrypt(nonce, content, place.bound(block))
        for block, (nonce, content) in enumerate(zip(nonces, contents, strict=True))
    ]


def open_blocks(
    key: bytes, place: ColumnPlace, first: int, sealed: Iterable[memoryview], most: int = _MOST_CONTENT
) -> list[ColumnBlock]:
    """Open the blocks from number `first`. Raises CheckFailed if one was not sealed for this position.

    `most`: maximum bytes of a block's content.
    """
    cipher, blocks = AESGCM(key), []
    for block, content in enumerate(sealed, first):
        blocks.append(_parsed(place, block, _decrypted(cipher, place, block, content), most))
    return blocks


def _decrypted(cipher: AESGCM, place: ColumnPlace, block: int, sealed: memoryview) -> bytes:
    try:
        return cipher.decrypt(bytes(sealed[:_NONCE]), sealed[_NONCE:], place.bound(block))
    except InvalidTag:
        raise damaged() from None


def _stated(plain: bytes | memoryview) -> int:
    """The size that a block of variable values states."""
    if len(plain) < _SIZE.size:
        raise damaged()
    (size,) = _SIZE.unpack(plain[: _SIZE.size])
    return int(size)


def opened_bytes(key: bytes, place: ColumnPlace, sealed: Iterable[memoryview]) -> int:
    """Bytes of the contents of an object's blocks, as stated in them. Raises CheckFailed."""
    if place.column.width:
        return sum(place.sizes(())) - OVERHEAD * place.blocks
    cipher = AESGCM(key)
    return sum(_stated(_decrypted(cipher, place, block, each)) for block, each in enumerate(sealed))


def cut(content: bytes | memoryview, sizes: list[int]) -> list[memoryview]:
    """Cut a range of an object into blocks of these sizes. Raises CheckFailed if its length differs."""
    ends = list(accumulate(sizes, initial=0))
    if len(content) != ends[-1]:
        raise damaged()
    view = memoryview(content)
    return [view[start:stop] for start, stop in pairwise(ends)]


def _padding(values: ColumnValues, sizes: list[int]) -> int:
    """Zero bytes after the last block's content."""
    assert values.lengths is not None  # noqa: S101 - as above
    total = sum(sizes)
    if values.rows < SMALL_ROWS:
        longest = max(_SHORTEST, int(values.lengths.max(initial=0)))
        each = 1 << 2 * -(-(longest - 1).bit_length() // 2)
        return _SIZE.size + _bitmap_bytes(values.rows) + values.rows * (4 + each) - total
    return padded(total) - total


def _parsed(place: ColumnPlace, block: int, plain: bytes, most: int) -> ColumnBlock:
    rows, column = place.rows_of(block), place.column
    bitmap_bytes = _bitmap_bytes(rows) if column.nullable else 0
    view = memoryview(plain)
    if not column.width:
        view = _content(view, most)
    bitmap = view[:bitmap_bytes] if column.nullable else None
    rest = view[bitmap_bytes:]
    if column.width:
        if len(rest) != rows * column.width:
            raise damaged()
        return ColumnBlock(rows, bitmap, rest, None)
    if len(rest) < 4 * rows:
        raise damaged()
    lengths = np.frombuffer(rest[: 4 * rows], np.uint32)
    data = rest[4 * rows :]
    if int(lengths.sum(dtype=np.uint64)) != len(data):
        raise damaged()
    return ColumnBlock(rows, bitmap, data, lengths)


def _content(view: memoryview, most: int) -> memoryview:
    """The content of a block of variable values without padding."""
    size, rest = _stated(view), view[_SIZE.size :]
    if size > min(most, len(rest)):
        raise damaged()
    return rest[:size]


def _bitmap_bytes(rows: int) -> int:
    return -(-rows // 8)


def damaged() -> CheckFailed:
    """Return the error for a column that does not open, or is not the one that was written."""
    return CheckFailed(
        "stored",
        "a sealed column of the table is damaged, or another's",
        hint="restore the store from a backup or an older version; `cleave verify` names what else is damaged",
    )
