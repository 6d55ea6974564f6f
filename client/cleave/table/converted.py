"""JSON and Excel files as CSV text in memory: numbers keep their digits, NULL and an empty text stay apart.

The first line of the text names the columns, so line 2 of a message is the first object, or row 2 of the sheet.
"""

from __future__ import annotations

import datetime
import json
import os
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

from cleave_shared.errors import InputError
from cleave_shared.extras import extra

JSON_ENDINGS = (".json", ".ndjson", ".jsonl")
MOST_BYTES = 256 << 20  # of an array, or of a workbook unpacked: both are read as a whole

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
        sheets = [load_workbook(path, read_only=True, data_only=only).worksheets[0] for only in (True, False)]
        rows = _computed(shown, *(sheet.iter_rows(values_only=True) for sheet in sheets))
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
    if len(found := dict(pairs)) < len(pairs):
        raise ValueError
    return found


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
