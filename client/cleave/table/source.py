"""A CSV as Python sees it (header, records, lines) and as DuckDB reads it."""

from __future__ import annotations

import csv
import io
import itertools
import os
import sys
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple, TextIO, cast

from cleave.table.duck import literal
from cleave.table.inputs import Input, unreadable
from cleave.table.schema import CsvDialect
from cleave_shared.errors import InputError

_BLOCK = 1 << 20  # characters fed to DuckDB at a time
_LONGEST_LINE = 1 << 23  # bytes; DuckDB's own limit is 2 MB, and larger buffers than this cost it parallelism
_LONGEST_FIELD = _LONGEST_LINE  # Python's own limit of 131,072 is shorter than DuckDB's


class _WithoutFooter(io.TextIOBase):
    """A text whose last lines are held back."""

    def __init__(self, text: TextIO, lines: int) -> None:
        self._text = text
        self._held = deque(itertools.islice(text, lines))

    def __next__(self) -> str:  # type: ignore[override]  # typeshed has bytes
        self._held.append(next(self._text))
        return self._held.popleft()

    def read(self, size: int | None = -1, /) -> str:
        """Read whole lines, `size` characters or a few more."""
        lines, left = [], size if size is not None and size >= 0 else sys.maxsize
        while left > 0 and (line := next(self, "")):
            lines.append(line)
            left -= len(line)
        return "".join(lines)

    def close(self) -> None:
        self._text.close()
        super().close()


def open_text(source: Input, dialect: CsvDialect) -> TextIO:
    """The text without byte order mark and the lines to skip at both ends, its line ends as they are."""
    encoding = "utf-8-sig" if _is_utf8(dialect.encoding) else dialect.encoding
    text = io.TextIOWrapper(source.open(), encoding=encoding, newline="")
    try:
        for _ in range(dialect.skip):
            text.readline()
        if dialect.skip_footer:
            return cast(TextIO, _WithoutFooter(text, dialect.skip_footer))
    except BaseException:
        text.close()
        raise
    return text


def reader(lines: Iterable[str], dialect: CsvDialect, *, strict: bool = True) -> Any:
    """Python's CSV reader, strict about quotes as DuckDB is; `line_num` counts physical lines."""
    csv.field_size_limit(_LONGEST_FIELD)
    return csv.reader(
        lines,
        delimiter=dialect.delimiter,
        quotechar=dialect.quote or None,
        quoting=csv.QUOTE_MINIMAL if dialect.quote else csv.QUOTE_NONE,
        skipinitialspace=dialect.delimiter != " ",
        strict=strict,
    )


def column_names(source: Input, dialect: CsvDialect) -> tuple[str, ...]:
    """The names of the file's columns, in order and each once.

    As in DuckDB an empty header becomes `column3` (from 0), a repeated `age` becomes `age_1`; a file without header
    has `column0`, `column1`, ... Raises InputError for a file without any record.
    """
    try:
        with open_text(source, dialect) as file:
            first = first_record(file, dialect).fields
    except UnicodeError:
        raise undecodable(source, dialect.encoding) from None
    except (EOFError, OSError) as error:
        raise unreadable(source, error) from None
    except csv.Error:
        hint = "check delimiter and quote under [csv] in the schema"
        raise InputError(f"{source}, line {dialect.skip + 1}: the header cannot be read", hint=hint) from None
    if not first:
        raise InputError(f"{source}: is empty", hint="the first line must name the columns")
    return unique_names(first if dialect.header else [""] * len(first))


class Lines:
    """Physical lines of a text, with the characters that end the last one read."""

    def __init__(self, text: TextIO) -> None:
        self._lines = iter(text)
        self.end = ""

    def __iter__(self) -> Lines:
        return self

    def __next__(self) -> str:
        line = next(self._lines)
        self.end = line[len(line.rstrip("\r\n")) :]
        return line


class FirstRecord(NamedTuple):
    """The first record that is no blank line: its fields, the lines up to its end, and the characters that end it."""

    fields: list[str]
    lines: int
    end: str


def first_record(text: TextIO, dialect: CsvDialect) -> FirstRecord:
    """Read `text` to the end of its first record, or to its end where it has none."""
    lines = Lines(text)
    records = reader(lines, dialect)
    fields: list[str] = next((record for record in records if record), [])
    return FirstRecord(fields, records.line_num, lines.end)


