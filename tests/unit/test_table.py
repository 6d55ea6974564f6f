"""Reading CSV files: the right rows, or an error that names file, line and column and quotes no value."""

from __future__ import annotations

import csv
import fcntl
import gzip
import os
import re
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cleave.propose.propose import propose
from cleave.table import table as tables
from cleave.table.schema import Column, CsvDialect, Kind, Schema, load_schema, schema_path
from cleave.table.stream import open_table
from cleave.table.table import Engine, no_table
from cleave.table.types import canonical
from cleave_shared.errors import InputError
from tests.functional.processes import met

CANARY = "Kanarienvogel-4711"
Rows = list[tuple[Any, ...]]


def write(folder: Path, content: str | bytes, name: str = "t.csv") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def schema(columns: dict[str, str], kind: Kind = Kind.PLAIN, **dialect: Any) -> Schema:
    """`columns`: name -> type, or kind and type."""
    parsed = []
    for name, text in columns.items():
        own, type_ = text.split(" ", 1) if " " in text else (kind, text)
        type_ = canonical(type_)
        parsed.append(Column(name, Kind(own), type_))
    return Schema(tuple(parsed), CsvDialect(**dialect))


def rows_of(path: Path, given: Schema) -> Rows:
    with open_table(path, given) as table:
        rows = table.connection.execute(f"SELECT * FROM {table.relation}").fetchall()
        assert table.rows == len(rows)
        assert table.name == path.stem
        return rows


AB = {"a": "BIGINT", "b": "VARCHAR"}

