"""Sources of a table: files (CSV, JSON, Excel or Parquet) by name or pattern, standard input, or a frame."""

from __future__ import annotations

import glob
import gzip
import hashlib
import os
import stat
import sys
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from cleave.files import names_file
from cleave.table.converted import json_text, workbook_text
from cleave_shared.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

JSON_ENDINGS = (".json", ".ndjson", ".jsonl")
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
    """A file of a table. Messages name it as `shown`. Standard input is first copied into a memory file."""

    path: Path
    shown: str
    packed: bool = False  # with gzip
    parquet: bool = False
    sheet: str = ""  # name of the sheet, if the workbook has more than one

    def __str__(self) -> str:
        return self.shown

    @property
    def stem(self) -> str:
        """The file's name without suffixes."""
        return "stdin" if self.shown == _STDIN_SHOWN else _stem(Path(self.shown))

    def open(self) -> BinaryIO:
        return cast("BinaryIO", gzip.open(self.path, "rb")) if self.packed else self.path.open("rb")


@dataclass(frozen=True, slots=True)
class Frame:
    """An Arrow table in types that DuckDB reads, made by cleave.table.lazy. Messages name it as `shown`."""

    arrow: pa.Table
    shown: str

    def __str__(self) -> str:
        return self.shown


_Name = str | Path | Input
Names = _Name | Sequence[_Name]


def open_inputs(names: Names, most: int | None = None, *, sheet: str = "", flatten: bool = False) -> list[Input]:
    """The files that `names` mean, in the given order; files of a pattern are sorted by name. `most`: maximum bytes of
    standard input.

    `sheet`: a sheet of Excel files, "" for the first. `flatten`: flatten nested objects of JSON files. Raises
    InputError for a file that is missing, empty, unreadable, or neither text nor Parquet.
    """
    inputs: list[Input] = []
    for name in _several(names):
        if isinstance(name, Input):
            inputs.append(name)
        elif str(name) == STDIN:
            inputs.append(_standard_input(most, sheet))
        else:
            inputs += [_input(path, str(path), sheet, flatten=flatten) for path in expand(name)]
    return inputs


def check_reading(names: Sequence[str | Path], sheet: str | None, *, flatten: bool) -> None:
    """Raises InputError for a missing file, for a `sheet` without an Excel file and `flatten` without a JSON file."""
    check_there(names)
    if not (sheet or flatten):
        return
    paths = [path for name in names for path in expand(name)]
    if sheet and not any(str(path) == STDIN or _is_workbook(path) for path in paths):
        raise InputError(f"{paths[0]}: is no Excel file, so it has no sheet {sheet!r}", hint="leave --sheet out")
    if flatten and not any(_is_json(str(path)) for path in paths):
        endings = ", ".join(JSON_ENDINGS)
        raise InputError(
            f"{paths[0]}: is no JSON file, so there is nothing to flatten",
            hint=f"leave --flatten out; names of JSON files end in {endings}",
        )


def _is_json(shown: str) -> bool:
    return shown.lower().removesuffix(".gz").endswith(JSON_ENDINGS)


