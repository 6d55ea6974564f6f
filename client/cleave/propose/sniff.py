"""Detection of a CSV file's encoding, delimiter, quote and header. `infer` reads its numbers and dates."""

from __future__ import annotations

import codecs
import csv
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice

from cleave.table.csv_text import open_text, reader, undecodable
from cleave.table.inputs import Input
from cleave.table.schema import CsvDialect
from cleave_shared.errors import InputError

_DELIMITERS = (",", ";", "\t", "|")
_RECORDS = 1000
_BLOCK = 1 << 20
_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))

# What no header is: a date, an e-mail address, a number other than a year.
_NO_HEADER = re.compile(r"\d{4}-\d\d-\d\d.*|[^@\s]+@[^@\s]+\.\w+|(?!(?:19|20)\d\d$)[+-]?\d*[.,]?\d+")


def sniff(source: Input, given: CsvDialect) -> CsvDialect:
    """`given`, with how the CSV is written. Raises InputError for a file that is not text."""
    dialect = replace(given, encoding=_encoding(source))
    dialect = replace(
        dialect, delimiter=max(_DELIMITERS, key=lambda one: _fit(source, replace(dialect, delimiter=one)))
    )
    if _single_quoted(_records(source, replace(dialect, quote=""))):
        dialect = replace(dialect, quote="'")
    first = _records(source, dialect)[:1]
    return replace(dialect, header=not any(_NO_HEADER.fullmatch(field.strip()) for fields in first for field in fields))


def skipping(source: Input, dialect: CsvDialect) -> str:
    """Options that leave out what stands before and after the longest run of records of one width; "" for none.

    Reads all of a file that could not be read as a table.
    """
    runs = [_longest_run(source, replace(dialect, delimiter=one)) for one in _DELIMITERS]
    before, inside, after = max(runs, key=lambda run: run[1])
    if inside < 2 or not (before or after):
        return ""
    lines = {"--skip": before + dialect.skip, "--skip-footer": after + dialect.skip_footer}
    return " ".join(f"{option} {number}" for option, number in lines.items() if number)


def _longest_run(source: Input, dialect: CsvDialect) -> tuple[int, int, int]:
    """Lines before, records within and lines after the longest run of records of one width, two fields or more."""
    best = (0, 0, 0)
    start = width = length = line = 0
    with open_text(source, dialect) as file, suppress(csv.Error):
        records = reader(file, dialect, strict=False)
        for fields in records:
            if fields:
                if len(fields) != width:
                    start, width, length = line, len(fields), 0
                length += 1
                if width > 1 and length > best[1]:
                    best = (start, length, records.line_num)
            line = records.line_num
    return best[0], best[1], line - best[2]


def _encoding(source: Input) -> str:
    """Detect the byte order mark, else UTF-8 if all of the file is, else a Western single-byte encoding."""
    with source.open() as file:
        head = file.read(4096)
        for mark, encoding in _MARKS:
            if head.startswith(mark):
                return encoding
        if b"\0" in head:
            raise InputError(
                f"{source}: holds NUL bytes, so it is not text",
                hint="save it as UTF-8, or UTF-16 with a byte order mark",
            )
        file.seek(0)
        decoder = codecs.getincrementaldecoder("utf-8")()
        try:
            while block := file.read(_BLOCK):
                decoder.decode(block)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            file.seek(0)
            seen: set[int] = set()
            while block := file.read(_BLOCK):
                seen.update(block)
        else:
            return "utf-8"
    # Windows-1252 has printable characters where Latin-1 has controls, except five bytes that it leaves out
    controls = seen & set(range(0x80, 0xA0))
    return "latin-1" if not controls or controls & {0x81, 0x8D, 0x8F, 0x90, 0x9D} else "cp1252"


def _records(source: Input, dialect: CsvDialect) -> list[list[str]]:
    with open_text(source, dialect) as file:
        try:
            return list(islice(filter(None, reader(file, dialect, strict=False)), _RECORDS))
        except csv.Error:
            return []
        except UnicodeError:
            raise undecodable(source, dialect.encoding) from None


def _fit(source: Input, dialect: CsvDialect) -> tuple[float, int]:
    """Rate how well a delimiter explains the file: records as wide as the first one, then the width."""
    records = _records(source, dialect)
    width = len(records[0]) if records else 0
    if width < 2:
        return 0.0, 0
    return sum(len(fields) == width for fields in records) / len(records), width


def _single_quoted(records: Sequence[Sequence[str]]) -> bool:
    """Return whether apostrophes enclose fields: in every record after the header, and no double quote anywhere."""
    if any('"' in field for fields in records for field in fields):
        return False
    return len(records) > 1 and all(
        any(len(field) > 1 and (field[0] == "'" or field[-1] == "'") for field in fields) for fields in records[1:]
    )