READS: dict[str, tuple[str | bytes, Schema, Rows]] = {
    "quotes, delimiters and newlines in fields": (
        'a,b\n1,"x, ""y""\nz"\n2,plain\n',
        schema(AB),
        [(1, 'x, "y"\nz'), (2, "plain")],
    ),
    "semicolon": ("a;b\n1;x,y\n", schema(AB, delimiter=";"), [(1, "x,y")]),
    "tab": ("a\tb\n1\tx\n", schema(AB, delimiter="\t"), [(1, "x")]),
    "bar": ("a|b\n1|x\n", schema(AB, delimiter="|"), [(1, "x")]),
    "apostrophes as quotes": ("a,b\n1,'x,y'\n", schema(AB, quote="'"), [(1, "x,y")]),
    "no quotes": ('a,b\n1,x"y\n', schema(AB, quote=""), [(1, 'x"y')]),
    "UTF-8 with mark": (b"\xef\xbb\xbfa,b\n1,\xc3\xa9\n", schema(AB), [(1, "é")]),
    "UTF-16 little endian": ("a,b\n1,é\n".encode("utf-16"), schema(AB, encoding="utf-16"), [(1, "é")]),
    "UTF-16 big endian": (
        b"\xfe\xff" + "a,b\n1,é\n".encode("utf-16-be"),
        schema(AB, encoding="utf-16"),
        [(1, "é")],
    ),
    "Latin-1": (
        "ä,b\n1,é\n".encode("latin-1"),
        schema({"ä": "BIGINT", "b": "VARCHAR"}, encoding="latin-1"),
        [(1, "é")],
    ),
    "Windows-1252": ("a,b\n1,€\n".encode("cp1252"), schema(AB, encoding="cp1252"), [(1, "€")]),
    "CR LF": ('a,b\r\n1,x\r\n2,"y\nz"\r\n', schema(AB), [(1, "x"), (2, "y\nz")]),
    "CR": ("a,b\r1,x\r2,y\r", schema(AB), [(1, "x"), (2, "y")]),
    "no newline at the end": ("a,b\n1,x", schema(AB), [(1, "x")]),
    "blank lines": ("a,b\n1,x\n\n2,y\n\n", schema(AB), [(1, "x"), (2, "y")]),
    "delimiter at every end": ("a,b\n1,x,\n2,y,\n", schema(AB), [(1, "x"), (2, "y")]),
    "one column, blank is NULL": ("a\n1\n\n3\n", schema({"a": "BIGINT"}), [(1,), (None,), (3,)]),
    "no header": (
        "1,x\n2,y\n",
        schema({"column0": "BIGINT", "column1": "VARCHAR"}, header=False),
        [(1, "x"), (2, "y")],
    ),
    "header only": ("a,b\n", schema(AB), []),
    "one row": ("a,b\n1,x\n", schema(AB), [(1, "x")]),
    "empty and repeated headers": (
        "a,,A,a\n1,2,3,4\n",
        schema({"a": "BIGINT", "column1": "BIGINT", "A_1": "BIGINT", "a_2": "BIGINT"}),
        [(1, 2, 3, 4)],
    ),
    "schema in another order and case": ("B,a\nx,1\n", schema(AB), [(1, "x")]),
    "point and comma": (
        'n\n"1,234.50"\n12\n-1.5\n',
        schema({"n": "DECIMAL(18,2)"}, thousands=","),
        [(Decimal("1234.50"),), (Decimal("12.00"),), (Decimal("-1.50"),)],
    ),
    "comma and point": (
        "n;f\n1.234,50;1.000,25\n",
        schema({"n": "DECIMAL(18,2)", "f": "DOUBLE"}, delimiter=";", decimal=",", thousands="."),
        [(Decimal("1234.50"), 1000.25)],
    ),
    "blanks around": (
        "n,f,y\n 1 , 2.5, true \n",
        schema({"n": "BIGINT", "f": "DOUBLE", "y": "BOOLEAN"}),
        [(1, 2.5, True)],
    ),
    "trailing zeros": ("n,i\n1.500,2.0\n", schema({"n": "DECIMAL(18,1)", "i": "BIGINT"}), [(Decimal("1.5"), 2)]),
    "NULL spellings": (
        "n,t\nNA,NA\nnan,-\n,\n1,N/A\n",
        schema({"n": "encrypted DOUBLE", "t": "VARCHAR"}, null_tokens=("na", "nan"), text_null_tokens=("-",)),
        [(None, "NA"), (None, None), (None, None), (1.0, "N/A")],
    ),
    "not a number in a plain float": ("f\ninf\n-inf\n", schema({"f": "DOUBLE"}), [(float("inf"),), (float("-inf"),)]),
    "exponents": ("f\n1e3\n-2.5E-3\n", schema({"f": "encrypted DOUBLE"}), [(1000.0,), (-0.0025,)]),
    "booleans": ("y\ntrue\nNo\nT\n0\n", schema({"y": "encrypted BOOLEAN"}), [(True,), (False,), (True,), (False,)]),
    "dates": (
        "d,s\n2024-02-29,2024-02-29T12:30:00Z\n",
        schema({"d": "DATE", "s": "TIMESTAMP"}),
        [(date(2024, 2, 29), datetime.fromisoformat("2024-02-29 12:30"))],
    ),
    "dates, day first": (
        "d\n29.02.2024\n2024-03-01\n",
        schema({"d": "DATE"}, date_format="%d.%m.%Y"),
        [(date(2024, 2, 29),), (date(2024, 3, 1),)],
    ),
    "64 bits": (f"n\n{2**63 - 1}\n{-(2**63)}\n", schema({"n": "encrypted BIGINT"}), [(2**63 - 1,), (-(2**63),)]),
    "18 digits": ("n\n-9999999999999999.99\n", schema({"n": "DECIMAL(18,2)"}), [(Decimal("-9999999999999999.99"),)]),
    "long field": ("a,b\n1," + "x" * 3_000_000 + "\n", schema(AB), [(1, "x" * 3_000_000)]),
}


@pytest.mark.parametrize("case", READS)
def test_a_value_is_read_as_its_type(case: str, tmp_path: Path) -> None:
    content, given, expected = READS[case]
    assert rows_of(write(tmp_path, content), given) == expected


N = {"a": "VARCHAR", "n": "encrypted BIGINT"}
C = CANARY

