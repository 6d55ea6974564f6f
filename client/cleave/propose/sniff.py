"""Detect a CSV file's encoding, delimiter, quote and header. `infer` finds out how its numbers and dates are
written.
"""

from __future__ import annotations

import codecs
import csv
import re
import zlib
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from cleave.table.csv_text import open_text, reader, undecodable
from cleave.table.inputs import Input
from cleave.table.schema import CsvDialect
from cleave_shared.errors import InputError

_DELIMITERS = (",", ";", "\t", "|")
_RECORDS = 1000
_MOST_RUNS = 1000
_BLOCK = 1 << 20
_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))

# What no header is: a date, an e-mail address, a number other than a year.
_NO_HEADER = re.compile(r"\d{4}-\d\d-\d\d.*|[^@\s]+@[^@\s]+\.\w+|(?!(?:19|20)\d\d$)[+-]?\d*[.,]?\d+")


def sniff(source: Input, given: CsvDialect) -> CsvDialect:
    """Return `given` with what was detected about the CSV. Raises InputError for a file that is not text."""
    dialect = replace(given, encoding=_encoding(source))
    dialect = replace(
        dialect, delimiter=max(_DELIMITERS, key=lambda one: _fit(source, replace(dialect, delimiter=one)))
    )
    if _single_quoted(_records(source, replace(dialect, quote=""))):
        dialect = replace(dialect, quote="'")
    first = _records(source, dialect)[:1]
    return replace(dialect, header=not any(_NO_HEADER.fullmatch(field.strip()) for fields in first for field in fields))


class _RecordRun(NamedTuple):
    """Neighbouring records of the same width: how many, and the lines of the first and the last."""

    width: int
    records: int
    first: int
    last: int


def skipping(source: Input, dialect: CsvDialect) -> str:
    """Advise what to do about a file whose records differ in width; "" if nothing helps. It reads the whole file.

    Options that skip lines are advised only if every line before or after the table has another width; else they would
    lose rows. For a record of another width inside the table, the advice names its line.
    """
    try:
        candidates = [_runs(source, replace(dialect, delimiter=one)) for one in _DELIMITERS]
        by_apostrophes = [_runs(source, replace(dialect, delimiter=one, quote="'")) for one in _DELIMITERS]
    except (EOFError, OSError, UnicodeError, zlib.error):  # advice on half a file could lose rows
        return ""
    (runs, width, header, end), (enclosed, *_) = max(
        zip(candidates, by_apostrophes, strict=True),
        key=lambda pair: sum(run.records for run in pair[0][0] if run.width == pair[0][1]),
    )
    places = [place for place, run in enumerate(runs) if run.width == width]
    if not places or sum(runs[place].records for place in places) < 2:
        return ""
    before, after = runs[: places[0]], runs[places[-1] + 1 :]
    if before and enclosed and (enclosed[0].width, enclosed[0].first) == (width, before[0].first):
        return "if apostrophes enclose the field with a line break in the header, put double quotes in their place"
    between = [run for run in runs[places[0] : places[-1]] if run.width != width]
    lines, options = [], []
    # one record of several fields may be the header, though its rows have more
    is_header = [(run.records, run.width > 1) for run in before] == [(1, True)]
    if before and not is_header and not any(_NO_HEADER.fullmatch(field.strip()) for field in header):
        count = runs[places[0]].first - 1 + dialect.skip
        lines.append(_named(1, count))
        options.append(f"--skip {count}")
    if after:
        last = runs[places[-1]].last
        lines.append(_named(last + 1 + dialect.skip, end + dialect.skip))
        options.append(f"--skip-footer {end - last + dialect.skip_footer}")
    if not options:
        return ""
    verb = "is" if len(lines) == 1 and "lines" not in lines[0] else "are"
    advice = f"if {' and '.join(lines)} {verb} no part of the table: {' '.join(options)}"
    if between:
        number = between[0].first + dialect.skip
        advice += f"; line {number} has another number of fields than most, correct it"
    return advice


def _named(first: int, last: int) -> str:
    return f"line {first}" if first == last else f"lines {first} to {last}"


def _runs(source: Input, dialect: CsvDialect) -> tuple[list[_RecordRun], int, list[str], int]:
    """Return the file's runs, the width (at least two) of most records, the first record of that width, and the last
    line.

    All are empty or 0 for a file whose records keep changing their width.
    """
    runs: list[_RecordRun] = []
    records: Counter[int] = Counter()
    firsts: dict[int, list[str]] = {}
    line = 0
    with open_text(source, dialect) as file, suppress(csv.Error):
        read = reader(file, dialect, strict=False)
        for fields in read:
            if fields:
                width = len(fields)
                run = runs.pop() if runs and runs[-1].width == width else _RecordRun(width, 0, line + 1, 0)
                runs.append(run._replace(records=run.records + 1, last=read.line_num))
                records.update([width] if width > 1 else [])
                firsts.setdefault(width, fields)
                if len(runs) > _MOST_RUNS:
                    return [], 0, [], 0
            line = read.line_num
    usual = max(records, key=lambda width: records[width], default=0)
    return runs, usual, firsts.get(usual, []), line


def _encoding(source: Input) -> str:
    """Detect the encoding: by the byte order mark, else UTF-8 if the whole file is valid, else a Western single-byte
    encoding.
    """
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
    """Rate how well a delimiter explains the file: by the share of records as wide as the first, then by the width."""
    records = _records(source, dialect)
    width = len(records[0]) if records else 0
    if width < 2:
        return 0.0, 0
    return sum(len(fields) == width for fields in records) / len(records), width


def _single_quoted(records: Sequence[Sequence[str]]) -> bool:
    """Return whether apostrophes enclose fields: every record after the header has one, and no field has a double
    quote.
    """
    if any('"' in field for fields in records for field in fields):
        return False
    return len(records) > 1 and all(
        any(len(field) > 1 and (field[0] == "'" or field[-1] == "'") for field in fields) for fields in records[1:]
    )
