"""Line breaks of every kind in headers and fields: what is read of a CSV is what Python's reader finds in it."""

from __future__ import annotations

import csv
import gzip
import io
import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from decimal import Decimal
from pathlib import Path

import pytest

from cleave.propose.propose import propose
from cleave.table.counting import count_records
from cleave.table.csv_reading import CsvReading
from cleave.table.schema import Column, CsvDialect, Kind, Schema
from cleave.table.stream import open_stream, open_table
from cleave_shared.errors import InputError
from tests.campaign import FACTOR

BREAKS = ("\n", "\r\n", "\r")
ENCODINGS = ("utf-8", "utf-8-sig", "utf-16", "cp1252")


class Written:
    """A file made by chance: its bytes, the schema that reads it, and its records."""

    def __init__(self, seed: int) -> None:
        chance = random.Random(seed)
        width, end, self.inner = chance.randint(1, 3), chance.choice(BREAKS), chance.choice(BREAKS)
        quote, delimiter = chance.choice("\"'"), chance.choice(",;\t|x")
        self.dialect = CsvDialect(
            delimiter,
            quote,
            chance.choice(ENCODINGS),
            header=chance.random() < 0.9,
            skip=chance.choice((0, 0, 2)),
            skip_footer=chance.choice((0, 0, 1)),
        )

        def field(text: str) -> str:
            quoted = chance.random() < 0.4 or any(each in text for each in (*"\r\n", quote, delimiter))
            return quote + text.replace(quote, quote * 2) + quote if quoted else text

        def text(stem: str) -> str:
            return chance.choice((stem, stem, f"{stem}{self.inner}z", f"{self.inner}{stem}", f"{stem}{quote}"))

        names = [text(f"h{place}") for place in range(width)]
        rows = [[text(chance.choice("ab1")) for _ in range(width)] for _ in range(chance.choice((1, 2, 40)))]
        lines = [delimiter.join(map(field, row)) for row in ([names] if self.dialect.header else []) + rows]
        body = end.join(lines) + (end if self.dialect.skip_footer or chance.random() < 0.7 else "")
        whole = f"# a{end}" * self.dialect.skip + body + "# end" * self.dialect.skip_footer
        content = whole.encode(self.dialect.encoding)
        self.content = gzip.compress(content) if chance.random() < 0.3 else content
        read = list(csv.reader(io.StringIO(body, newline=""), delimiter=delimiter, quotechar=quote, strict=True))
        self.rows = read[1:] if self.dialect.header else read
        stated = [each.strip() for each in read[0]] if self.dialect.header else [f"column{n}" for n in range(width)]
        self.schema = Schema(tuple(Column(name, Kind.SEALED, "VARCHAR") for name in stated), self.dialect)


def read(path: Path, schema: Schema) -> list[list[str]]:
    with open_table([path], schema) as table:
        rows = [list(row) for row in table.connection.execute(f"FROM {table.relation}").fetchall()]
    with open_stream([path], schema) as stream:
        assert stream.survey().rows == len(rows)
    return rows


@pytest.mark.parametrize("start", range(0, 400 * FACTOR, 10))
@pytest.mark.sampled(40, 4)
def test_every_record_is_read(tmp_path: Path, start: int) -> None:
    for seed in range(start, start + 10):
        written = Written(seed)
        (tmp_path / "t.csv").write_bytes(written.content)
        assert read(tmp_path / "t.csv", written.schema) == written.rows, (seed, written.content)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("inner", BREAKS)
@pytest.mark.parametrize("end", BREAKS)
def test_a_header_of_several_lines_is_proposed_and_read(tmp_path: Path, end: str, inner: str) -> None:
    """A header with a line break read as no rows, or as wrong ones."""
    (tmp_path / "t.csv").write_bytes(f'"a{inner}b",c{end}1,2{end}3,4{end}'.encode())
    schema = propose([tmp_path / "t.csv"])
    assert [each.name for each in schema.columns] == [f"a{inner}b", "c"]
    with open_table([tmp_path / "t.csv"], schema) as table:
        assert table.connection.execute(f"FROM {table.relation}").fetchall() == [(1, 2), (3, 4)]


def test_the_line_of_a_mistake_counts_those_of_the_header(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b'"a\r\nb",c\r\n1,2\r\n1,x\r\n')
    columns = (Column("a\r\nb", Kind.PLAIN, "BIGINT"), Column("c", Kind.PLAIN, "BIGINT"))
    with pytest.raises(InputError, match="line 4, column 'c'"):
        open_table([tmp_path / "t.csv"], Schema(columns, CsvDialect()))