# content, schema, where it must point, what it must say
REFUSES: dict[str, tuple[str | bytes, Schema, str, str]] = {
    "empty": ("", schema(AB), "t.csv:", "is empty"),
    "nothing but blank lines": (" \n\n", schema(AB), "t.csv:", "is empty"),
    "a workbook": (b"PK\x03\x04" + b"\0" * 99, schema(AB), "t.csv:", "Excel"),
    "too few fields": (
        f'a,b\n"1\n2",{C}\n{C}\n',
        schema(AB, Kind.LOCAL),
        "t.csv, line 4:",
        "has 1 field, the first record has 2",
    ),
    "too many fields": (f"a,b\n1,{C}\n\n2,{C},3\n", schema(AB), "t.csv, line 4:", "has 3 fields"),
    "quote never closed": (f'a,b\n1,x\n2,"{C}\n3,y\n', schema(AB), "t.csv, line 3:", "not closed"),
    "text after the closing quote": (f'a,b\n1,"{C}" {C}\n', schema(AB), "t.csv, line 2:", "quote"),
    "quoted line ends before a short record": (
        f'\ufeffa,b\r\n"1\r\n\n2",{C}\r\n\r\n{C}\r\n',
        schema(AB, Kind.LOCAL),
        "t.csv, line 6:",
        "has 1 field, the first record has 2",
    ),
    "a header of several lines before a long record": (
        gzip.compress(f'"a","b\n",x\n1,{C},3\n"1\n",2,3,4,5,{C}\n'.encode()),
        schema({"a": "VARCHAR", "b": "VARCHAR", "x": "VARCHAR"}),
        "t.csv, line 4:",
        "has 6 fields, the first record has 3",
    ),
    "lines skipped before a short record of UTF-16": (
        f"#\n#\na,b\n1,x\n{C}\n".encode("utf-16"),
        schema(AB, skip=2, encoding="utf-16"),
        "t.csv, line 5:",
        "has 1 field",
    ),
    "header of another width": (
        f"a,b\n1,{C},3\n",
        schema(AB),
        "t.csv, line 2:",
        "has 3 fields, the first record has 2",
    ),
    "no header, records of two widths": (
        f"1,{C}\n{C}\n",
        schema({"column0": "VARCHAR", "column1": "VARCHAR"}, header=False),
        "t.csv, line 2:",
        "has 1 field, the first record has 2",
    ),
    "quote never closed after quoted line ends": (
        f'a,b\n1,"x\n\ny"\n2,"{C}\n\n3,y\n',
        schema(AB),
        "t.csv, line 5:",
        "not closed",
    ),
    "quote never closed on the last line": (f'a,b\n1,{C}\n2,"', schema(AB), "t.csv, line 3:", "not closed"),
    "quote never closed before 40 MB": (
        f'a,b\n1,x\n2,"{C}\n' + "3,y\n" * 10_000_000,
        schema(AB),
        "t.csv, line 3:",
        "longer than 8 MB",
    ),
    "text after the closing quote, after blanks there": (
        f'a,b\n"1" ,x\n2,"{C}" {C}\n',
        schema(AB),
        "t.csv, line 3:",
        "quote",
    ),
    "short record after blanks behind a quote": (f'a,b\n"1" ,x\n{C}\n', schema(AB), "t.csv, line 3:", "has 1 field"),
    "text for a number after blanks behind a quote": (
        f'a,n\n"x" ,1\nx,{C}\n',
        schema(N),
        "t.csv, line 3, column 'n':",
        "not a number",
    ),
    "text for a number after NUL": (f"a,n\nx\0,1\nx,{C}\n", schema(N), "t.csv, line 3, column 'n':", "not a number"),
    "a field of NUL for a number": ("a,n\nx,1\nx,\0\n", schema(N), "t.csv, line 3, column 'n':", "not a number"),
    "not UTF-8 before a short record": (
        b"a,b\n1,x\n2,\xe9" + C.encode() + b"\n3\n",
        schema(AB),
        "t.csv, line 3:",
        "is not utf-8 text",
    ),
    "mixed line ends, the last field quoted": (
        f'a,b\n1,"{C}"\n2,"{C}"\r\n3,"4"\n',
        schema(AB),
        "t.csv, line 3:",
        "ends in CR LF, the lines before it in LF",
    ),
    "mixed line ends after quoted ones": (
        f'a,b\r1,"\n\r\n{C}"\r2,{C}\n3,4\r',
        schema(AB),
        "t.csv, line 5:",
        "ends in LF, the lines before it in CR",
    ),
    "mixed line ends": (f"a,b\r\n1,{C}\n2,{C}\r\n", schema(AB), "t.csv, line 2:", "ends in LF"),
    "not UTF-8": (b"a,b\n1,x\n2,\xe9" + C.encode() + b"\n", schema(AB), "t.csv, line 3:", "is not utf-8 text"),
    "not UTF-16": (b"\xff\xfea\0,\0b\0\n\0x", schema(AB, encoding="utf-16"), "t.csv", "utf-16"),
    "not Windows-1252": (b"a,b\n1,\x81\n", schema(AB, encoding="cp1252"), "t.csv", "cp1252"),
    "column the schema does not name": (f"a,b,x\n1,{C},3\n", schema(AB), "column 'x'", "not named in the schema"),
    "column the file does not have": (f"a\n{C}\n", schema(AB), "column 'b'", "not in the file"),
    "delimiter is another": (f"a;b\n1;{C}\n", schema(AB), "t.csv, line 1", "none of the schema's columns"),
    "line of names missing": (f"{C},2\n3,4\n", schema(AB), "t.csv, line 1", "none of the schema's columns"),
    "text for a number": (f"a,n\nx,1\nx,{C}\n", schema(N), "t.csv, line 3, column 'n':", "not a number"),
    "line after newlines in fields": (
        f'a,n\n"x\ny\nz",1\nx,{C}\n',
        schema(N),
        "t.csv, line 5, column 'n':",
        "not a number",
    ),
    "line after blank lines": (f"a,n\nx,1\n\n\nx,{C}\n", schema(N), "t.csv, line 5, column 'n':", "not a number"),
    "no header, first line": (
        f"x,{C}\n",
        schema({"column0": "VARCHAR", "column1": "BIGINT"}, header=False),
        "line 1, column 'column1':",
        "not a number",
    ),
    "recoded file": (
        f"a,n\nx,{C}\n".encode("utf-16"),
        schema(N, encoding="utf-16"),
        "t.csv, line 2, column 'n':",
        "not a number",
    ),
    "not whole": ("a,n\nx,47.11\n", schema(N), "t.csv, line 2, column 'n':", "not a whole number"),
    "beyond 64 bits": (f"a,n\nx,{2**63}\n", schema(N), "line 2, column 'n':", "too large for BIGINT (64 bits)"),
    "hexadecimal": ("a,n\nx,0x4711\n", schema(N), "line 2, column 'n':", "not a number"),
    "underscores": ("a,n\nx,4_711\n", schema(N), "line 2, column 'n':", "not a number"),
    "exponent of an exact number": ("a,n\nx,4.711e3\n", schema(N), "line 2, column 'n':", "exponent"),
    "more decimals than declared": (
        "d\n1.50\n1.505\n",
        schema({"d": "encrypted DECIMAL(18,2)"}),
        "line 3, column 'd':",
        "more than the declared 2 digits",
    ),
    "more digits than declared": (
        "d\n12345678901234567.5\n",
        schema({"d": "encrypted DECIMAL(18,2)"}),
        "line 2, column 'd':",
        "too large for DECIMAL(18,2) (18 digits)",
    ),
    "thousands unannounced": ('d\n"1,234.50"\n', schema({"d": "DECIMAL(18,2)"}), "line 2, column 'd':", "not a number"),
    "thousands out of place": (
        'd\n"1,5"\n',
        schema({"d": "DECIMAL(18,2)"}, thousands=","),
        "line 2, column 'd':",
        "not a number",
    ),
    "thousands out of place in a float": (
        'd\n"12,34"\n',
        schema({"d": "DOUBLE"}, thousands=","),
        "line 2, column 'd':",
        "not a DOUBLE",
    ),
    "infinity encrypted": ("f\n1\ninf\n", schema({"f": "encrypted DOUBLE"}), "line 3, column 'f':", "infinite"),
    "nan encrypted": (
        "f\n1\nNaN\n",
        schema({"f": "encrypted DOUBLE"}),
        "line 3, column 'f':",
        "infinite or NaN",
    ),
    "overflow to infinity encrypted": (
        "f\n1e999\n",
        schema({"f": "encrypted DOUBLE"}),
        "line 2, column 'f':",
        "DOUBLE",
    ),
    "NULL spelling unannounced": ("a,n\nx,NA\n", schema(N), "line 2, column 'n':", "not a number"),
    "field beyond 8 MB": (
        "a,b\n1," + "x" * 9_000_000 + "\n",
        schema(AB),
        "t.csv, line 2:",
        "longer than 8 MB",
    ),
    "no boolean": (f"y\n{C}\n", schema({"y": "BOOLEAN"}), "line 2, column 'y':", "not a BOOLEAN"),
    "no date": ("d\n2024-02-30\n", schema({"d": "DATE"}), "line 2, column 'd':", "not a DATE"),
    "a time in a date": ("d\n2024-02-28 10:00\n", schema({"d": "DATE"}), "line 2, column 'd':", "not a DATE"),
    "first of two wrong columns": (
        f"n,m\n1,{C}\n{C},2\n",
        schema({"n": "BIGINT", "m": "BIGINT"}),
        "line 2, column 'm':",
        "not a number",
    ),
}


