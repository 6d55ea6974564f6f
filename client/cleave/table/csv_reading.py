"""A CSV as Python sees it (header, records, lines) and as DuckDB reads it."""

from __future__ import annotations

import csv
import io
import itertools
import os
import sys
import threading
import zlib
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import cached_property
from typing import Any, NamedTuple, TextIO

import duckdb

from cleave.table import faults
from cleave.table.cast import FieldCast, cast
from cleave.table.duck import literal
from cleave.table.inputs import Input, mark_of, pattern_of, unreadable
from cleave.table.reading import SourceReading, places_of, unique_names
from cleave.table.schema import CsvDialect, Schema
from cleave_shared.errors import InputError

_BLOCK = 1 << 20  # characters fed to DuckDB at a time
_LONGEST_LINE = 1 << 23  # bytes; DuckDB's own limit is 2 MB, and larger buffers than this cost it parallelism
_LONGEST_FIELD = _LONGEST_LINE  # Python's own limit of 131,072 is shorter than DuckDB's
_BATCH = 10  # columns examined in one query: DuckDB plans hundreds of aggregates slowly
_REJECTS = ", ignore_errors = true, store_rejects = true, rejects_limit = 1, parallel = false"  # the first in the file
_REJECTED = "SELECT error_type, line_byte_position FROM reject_errors"


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
            return _WithoutFooter(text, dialect.skip_footer)  # type: ignore[return-value] # typeshed has it of bytes
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


class Lines:
    """Physical lines of a text, with the characters that end the last one read."""

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
    """The first record that is no blank line: its fields, the lines up to its end, and the characters that end it."""

    fields: list[str]
    lines: int
    end: str


def first_record(text: Iterable[str], dialect: CsvDialect, *, strict: bool = True) -> FirstRecord:
    """Read `text` to the end of its first record, or to its end where it has none."""
    lines = Lines(text)
    records = reader(lines, dialect, strict=strict)
    fields: list[str] = next((record for record in records if record), [])
    return FirstRecord(fields, records.line_num, lines.end)


def header_of(source: Input, dialect: CsvDialect) -> FirstRecord:
    """The first record of the file. Raises InputError where it cannot be read, and for a file without any record."""
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
    """The names of the file's columns, in order and each once.

    As in DuckDB an empty header becomes `column3` (from 0), a repeated `age` becomes `age_1`; a file without header
    has `column0`, `column1`, ...
    """
    return unique_names(first.fields if dialect.header else [""] * len(first.fields))


def undecodable(source: Input, encoding: str) -> InputError:
    """The error for a file that is not text of `encoding`, with the line where lines can be distinguished."""
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


def _is_utf8(encoding: str) -> bool:
    return encoding.lower().replace("_", "-") in ("utf-8", "utf8", "utf-8-sig", "ascii", "us-ascii")


