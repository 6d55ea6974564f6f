"""JSON and Excel in and out: what a table of them holds, and what is refused."""

from __future__ import annotations

import datetime
import gzip
import io
import json
import re
import zipfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import openpyxl
import pandas as pd
import pytest
from openpyxl.utils.datetime import CALENDAR_MAC_1904, CALENDAR_WINDOWS_1900

from cleave.cli.answer import Format, answer_bytes
from cleave.table import converted
from cleave.table.inputs import open_inputs, table_name
from cleave.table.schema import CsvDialect
from cleave_shared.errors import InputError
from tests.report.answers import CASES, answer, certain, key, table


def text_of(path: Path, content: bytes, *, flatten: bool = False) -> str:
    path.write_bytes(content)
    (found,) = open_inputs(path, CsvDialect(flatten=flatten))
    assert found.shown == str(path)
    return found.path.read_text()


def workbook(path: Path, rows: Sequence[Sequence[Any]]) -> bytes:
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    book.save(path)
    return path.read_bytes()


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
@pytest.mark.parametrize(
    "content",
    [
        b'\n [{"a": 123456789012345678.90, "b": ""}, {"b": "x,\\"\\n", "c": true, "a": null}]',
        b'{"a": 123456789012345678.90, "b": ""}\n\n{"b": "x,\\"\\n", "c": true, "a": null}\n',
    ],
)
def test_json_keeps_digits_and_tells_null_from_an_empty_text(
    tmp_path: Path, content: bytes, pack: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / ("t.json.gz" if pack is gzip.compress else "t.json")
    text = text_of(path, pack(content))
    assert text == '"a","b","c"\n"123456789012345678.90","",\n,"x,""\n","true"\n'
    assert table_name(path) == "t"


@pytest.mark.parametrize(
    ("content", "where", "problem"),
    [
        (b'[{"a": 1}, 2]', "t.json, object 2", "not an object"),
        (b'{"a": 1}\n{"a": [1]}\n', "t.json, line 2, member 'a'", "a list"),
        (b'{"a": 1}\n{"a": 4711', "t.json, line 2", "not JSON"),
        (b'{"a": 1, "a": 4711}', "t.json, line 1", "not JSON"),
        (b'[{"a": NaN}]', "t.json", "not JSON"),
        (b"[" * 100_000, "t.json", "not JSON"),
        (b'\xff{"a": 4711}', "t.json, line 1", "not JSON"),
        (b"[{}, {}]", "t.json", "no object with a member"),
        (b'{"a": "\\ud83d\\ude00"}\n{"a": "\\ud83d 4711"}', "t.json, line 2", "not JSON"),
        (b'{"\\udc00": 4711}', "t.json, line 1", "not JSON"),
    ],
)
def test_json_that_is_no_table(tmp_path: Path, content: bytes, where: str, problem: str) -> None:
    with pytest.raises(InputError) as caught:
        text_of(tmp_path / "t.json", content)
    assert f"{where}: " in caught.value.message
    assert problem in caught.value.message
    assert "4711" not in str(caught.value)


def test_a_long_array_is_refused_and_lines_are_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(converted, "MOST_BYTES", 20)
    with pytest.raises(InputError, match="an array of more than"):
        text_of(tmp_path / "t.json", b'[{"a": 1}, {"a": 2222}]')
    assert text_of(tmp_path / "t.ndjson", b'{"a": 1}\n' * 9) == '"a"\n' + '"1"\n' * 9


def test_a_sheet_is_converted(tmp_path: Path) -> None:
    day = datetime.datetime(2026, 1, 2)  # noqa: DTZ001 - Excel has no zones
    rows = [["ward", "day", "kg"], ["A", day, 61.5], [None, None, None], ["B", day.replace(hour=3), True]]
    path = tmp_path / "t.xlsx"
    text = text_of(path, workbook(path, rows))
    assert text == '"ward","day","kg"\n"A","2026-01-02","61.5"\n"B","2026-01-02 03:00:00","true"\n'


@pytest.mark.parametrize(
    ("stored", "shown"),
    [
        ("a_x0009_b", "a\tb"),
        ("_x005F_x000D_", "_x000D_"),
        ("_x0041__x00e9_", "Aé"),
        ("_xD800_", "_xD800_"),
        ("_x41_ _xzzzz_ _X0041_", "_x41_ _xzzzz_ _X0041_"),
    ],
)
def test_escaped_characters_of_a_sheet(tmp_path: Path, stored: str, shown: str) -> None:
    """As Excel shows them."""
    text = text_of(tmp_path / "t.xlsx", workbook(tmp_path / "t.xlsx", [[stored], [stored]]))
    assert text == f'"{shown}"\n"{shown}"\n'


def dated(path: Path, cells: Sequence[tuple[float, str]], *, from_1904: bool = False) -> str:
    """The cells of a column, each a number in a number format, as they are read."""
    book = openpyxl.Workbook()
    book.epoch = CALENDAR_MAC_1904 if from_1904 else CALENDAR_WINDOWS_1900
    book.active.append(["x"])
    for row, (number, number_format) in enumerate(cells, start=2):
        book.active.cell(row, 1, number).number_format = number_format
    book.save(path)
    return text_of(path, path.read_bytes())


# What Excel shows, from its documentation: the serial numbers of days of both epochs.
DAYS = [(1, "1900-01-01"), (59, "1900-02-28"), (61, "1900-03-01"), (39448, "2008-01-01"), (2958465, "9999-12-31")]
DAYS_OF_1904 = [(0, "1904-01-01"), (1, "1904-01-02"), (60, "1904-03-01"), (37986, "2008-01-01")]


@pytest.mark.parametrize(
    "number_format", ["yyyy-mm-dd", "m/d/yy", "d-mmm", "mmmm", "mm", '"day "dddd', "[$-409]mmmm d"]
)
@pytest.mark.parametrize("from_1904", [False, True])
def test_dates_of_a_sheet(tmp_path: Path, number_format: str, *, from_1904: bool) -> None:
    days = DAYS_OF_1904 if from_1904 else DAYS
    text = dated(tmp_path / "t.xlsx", [(number, number_format) for number, _ in days], from_1904=from_1904)
    assert text.splitlines() == ['"x"', *(f'"{day}"' for _, day in days)]


@pytest.mark.parametrize(
    ("number", "number_format", "shown"),
    [
        (0.5, "h:mm", "12:00:00"),
        (0, "hh:mm:ss", "00:00:00"),
        (0.999999999, "mm:ss.000", "1900-01-01"),  # rounds to a whole day
        (0.25, "m/d/yy h:mm", "06:00:00"),
        (61.75, "m/d/yy h:mm", "1900-03-01 18:00:00"),
        (43889.541666666664, "yyyy-mm-dd hh:mm:ss", "2020-02-28 13:00:00"),
        (1.5, "[h]:mm", "36:00:00"),
        (-0.0625, "[h]:mm:ss", "-01:30:00"),
        (60, "0.00", "60"),
        (60, "General", "60"),
        (60, '0 "days"', "60"),
        (0.1, "0%", "0.1"),
    ],
)
def test_times_and_numbers_of_a_sheet(tmp_path: Path, number: float, number_format: str, shown: str) -> None:
    assert dated(tmp_path / "t.xlsx", [(number, number_format)]) == f'"x"\n"{shown}"\n'


@pytest.mark.parametrize(
    ("number", "number_format", "from_1904"),
    [
        *((60, "yyyy-mm-dd", False), (60.5, "m/d/yy h:mm", False), (0, "yyyy-mm-dd", False), (-1, "d-mmm", False)),
        *((2958466, "yyyy-mm-dd", False), (1e300, "yyyy-mm-dd", False), (-1, "yyyy-mm-dd", True)),
    ],
)
def test_a_date_that_does_not_exist_is_refused(
    tmp_path: Path, number: float, number_format: str, *, from_1904: bool
) -> None:
    with pytest.raises(InputError, match=r"t\.xlsx, cell A3: has a date that does not exist"):
        dated(tmp_path / "t.xlsx", [(5, number_format), (number, number_format)], from_1904=from_1904)


@pytest.mark.parametrize("rows", [[], [["a"], ["=1+1"]]])
def test_a_sheet_without_rows_or_results_is_refused(tmp_path: Path, rows: list[list[Any]]) -> None:
    path = tmp_path / "t.xlsx"
    with pytest.raises(InputError, match=r"is empty|row 2: holds a formula without its result"):
        text_of(path, workbook(path, rows))


@pytest.mark.parametrize("flatten", [False, True])
def test_objects_that_share_no_members_do_not_make_a_table_of_empty_fields(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flatten: bool
) -> None:
    """A new member in every line: twice the lines took four times as long, and four times the memory."""
    monkeypatch.setattr(converted, "_FIELDS", 10_000)
    path = tmp_path / "t.ndjson"
    path.write_text("".join(f'{{"k{row}": 1}}\n' for row in range(5_000)))
    with pytest.raises(InputError, match=r"t\.ndjson: its 101 first objects have 101 different members"):
        open_inputs(path, CsvDialect(flatten=flatten))
    path.write_text("".join(f'{{"k{row % 100}": 1}}\n' for row in range(5_000)))
    assert open_inputs(path, CsvDialect(flatten=flatten))


def test_a_workbook_that_unpacks_to_too_much_or_is_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/workbook.xml", b" " * 5000)
    with pytest.raises(InputError, match="cannot be read as an Excel file"):
        text_of(tmp_path / "t.xlsx", packed.getvalue())
    with pytest.raises(InputError, match="cannot be read as an Excel file"):
        text_of(tmp_path / "t.xlsx", b"not even packed")
    monkeypatch.setattr(converted, "MOST_BYTES", 4999)
    with pytest.raises(InputError, match="unpacked"):
        text_of(tmp_path / "t.xlsx", packed.getvalue())


def test_an_answer_as_a_workbook_has_the_values_of_its_records() -> None:
    sheet = openpyxl.load_workbook(io.BytesIO(answer_bytes(CASES["few"][0], Format.XLSX))).active
    names = ["ward", "COUNT(*)", "AVG(age)", "AVG(age)_bound", "SUM(bill)", "SUM(bill)_bound"]
    assert [cell.value for cell in sheet[1]] == names
    assert [cell.value for cell in sheet[2]] == ["A", 61, 47, 5, 11250.5, 0]


def test_no_text_is_a_formula_and_long_numbers_keep_their_digits() -> None:
    rows = [[key("=1+1\x07"), certain(12345678901234567)], [key("+x"), certain(Decimal("0.1"))]]
    made = answer(table((("k", "key", "VARCHAR"), ("x", "plain", "DECIMAL(38,1)")), rows))
    sheet = openpyxl.load_workbook(io.BytesIO(answer_bytes(made, Format.XLSX))).active
    cells = [[(cell.value, cell.data_type) for cell in row] for row in sheet.iter_rows(min_row=2)]
    assert cells == [[("=1+1_x0007_", "s"), ("12345678901234567", "s")], [("+x", "s"), (0.1, "n")]]


def records(path: Path, **how: Any) -> list[dict[str, str | None]]:
    """The records of a file as they are read; None for NULL."""
    (found,) = open_inputs(path, CsvDialect(**how))
    lines: list[list[str | None]] = [[]]
    for quoted, text, end in re.findall(r'("((?:[^"]|"")*)")?([,\n])', found.path.read_text()):
        lines[-1].append(text.replace('""', '"') if quoted else None)
        if end == "\n":
            lines.append([])
    names, *rows, _ = lines
    return [dict(zip(names, row, strict=True)) for row in rows]


def nested(random: Random, depth: int) -> dict[str, Any]:
    values = ["", 'a"b,\n', "é", 1, -2.5, 10**20, None, True, False, [1, "a", {"b": [None, 2.5, True]}, []], []]
    names = random.sample(["a", "b", "c d", "é"], random.randint(0, 4))
    return {
        each: nested(random, depth - 1) if depth and random.random() < 0.5 else random.choice(values) for each in names
    }


def as_text(value: Any) -> str | None:
    """What pandas keeps of a member. It keeps an empty object, which has no member to be a column."""
    if value is None or value == {}:
        return None
    if isinstance(value, list):
        return json.dumps(value, ensure_ascii=False)
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)