@pytest.mark.parametrize("case", REFUSES)
def test_a_value_of_another_type_is_refused(case: str, tmp_path: Path) -> None:
    content, given, place, problem = REFUSES[case]
    with pytest.raises(InputError) as caught:
        open_table(write(tmp_path, content), given)
    message = caught.value.message
    assert place in message
    assert problem in message
    assert caught.value.hint
    assert_value_free(caught.value)


def assert_value_free(error: InputError) -> None:
    """Neither the error nor anything chained to it holds a cell (DuckDB's own messages quote the line)."""
    assert error.__cause__ is None
    assert error.__context__ is None or (error.__suppress_context__ and not isinstance(error.__context__, duckdb.Error))
    for text in (error.message, error.hint or ""):
        assert CANARY not in text
        assert "47" not in re.sub(r"\S*/t\.csv", "", text)  # the folder's name counts runs


@pytest.mark.parametrize(
    ("content", "lower", "upper", "line", "problem"),
    [
        ("n\n5\n-1\n7\n", "0", None, 3, "below lower = 0"),
        ("n\n5\n-1\n7\n", None, "6", 4, "above upper = 6"),
        ("n\n0.1\n0.2\n", "0.1", "0.2", None, None),
        ("n\n\n", "0", "1", None, None),
        ("n,rowid\n5,9\n-1,8\n", "0", None, 3, "below lower = 0"),
    ],
)
@pytest.mark.parametrize("type_", ["DOUBLE", "DECIMAL(18,1)"])
def test_stated_bounds(
    content: str,
    lower: str | None,
    upper: str | None,
    line: int | None,
    problem: str | None,
    type_: str,
    tmp_path: Path,
) -> None:
    bounds = [None if bound is None else Decimal(bound) for bound in (lower, upper)]
    given = schema(dict.fromkeys(content.split("\n", maxsplit=1)[0].split(","), type_))
    given = replace(given, columns=(replace(given.columns[0], lower=bounds[0], upper=bounds[1]), *given.columns[1:]))
    path = write(tmp_path, content)
    if line is None:
        assert rows_of(path, given)
        return
    with pytest.raises(InputError, match=f"t.csv, line {line}, column 'n': .* {problem}"):
        open_table(path, given)