class CsvReading(SourceReading):
    """Reading of a CSV file. DuckDB judges which records are none, and the casts which fields are no values."""

    source: Input

    def __init__(self, connection: duckdb.DuckDBPyConnection, source: Input, schema: Schema) -> None:
        super().__init__(source, schema)
        self._connection = connection
        self._dialect = schema.dialect

    @cached_property
    def casts(self) -> list[FieldCast]:
        columns = zip(self._places, self.schema.columns, strict=True)
        return [cast(f"c{place}", column, self._dialect) for place, column in columns]

    @cached_property
    def _first(self) -> FirstRecord:
        return header_of(self.source, self._dialect)

    @cached_property
    def _places(self) -> list[int]:
        """The place in the file of each of the schema's columns."""
        names = column_names(self._first, self._dialect)
        return places_of(f"{self.source}, line {self._dialect.skip + 1}", names, self.schema)

    @contextmanager
    def rows(self) -> Iterator[str]:
        """The SQL of a table function that reads the file once, as text columns `c0`, `c1`, ...

        DuckDB reads UTF-8 itself, packed or not. Everything else (it reads big-endian UTF-16 as empty and refuses
        Windows-1252) is recoded on the way through a pipe, never through a file. So is a file whose first record has
        several lines, under a header of one line. Raises InputError if that fails half-way.
        """
        skips = self._dialect.skip or self._dialect.skip_footer
        if _is_utf8(self._dialect.encoding) and not (skips or self._short_header):
            yield self._read_csv(pattern_of(self.source), header=self._dialect.header, packed=self.source.packed)
            return
        with self._recoded() as rows:
            yield rows

    @contextmanager
    def _recoded(self, options: str = "") -> Iterator[str]:
        short_header = self._short_header
        reading, writing = os.pipe()
        failures: list[Exception] = []

        def feed() -> None:
            try:
                with (
                    os.fdopen(writing, "w", encoding="utf-8", newline="") as pipe,
                    open_text(self.source, self._dialect) as text,
                ):
                    pipe.write(short_header)
                    if short_header and self._dialect.header:
                        first_record(text, self._dialect)
                    while block := text.read(_BLOCK):
                        pipe.write(block)
            except BrokenPipeError:
                pass  # DuckDB gave up; its reason is reported
            except (EOFError, OSError, UnicodeError, zlib.error) as error:
                failures.append(error)

        feeder = threading.Thread(target=feed, name="recode", daemon=True)
        feeder.start()
        try:
            yield self._read_csv(f"/dev/fd/{reading}", options, header=self._dialect.header or bool(short_header))
        finally:
            os.close(reading)
            feeder.join()
        if failures and isinstance(failures[0], UnicodeError):
            raise undecodable(self.source, self._dialect.encoding)
        if failures:
            raise unreadable(self.source, failures[0])

    @property
    def _short_header(self) -> str:
        """Where the first record has several lines a header of one, else nothing: DuckDB takes the first line break
        for the end of all records.
        """
        if self._first.lines <= 1:
            return ""
        name = next(each for each in "xyz" if each not in (self._dialect.delimiter, self._dialect.quote))
        return self._dialect.delimiter.join([name] * len(self._first.fields)) + (self._first.end or "\n")

    def _read_csv(self, name: str, options: str = "", *, header: bool, packed: bool = False) -> str:
        columns = ", ".join(f"c{index}: 'VARCHAR'" for index in range(len(self._first.fields)))
        return (
            f"read_csv({literal(name)}, auto_detect = false, columns = {{{columns}}}, "
            f"header = {str(header).lower()}, delim = {literal(self._dialect.delimiter)}, "
            f"quote = {literal(self._dialect.quote)}, escape = {literal(self._dialect.quote)}, strict_mode = true, "
            "allow_quoted_nulls = false, "  # "" is an empty text, an empty field is NULL: as `cleave pull` writes them
            f"compression = {literal('gzip' if packed else 'none')}, hive_partitioning = false, "
            f"max_line_size = {_LONGEST_LINE}, buffer_size = {2 * _LONGEST_LINE}{options})"
        )

    def mark(self) -> object:
        return mark_of(self.source)

    def unread(self) -> InputError | None:
        with open_text(self.source, self._dialect) as text:
            before = first_record(text, self._dialect).lines if self._dialect.header else 0
            for number, line in enumerate(text, start=self._dialect.skip + before + 1):
                if line.strip():
                    return faults.unread(self._line(number))
        return None

    def place(self, row: int) -> str:
        line = self._line_of(row)
        return str(self.source) if line is None else self._line(line)

    def fault(self) -> InputError:
        """The first thing wrong with the file: its encoding, else a record, else a field."""
        try:
            with self._recoded(_REJECTS) as rows, closing(self._connection.cursor()) as cursor:
                read, rejected = None, None
                with suppress(duckdb.Error):  # of line ends of several kinds, it does not say where they are
                    ((read,),) = cursor.execute(f"SELECT count(*) FROM {rows}").fetchall()
                    rejected = cursor.execute(_REJECTED).fetchone()
            if read is None:
                return self._mixed_ends()
            return self._record_fault(*rejected) if rejected else self._field_fault(read)
        except csv.Error:
            return faults.unreadable_csv(self.source)
        except (EOFError, OSError, zlib.error) as error:
            return unreadable(self.source, error)

    def _record_fault(self, kind: str, position: int) -> InputError:
        """The error for a record that DuckDB rejects. It begins at byte `position` (from 1) of what `_recoded`
        hands on, or after line ends there.
        """
        number, left, usual = self._dialect.skip, position - len(self._short_header.encode()), self._first.end
        with open_text(self.source, self._dialect) as text:
            if self._short_header and self._dialect.header:
                number += first_record(text, self._dialect).lines
            for line in text:
                number += 1
                content = line.rstrip("\r\n")
                if content and left <= len(content.encode()):
                    break
                left -= len(line.encode())
            else:
                return faults.unreadable_csv(self.source)
            place = self._line(number)
            try:
                fields, _, end = first_record(itertools.chain([line], text), self._dialect, strict=False)
            except csv.Error:
                return faults.too_long(place)
        if kind == "LINE SIZE OVER MAXIMUM":
            return faults.too_long(place)
        if end not in ("", usual):
            return faults.mixed_ends(place, end, usual)
        if kind == "UNQUOTED VALUE":
            return faults.unclosed(place)
        if len(fields) == len(self._first.fields):
            return faults.unreadable_csv(place)
        return faults.of_another_width(place, len(fields), len(self._first.fields))

    def _mixed_ends(self) -> InputError:
        usual = ""
        for line, _, end in self._records():
            usual = usual or end
            if end not in ("", usual):
                return faults.mixed_ends(self._line(line), end, usual)
        return faults.unreadable_csv(self.source)

    def _field_fault(self, read: int) -> InputError:
        """The first field that its column cannot read. The file is read again for every few columns, never held as a
        whole. `read`: how many records DuckDB reads; one more is not closed.
        """
        wrong: list[tuple[int, int]] = []
        try:
            for start in range(0, len(self.casts), _BATCH):
                columns = range(start, min(start + _BATCH, len(self.casts)))
                firsts = [f"min(place) FILTER (WHERE {self.casts[column].unreadable})" for column in columns]
                rows = self._query(", ".join(firsts))
                wrong += [(row, column) for row, column in zip(rows, columns, strict=True) if row is not None]
            if not wrong:
                return faults.unreadable_csv(self.source)
            row, index = min(wrong)
            (field,) = self._query(f"c{self._places[index]}", f"place = {row}")
        except duckdb.Error:
            line = self._line_of(read)
            return faults.unreadable_csv(self.source) if line is None else faults.unclosed(self._line(line))
        return faults.unreadable_field(self.place(row), self.schema.columns[index], self._dialect, field)

    def _query(self, selected: str, where: str = "true") -> Sequence[Any]:
        with self.rows() as rows:
            numbered = f"SELECT *, row_number() OVER () - 1 AS place FROM {rows}"
            return self._connection.execute(f"SELECT {selected} FROM ({numbered}) WHERE {where}").fetchall()[0]

    def _records(self) -> Iterator[tuple[int, list[str], str]]:
        """The line on which each record begins, its fields, and the characters that end it. A blank line has no
        fields.
        """
        with open_text(self.source, self._dialect) as text:
            lines = Lines(text)
            records = reader(lines, self._dialect, strict=False)
            line = before = self._dialect.skip + 1
            for fields in records:
                yield line, fields, lines.end
                line = before + records.line_num

    def _line_of(self, row: int) -> int | None:
        """The line on which data row `row` (from 0) begins; None where there is no such row."""
        single, top = len(self._first.fields) == 1, self._dialect.skip + 1
        # DuckDB skips blank lines, but of one column they are NULLs
        lines = (line for line, fields, _ in self._records() if fields or (single and line > top))
        return next(itertools.islice(lines, row + self._dialect.header, None), None)

    def _line(self, number: int) -> str:
        return f"{self.source}, line {number}"
