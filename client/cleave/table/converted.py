"""JSON and Excel files as CSV text in memory. Numbers keep their digits; NULL and an empty text stay different.

The first line of the text names the columns, so line 2 in a message is the first object, or row 2 of the sheet. If
nested JSON is flattened, member b of object a becomes the column "a.b", and a list becomes its JSON text.

Excel stores dates and times as numbers of days. The cell's number format and the workbook's epoch say which date a
number means. In the usual epoch 1 January 1900 is day 1, and day 60 is 29 February 1900, which never existed. In the
other epoch 1 January 1904 is day 0. (ECMA-376, Part 1, 18.17.4)
"""

from __future__ import annotations

import datetime
import json
import os
import re
import zipfile
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, Literal

from cleave.text.nearest import did_you_mean
from cleave_shared.errors import InputError, extra

MOST_BYTES = 256 << 20  # of a JSON array, or of an unpacked workbook: both are read whole
# An escaped character in a workbook's text (ECMA-376, Part 1, 22.9.2.19), except unpaired surrogates
_ESCAPE = re.compile("_x((?![Dd][89A-Fa-f])[0-9A-Fa-f]{4})_")

_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_FIELDS = 1 << 24  # of a table of objects, up to which any number of them may be empty
_SPARSE = 100  # fields for each member of an object, in a larger table
_SHOWN = 20  # sheets that a hint names

_Row = Sequence[Any]
_Read = Callable[[Any, str], dict[str, Any]]  # (object, its position in words) -> members


class _Digits(str):
    """A JSON number, with its digits as written."""


def json_text(open_file: Callable[[], BinaryIO], shown: str, *, flatten: bool = False) -> Path:
    """Convert a JSON array of objects, or one object per line, to CSV text in a memory file.

    Raises InputError naming the object that is nested (unless `flatten`), or the line that is not JSON.
    """
    read = _flattened if flatten else _flat
    with open_file() as file:
        array = None if _is_lines(file) else _of_array(open_file, shown, read)

    def objects() -> Iterable[dict[str, Any]]:
        return _of_lines(open_file, shown, read) if array is None else array

    def measured() -> Iterator[dict[str, Any]]:
        """The objects. Raises InputError if a table of them would be far larger than the objects."""
        rows = members = 0
        seen: set[str] = set()
        for row in objects():
            rows, members = rows + 1, members + len(row)
            seen.update(row)
            if rows * len(seen) > max(_FIELDS, _SPARSE * members):
                raise InputError(
                    f"{shown}: its {rows:,} first objects have {len(seen):,} different members, most in few objects",
                    hint="write such members as values: one column for their names, one for their values",
                )
            yield row

    names = _filled(measured()) if flatten else dict.fromkeys(chain.from_iterable(measured()))
    if not names:
        raise InputError(f"{shown}: holds no object with a member", hint='as in [{"age": 61}, {"age": 48}]')
    rows = ([each.get(name) for name in names] for each in objects())
    return _written(list(names), rows)


def _filled(objects: Iterable[dict[str, Any]]) -> list[str]:
    """Names of flattened members. An object's own name is left out unless it has a value in some row."""
    filled: dict[str, bool] = {}
    for each in objects:
        for name, value in each.items():
            filled[name] = filled.get(name, False) or value is not None
    ordered = sorted(filled)

    def is_parent(name: str) -> bool:
        place = bisect_left(ordered, f"{name}.")
        return place < len(ordered) and ordered[place].startswith(f"{name}.")

    return [name for name, has_value in filled.items() if has_value or not is_parent(name)]