@pytest.mark.parametrize("start", range(0, 200 * FACTOR, 10))
@pytest.mark.sampled(20, 4)
def test_the_line_of_one_mistake_among_fields_of_several_lines(tmp_path: Path, start: int) -> None:
    """Blanks between a quote and the delimiter, which Python's strict reader refuses, were taken for the mistake."""
    for seed in range(start, start + 10):
        chance = random.Random(seed)
        end, encoding, skip = chance.choice(BREAKS), chance.choice(ENCODINGS), chance.choice((0, 2))
        header, stated = chance.choice((("n,b,c", "c"), (f'n,b,"c{end}"', "c"), (f'{end}n,b,"c{end}d"', f"c{end}d")))
        fields = ["1", "", '"x\ny"', '"x\r\ny"', '"\r"', '"a ""q"" b"', '"z" ', " k", f'"{end}{end}"']
        lines = [header, *(f"7,{chance.choice(fields)},{chance.choice(fields)}" for _ in range(chance.randint(1, 50)))]
        mistake = chance.choice(list(MISTAKES))
        number = len(lines) - 1 if mistake == UNCLOSED else chance.randrange(1, len(lines))
        lines[number] = mistake + chance.choice(("", end, end * 2))
        before = f"#{end}" * skip + "".join(each + end for each in lines[:number])
        content = (before + end.join(lines[number:])).encode(encoding)
        (tmp_path / "t.csv").write_bytes(gzip.compress(content) if chance.random() < 0.3 else content)
        line = len(before.replace("\r\n", "\n").replace("\r", "\n").split("\n"))
        texts = [Column(name, Kind.PLAIN, "VARCHAR") for name in ("b", stated)]
        columns = (Column("n", Kind.PLAIN, "BIGINT", upper=Decimal(100)), *texts)
        with pytest.raises(InputError) as caught:
            read(tmp_path / "t.csv", Schema(columns, CsvDialect(encoding=encoding, skip=skip)))
        assert f"t.csv, line {line}{MISTAKES[mistake]}" in caught.value.message, (seed, caught.value.message, content)


MISTAKES = {
    "4711,5,6": ", column 'n': the value is above upper",
    "x4711,5,6": ", column 'n': is not a number",
    "4711,5": ": has 2 fields, the first record has 3",
    "4711,5,6,,9": ": has 5 fields, the first record has 3",
    '4711,"5"x,6': ": a quoted field that begins here",
    (UNCLOSED := '4711,"5,6'): ": a quoted field that begins here",
}


@contextmanager
def nothing_read(reading: CsvReading) -> Iterator[str]:
    """A reader of CSV that finds no row."""
    yield f"(SELECT {', '.join(f'NULL::VARCHAR AS c{place}' for place in range(len(reading.casts)))} LIMIT 0)"


COLUMNS = (Column("a", Kind.PLAIN, "VARCHAR"), Column("b", Kind.PLAIN, "VARCHAR"))


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("content", "dialect", "line"),
    [
        ("a,b\n1,2\n", CsvDialect(), 2),
        ("a,b\r\r1,2\r", CsvDialect(), 3),
        ("\ufeffa,b\r\n1,2", CsvDialect(), 2),
        ("1,2\r\n", CsvDialect(header=False), 1),
        ("x\nx\na;b\n\n1;2\nend", CsvDialect(";", skip=2, skip_footer=1), 5),
        ("a,b\n1,2\n", CsvDialect(encoding="utf-16"), 2),
        ("a,b\n  \n,\n", CsvDialect(), 3),
    ],
)
def test_rows_of_which_none_is_read_are_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str, dialect: CsvDialect, line: int, *, packed: bool
) -> None:
    path = tmp_path / ("t.csv.gz" if packed else "t.csv")
    path.write_bytes((gzip.compress if packed else bytes)(content.encode(dialect.encoding)))
    names = ("a", "b") if dialect.header else ("column0", "column1")
    schema = Schema(tuple(Column(name, Kind.PLAIN, "VARCHAR") for name in names), dialect)
    monkeypatch.setattr(CsvReading, "rows", nothing_read)
    with pytest.raises(InputError, match=rf"{path.name}, line {line}: this line and all later ones are read as no row"):
        open_table([path], schema)
    with (
        open_stream([path], schema) as stream,
        pytest.raises(InputError, match=f"line {line}: this line and"),
    ):
        stream.survey()


@pytest.mark.parametrize("content", ["a,b", "a,b\n", "a,b\r\n\r\n", "\ufeffa,b\r\r", '"a","b"\n \n\t\n'])
def test_a_header_alone_is_a_table_without_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str) -> None:
    (tmp_path / "t.csv").write_text(content, newline="")
    monkeypatch.setattr(CsvReading, "rows", nothing_read)
    assert read(tmp_path / "t.csv", Schema(COLUMNS, CsvDialect())) == []


