"""Every format of an answer holds texts of any characters, by readers that are not ours."""

from __future__ import annotations

import csv
import html
import io
import json
import re
import unicodedata
import zipfile
from collections.abc import Callable
from xml.etree import ElementTree

import pyarrow.parquet as pq
import pytest

from cleave.cli.answer import Format, answer_bytes
from cleave.finish import ResultTable
from cleave.text.printable import printable
from cleave_shared.errors import InputError
from tests.report.answers import answer, key, table

TEXTS = (
    *("plain", " blanks ", "\ttab\t", "a\nb", "a\r\nb", "\r", "\n", "\n\nx\n", "a\x85b", "a\u2028b\u2029c"),
    *("", "NULL", "null", "NA", "''", '""', '"', "it's", 'a"b', "a,b", "a;b", "a|b", "|", "\\", "\\n", "\\|", "a\\"),
    *("\x00", "a\x01b", "\x07", "\x0b\x0c", "\x1b[31mred", "\x7f", "\x9f", "\ufeff", "\ufffe", "\uffff", "\ufffd"),
    *("_x0041_", "_x000D_", "_x005F_", "_x0041_x0042_", "__x0041_", "_x41_", "_xzzzz_", "_X0041_", "x005F_"),
    *("=1+1", "+1", "-1", "@x", "'=x", "1e5", "007", "2024-02-29", "true", "12345678901234567890", "nan", "#N/A"),
    *("<b>&amp;</b>", "</script>", "]]>", "<!--", "&#13;", "`x`", "[a](b)", "![a](b)", "# a", "---", "* a"),
    *("e\u0301", "\u00e9", "\u200b", "\u202edrawkcab", "\u00a0", "\U0001f600", "\U0010ffff", "漢字", "\u0130"),
)
NAMES = ('a "name"', "line\r\nbreak", "_x0041_", "=name", "a\u2028b")


def made() -> ResultTable:
    """A row of each text, and of NULL; the names of the columns are nasty too."""
    columns = [(name, "key", "VARCHAR") for name in NAMES]
    rows = [[key(text), *[key(f"{place}")] * (len(NAMES) - 1)] for place, text in enumerate([*TEXTS, None])]
    return table(columns, rows)


def of_csv(content: bytes) -> list[list[str | None]]:
    return [list(row) for row in csv.reader(io.StringIO(content.decode(), newline=""), strict=True)]


def of_json(content: bytes) -> list[list[str | None]]:
    shown = json.loads(content)
    return [[column["name"] for column in shown["columns"]], *shown["rows"]]


def of_ndjson(content: bytes) -> list[list[str | None]]:
    rows = [json.loads(line) for line in content.decode().removesuffix("\n").split("\n")]
    return [list(rows[0]), *(list(row.values()) for row in rows)]


def of_parquet(content: bytes) -> list[list[str | None]]:
    read = pq.read_table(io.BytesIO(content))
    return [read.column_names, *map(list, zip(*(column.to_pylist() for column in read.columns), strict=True))]


def of_xlsx(content: bytes) -> list[list[str | None]]:
    """As ECMA-376 (22.4.2.4, 22.9.2.19) has it: inline texts, in which _xHHHH_ is a character."""
    space = {"m": "http://schemas.openxmlformats.org/spreadsheetml/2006/main"}
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        sheet = ElementTree.fromstring(archive.read("xl/worksheets/sheet1.xml"))  # noqa: S314 - ours
    rows: list[list[str | None]] = []
    for row in sheet.iterfind(".//m:row", space):
        rows.append([None] * len(NAMES))
        for cell in row.iterfind("m:c", space):
            assert (cell.get("t"), cell.find("m:f", space)) in (("inlineStr", None), ("n", None))
            text = cell.findtext("m:is/m:t", None, space)
            unescaped = text and re.sub("_x([0-9A-Fa-f]{4})_", lambda match: chr(int(match[1], 16)), text)
            rows[-1]["ABCDE".index(str(cell.get("r"))[0])] = unescaped
    return rows


def lossless(value: str | None) -> str | None:
    return value


def without_null(value: str | None) -> str | None:
    return value or ""


def without_empty(value: str | None) -> str | None:
    return value or None


@pytest.mark.parametrize(
    ("written", "read", "held"),
    [
        (Format.CSV, of_csv, without_null),  # Python's reader does not tell an empty text in quotes from NULL
        (Format.JSON, of_json, lossless),
        (Format.NDJSON, of_ndjson, lossless),
        (Format.PARQUET, of_parquet, lossless),
        (Format.XLSX, of_xlsx, without_empty),  # a cell of Excel has a text or none
    ],
)
def test_a_file_for_programs_has_every_text(
    written: Format, read: Callable[[bytes], list[list[str | None]]], held: Callable[[str | None], str | None]
) -> None:
    names, *rows = read(answer_bytes(answer(made()), written))
    assert names == list(NAMES)
    wanted = [[text, *[f"{place}"] * (len(NAMES) - 1)] for place, text in enumerate([*TEXTS, None])]
    assert [list(map(held, row)) for row in rows] == [list(map(held, row)) for row in wanted]


def test_csv_tells_an_empty_text_from_null() -> None:
    made = table([("a", "key", "VARCHAR"), ("b", "key", "BIGINT")], [[key(""), key(1)], [key(None), key(2)]])
    assert answer_bytes(answer(made), Format.CSV) == b'a,b\n"",1\n,2\n'


def test_markdown_has_a_line_of_each_row() -> None:
    lines = answer_bytes(answer(made()), Format.MARKDOWN).decode().removesuffix("\n").split("\n")
    rows = [re.split(r"(?<!\\)(?:\\\\)*\|", line[1:-1]) for line in lines]
    assert {len(row) for row in rows} == {len(NAMES)}
    shown = [html.unescape(re.sub(r"\\([\\|`\[\]])", r"\1", line.split(" | ")[0][2:])) for line in lines[2:]]
    assert shown == [printable("NULL" if text is None else text) for text in [*TEXTS, None]]


def test_a_table_has_a_line_of_each_row() -> None:
    lines = answer_bytes(answer(made()), Format.TABLE).decode().removesuffix("\n").split("\n")
    assert len(lines) == 3 + len(TEXTS) + 1
    assert not {unicodedata.category(each) for line in lines for each in line} & {"Cc", "Cf", "Cn", "Co", "Zl", "Zp"}


def test_a_text_that_no_cell_of_excel_holds_is_refused() -> None:
    one = [("a", "key", "VARCHAR")]
    answer_bytes(answer(table(one, [[key("x" * 32_767)]])), Format.XLSX)
    with pytest.raises(InputError, match="32,767 characters at most"):
        answer_bytes(answer(table(one, [[key("x" * 32_768)]])), Format.XLSX)
    with pytest.raises(InputError, match="32,767 characters at most"):
        answer_bytes(answer(table(one, [[key("\N{GRINNING FACE}" * 16_384)]])), Format.XLSX)  # as UTF-16


def test_every_format_is_read_back() -> None:
    assert {str(each) for each in Format} == {"table", "csv", "json", "ndjson", "markdown", "parquet", "xlsx"}
