"""The formats of a table's files: how each is recognised, and how it is read. A new one is an entry of FORMATS."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal, Protocol, cast

from cleave.table.converted import json_text, workbook_text
from cleave.table.duck import literal

if TYPE_CHECKING:
    import duckdb

_GZIP = b"\x1f\x8b"
_HEAD = 4096


class FormatOptions(Protocol):
    """What a schema says of single formats; CsvDialect has it."""

    @property
    def sheet(self) -> str: ...
    @property
    def flatten(self) -> bool: ...


Convert = Callable[["FileFormat", Path, str, FormatOptions], tuple[Path, Mapping[str, str]]]
"""(format, file, its name in messages, options) -> file of its rows as CSV; Input.read_as"""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFormat:
    """`endings`: of its files' names. `magic`: the first bytes of its files, which may not be packed; without one, the
    files are text, and may be. `is_named`: an ending is enough.

    DuckDB streams files, unless `convert` first writes their rows into a CSV in memory. `scan`: SQL of a file's rows
    with the types that the file states, valid within the block; it raises duckdb.Error for a damaged file. None: the
    rows are read as CSV text. `footer`: SQL of the number of rows that a file states, for its name {}. `compression`:
    in DuckDB's words. `option`: key of [csv] for this format alone; `useless`: why others do not take its value {!r}.
    """

    name: str
    endings: tuple[str, ...]
    magic: bytes = b""
    is_named: bool = False
    convert: Convert | None = None
    scan: Callable[[duckdb.DuckDBPyConnection, Path], AbstractContextManager[str]] | None = None
    footer: str = ""
    compression: Literal["none", "gzip"] = "none"
    option: str = ""
    useless: str = ""

    @property
    def states_types(self) -> bool:
        return self.scan is not None

    def open(self, path: Path) -> BinaryIO:
        """Open a file of this format, unpacked."""
        return path.open("rb") if self.compression == "none" else cast("BinaryIO", gzip.open(path, "rb"))

    def matches(self, head: bytes, name: str) -> bool:
        """True for a file that begins with `head`, unpacked. The name of a packed one ends in .gz."""
        if self.magic and head.startswith(self.magic):
            return True
        name = name.lower() if self.magic else name.lower().removesuffix(".gz")
        return self.is_named and name.endswith(self.endings)


def pattern_of(path: Path) -> str:
    """A glob pattern for DuckDB that matches this file only."""
    return "".join(f"[{char}]" if char in "*?[" else char for char in str(path.absolute()))


def _scanned_parquet(_: duckdb.DuckDBPyConnection, path: Path) -> AbstractContextManager[str]:
    return nullcontext(f"read_parquet({literal(pattern_of(path))}, hive_partitioning = false)")


def _sheet_text(_: FileFormat, path: Path, shown: str, options: FormatOptions) -> tuple[Path, Mapping[str, str]]:
    text, title = workbook_text(path, shown, options.sheet)
    return text, {"sheet": title} if title else {}


def _objects_text(
    format_: FileFormat, path: Path, shown: str, options: FormatOptions
) -> tuple[Path, Mapping[str, str]]:
    return json_text(partial(format_.open, path), shown, flatten=options.flatten), {}


CSV = FileFormat(name="CSV", endings=(".csv", ".tsv", ".txt"))
EXCEL = FileFormat(
    name="Excel",
    endings=(".xlsx",),
    magic=b"PK\x03\x04",
    is_named=True,  # then its error says that it is no workbook
    convert=_sheet_text,
    option="sheet",
    useless="so it has no sheet {!r}",
)
FORMATS = (  # the first that matches
    EXCEL,
    FileFormat(
        name="JSON",
        endings=(".json", ".ndjson", ".jsonl"),
        is_named=True,
        convert=_objects_text,
        option="flatten",
        useless="so there is nothing to flatten",
    ),
    FileFormat(
        name="Parquet",
        endings=(".parquet",),
        magic=b"PAR1",
        scan=_scanned_parquet,
        footer="SELECT num_rows FROM parquet_file_metadata({})",
    ),
    CSV,
)


def is_binary(head: bytes) -> bool:
    """True for the first bytes of a format whose files may not be packed."""
    return any(each.magic and head.startswith(each.magic) for each in FORMATS)


def format_of(path: Path, name: str) -> tuple[FileFormat, bytes]:
    """The format of the file, which messages call `name`, and its first bytes, unpacked. It is CSV unless another one
    matches. Raises EOFError, OSError or zlib.error.
    """
    with path.open("rb") as file:
        head = file.read(_HEAD)
    is_packed = head.startswith(_GZIP)
    if is_packed:
        with gzip.open(path, "rb") as unpacked:
            head = unpacked.read(_HEAD)
    found = next((each for each in FORMATS if each.matches(head, name)), CSV)
    return replace(found, compression="gzip") if is_packed else found, head
