"""A CSV's text as Python reads it: lines, header and records."""

from __future__ import annotations

import csv
import io
import itertools
import sys
from collections import deque
from collections.abc import Iterable
from typing import Any, NamedTuple, TextIO

from cleave.table import faults
from cleave.table.inputs import Input, unreadable
from cleave.table.reading import unique_names
from cleave.table.schema import CsvDialect
from cleave_shared.errors import InputError

_LONGEST_FIELD = 1 << 23  # characters; Python's own limit of 131,072 is shorter than DuckDB's


class _WithoutFooter(io.TextIOBase):
    """A text without its last lines."""

    def __init__(self, text: TextIO, lines: int) -> None:
        self._text = text
        self._held = deque(itertools.islice(text, lines))

    def __next__(self) -> str:  # type: ignore[override]  # typeshed has bytes
        self._held.append(next(self._text))
        return self._held.popleft()

    def read(self, size: int | None = -1, /) -> str:
        """Read whole lines, about `size` characters."""
        lines, left = [], size if size is not None and size >= 0 else sys.maxsize
        while left > 0 and (line := next(self, "")):
            lines.append(line)
            left -= len(line)
        return "".join(lines)

    def close(self) -> None:
        self._text.close()
        super().close()


def open_text(source: Input, dialect: CsvDialect) -> TextIO:
    """Open the text without byte order mark, footer and skipped lines. Line breaks are not changed."""
    encoding = "utf-8-sig" if is_utf8(dialect.encoding) else dialect.encoding
    text = io.TextIOWrapper(source.open(), encoding=encoding, newline="")
    try:
        for _ in range(dialect.skip):
            text.readline()
        if dialect.skip_footer:
            return _WithoutFooter(text, dialect.skip_footer)  # type: ignore[return-value] # typeshed has it of bytes
    except BaseException:
        text.close()
        raise
    return text


def reader(lines: Iterable[str], dialect: CsvDialect, *, strict: bool = True) -> Any:
    """Python's CSV reader, strict about quotes like DuckDB. Its "line_num" counts physical lines."""
    csv.field_size_limit(_LONGEST_FIELD)
    return csv.reader(
        lines,
        delimiter=dialect.delimiter,
        quotechar=dialect.quote or None,
        quoting=csv.QUOTE_MINIMAL if dialect.quote else csv.QUOTE_NONE,
        skipinitialspace=dialect.delimiter != " ",
        strict=strict,
    )


class Lines:
    """Lines of a text. Remembers the line break of the last line."""

    def __init__(self, text: Iterable[str]) -> None:
        self._lines = iter(text)
        self.end = ""

    def __iter__(self) -> Lines:
        return self

    def __next__(self) -> str:
        line = next(self._lines)
        self.end = line[len(line.rstrip("\r\n")) :]
        return line


class FirstRecord(NamedTuple):
    """The first record that is not blank: its fields, the number of lines up to its end, and its line break."""

    fields: list[str]
    lines: int
    end: str


def first_record(text: Iterable[str], dialect: CsvDialect, *, strict: bool = True) -> FirstRecord:
    """Read the first record of `text`; it has no fields if there is none."""
    lines = Lines(text)
    records = reader(lines, dialect, strict=strict)
    fields: list[str] = next((record for record in records if record), [])
    return FirstRecord(fields, records.line_num, lines.end)


def header_of(source: Input, dialect: CsvDialect) -> FirstRecord:
    """The first record of the file. Raises InputError if it cannot be read or does not exist."""
    try:
        with open_text(source, dialect) as file:
            first = first_record(file, dialect)
    except UnicodeError:
        raise undecodable(source, dialect.encoding) from None
    except (EOFError, OSError) as error:
        raise unreadable(source, error) from None
    except csv.Error:
        hint = "check delimiter and quote under [csv] in the schema"
        raise InputError(f"{source}, line {dialect.skip + 1}: the header cannot be read", hint=hint) from None
    if not first.fields:
        raise InputError(f"{source}: is empty", hint="the first line must name the columns")
    return first


def column_names(first: FirstRecord, dialect: CsvDialect) -> tuple[str, ...]:
    """Unique names of the file's columns, in order.

    As in DuckDB, an empty header becomes "column3" (counted from 0) and a repeated "age" becomes "age_1". A file
    without a header has "column0", "column1", ...
    """
    return unique_names(first.fields if dialect.header else [""] * len(first.fields))


def undecodable(source: Input, encoding: str) -> InputError:
    """The error for a file that is not text in `encoding`. It names the line if the encoding's lines can be counted."""
    place = str(source)
    with source.open() as file:
        for number, line in enumerate(file, start=1):
            try:
                line.decode(encoding)
            except UnicodeError:
                if not encoding.lower().startswith(("utf-16", "utf-32")):
                    place = f"{source}, line {number}"
                break
    return faults.undecodable(place, encoding)


def is_utf8(encoding: str) -> bool:
    return encoding.lower().replace("_", "-") in ("utf-8", "utf8", "utf-8-sig", "ascii", "us-ascii")
