"""A CSV file as Python sees it (header, records, lines) and as DuckDB reads it."""

from __future__ import annotations

import csv
import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import duckdb

from cleave.table.schema import CsvDialect
from cleave_shared.errors import InputError

_BLOCK = 1 << 20  # characters fed to DuckDB at a time
_LONGEST_LINE = 1 << 23  # bytes; DuckDB's own limit is 2 MB, and larger buffers than this cost it parallelism
_LONGEST_FIELD = _LONGEST_LINE  # Python's own limit of 131,072 is shorter than DuckDB's


def check_readable(path: Path) -> None:
    """Raises InputError unless `path` is a regular, readable file that looks like text."""
    if path.is_dir():
        raise InputError(f"{path}: is a directory", hint="name one CSV file")
    try:
        if not path.exists():
            raise InputError(f"{path}: there is no such file")
        if not path.is_file():
            raise InputError(f"{path}: is not a regular file", hint="save what it gives to a file first")
        with path.open("rb") as file:
            head = file.read(4096)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    if head.startswith((b"PK\x03\x04", b"\x1f\x8b", b"PAR1", b"\xd0\xcf\x11\xe0")):
        raise InputError(
            f"{path}: is a workbook or a compressed file, not CSV", hint="export or unpack it to CSV first"
        )
    if not head.strip():
        raise InputError(f"{path}: is empty", hint="the first line must name the columns")


def open_text(path: Path, encoding: str) -> TextIO:
    """The file's text without byte order mark, its line ends as they are."""
    return path.open(encoding="utf-8-sig" if _is_utf8(encoding) else encoding, newline="")


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


def column_names(path: Path, dialect: CsvDialect) -> tuple[str, ...]:
    """The names of the file's columns, in order and each once.

    As in DuckDB an empty header becomes `column3` (from 0), a repeated `age` becomes `age_1`; a file without header
    has `column0`, `column1`, ... Raises InputError for a file without any record.
    """
    try:
        with open_text(path, dialect.encoding) as file:
            first = next((record for record in reader(file, dialect) if record), None)
    except UnicodeError:
        raise undecodable(path, dialect.encoding) from None
    except csv.Error:
        hint = "check delimiter and quote under [csv] in the schema"
        raise InputError(f"{path}, line 1: the header cannot be read", hint=hint) from None
    if not first:
        raise InputError(f"{path}: is empty", hint="the first line must name the columns")
    return unique_names(first if dialect.header else [""] * len(first))


def undecodable(path: Path, encoding: str) -> InputError:
    """The error for a file that is not text of `encoding`, with the line where lines can be told apart."""
    hint = 'set encoding under [csv] ("cp1252" is usual for files from Windows), or save the file as UTF-8'
    place = str(path)
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                line.decode(encoding)
            except UnicodeError:
                if not encoding.lower().startswith(("utf-16", "utf-32")):
                    place = f"{path}, line {number}"
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
def duckdb_source(path: Path, dialect: CsvDialect, width: int) -> Iterator[str]:
    """The SQL of a table function that reads the file once, as text columns `c0` .. `c{width-1}`.

    DuckDB reads UTF-8 itself. Everything else (it reads big-endian UTF-16 as empty and refuses Windows-1252) is
    recoded on the way through a pipe, never through a file. Raises InputError if that fails half-way.
    """
    if _is_utf8(dialect.encoding):
        yield _read_csv(_escape_glob(str(path.absolute())), dialect, width)
        return
    reading, writing = os.pipe()
    failures: list[Exception] = []

    def feed() -> None:
        try:
            with (
                os.fdopen(writing, "w", encoding="utf-8", newline="") as pipe,
                open_text(path, dialect.encoding) as text,
            ):
                while block := text.read(_BLOCK):
                    pipe.write(block)
        except BrokenPipeError:
            pass  # DuckDB gave up; its reason is reported
        except (OSError, UnicodeError) as error:
            failures.append(error)

    feeder = threading.Thread(target=feed, name="recode", daemon=True)
    feeder.start()
    try:
        yield _read_csv(f"/dev/fd/{reading}", dialect, width)
    finally:
        os.close(reading)
        feeder.join()
    if failures and isinstance(failures[0], OSError):
        raise InputError(f"{path}: cannot be read ({failures[0].strerror})")
    if failures:
        raise undecodable(path, dialect.encoding)


def _is_utf8(encoding: str) -> bool:
    return encoding.lower().replace("_", "-") in ("utf-8", "utf8", "utf-8-sig", "ascii", "us-ascii")


def _read_csv(name: str, dialect: CsvDialect, width: int) -> str:
    columns = ", ".join(f"c{index}: 'VARCHAR'" for index in range(width))
    return (
        f"read_csv({literal(name)}, auto_detect = false, columns = {{{columns}}}, "
        f"header = {str(dialect.header).lower()}, delim = {literal(dialect.delimiter)}, "
        f"quote = {literal(dialect.quote)}, escape = {literal(dialect.quote)}, strict_mode = true, "
        "compression = 'none', hive_partitioning = false, "
        f"max_line_size = {_LONGEST_LINE}, buffer_size = {2 * _LONGEST_LINE})"
    )


def _escape_glob(name: str) -> str:
    return "".join(f"[{char}]" if char in "*?[" else char for char in name)


def connect_in_memory() -> duckdb.DuckDBPyConnection:
    """A DuckDB of this process alone that never spills to disk and fetches no extension."""
    return duckdb.connect(
        ":memory:",
        config={"temp_directory": "", "autoinstall_known_extensions": False, "autoload_known_extensions": False},
    )


def literal(text: str) -> str:
    """`text` as an SQL string."""
    return "'" + text.replace("'", "''") + "'"


def identifier(name: str) -> str:
    """`name` as a quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'