ROWS = CsvReading.rows


@contextmanager
def one_row_less(reading: CsvReading) -> Iterator[str]:
    """A reader of CSV that loses the first row."""
    with ROWS(reading) as sql:
        yield f"(SELECT * FROM {sql} OFFSET 1)"


@contextmanager
def one_row_more(reading: CsvReading) -> Iterator[str]:
    """A reader of CSV that invents a row."""
    with ROWS(reading) as sql:
        yield f"(FROM {sql} UNION ALL SELECT {', '.join(['NULL'] * len(reading.casts))})"


@pytest.mark.sampled(7)
@pytest.mark.parametrize("reader", [one_row_less, one_row_more])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
@pytest.mark.parametrize(
    "content",
    [
        "a,b\n1,2\n3,4\n5,6",
        'a,"b\r\nc"\r\n1,2\r\n3,"4\r\n\r\n"\r\n\r\n5,6\r\n',
        'a,b\r1,2\r3,5" pipe\r5,""\r',
        "a,b\n1,2\n3,\n" + "5,6\n" * 9_000,
        pytest.param("a,b\n1,2\n3,\n" + "5,6\n" * 300_000, marks=pytest.mark.slow),  # of several blocks
    ],
)
def test_a_reader_that_loses_or_invents_a_row_is_found(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    reader: Callable[[CsvReading], AbstractContextManager[str]],
    content: str,
    encoding: str,
    *,
    packed: bool,
) -> None:
    good, path = tmp_path / "s.csv", tmp_path / ("t.csv.gz" if packed else "t.csv")
    path.write_bytes((gzip.compress if packed else bytes)(content.encode(encoding)))
    first = next(csv.reader(io.StringIO(content, newline="")))
    schema = Schema(tuple(Column(name, Kind.PLAIN, "VARCHAR") for name in first), CsvDialect(encoding=encoding))
    good.write_bytes(content.encode(encoding))
    rows = content.count("5,") + 2  # as rows are written above
    assert len(read(path, schema)) == rows
    monkeypatch.setattr(CsvReading, "rows", lambda self: (reader if self.source.path == path else ROWS)(self))
    wrong = rows + 1 if reader is one_row_more else rows - 1
    said = f"{path.name}: is read as {wrong:,} rows, but a second count finds {rows:,}"
    with pytest.raises(InputError, match=said):
        open_table([good, path], schema)
    with open_stream([good, path], schema) as stream, pytest.raises(InputError, match=said):
        stream.survey()


@pytest.mark.parametrize("start", range(0, 400 * FACTOR, 10))
@pytest.mark.sampled(40, 4)
def test_records_are_counted_as_python_reads_them(start: int) -> None:
    """Whatever the cuts of its blocks. A text with a quote within a field is not counted."""
    for seed in range(start, start + 10):
        chance = random.Random(seed)
        end, quote, width = chance.choice(BREAKS), chance.choice("\"'"), chance.randint(1, 3)
        fields = ["a", "", "\u00e9", *(quote + each + quote for each in ("", f"{end}", f"\r{quote * 2}\n\n", "x,"))]
        lines = [",".join(chance.choices(fields, k=width)) for _ in range(chance.choice((1, 9, 60)))]
        text = "".join(line + end * chance.choice((1, 1, 1, 2, 3)) for line in lines)
        text = text if chance.random() < 0.6 else text.rstrip("\r\n")
        content, size = text.encode(), chance.choice((1, 2, 7, 10_000))
        blocks = [content[at : at + size] for at in range(0, len(content), size)]
        records = list(csv.reader(io.StringIO(text, newline=""), quotechar=quote, strict=True))
        for blank, expected in ((True, len(records)), (False, sum(map(bool, records)))):
            assert count_records(blocks, b",", quote.encode(), blank=blank) == expected, (seed, text)
        strange = [*blocks, f"{end}x,5{quote} pipe{end}".encode()]
        assert count_records(strange, b",", quote.encode(), blank=True) is None, (seed, text)


@pytest.mark.parametrize(
    ("blocks", "quote", "count"),
    [
        ((b'a,b\n"1,2\n', b'3"\n'), b"", 3),  # no character quotes
        ((b"a,b\n5", b'" pipe,1\n'), b'"', None),  # a quote within a field begins a block
        ((b"a,b\n", b'"5\n6",1\n'), b'"', 2),
    ],
)
def test_quotes_are_counted_as_the_dialect_has_them(blocks: tuple[bytes, ...], quote: bytes, count: int | None) -> None:
    assert count_records(blocks, b",", quote, blank=True) == count
