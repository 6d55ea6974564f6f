"""Sources of a table: files (CSV, JSON, Excel or Parquet) by name or pattern, standard input, or a frame."""

from __future__ import annotations

import glob
import hashlib
import os
import stat
import sys
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from cleave.files import names_file
from cleave.table.file_formats import CSV, EXCEL, FORMATS, FileFormat, FormatOptions, format_of, is_binary
from cleave_shared.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

STDIN = "-"
_STDIN_SHOWN = "standard input"
_FOREIGN = (b"\xd0\xcf\x11\xe0", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd", b"\x1f\x8b")  # gzip: packed twice
# A workbook of several sheets is no batch
_ENDINGS = (".gz", *(ending for each in reversed(FORMATS) if each is not EXCEL for ending in each.endings))
_BLOCK = 1 << 20
_SEPARATORS = " ._-+0123456789"


@dataclass(frozen=True, slots=True)
class Input:
    """A file of a table. Messages name it as `shown`. Standard input is first copied into a memory file.

    `read_as`: keys of [csv] for what the file has several of, with the one that is read.
    """

    path: Path
    shown: str
    format: FileFormat
    read_as: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.shown

    @property
    def stem(self) -> str:
        """The file's name without suffixes."""
        return "stdin" if self.shown == _STDIN_SHOWN else _stem(Path(self.shown))

    def open(self) -> BinaryIO:
        return self.format.open(self.path)


@dataclass(frozen=True, slots=True)
class Frame:
    """An Arrow table in types that DuckDB reads, made by cleave.table.lazy. Messages name it as `shown`."""

    arrow: pa.Table
    shown: str

    def __str__(self) -> str:
        return self.shown


_Name = str | Path | Input
Names = _Name | Sequence[_Name]


def open_inputs(names: Names, options: FormatOptions, most: int | None = None) -> list[Input]:
    """The files that `names` mean, in the given order; files of a pattern are sorted by name.

    `options`: which sheet of Excel files to read, and whether to flatten JSON. `most`: maximum bytes of standard input.
    Raises InputError for a file that is missing, empty, unreadable, or of no format.
    """
    inputs: list[Input] = []
    for name in _several(names):
        if isinstance(name, Input):
            inputs.append(name)
        elif str(name) == STDIN:
            inputs.append(_standard_input(most, options))
        else:
            inputs += [_input(path, str(path), options) for path in expand(name)]
    return inputs


def check_reading(names: Sequence[str | Path], options: FormatOptions) -> None:
    """Raises InputError for a missing file, and for an option that no file's format has."""
    check_there(names)
    for format_ in FORMATS:
        value = format_.option and getattr(options, format_.option)
        if not value:
            continue
        paths = [path for name in names for path in expand(name)]
        if not any(_may_be(format_, path) for path in paths):
            endings = "" if format_.magic else f"; names of {format_.name} files end in {', '.join(format_.endings)}"
            raise InputError(
                f"{paths[0]}: is no {format_.name} file, {format_.useless.format(value)}",
                hint=f"leave --{format_.option} out{endings}",
            )


def _may_be(format_: FileFormat, path: Path) -> bool:
    """True if a file can be of this format; standard input can if its first bytes say so."""
    if format_.matches(b"", str(path)):
        return True
    if not format_.magic or str(path) == STDIN:
        return bool(format_.magic)
    try:
        found, _ = format_of(path, str(path))
    except (EOFError, OSError, zlib.error):
        return False
    return (found.name, found.compression) == (format_.name, "none")


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


def _input(path: Path, shown: str, options: FormatOptions) -> Input:
    mode = _mode(path, shown)
    if stat.S_ISDIR(mode):
        raise is_folder(shown)
    if not stat.S_ISREG(mode):
        raise InputError(f"{shown}: is not a regular file", hint="pass it to standard input, and name the file -")
    try:
        found, head = format_of(path, shown)
    except (EOFError, OSError, zlib.error) as error:
        raise unreadable(shown, error) from None
    if head.startswith(_FOREIGN) or (found.compression != "none" and is_binary(head)):
        raise InputError(
            f"{shown}: is an .xls workbook, or packed otherwise than by gzip",
            hint="save it as .xlsx or CSV, or unpack it",
        )
    if not head.strip():
        raise InputError(f"{shown}: is empty", hint="the first line must name the columns")
    if found.convert is None:
        return Input(path, shown, found)
    text, read_as = found.convert(found, path, shown, options)
    return Input(text, shown, CSV, read_as)


def _standard_input(most: int | None, options: FormatOptions) -> Input:
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
    return _input(Path(f"/proc/self/fd/{memory}"), _STDIN_SHOWN, options)
