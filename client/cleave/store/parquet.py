"""Read and write footers of Parquet files (parquet.thrift; Thrift's compact protocol).

So columns of several files, and columns made here, become one file. No value is decoded. Only files of DuckDB's form
are read: flat columns, with the pages of a column one after another.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

MAGIC: Final = b"PAR1"
PLAIN, RLE, DELTA_LENGTHS = 0, 3, 6  # encodings
BOOLEAN, INT32, INT64, FLOAT, DOUBLE, BYTES, FIXED = 0, 1, 2, 4, 5, 6, 7  # types of values
_TRUE, _FALSE, _I16, _I32, _I64, _BINARY, _LIST, _STRUCT = 1, 2, 4, 5, 6, 8, 9, 12  # types of Thrift
_NUMBERS = (_I16, _I32, _I64)
_SCHEMA, _GROUPS = 2, 4  # fields of a footer
_DEPTH = 8  # most levels of nested structs in a footer
_OPTIONAL, _UNCOMPRESSED = 1, 0

Field = tuple[int, int, int]  # type, and first and last byte + 1 of the value


@dataclass(frozen=True, slots=True)
class Chunk:
    """One column of one row group, `bytes` long from byte `start` of the file.

    `meta`: fields of its Thrift metadata, without positions. `data`: bytes from `start` to the first data page.
    `dictionary`: whether a dictionary page comes before that.
    """

    meta: Mapping[int, tuple[int, bytes]]
    start: int
    bytes: int
    data: int
    dictionary: bool


@dataclass(frozen=True, slots=True)
class RowGroup:
    rows: int
    chunks: Mapping[str, Chunk]


@dataclass(frozen=True, slots=True)
class Footer:
    """`elements`: of the schema, by name of the column, and chunks in the same order."""

    elements: Mapping[str, bytes]
    groups: Sequence[RowGroup]


class _Reader:
    """Reads Thrift. Raises ValueError or IndexError for other bytes."""

    def __init__(self, content: bytes, place: int = 0) -> None:
        self.content = content
        self.place = place
        self.kind = 0  # of the field that `each` has come to

    def varint(self) -> int:
        content, place = self.content, self.place
        byte = content[place]
        place += 1
        value, shift = byte & 127, 7
        while byte & 128:
            byte = content[place]
            place += 1
            value |= (byte & 127) << shift
            shift += 7
            if shift > 70:
                raise ValueError("a number of more than 64 bits")
        self.place = place
        return value

    def each(self) -> Iterator[int]:
        """The numbers of the fields of a struct. The caller reads or skips the value of each; then it is after it."""
        number = 0
        while head := self.content[self.place]:
            self.place += 1
            self.kind = head & 15
            number = number + (head >> 4) if head >> 4 else _signed(self.varint())
            yield number
        self.place += 1

    def fields(self, depth: int = 0) -> dict[int, Field]:
        """The fields of a struct by number; then it is after it."""
        content, fields, number = self.content, dict[int, Field](), 0
        place = self.place
        while head := content[place]:
            place += 1
            kind = head & 15
            if head < 16:
                self.place = place
                number, place = _signed(self.varint()), self.place
            else:
                number += head >> 4
            start = place
            if kind in _NUMBERS:
                while content[place] & 128:
                    place += 1
                place += 1
            elif kind == _BINARY and content[place] < 128:
                place += 1 + content[place]
            elif kind not in (_TRUE, _FALSE):
                self.place = place
                self._skip(kind, depth)
                place = self.place
            fields[number] = (kind, start, place)
        self.place = place + 1
        return fields

    def skip(self) -> None:
        """Skip the value of a field."""
        self._skip(self.kind, 0)

    def _skip(self, kind: int, depth: int) -> None:
        if depth > _DEPTH:
            raise ValueError("too many structs within structs")
        if kind in _NUMBERS:
            self.varint()
        elif kind == _BINARY:
            size = self.varint()
            self.place += size
        elif kind == _STRUCT:
            self.fields(depth + 1)
        elif kind == _LIST:
            inner, count = self.list()
            for _ in range(count):
                self._skip(inner, depth + 1)
        elif kind not in (_TRUE, _FALSE):
            raise ValueError("a type that no footer has")
        if self.place > len(self.content):
            raise ValueError("cut short")

    def list(self) -> tuple[int, int]:
        """Type of the elements of a list, and how many. Then it is at the first."""
        head = self.content[self.place]
        self.place += 1
        kind, count = head & 15, head >> 4
        count = self.varint() if count == 15 else count
        if count > len(self.content) - self.place or kind in (_TRUE, _FALSE):
            raise ValueError("a list of more than there is")
        return kind, count

    def structs(self) -> int:
        """How many structs a list has."""
        kind, count = self.list()
        if kind != _STRUCT and count:
            raise ValueError("not a list of structs")
        return count

    def number(self) -> int:
        return _signed(self.varint())

    def number_at(self, place: int) -> int:
        return _Reader(self.content, place).number()

    def text(self, place: int) -> str:
        reader = _Reader(self.content, place)
        size = reader.varint()
        return self.content[reader.place : reader.place + size].decode()


def _signed(value: int) -> int:
    return (value >> 1) ^ -(value & 1)


def read_footer(content: bytes | memoryview, names: Collection[str]) -> Footer:
    """What the footer of a whole file says of the columns `names`. Raises ValueError for a file that is no such one."""
    try:
        return _footer(content, names)
    except (IndexError, KeyError, UnicodeDecodeError, struct.error):
        raise ValueError("no Parquet file of flat columns") from None


def _footer(content: bytes | memoryview, names: Collection[str]) -> Footer:
    size = int.from_bytes(content[-8:-4], "little")
    if content[:4] != MAGIC or content[-4:] != MAGIC or size > len(content) - 12:
        raise ValueError("no Parquet file")
    reader = _Reader(bytes(content[len(content) - 8 - size : len(content) - 8]))
    elements, groups = dict[str, bytes](), list[RowGroup]()
    for number in reader.each():
        if number == _SCHEMA:
            elements = _elements(reader, names)
        elif number == _GROUPS:
            groups = [_group(reader, names, len(content)) for _ in range(reader.structs())]
        else:
            reader.skip()
    if elements.keys() != set(names):
        raise ValueError("other columns")
    return Footer({name: elements[name] for name in names}, groups)


def _elements(reader: _Reader, names: Collection[str]) -> dict[str, bytes]:
    elements = dict[str, bytes]()
    for place in range(reader.structs()):
        start = reader.place
        fields = reader.fields()
        name = reader.text(fields[4][1])
        if place and 5 in fields:
            raise ValueError("columns within columns")
        if place and name in names:
            elements[name] = reader.content[start : reader.place]
    return elements


def layout_of(element: bytes) -> list[bytes | None]:
    """How a column is stored: type, length, nullable, and digits, as bytes of `element`.

    Its other fields are left out, because releases of DuckDB describe the same SQL type differently there.
    """
    fields = _Reader(element).fields()
    return [element[slice(*fields[number][1:])] if number in fields else None for number in (1, 2, 3, 7, 8)]


def _group(reader: _Reader, names: Collection[str], most: int) -> RowGroup:
    rows, chunks = -1, dict[str, Chunk]()
    for number in reader.each():
        if number == 1:
            for _ in range(reader.structs()):
                name, chunk = _column(reader, names, most)
                if chunk is not None:
                    chunks[name] = chunk
        elif number == 3:
            rows = reader.number()
        else:
            reader.skip()
    if chunks.keys() != set(names) or rows < 0:
        raise ValueError("other columns")
    return RowGroup(rows, {name: chunks[name] for name in names})


def _column(reader: _Reader, names: Collection[str], most: int) -> tuple[str, Chunk | None]:
    name, chunk = "", None
    for number in reader.each():
        if number == 3:
            fields = reader.fields()
            name = reader.text(fields[3][1] + 1)  # after the head of a list of one
            if name in names:
                chunk = _chunk(reader, fields, most)
        else:
            reader.skip()
    return name, chunk


def _chunk(reader: _Reader, meta: Mapping[int, Field], most: int) -> Chunk:
    size, data = (reader.number_at(meta[each][1]) for each in (7, 9))
    start = reader.number_at(meta[11][1]) if 11 in meta else data
    if not 4 <= start <= data < start + size <= most:
        raise ValueError("pages that are not in the file")
    kept = {
        number: (kind, reader.content[first:stop])
        for number, (kind, first, stop) in meta.items()
        if number not in (9, 10, 11, 14, 15, 16)  # where pages, indexes and Bloom filters are, and sizes
    }
    return Chunk(kept, start, size, data - start, 11 in meta)


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(value: int) -> bytes:
    """A signed number in Thrift."""
    return varint(value << 1 if value >= 0 else (-value << 1) - 1)


def text(value: bytes) -> bytes:
    return varint(len(value)) + value


def structure(fields: Mapping[int, tuple[int, bytes]]) -> bytes:
    """A struct in Thrift: of each field by number its type and value."""
    out, last = bytearray(), 0
    for each, (kind, value) in sorted(fields.items()):
        if each - last > 15:
            raise ValueError("a field number of a Parquet struct is more than 15 above the one before")
        out.append((each - last) << 4 | kind)
        out += value
        last = each
    out.append(0)
    return bytes(out)


def listed(kind: int, items: Sequence[bytes]) -> bytes:
    count = len(items)
    head = bytes([count << 4 | kind]) if count < 15 else bytes([0xF0 | kind]) + varint(count)
    return head + b"".join(items)


def page_header(rows: int, size: int, encoding: int) -> bytes:
    """The header of a data page that is not compressed, of `size` bytes."""
    values = {1: (_I32, number(rows)), 2: (_I32, number(encoding)), 3: (_I32, number(RLE)), 4: (_I32, number(RLE))}
    return structure(
        {
            1: (_I32, number(0)),
            2: (_I32, number(size)),
            3: (_I32, number(size)),
            5: (_STRUCT, structure(values)),
        }
    )


def element(
    name: str,
    type_: int,
    *,
    nullable: bool,
    width: int | None = None,
    converted: int | None = None,
    decimal: tuple[int, int] | None = None,
    logical: bytes | None = None,
) -> bytes:
    """The element of a schema for a column. `decimal`: its scale and its precision."""
    fields = {1: (_I32, number(type_)), 3: (_I32, number(int(nullable))), 4: (_BINARY, text(name.encode()))}
    if width is not None:
        fields[2] = (_I32, number(width))
    if converted is not None:
        fields[6] = (_I32, number(converted))
    if decimal is not None:
        fields |= {7: (_I32, number(decimal[0])), 8: (_I32, number(decimal[1]))}
    if logical is not None:
        fields[10] = (_STRUCT, logical)
    return structure(fields)


def chunk_of(
    name: str,
    type_: int,
    rows: int,
    encodings: Sequence[int],
    start: int,
    size: int,
    limits: tuple[bytes, bytes] | None = None,
) -> Chunk:
    """A chunk of data pages that are not compressed, `size` bytes from `start` on.

    `limits`: the least and the largest value.
    """
    meta = {
        1: (_I32, number(type_)),
        2: (_LIST, listed(_I32, [number(each) for each in encodings])),
        3: (_LIST, listed(_BINARY, [text(name.encode())])),
        4: (_I32, number(_UNCOMPRESSED)),
        5: (_I64, number(rows)),
        6: (_I64, number(size)),
        7: (_I64, number(size)),
    }
    if limits is not None:
        least, most = map(text, limits)
        meta[12] = (_STRUCT, structure({5: (_BINARY, most), 6: (_BINARY, least)}))
    return Chunk(meta, start, size, 0, False)


def footer_of(elements: Sequence[bytes], groups: Sequence[tuple[int, Sequence[Chunk]]]) -> bytes:
    """The end of a file: `elements` of the columns in their order, and row groups of so many rows and these chunks."""
    root = structure({4: (_BINARY, text(b"rows")), 5: (_I32, number(len(elements)))})
    rows = []
    for count, chunks in groups:
        columns = []
        for each in chunks:
            meta = dict(each.meta)
            meta[9] = (_I64, number(each.start + each.data))
            if each.dictionary:
                meta[11] = (_I64, number(each.start))
            columns.append(structure({2: (_I64, number(0)), 3: (_STRUCT, structure(meta))}))
        size = sum(each.bytes for each in chunks)
        rows.append(
            structure({1: (_LIST, listed(_STRUCT, columns)), 2: (_I64, number(size)), 3: (_I64, number(count))})
        )
    content = structure(
        {
            1: (_I32, number(1)),
            2: (_LIST, listed(_STRUCT, [root, *elements])),
            3: (_I64, number(sum(count for count, _ in groups))),
            4: (_LIST, listed(_STRUCT, rows)),
            6: (_BINARY, text(b"DuckDB")),
        }
    )
    return content + len(content).to_bytes(4, "little") + MAGIC