def undecodable(source: Input, encoding: str) -> InputError:
    """The error for a file that is not text of `encoding`, with the line where lines can be distinguished."""
    hint = 'set encoding under [csv] ("cp1252" is usual for files from Windows), or save the file as UTF-8'
    place = str(source)
    with source.open() as file:
        for number, line in enumerate(file, start=1):
            try:
                line.decode(encoding)
            except UnicodeError:
                if not encoding.lower().startswith(("utf-16", "utf-32")):
                    place = f"{source}, line {number}"
                break
    return InputError(f"{place}: is not {encoding} text", hint=hint)


def unique_names(header: Sequence[str]) -> tuple[str, ...]:
    names: list[str] = []
    taken: set[str] = set()
    for index, field in enumerate(header):
        stem = field.strip() or f"column{index}"
        name, repeats = stem, 0
        while name.lower() in taken:
            repeats += 1
            name = f"{stem}_{repeats}"
        taken.add(name.lower())
        names.append(name)
    return tuple(names)


@contextmanager
def duckdb_source(source: Input, dialect: CsvDialect, width: int) -> Iterator[str]:
    """The SQL of a table function that reads the file once, as text columns `c0` .. `c{width-1}`.

    DuckDB reads UTF-8 itself, packed or not. Everything else (it reads big-endian UTF-16 as empty and refuses
    Windows-1252) is recoded on the way through a pipe, never through a file. So is a file whose first record has
    several lines, under a header of one line: DuckDB takes the first line break for the end of all records, and reads
    no rows or wrong ones. Raises InputError if that fails half-way.
    """
    with open_text(source, dialect) as text:
        first = first_record(text, dialect)
    is_long = first.lines > 1
    if _is_utf8(dialect.encoding) and not (dialect.skip or dialect.skip_footer or is_long):
        yield _read_csv(pattern_of(source), dialect, width, packed=source.packed)
        return
    reading, writing = os.pipe()
    failures: list[Exception] = []

    def feed() -> None:
        try:
            with (
                os.fdopen(writing, "w", encoding="utf-8", newline="") as pipe,
                open_text(source, dialect) as text,
            ):
                if is_long:
                    name = next(each for each in "xyz" if each not in (dialect.delimiter, dialect.quote))
                    pipe.write(dialect.delimiter.join([name] * width) + (first.end or "\n"))
                if is_long and dialect.header:
                    first_record(text, dialect)
                while block := text.read(_BLOCK):
                    pipe.write(block)
        except BrokenPipeError:
            pass  # DuckDB gave up; its reason is reported
        except (EOFError, OSError, UnicodeError) as error:
            failures.append(error)

    feeder = threading.Thread(target=feed, name="recode", daemon=True)
    feeder.start()
    try:
        shown = replace(dialect, header=dialect.header or is_long)
        yield _read_csv(f"/dev/fd/{reading}", shown, width, packed=False)
    finally:
        os.close(reading)
        feeder.join()
    if failures and isinstance(failures[0], UnicodeError):
        raise undecodable(source, dialect.encoding)
    if failures:
        raise unreadable(source, failures[0])


def _is_utf8(encoding: str) -> bool:
    return encoding.lower().replace("_", "-") in ("utf-8", "utf8", "utf-8-sig", "ascii", "us-ascii")


def _read_csv(name: str, dialect: CsvDialect, width: int, *, packed: bool) -> str:
    columns = ", ".join(f"c{index}: 'VARCHAR'" for index in range(width))
    return (
        f"read_csv({literal(name)}, auto_detect = false, columns = {{{columns}}}, "
        f"header = {str(dialect.header).lower()}, delim = {literal(dialect.delimiter)}, "
        f"quote = {literal(dialect.quote)}, escape = {literal(dialect.quote)}, strict_mode = true, "
        "allow_quoted_nulls = false, "  # "" is an empty text, an empty field is NULL: as `cleave pull` writes them
        f"compression = {literal('gzip' if packed else 'none')}, hive_partitioning = false, "
        f"max_line_size = {_LONGEST_LINE}, buffer_size = {2 * _LONGEST_LINE})"
    )


def pattern_of(source: Input) -> str:
    """Return the pattern by which DuckDB finds this file alone."""
    return "".join(f"[{char}]" if char in "*?[" else char for char in str(source.path.absolute()))