def _is_workbook(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return _is_excel(file.read(len(_WORKBOOK)), str(path))
    except OSError:
        return False


def _is_excel(head: bytes, shown: str) -> bool:
    """True for a zip archive, and for a file that calls itself .xlsx though it is none."""
    return head.startswith(_WORKBOOK) or shown.lower().endswith(".xlsx")


def in_folder(folder: Path) -> list[Path]:
    """Files of a folder that can be tables, sorted by name. Raises InputError if there is none."""
    files = sorted(
        each for each in folder.iterdir() if each.is_file() and each.name[0] != "." and each.suffix.lower() in _ENDINGS
    )
    if not files:
        raise InputError(f"{folder}: has no file of rows", hint=f"files that end in {', '.join(_ENDINGS)} are read")
    return files


def is_folder(shown: object, hint: str = "") -> InputError:
    """The error for a folder in place of files. `hint`: what else takes a folder."""
    return InputError(f"{shown}: is a directory", hint=f"name its files, as in 'folder/*.csv'{hint}")


def digest_of(path: Path) -> str:
    """SHA-256 of a file, in hex. Raises InputError."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None


def expand(name: str | Path) -> list[Path]:
    """The file of that name, else the files that match the pattern. Raises InputError if nothing matches."""
    path = Path(name)
    if str(name) == STDIN or names_file(name) or not glob.has_magic(str(name)):
        return [path]
    matches = sorted(Path(match) for match in glob.glob(str(name), recursive=True) if os.path.isfile(match))
    if not matches:
        raise InputError(f"{name}: matches no file")
    return matches


def check_there(names: Sequence[str | Path]) -> None:
    """Raises InputError for the first file that does not exist."""
    for name in names:
        for path in expand(name):
            if str(path) != STDIN:
                _mode(path, str(path))


def table_name(names: Names) -> str:
    """The table's name: its file's name without suffixes; for several files, the common start of their names."""
    stems = []
    for name in _several(names):
        if isinstance(name, Input):
            stems.append(name.stem)
        else:
            stems += ["stdin" if str(path) == STDIN else _stem(path) for path in expand(name)]
    shared = os.path.commonprefix(stems)  # noqa: RUF071 - characters of names, not parts of a path
    return stems[0] if len(stems) == 1 else shared.rstrip(_SEPARATORS) or "data"


def unreadable(shown: object, error: Exception) -> InputError:
    """The error for a file that the operating system cannot read or gzip cannot decompress."""
    if isinstance(error, OSError) and error.strerror:
        return InputError(f"{shown}: cannot be read ({error.strerror})")
    return InputError(f"{shown}: is damaged: it cannot be unpacked", hint="is it complete? `gzip -t` checks")


def mark_of(source: Input) -> object:
    """Return device, inode, size and modification time, which change when the file is written. Raises InputError."""
    try:
        status = source.path.stat()
    except OSError as error:
        raise unreadable(source, error) from None
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


def pattern_of(source: Input) -> str:
    """Return a glob pattern for DuckDB that matches this file only."""
    return "".join(f"[{char}]" if char in "*?[" else char for char in str(source.path.absolute()))


def _several(names: Names) -> Sequence[_Name]:
    return [names] if isinstance(names, str | Path | Input) else names


def _stem(path: Path) -> str:
    """The name without its last suffix, and without .gz before it: "patients" for patients.csv.gz."""
    packed = path.suffix.lower() == ".gz"
    path = path.with_suffix("") if packed else path
    return path.stem if not packed or path.suffix.lower() in _ENDINGS else path.name


def _mode(path: Path, shown: str) -> int:
    """The file's mode. Raises InputError if it does not exist or cannot be accessed."""
    try:
        return os.stat(path).st_mode
    except FileNotFoundError:
        raise InputError(f"{shown}: there is no such file") from None
    except OSError as error:
        raise unreadable(shown, error) from None
    except ValueError:
        raise InputError(f"{shown!r} is no path", hint="a name cannot hold a NUL byte") from None


def _input(path: Path, shown: str, sheet: str, *, flatten: bool = False) -> Input:
    mode = _mode(path, shown)
    if stat.S_ISDIR(mode):
        raise is_folder(shown)
    if not stat.S_ISREG(mode):
        raise InputError(f"{shown}: is not a regular file", hint="pass it to standard input, and name the file -")
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
    if _is_excel(head, shown):
        text, title = workbook_text(path, shown, sheet)
        return Input(text, shown, sheet=title)
    if _is_json(shown):
        return Input(json_text(Input(path, shown, packed).open, shown, flatten=flatten), shown)
    return Input(path, shown, packed, parquet=head.startswith(_PARQUET))


def _standard_input(most: int | None, sheet: str) -> Input:
    """Copy standard input into a memory file, because a CSV is read more than once."""
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
            f"{_STDIN_SHOWN}: is longer than {most >> 20} MB: it is kept in memory to be read more than once",
            hint="name the file, which may be packed by gzip, instead; a file may be of any size",
        )
    return _input(Path(f"/proc/self/fd/{memory}"), _STDIN_SHOWN, sheet)