@pytest.mark.parametrize("bounds", [(None, None), (Decimal(0), Decimal(9))])
def test_what_is_not_within_bounds_is_refused_though_it_compares_with_nothing(
    bounds: tuple[Decimal | None, Decimal | None], tmp_path: Path
) -> None:
    """NaN: in a plain column it is a value, but no sum within bounds can hold it."""
    given = schema({"n": "DOUBLE"}, Kind.PLAIN)
    given = replace(given, columns=(replace(given.columns[0], lower=bounds[0], upper=bounds[1]),))
    path = write(tmp_path, "n\n5\nnan\n1\n")
    if bounds[0] is None:
        assert len(rows_of(path, given)) == 3
        return
    with pytest.raises(InputError, match=r"t\.csv, line 3, column 'n': .* above upper"):
        open_table(path, given)


@pytest.mark.parametrize(
    ("content", "type_", "line"),
    [
        ("a,b\nx,1\n\ny,\n,\n", "BIGINT", 4),
        ('a,b\n"x\n\n",1\ny,\n', "VARCHAR", 5),
        ("a,b\nx,true\ny,NA\n", "BOOLEAN", 3),
        ("a,b\nx,2024-01-01\ny,2024-01-02\n", "DATE", None),
    ],
)
def test_null_where_the_schema_rules_it_out(content: str, type_: str, line: int | None, tmp_path: Path) -> None:
    given = schema({"a": "VARCHAR", "b": type_}, null_tokens=("na",))
    strict = replace(given, columns=(given.columns[0], replace(given.columns[1], nullable=False)))
    path = write(tmp_path, content)
    assert rows_of(path, given)
    if line is None:
        assert rows_of(path, strict)
        return
    with pytest.raises(InputError, match=f"t.csv, line {line}, column 'b': is NULL") as caught:
        open_table(path, strict)
    assert_value_free(caught.value)
    assert "nullable = true" in (caught.value.hint or "")


