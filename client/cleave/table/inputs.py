"""Sources of a table: files (CSV, JSON, Excel or Parquet) by name or pattern, standard input, or a frame.

JSON and Excel files become CSV text in memory: numbers keep their digits, NULL and an empty text stay apart. The first
line of the text names the columns, so line 2 of a message is the first object, or row 2 of the sheet.
"""

from __future__ import annotations

import datetime
import glob
import gzip
import hashlib
import json
import os
import re
import stat
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from cleave.files import names_file
from cleave_shared.errors import InputError, extra

if TYPE_CHECKING:
    import pyarrow as pa

JSON_ENDINGS = (".json", ".ndjson", ".jsonl")
MOST_BYTES = 256 << 20  # of an array, or of a workbook unpacked: both are read as a whole
# Of a character in a workbook's text (ECMA-376, Part 1, 22.9.2.19), but for half of a surrogate pair
_ESCAPE = re.compile("_x((?![Dd][89A-Fa-f])[0-9A-Fa-f]{4})_")

Row = Sequence[Any]


def json_text(open_file: Callable[[], BinaryIO], shown: str) -> Path:
    """A memory file of CSV text: the objects of a JSON array, or of a file with one object a line.

    Raises InputError naming the object that is no flat object, or the line that is no JSON.
    """
    with open_file() as file:
        array = None if _is_lines(file) else _of_array(open_file, shown)

    def objects() -> Iterable[dict[str, Any]]:
        return _of_lines(open_file, shown) if array is None else array

    names = dict.fromkeys(chain.from_iterable(objects()))
    if not names:
        raise InputError(f"{shown}: holds no object with a member", hint='as in [{"age": 61}, {"age": 48}]')
    rows = ([each.get(name) for name in names] for each in objects())
    return _written(list(names), rows)


def workbook_text(path: Path, shown: str) -> Path:
    """A memory file of CSV text: the first sheet of an .xlsx file, whose first row names the columns.

    Raises InputError for a damaged or too large workbook, and for one without rows.
    """
    with extra("excel", "Excel files"):
        from openpyxl import load_workbook  # noqa: PLC0415 - 0.2 s
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(each.file_size for each in archive.infolist())
        if size > MOST_BYTES:
            raise InputError(f"{shown}: is larger than {MOST_BYTES >> 20} MB unpacked", hint="save it as CSV")
        sheet, formulas = (load_workbook(path, read_only=True, data_only=only).worksheets[0] for only in (True, False))
        rows = _computed(shown, _values(shown, sheet), formulas.iter_rows(values_only=True))
        header = next(rows, ())
        names = [_cell(each) for each in header]
        if not any(names):
            raise InputError(f"{shown}: is empty", hint="the first row of the first sheet must name the columns")
        return _written(names, (row for row in rows if any(each is not None for each in row)))
    except InputError:
        raise
    except Exception:  # noqa: BLE001 - openpyxl raises what its XML reader raises; a message may quote cells
        problem = InputError(f"{shown}: cannot be read as an Excel file", hint="save it as .xlsx or as CSV")
    raise problem


def _values(shown: str, sheet: Any) -> Iterator[Row]:
    """The rows of a sheet. Raises InputError for a date that does not exist."""
    from openpyxl.utils.datetime import CALENDAR_MAC_1904  # noqa: PLC0415 - as above

    from cleave.table.serials import kind_of, moment  # noqa: PLC0415 - as above

    book = sheet.parent
    from_1904 = book.epoch == CALENDAR_MAC_1904
    book._date_formats = book._timedelta_formats = frozenset()  # else it makes dates: the first days wrong ones

    def value(cell: Any) -> Any:
        if isinstance(cell.value, str):
            return _ESCAPE.sub(lambda match: chr(int(match[1], 16)), cell.value)
        if type(cell.value) not in (int, float) or (kind := kind_of(cell.number_format)) == "number":
            return cell.value
        try:
            return moment(cell.value, kind, from_1904=from_1904)
        except ValueError:
            hint = "Excel shows a day 0 and a 29 February 1900; correct the cell, or format it as a number"
            raise InputError(f"{shown}, cell {cell.coordinate}: has a date that does not exist", hint=hint) from None

    for row in sheet.iter_rows():
        yield [value(cell) for cell in row]


def _computed(shown: str, values: Iterator[Row], formulas: Iterator[Row]) -> Iterator[Row]:
    """The rows of `values`. A formula that was never computed has no value, which would be read as NULL."""
    for number, (row, written) in enumerate(zip(values, formulas, strict=True), start=1):
        if any(value is None and text is not None for value, text in zip(row, written, strict=True)):
            hint = "open it in Excel or LibreOffice and save it, so that it holds the results"
            raise InputError(f"{shown}, row {number}: holds a formula without its result", hint=hint)
        yield row


def _is_lines(file: BinaryIO) -> bool:
    while (byte := file.read(1)) in (b" ", b"\t", b"\r", b"\n", b"\xef", b"\xbb", b"\xbf"):
        pass
    return byte != b"["