def workbook_text(path: Path, shown: str, wanted: str = "") -> tuple[Path, str]:
    """Convert a sheet of an .xlsx file to CSV text in a memory file. Its first row names the columns.

    `wanted`: the sheet's name, "" for the first. Also returns the sheet's name if the workbook has others. Raises
    InputError for a workbook that is damaged, too large or has no such sheet, and for an empty sheet.
    """
    with extra("excel", "Excel files"):
        from openpyxl import load_workbook  # noqa: PLC0415 - 0.2 s
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(each.file_size for each in archive.infolist())
        if size > MOST_BYTES:
            raise InputError(f"{shown}: is larger than {MOST_BYTES >> 20} MB unpacked", hint="save it as CSV")
        books = [load_workbook(path, read_only=True, data_only=only) for only in (True, False)]
        titles = [each.title for each in books[0].worksheets]
        place = _place_of(wanted, titles, shown)
        sheet, formulas = (book.worksheets[place] for book in books)
        rows = _computed(shown, _values(shown, sheet), formulas.iter_rows(values_only=True))
        header = next(rows, ())
        names = [_cell(each) for each in header]
        if not any(names):
            which = f", sheet {titles[place]!r}" if wanted else ""
            raise InputError(f"{shown}{which}: is empty", hint="the first row of the sheet must name the columns")
        text = _written(names, (row for row in rows if any(each is not None for each in row)))
        return text, titles[place] if len(titles) > 1 else ""
    except InputError:
        raise
    except Exception:  # noqa: BLE001 - openpyxl raises what its XML reader raises; a message may quote cells
        problem = InputError(f"{shown}: cannot be read as an Excel file", hint="save it as .xlsx or as CSV")
    raise problem


def _place_of(wanted: str, titles: Sequence[str], shown: str) -> int:
    """Index of a sheet. As in Excel, upper and lower case of its name are the same. Raises InputError."""
    if not wanted:
        return 0
    places = {title.casefold(): place for place, title in enumerate(titles)}
    if (place := places.get(wanted.casefold())) is not None:
        return place
    more = ", ..." if len(titles) > _SHOWN else ""
    hint = did_you_mean(wanted, titles) or f"its sheets are {', '.join(titles[:_SHOWN])}{more}"
    raise InputError(f"{shown}: has no sheet {wanted!r}", hint=hint)


def _values(shown: str, sheet: Any) -> Iterator[_Row]:
    """The rows of a sheet. Raises InputError for a date that does not exist."""
    from openpyxl.utils.datetime import CALENDAR_MAC_1904  # noqa: PLC0415 - as above

    book = sheet.parent
    from_1904 = book.epoch == CALENDAR_MAC_1904
    book._date_formats = book._timedelta_formats = frozenset()  # else it makes dates: the first days wrong ones

    def value(cell: Any) -> Any:
        if isinstance(cell.value, str):
            return _ESCAPE.sub(lambda match: chr(int(match[1], 16)), cell.value)
        if type(cell.value) not in (int, float) or (kind := _kind_of(cell.number_format)) == "number":
            return cell.value
        try:
            return _moment(cell.value, kind, from_1904=from_1904)
        except ValueError:
            hint = "Excel shows a day 0 and a 29 February 1900; correct the cell, or format it as a number"
            raise InputError(f"{shown}, cell {cell.coordinate}: has a date that does not exist", hint=hint) from None

    for row in sheet.iter_rows():
        yield [value(cell) for cell in row]


def _computed(shown: str, values: Iterator[_Row], formulas: Iterator[_Row]) -> Iterator[_Row]:
    """The rows of `values`. Raises InputError for a formula without a stored result, which would be read as NULL."""
    for number, (row, written) in enumerate(zip(values, formulas, strict=True), start=1):
        if any(value is None and text is not None for value, text in zip(row, written, strict=True)):
            hint = "open it in Excel or LibreOffice and save it, so that it holds the results"
            raise InputError(f"{shown}, row {number}: holds a formula without its result", hint=hint)
        yield row


def _is_lines(file: BinaryIO) -> bool:
    while (byte := file.read(1)) in (b" ", b"\t", b"\r", b"\n", b"\xef", b"\xbb", b"\xbf"):
        pass
    return byte != b"["


def _of_lines(open_file: Callable[[], BinaryIO], shown: str, read: _Read) -> Iterator[dict[str, Any]]:
    with open_file() as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                yield read(_parsed(line, f"{shown}, line {number}"), f"{shown}, line {number}")


def _of_array(open_file: Callable[[], BinaryIO], shown: str, read: _Read) -> Sequence[dict[str, Any]]:
    with open_file() as file:
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        hint = "write one object a line (.ndjson): such a file may be of any size"
        raise InputError(f"{shown}: an array of more than {MOST_BYTES >> 20} MB", hint=hint)
    return [read(each, f"{shown}, object {number}") for number, each in enumerate(_parsed(content, shown), start=1)]