def test_missing_file_directory_and_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    for name, problem in (("none.csv", "no such file"), (".", "is a directory"), ("pipe.csv", "not a regular file")):
        with pytest.raises(InputError, match=problem):
            open_table(tmp_path / name, schema(AB))


def test_an_unreadable_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, "a,b\n1,x\n")

    def denied(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", denied)  # root, as in containers, may read everything
    with pytest.raises(InputError, match="cannot be read \\(Permission denied\\)"):
        open_table(path, schema(AB))


@pytest.mark.parametrize("name", ["it's.csv", "a*b?[1].csv", "x=1.csv", "ward 3.2024.csv"])
def test_names_of_files_are_taken_literally(name: str, tmp_path: Path) -> None:
    write(tmp_path, "a,b\n2,other\n", "aXbY1.csv")
    assert rows_of(write(tmp_path, "a,b\n1,x\n", name), schema(AB)) == [(1, "x")]


def test_names_of_columns_are_taken_literally(tmp_path: Path) -> None:
    names = ["a b", 'x"; DROP', "select", "ü'"]
    path = write(tmp_path, 'a b;"x""; DROP";select;ü\'\n1;2;3;4\n')
    with open_table(path, schema(dict.fromkeys(names, "VARCHAR"), delimiter=";")) as table:
        found = table.connection.execute(f"DESCRIBE {table.relation}").fetchall()
    assert [name for name, *_ in found] == names


@pytest.mark.slow
def test_five_hundred_columns(tmp_path: Path) -> None:
    names = [f"c{index}" for index in range(500)]
    body = (
        ",".join(names)
        + "\n"
        + "".join(",".join(str(row * column) for column in range(500)) + "\n" for row in range(3))
    )
    path = write(tmp_path, body)
    assert rows_of(path, schema(dict.fromkeys(names, "BIGINT")))[2] == tuple(2 * column for column in range(500))
    with pytest.raises(InputError, match="line 5, column 'c499'"):
        open_table(write(tmp_path, body + "1," * 499 + "x\n"), schema(dict.fromkeys(names, "BIGINT")))


@pytest.mark.slow  # test_stream keeps the order of 300,000
def test_a_million_rows_in_order(tmp_path: Path) -> None:
    count = 1_000_000
    path = write(tmp_path, "n,d\n" + "".join(f"{n},{n % 100}.25\n" for n in range(count)))
    with open_table(path, schema({"n": "encrypted BIGINT", "d": "encrypted DECIMAL(18,2)"})) as table:
        query = f"SELECT count(*), sum(n), sum(d), bool_and(n = rowid) FROM {table.relation}"
        found = table.connection.execute(query).fetchall()
    assert found == [(count, count * (count - 1) // 2, Decimal(count) * Decimal("49.75"), True)]


def test_the_connection_reaches_nothing_outside(tmp_path: Path) -> None:
    path = write(tmp_path, "a,b\n1,x\n")
    with open_table(path, schema(AB)) as table:
        for sql in (
            f"FROM read_csv('{path}')",
            f"COPY {table.relation} TO '{tmp_path}/out.csv'",
            f"ATTACH '{tmp_path}/x.db'",
        ):
            with pytest.raises(duckdb.PermissionException):
                table.connection.execute(sql)
        assert table.connection.execute("SELECT current_setting('temp_directory')").fetchall() == [("",)]
    assert os.listdir(tmp_path) == ["t.csv"]
    with pytest.raises(duckdb.ConnectionException):
        table.connection.execute("SELECT 1")


def test_parquet_of_many_rows_in_their_order(tmp_path: Path) -> None:
    path = write(tmp_path, "rowid,n\n" + "".join(f"{7 * n},{n}\n" for n in range(300_000)))
    out = tmp_path / "part.parquet"
    with open_table(path, schema({"rowid": "BIGINT", "n": "BIGINT"})) as table:
        out.write_bytes(table.parquet(f"SELECT n, rowid FROM {table.relation}"))
    found = duckdb.sql(f"FROM '{out}'").fetchnumpy()
    np.testing.assert_array_equal(found["n"], np.arange(300_000))
    np.testing.assert_array_equal(found["rowid"], 7 * np.arange(300_000))


def test_a_failed_recoding_leaves_no_thread_and_no_file_descriptor(tmp_path: Path) -> None:
    path = write(tmp_path, ("a,n\n" + "x,1\n" * 300_000 + "x,y\n").encode("utf-16"))
    before = len(os.listdir("/dev/fd"))
    with pytest.raises(InputError, match="line 300002, column 'n'"):
        open_table(path, schema(N, encoding="utf-16"))
    assert len(os.listdir("/dev/fd")) == before


def test_the_sample_table_and_its_reviewed_schema() -> None:
    path = Path(__file__).parents[1] / "samples" / "patients.csv"
    proposed, reviewed = propose(path), load_schema(schema_path(path))
    changed = [new.name for old, new in zip(proposed.columns, reviewed.columns, strict=True) if old.kind != new.kind]
    assert changed == ["ward", "admitted"]  # a ward names a medical unit
    with open_table(path, reviewed) as table:
        groups = table.connection.execute(
            f"SELECT ward, COUNT(*), AVG(age), STDDEV(bill), COUNT(weight) FROM {table.relation} GROUP BY ward"
        ).fetchall()
        assert table.rows == 600
        assert len(groups) == 6
        assert sum(group[4] for group in groups) < 600


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.none() | st.integers(-(2**63), 2**63 - 1),
            st.none() | st.decimals(-(10**12), 10**12, places=2),
            st.none() | st.floats(allow_nan=False, allow_infinity=False),
            st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12),
        ),
        max_size=30,
    ),
    st.sampled_from([",", ";", "\t", "|"]),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from([(".", ""), (",", ""), (".", ","), (",", "."), (",", "\u202f")]),
    st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
    st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL]),
)
@pytest.mark.slow
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory,
    rows: Rows,
    delimiter: str,
    end: str,
    marks: tuple[str, str],
    encoding: str,
    quoting: Literal[0, 1],
) -> None:
    decimal, thousands = marks
    if quoting == csv.QUOTE_MINIMAL:
        rows = [(*numbers, text.replace("\r", "")) for *numbers, text in rows]  # Python leaves it unquoted: a line end

    def spell(value: object, form: str) -> str:
        text = "" if value is None else format(value, form)
        return text.replace(",", "T").replace(".", decimal).replace("T", thousands)

    path = tmp_path_factory.mktemp("csv") / "t.csv"
    with path.open("w", encoding=encoding, newline="") as file:
        out = csv.writer(file, delimiter=delimiter, lineterminator=end, quoting=quoting)
        out.writerow(["n", "d", "f", "t"])
        grouped = "," if thousands else ""
        for n, d, f, t in rows:
            out.writerow([spell(n, f"{grouped}d"), spell(d, f"{grouped}.2f"), spell(f, ""), t])
    given_schema = schema(
        {"n": "encrypted BIGINT", "d": "encrypted DECIMAL(18,2)", "f": "encrypted DOUBLE", "t": "VARCHAR"},
        delimiter=delimiter,
        decimal=decimal,
        thousands=thousands,
        encoding=encoding.removesuffix("-sig"),
    )
    empty = "" if quoting == csv.QUOTE_ALL else None  # "" is an empty text, an empty field is NULL
    assert rows_of(path, given_schema) == [(n, d, f, t or empty) for n, d, f, t in rows]