def _of_lines(open_file: Callable[[], BinaryIO], shown: str) -> Iterator[dict[str, Any]]:
    with open_file() as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                yield _flat(_parsed(line, f"{shown}, line {number}"), f"{shown}, line {number}")


def _of_array(open_file: Callable[[], BinaryIO], shown: str) -> Sequence[dict[str, Any]]:
    with open_file() as file:
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        hint = "write one object a line (.ndjson): such a file may be of any size"
        raise InputError(f"{shown}: an array of more than {MOST_BYTES >> 20} MB", hint=hint)
    return [_flat(each, f"{shown}, object {number}") for number, each in enumerate(_parsed(content, shown), start=1)]


def _parsed(content: bytes, where: str) -> Any:
    try:
        return json.loads(
            content.decode("utf-8-sig"),
            parse_float=str,
            parse_int=str,
            parse_constant=_refused,
            object_pairs_hook=_object,
        )
    except (ValueError, RecursionError):
        problem = InputError(f"{where}: is not JSON", hint="an array of objects, or one object a line, in UTF-8")
    raise problem


def _refused(_: str) -> Any:
    raise ValueError


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(members := dict(pairs)) < len(pairs):
        raise ValueError
    return members


def _flat(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputError(f"{where}: is not an object", hint='as in {"age": 61, "ward": "A"}')
    for name, each in value.items():
        if isinstance(each, dict | list):
            raise InputError(f"{where}, member {name!r}: holds a list or an object", hint="flatten it first")
    return value


def _written(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> Path:
    memory = os.memfd_create("table")  # it lives as long as this process
    try:
        with os.fdopen(os.dup(memory), "w", encoding="utf-8", newline="") as file:
            for row in chain([names], rows):
                file.write(",".join("" if each is None else _quoted(_cell(each)) for each in row[: len(names)]) + "\n")
    except BaseException:
        os.close(memory)
        raise
    return Path(f"/proc/self/fd/{memory}")


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _cell(value: Any) -> str:
    """The text of a value as the schema's types read it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime.datetime):
        midnight = value.time() == datetime.time()
        return value.date().isoformat() if midnight else value.isoformat(" ")
    return str(value)


STDIN = "-"
_STDIN_SHOWN = "standard input"
_GZIP, _PARQUET = b"\x1f\x8b", b"PAR1"
_WORKBOOK = b"PK\x03\x04"
_FOREIGN = (b"\xd0\xcf\x11\xe0", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd")
_ENDINGS = (".gz", ".csv", ".tsv", ".txt", ".parquet", *JSON_ENDINGS)
_BLOCK = 1 << 20
_SEPARATORS = " ._-+0123456789"


@dataclass(frozen=True, slots=True)
class Input:
    """File of a table. `shown` is how messages name it: standard input is read from a memory file of its own."""

    path: Path
    shown: str
    packed: bool = False  # by gzip
    parquet: bool = False

    def __str__(self) -> str:
        return self.shown

    @property
    def stem(self) -> str:
        """The file's name without its endings."""
        return "stdin" if self.shown == _STDIN_SHOWN else _stem(Path(self.shown))

    def open(self) -> BinaryIO:
        """The file's bytes, unpacked."""
        return cast("BinaryIO", gzip.open(self.path, "rb")) if self.packed else self.path.open("rb")


@dataclass(frozen=True, slots=True)
class Frame:
    """An Arrow table of types that DuckDB reads, made by `cleave.table.lazy`; `shown` is how messages name it."""

    arrow: pa.Table
    shown: str

    def __str__(self) -> str:
        return self.shown


Name = str | Path | Input
Names = Name | Sequence[Name]


def open_inputs(names: Names, most: int | None = None) -> list[Input]:
    """The files that `names` mean, in the order given, those of a pattern by name; of standard input at most `most`
    bytes.

    Raises InputError for a file that is missing, empty, cannot be read, or is neither text nor Parquet.
    """
    inputs: list[Input] = []
    for name in _several(names):
        if isinstance(name, Input):
            inputs.append(name)
        elif str(name) == STDIN:
            inputs.append(_standard_input(most))
        else:
            inputs += [_input(path, str(path)) for path in expand(name)]
    return inputs


def in_folder(folder: Path) -> list[Path]:
    """The files of a folder that may be tables, by name. Raises InputError where there is none."""
    files = sorted(
        each for each in folder.iterdir() if each.is_file() and each.name[0] != "." and each.suffix.lower() in _ENDINGS
    )
    if not files:
        raise InputError(f"{folder}: has no file of rows", hint=f"files that end in {', '.join(_ENDINGS)} are read")
    return files


def digest_of(path: Path) -> str:
    """SHA-256 of a file, in hex. Raises InputError."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None


def expand(name: str | Path) -> list[Path]:
    """The files a name stands for: itself if there is such a file, else those its pattern matches."""
    path = Path(name)
    if str(name) == STDIN or names_file(name) or not glob.has_magic(str(name)):
        return [path]
    matches = sorted(Path(match) for match in glob.glob(str(name), recursive=True) if os.path.isfile(match))
    if not matches:
        raise InputError(f"{name}: matches no file")
    return matches


def check_there(names: Sequence[str | Path]) -> None:
    """Raises InputError for the first that is not there, before anything else is looked at."""
    for name in names:
        for path in expand(name):
            if str(path) != STDIN:
                _mode(path, str(path))


def table_name(names: Names) -> str:
    """Return the name of a table of these files: like its file without endings; of several, what their names begin
    with.
    """
    stems = []
    for name in _several(names):
        if isinstance(name, Input):
            stems.append(name.stem)
        else:
            stems += ["stdin" if str(path) == STDIN else _stem(path) for path in expand(name)]
    shared = os.path.commonprefix(stems)  # noqa: RUF071 - characters of names, not parts of a path
    return stems[0] if len(stems) == 1 else shared.rstrip(_SEPARATORS) or "data"


def unreadable(shown: object, error: Exception) -> InputError:
    """The error for a file that the system, or gzip, cannot read."""
    if isinstance(error, OSError) and error.strerror:
        return InputError(f"{shown}: cannot be read ({error.strerror})")
    return InputError(f"{shown}: is damaged: it cannot be unpacked", hint="is it complete? `gzip -t` checks")


def mark_of(source: Input) -> object:
    """Return a mark that changes when the file is written. Raises InputError."""
    try:
        status = source.path.stat()
    except OSError as error:
        raise unreadable(source, error) from None
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


def pattern_of(source: Input) -> str:
    """Return the pattern by which DuckDB finds this file alone."""
    return "".join(f"[{char}]" if char in "*?[" else char for char in str(source.path.absolute()))


def _several(names: Names) -> Sequence[Name]:
    return [names] if isinstance(names, str | Path | Input) else names


def _stem(path: Path) -> str:
    """`patients` of `patients.csv.gz`; the last ending goes whatever it is."""
    packed = path.suffix.lower() == ".gz"
    path = path.with_suffix("") if packed else path
    return path.stem if not packed or path.suffix.lower() in _ENDINGS else path.name


def _mode(path: Path, shown: str) -> int:
    """`st_mode` of a file. Raises InputError for one that is not there or cannot be looked at."""
    try:
        return os.stat(path).st_mode
    except FileNotFoundError:
        raise InputError(f"{shown}: there is no such file") from None
    except OSError as error:
        raise unreadable(shown, error) from None
    except ValueError:
        raise InputError(f"{shown!r} is no path", hint="a name cannot hold a NUL byte") from None


def _input(path: Path, shown: str) -> Input:
    mode = _mode(path, shown)
    if stat.S_ISDIR(mode):
        raise InputError(f"{shown}: is a directory", hint="name its files, as in 'folder/*.csv'")
    if not stat.S_ISREG(mode):
        raise InputError(f"{shown}: is not a regular file", hint="hand it to standard input and name the file -")
    try:
        with path.open("rb") as file:
            head = file.read(4096)
        packed = head.startswith(_GZIP)
        if packed:
            with gzip.open(path, "rb") as unpacked:
                head = unpacked.read(4096)
    except (EOFError, OSError, zlib.error) as error:
        raise unreadable(shown, error) from None
    if head.startswith(_FOREIGN) or (packed and head.startswith((_GZIP, _PARQUET, _WORKBOOK))):
        raise InputError(
            f"{shown}: is an .xls workbook, or packed otherwise than by gzip",
            hint="save it as .xlsx or CSV, or unpack it",
        )
    if not head.strip():
        raise InputError(f"{shown}: is empty", hint="the first line must name the columns")
    if head.startswith(_WORKBOOK) or shown.lower().endswith(".xlsx"):
        return Input(workbook_text(path, shown), shown)
    if shown.lower().removesuffix(".gz").endswith(JSON_ENDINGS):
        return Input(json_text(Input(path, shown, packed).open, shown), shown)
    return Input(path, shown, packed, parquet=head.startswith(_PARQUET))


def _standard_input(most: int | None) -> Input:
    """Copy standard input into a memory file of this process: a CSV is read more than once."""
    if sys.stdin is None or sys.stdin.isatty():
        raise InputError(f"{_STDIN_SHOWN}: is a terminal, not a table", hint="as in: cleave query - ... < patients.csv")
    memory = os.memfd_create("stdin")
    try:
        with os.fdopen(os.dup(memory), "wb") as file:
            while block := sys.stdin.buffer.read(_BLOCK):
                file.write(block)
                if most is not None and file.tell() > most:
                    break
            size = file.tell()
    except OSError as error:
        raise unreadable(_STDIN_SHOWN, error) from None
    if most is not None and size > most:
        os.close(memory)
        raise InputError(
            f"{_STDIN_SHOWN}: is longer than {most >> 20} MB, and is kept in memory, for it is read more than once",
            hint="name the file, which may be packed by gzip, instead; a file may be of any size",
        )
    return _input(Path(f"/proc/self/fd/{memory}"), _STDIN_SHOWN)