@pytest.mark.parametrize("seed", range(30))
def test_nested_objects_are_the_columns_that_pandas_makes(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    objects = [{"id": number} | nested(random, 3) for number in range(6)]
    path = tmp_path / "t.ndjson"
    path.write_text("".join(f"{json.dumps(each)}\n" for each in objects))
    expected = [
        {
            name: text
            for name, value in pd.json_normalize(each, sep=".").to_dict("records")[0].items()
            if (text := as_text(value)) is not None
        }
        for each in objects
    ]
    found = records(path, flatten=True)
    assert [{name: text for name, text in each.items() if text is not None} for each in found] == expected
    filled = {name for each in expected for name in each}
    assert all(name in filled or not any(other.startswith(f"{name}.") for other in found[0]) for name in found[0])


def test_a_list_keeps_the_digits_of_its_numbers(tmp_path: Path) -> None:
    text = text_of(tmp_path / "t.json", b'[{"a": {"b": [1.50, 123456789012345678.90, {"c": "1.50"}]}}]', flatten=True)
    assert text == '"a.b"\n"[1.50, 123456789012345678.90, {""c"": ""1.50""}]"\n'


def test_a_null_where_others_have_an_object_is_no_column(tmp_path: Path) -> None:
    text = text_of(tmp_path / "t.json", b'[{"a": null, "b": null}, {"a": {"c": 1}}]', flatten=True)
    assert text == '"b","a.c"\n,\n,"1"\n'


@pytest.mark.parametrize(
    ("content", "where", "problem"),
    [
        (b'[{"a.b": 1, "a": {"b": 4711}}]', "t.json, object 1", "two members 'a.b'"),
        (b'{"a": {"b": 1}}\n[4711]\n', "t.json, line 2", "not an object"),
        (b'[{"a": {}}]', "t.json", "no object with a member"),
    ],
)
def test_nested_json_that_is_no_table(tmp_path: Path, content: bytes, where: str, problem: str) -> None:
    with pytest.raises(InputError) as caught:
        text_of(tmp_path / "t.json", content, flatten=True)
    assert f"{where}: " in caught.value.message
    assert problem in caught.value.message
    assert "4711" not in str(caught.value)


@pytest.mark.parametrize("deep", [b"[", b'{"a": '])
def test_what_is_nested_too_deeply_is_an_error_or_read(tmp_path: Path, deep: bytes) -> None:
    for depth in (400, 900, 100_000):
        close = (b"]" if deep == b"[" else b"}") * depth
        with suppress(InputError):
            text_of(tmp_path / "t.json", b'[{"x": ' + deep * depth + b"1" + close + b"}]", flatten=True)


def sheets(path: Path, **tables: Sequence[Sequence[Any]]) -> Path:
    book = openpyxl.Workbook()
    book.remove(book.active)
    for title, rows in tables.items():
        sheet = book.create_sheet(title)
        for row in rows:
            sheet.append(row)
    book.save(path)
    return path


def test_a_sheet_is_found_by_its_name(tmp_path: Path) -> None:
    path = sheets(tmp_path / "t.xlsx", Jan=[["a"], [1]], Feb=[["b", "c"], [2, "x"], [3, None]], Empty=[])
    for title in ("Jan", "Feb"):
        read = pd.read_excel(path, sheet_name=title, dtype=str).replace({np.nan: None}).to_dict("records")
        assert records(path, sheet=title) == read
        assert open_inputs(path, CsvDialect(sheet=title.upper()))[0].read_as == {"sheet": title}
    assert records(path) == records(path, sheet="Jan")
    for wanted, problem, hint in (
        ("Fab", "has no sheet 'Fab'", "did you mean 'Feb'?"),
        ("Visits", "has no sheet 'Visits'", "its sheets are Jan, Feb, Empty"),
        ("Empty", "sheet 'Empty': is empty", "the first row of the sheet must name the columns"),
    ):
        with pytest.raises(InputError, match=problem) as caught:
            open_inputs(path, CsvDialect(sheet=wanted))
        assert caught.value.hint == hint
    assert open_inputs(sheets(tmp_path / "one.xlsx", Jan=[["a"], [1]]), CsvDialect())[0].read_as == {}