def test_two_columns_of_one_name_are_told(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("ward,age,age\nA,3,4\n")
    with pytest.raises(InputError, match="column 'age_1': is not named") as told:
        open_table([tmp_path / "t.csv"], schema({"ward": "VARCHAR", "age": "BIGINT"}))
    assert "two columns 'age'" in str(told.value.hint)
    (tmp_path / "t.csv").write_text("ward,age,age_b,zone_1\nA,3,4,5\n")
    with pytest.raises(InputError, match="column 'age_b': is not named") as told:
        open_table([tmp_path / "t.csv"], schema({"ward": "VARCHAR", "age": "BIGINT"}))
    assert "two columns" not in str(told.value.hint)


@pytest.fixture
def idle(monkeypatch: pytest.MonkeyPatch) -> list[Engine]:
    """Engines that wait for a table: none so far."""
    found: list[Engine] = []
    monkeypatch.setattr(tables, "_idle", {os.getpid(): found})
    return found


def test_the_next_table_takes_the_engine_and_nothing_of_the_last(idle: list[Engine]) -> None:
    given = schema(AB)
    with no_table("t", given) as first:
        engine = first.engine
        with no_table("other", given) as other:
            assert other.engine is not engine
        first.connection.execute("SET arrow_large_buffer_size = true")
        first.connection.execute(f"CREATE TABLE {first.relation} AS SELECT '{CANARY}' AS b")
        first.connection.register("rows", first.connection.sql("SELECT 1 AS a").to_arrow_table())
        first.take("taken", first.parquet(f"FROM {first.relation}"))
    first.__exit__(None, None, None)  # a second time
    assert idle == [other.engine, engine]
    with no_table("t", given) as second:
        assert second.engine is engine
        found = second.connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()
        assert (
            found
            == second.connection.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall()
            == []
        )
        kept = second.connection.execute("SELECT current_setting('arrow_large_buffer_size')").fetchall()
        assert kept == [(False,)]
        assert all(os.fstat(each).st_size == 0 for each in (engine.taken, engine.written))
        assert idle == [other.engine]


def test_a_limit_ends_with_its_use(idle: list[Engine]) -> None:
    def limit(engine: Engine) -> object:
        return engine.connection.execute("SELECT current_setting('memory_limit')").fetchall()

    engine = Engine.idle()
    usual = limit(engine)
    engine.end()
    limited = Engine.idle(1 << 30)
    limited.table("t", schema(AB)).__exit__(None, None, None)
    assert limit(limited) != usual
    limited.end()
    again = Engine.idle()
    assert again is limited is engine
    assert (again.memory, limit(again)) == (None, usual)
    again.close()
    assert idle == []


def test_only_a_file_that_is_too_large_is_refused_as_too_large(
    idle: list[Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    with no_table("t", schema(AB)) as table:
        for rows in (100, 1_000_000):  # at its end, and while it is written
            with pytest.raises(InputError, match="does not fit in memory"):
                table.write({}, f"SELECT range AS a FROM range({rows})", 100)
            table.write({}, "SELECT 1 AS a", 10_000).close()

        def interrupted(*_: object) -> None:
            raise duckdb.InterruptException("by someone else")

        monkeypatch.setattr(table, "_copy", interrupted)
        with pytest.raises(duckdb.InterruptException):
            table.write({}, "SELECT 1 AS a", 10_000)


def test_an_engine_whose_write_was_stopped_is_not_used_again(
    idle: list[Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By Ctrl-C in the shell, when the file may not grow any more and nobody has taken it."""

    def stopped(self: tables.Table, *_: object) -> None:
        os.write(self.engine.written, bytes(200))
        assert met(lambda: fcntl.fcntl(self.engine.written, fcntl.F_GET_SEALS))
        raise KeyboardInterrupt

    with no_table("t", schema(AB)) as table, monkeypatch.context() as patch:
        patch.setattr(tables.Table, "_copy", stopped)
        with pytest.raises(KeyboardInterrupt):
            table.write({}, "SELECT 1 AS a", 100)
    assert idle == []
    with no_table("t", schema(AB)) as table:
        table.write({}, "SELECT 1 AS a", 10_000).close()


def test_an_engine_that_is_still_in_use_is_closed(idle: list[Engine]) -> None:
    given = schema(AB)
    with no_table("t", given) as failed:
        failed.connection.close()  # as after an error within DuckDB
    used = Engine.idle()
    used.table("t", given)
    used.end()
    assert idle == []
    for each in (failed.engine, used):
        assert not each.close.alive


def test_an_engine_may_be_collected_while_another_begins() -> None:
    with tables._dividing:
        assert tables._dividing.acquire(timeout=0)
        tables._dividing.release()