def _parsed(content: bytes, where: str) -> Any:
    try:
        value = json.loads(
            content.decode("utf-8-sig"),
            parse_float=_Digits,
            parse_int=_Digits,
            parse_constant=_refused,
            object_pairs_hook=_object,
        )
        if _SURROGATE.search(content):
            _json(value).encode()  # raises UnicodeEncodeError, a ValueError, for half of a pair
        return value
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
    for name, each in _object_of(value, where).items():
        if isinstance(each, dict | list):
            hint = "--flatten (flatten=True in Python) reads objects as columns a.b, and lists as text"
            raise InputError(f"{where}, member {name!r}: holds a list or an object", hint=hint)
    return _object_of(value, where)


def _flattened(value: Any, where: str) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    pending = [("", iter(_object_of(value, where).items()))]  # open objects, each with the names that lead to it
    while pending:
        prefix, members = pending[-1]
        for name, member in members:
            path = f"{prefix}{name}"
            if isinstance(member, dict):
                pending.append((f"{path}.", iter(member.items())))
                break
            if path in flat:
                raise InputError(f"{where}: has two members {path!r} once it is flat", hint="rename one of them")
            flat[path] = _list_text(member, f"{where}, member {path!r}") if isinstance(member, list) else member
        else:
            pending.pop()
    return flat


def _object_of(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputError(f"{where}: is not an object", hint='as in {"age": 61, "ward": "A"}')
    return value


def _list_text(value: list[Any], where: str) -> str:
    try:
        return _json(value)
    except RecursionError:
        problem = InputError(f"{where}: is nested too deeply", hint="leave it out")
    raise problem


def _json(value: Any) -> str:
    """JSON of a value whose numbers keep their digits."""
    if isinstance(value, _Digits):
        return str(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_json, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_json(name)}: {_json(each)}' for name, each in value.items())}}}"
    return json.dumps(value, ensure_ascii=False)


def _written(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> Path:
    memory = os.memfd_create("table")  # lives as long as this process
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


_Kind = Literal["number", "date", "moment", "time", "span"]
_DAY = 86_400_000  # milliseconds, Excel's precision
_LEAP = 60  # 29 February 1900, which never existed
_BEFORE, _AFTER, _1904 = (datetime.datetime(*day) for day in ((1899, 12, 31), (1899, 12, 30), (1904, 1, 1)))  # noqa: DTZ001 - Excel has no zones
_LITERALS = re.compile(r'"[^"]*"|\\.|_.|\*.|\[[^\]]*\]')


@cache
def _kind_of(number_format: str) -> _Kind:
    """Return what a number format shows. "mm" means minutes beside hours or seconds, else a month."""
    from openpyxl.styles.numbers import is_date_format, is_timedelta_format  # noqa: PLC0415 - 0.2 s

    if not is_date_format(number_format):
        return "number"
    if is_timedelta_format(number_format):
        return "span"
    letters = _LITERALS.sub("", number_format.split(";", maxsplit=1)[0]).lower()
    has_day = any(each in letters for each in ("y", "d", "mmm")) or not set("hs") & set(letters)
    return "date" if not set("hs") & set(letters) else "moment" if has_day else "time"


def _moment(number: float, kind: _Kind, *, from_1904: bool) -> datetime.datetime | datetime.time | str:
    """The date or time at day `number`; for a time span, text as HH:MM:SS.

    Raises ValueError for a day that does not exist: before the epoch's first day, 29 February 1900, or after the year
    9999.
    """
    days, left = divmod(round(number * _DAY), _DAY)
    if kind == "span":
        return _span(round(number * _DAY))
    clock = datetime.timedelta(milliseconds=left)
    if days == 0 and (kind == "time" or (kind == "moment" and not from_1904)):
        return (_1904 + clock).time()
    if days < (0 if from_1904 else 1) or (days == _LEAP and not from_1904):
        raise ValueError
    first = _1904 if from_1904 else _BEFORE if days < _LEAP else _AFTER
    try:
        return first + datetime.timedelta(days) + clock
    except OverflowError:
        raise ValueError from None


def _span(milliseconds: int) -> str:
    seconds, rest = divmod(abs(milliseconds), 1000)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{'-' if milliseconds < 0 else ''}{clock}{f'.{rest:03}' if rest else ''}"
