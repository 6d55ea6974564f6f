"""Reading of a CSV by DuckDB, and search for the first fault in it."""

from __future__ import annotations

import codecs
import csv
import itertools
import os
import threading
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import cached_property
from typing import Any

import duckdb

from cleave.table import faults
from cleave.table.cast import FieldCast, cast
from cleave.table.counting import count_records
from cleave.table.csv_text import (
    FirstRecord,
    Lines,
    column_names,
    first_record,
    header_of,
    is_utf8,
    open_text,
    reader,
    undecodable,
)
from cleave.table.duck import literal
from cleave.table.file_formats import pattern_of
from cleave.table.inputs import Input, mark_of, unreadable
from cleave.table.reading import SourceReading, places_of
from cleave.table.schema import Schema
from cleave_shared.errors import InputError

_BLOCK = 1 << 20  # characters fed to DuckDB at a time
_LONGEST_LINE = 1 << 23  # bytes; DuckDB's own limit is 2 MB, and larger buffers than this cost it parallelism
_BATCH = 10  # columns per query: DuckDB is slow to plan hundreds of aggregates
_REJECTS = ", ignore_errors = true, store_rejects = true, rejects_limit = 1, parallel = false"  # the first in the file
_REJECTED = "SELECT error_type, line_byte_position FROM reject_errors"


class CsvReading(SourceReading):
    """Reading of a CSV file. DuckDB rejects malformed records; the casts reject fields that do not fit."""

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
        """The index in the file of each of the schema's columns."""
        names = column_names(self._first, self._dialect)
        return places_of(f"{self.source}, line {self._dialect.skip + 1}", names, self.schema)

    @contextmanager
    def rows(self) -> Iterator[str]:
        """SQL of a table function that reads the file once, as text columns "c0", "c1", ...

        DuckDB reads UTF-8 itself, also compressed. Other encodings are converted to UTF-8 through a pipe, never a file:
        DuckDB reads big-endian UTF-16 as empty and refuses Windows-1252. A file whose first record has several lines
        goes through the pipe too, after a header of one line. Raises InputError if conversion fails.
        """
        skips = self._dialect.skip or self._dialect.skip_footer
        if is_utf8(self._dialect.encoding) and not (skips or self._short_header):
            yield self._read_csv(
                pattern_of(self.source.path), header=self._dialect.header, compression=self.source.format.compression
            )
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
                pass  # DuckDB stopped reading; its error is reported
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
        """A one-line header for a file whose first record has several lines, else "". DuckDB takes the first line break
        in a file as the line break of all records.
        """
        if self._first.lines <= 1:
            return ""
        name = next(each for each in "xyz" if each not in (self._dialect.delimiter, self._dialect.quote))
        return self._dialect.delimiter.join([name] * len(self._first.fields)) + (self._first.end or "\n")

    def _read_csv(self, name: str, options: str = "", *, header: bool, compression: str = "none") -> str:
        columns = ", ".join(f"c{index}: 'VARCHAR'" for index in range(len(self._first.fields)))
        return (
            f"read_csv({literal(name)}, auto_detect = false, columns = {{{columns}}}, "
            f"header = {str(header).lower()}, delim = {literal(self._dialect.delimiter)}, "
            f"quote = {literal(self._dialect.quote)}, escape = {literal(self._dialect.quote)}, strict_mode = true, "
            "allow_quoted_nulls = false, "  # "" is an empty text, an empty field is NULL: as `cleave pull` writes them
            f"compression = {literal(compression)}, hive_partitioning = false, "
            f"max_line_size = {_LONGEST_LINE}, buffer_size = {2 * _LONGEST_LINE}{options})"
        )

    def mark(self) -> object:
        return mark_of(self.source)

    def miscounted(self, rows: int) -> InputError | None:
        if not rows:
            line = self._first_unread()
            return None if line is None else faults.unread(self._line(line))
        delimiter, quote = self._dialect.delimiter.encode(), self._dialect.quote.encode()
        count = count_records(self._blocks(), delimiter, quote, blank=len(self._first.fields) == 1)
        if count is not None and rows + self._dialect.header == count:
            return None
        # a quote inside a field, or blank lines before the header: count with Python's reader
        records = sum(1 for _ in self._lines_of_rows())
        return None if rows == records else faults.miscounted(self.source, rows, records)

    def _first_unread(self) -> int | None:
        """Number of the first line after the header that is not blank, or None."""
        with open_text(self.source, self._dialect) as text:
            before = first_record(text, self._dialect).lines if self._dialect.header else 0
            numbered = enumerate(text, start=self._dialect.skip + before + 1)
            return next((number for number, line in numbered if line.strip()), None)

    def _blocks(self) -> Iterator[bytes]:
        """The text as UTF-8 blocks, without byte order mark and skipped lines."""
        if is_utf8(self._dialect.encoding) and not (self._dialect.skip or self._dialect.skip_footer):
            with self.source.open() as file:
                yield file.read(_BLOCK).removeprefix(codecs.BOM_UTF8)
                while block := file.read(_BLOCK):
                    yield block
            return
        with open_text(self.source, self._dialect) as text:
            while characters := text.read(_BLOCK):
                yield characters.encode("utf-8")

    def place(self, row: int) -> str:
        line = self._line_of(row)
        return str(self.source) if line is None else self._line(line)

    def fault(self) -> InputError:
        """The first fault in the file: of its encoding, else of a record, else of a field."""
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
        """Return the error for a record that DuckDB rejects.

        The record begins at byte `position` (from 1) of the text that DuckDB reads. If there are line breaks, it begins
        after them.
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
        return faults.of_another_width(self.source, place, len(fields), len(self._first.fields))

    def _mixed_ends(self) -> InputError:
        usual = ""
        for line, _, end in self._records():
            usual = usual or end
            if end not in ("", usual):
                return faults.mixed_ends(self._line(line), end, usual)
        return faults.unreadable_csv(self.source)

    def _field_fault(self, read: int) -> InputError:
        """The error for the first field that does not fit its column. The file is read again for each group of columns,
        never whole into memory. `read`: number of records that DuckDB reads; one more may be unclosed.
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
        """The line on which each record begins, its fields, and its line break. A blank line has no fields."""
        with open_text(self.source, self._dialect) as text:
            lines = Lines(text)
            records = reader(lines, self._dialect, strict=False)
            line = before = self._dialect.skip + 1
            for fields in records:
                yield line, fields, lines.end
                line = before + records.line_num

    def _line_of(self, row: int) -> int | None:
        """The line on which data row `row` (from 0) begins, or None."""
        return next(itertools.islice(self._lines_of_rows(), row, None), None)

    def _lines_of_rows(self) -> Iterator[int]:
        single, top = len(self._first.fields) == 1, self._dialect.skip + 1
        # DuckDB skips blank lines, except in a file of one column, where they are NULLs
        lines = (line for line, fields, _ in self._records() if fields or (single and line > top))
        return itertools.islice(lines, int(self._dialect.header), None)

    def _line(self, number: int) -> str:
        return f"{self.source}, line {number}"
