"""What one table may be made of: gzip, Parquet, standard input, several files, a pattern, lines to skip."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from cleave.propose.propose import propose
from cleave.table.file_formats import FORMATS, format_of
from cleave.table.inputs import open_inputs, table_name
from cleave.table.schema import Column, CsvDialect, Kind, Schema, dump_schema, load_schema, schema_path
from cleave.table.stream import open_stream, open_table
from cleave.table.types import canonical
from cleave_shared.errors import InputError

CSV = "ward,age\nA,61\nB,\nC,33\n"
ROWS = [("A", 61), ("B", None), ("C", 33)]
CANARY = "Kanarienvogel-4711"


def schema(columns: dict[str, str], **dialect: Any) -> Schema:
    types = {name: canonical(type_) for name, type_ in columns.items()}
    parsed = [Column(name, Kind.PLAIN, type_) for name, type_ in types.items()]
    return Schema(tuple(parsed), CsvDialect(**dialect))


WARDS = schema({"ward": "VARCHAR", "age": "BIGINT"})


def rows(names: Any, given: Schema = WARDS) -> list[tuple[Any, ...]]:
    with open_table(names, given) as table:
        return table.connection.execute(f"SELECT * FROM {table.relation}").fetchall()


def parquet(path: Path, sql: str) -> Path:
    duckdb.connect().execute(f"COPY ({sql}) TO '{path}' (FORMAT parquet)")
    return path


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_a_gzipped_csv_is_read(encoding: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(CSV.replace("A", "Ä").encode(encoding)))
    given = schema({"ward": "VARCHAR", "age": "BIGINT"}, encoding=encoding)
    assert rows(path, given) == [("Ä", 61), *ROWS[1:]]
    assert propose(path).dialect.encoding == encoding
    assert schema_path(path) == tmp_path / "t.schema.toml"


@pytest.mark.parametrize("kept", [15, -9])
def test_a_gzip_file_cut_short_is_an_error(kept: int, tmp_path: Path) -> None:
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(b"ward,age\n" + b"".join(b"%d,%d\n" % (i, i * i) for i in range(50_000)))[:kept])
    for read in (lambda: rows(path), lambda: propose(path)):
        with pytest.raises(InputError, match=r"t\.csv\.gz: is damaged|t\.csv\.gz: cannot be read"):
            read()


def test_the_line_of_a_bad_field_in_a_gzipped_csv(tmp_path: Path) -> None:
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(f"ward,age\nA,61\nB,{CANARY}\n".encode()))
    with pytest.raises(InputError, match=r"t\.csv\.gz, line 3, column 'age'") as caught:
        rows(path)
    assert CANARY not in caught.value.message


NDJSON = b'{"ward": "A", "age": 61}\n'


@pytest.mark.parametrize(
    ("name", "content", "format_"),
    [
        ("t.csv", CSV.encode(), "CSV"),
        ("t.csv.gz", CSV.encode(), "CSV"),
        ("t.parquet", CSV.encode(), "CSV"),
        ("t.csv", b"PAR1", "Parquet"),
        ("t.json", b"PAR1", "JSON"),
        ("t.json", b"PK\x03\x04", "Excel"),
        ("t.xlsx", b"PAR1", "Excel"),
        ("t.xlsx.gz", CSV.encode(), "CSV"),
        ("T.NDJSON.gz", NDJSON, "JSON"),
        ("t.txt", NDJSON, "CSV"),
        ("t.xlsx", b"no archive", "Excel"),
        ("t.csv", b"PK\x03\x04", "Excel"),
    ],
)
def test_a_format_follows_from_first_bytes_and_name(name: str, content: bytes, format_: str, tmp_path: Path) -> None:
    path, is_packed = tmp_path / name, name.endswith(".gz")
    path.write_bytes(gzip.compress(content) if is_packed else content)
    found, head = format_of(path, str(path))
    assert (found.name, found.compression) == (format_, "gzip" if is_packed else "none")
    assert head == content


def test_no_ending_is_of_two_formats() -> None:
    endings = [ending for each in FORMATS for ending in each.endings]
    assert len(endings) == len({*endings})


@pytest.mark.parametrize("content", [b"PAR1", b"PK\x03\x04", gzip.compress(CSV.encode(), mtime=0)])
def test_only_text_may_be_packed(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(content))
    with pytest.raises(InputError, match="packed otherwise than by gzip"):
        open_inputs(path, CsvDialect())


def test_text_called_a_packed_workbook_is_read_as_text(tmp_path: Path) -> None:
    path = tmp_path / "t.xlsx.gz"
    path.write_bytes(gzip.compress(CSV.encode()))
    assert open_inputs(path, CsvDialect())[0].format.name == "CSV"
    path = path.rename(tmp_path / "t.xlsx")
    with pytest.raises(InputError, match="cannot be read as an Excel file"):
        open_inputs(path, CsvDialect())


def test_tab_separated_values_are_read(tmp_path: Path) -> None:
    path = tmp_path / "t.tsv"
    path.write_text(CSV.replace(",", "\t"))
    proposed = propose(path)
    assert proposed.dialect.delimiter == "\t"
    assert rows(path, schema({"ward": "VARCHAR", "age": "BIGINT"}, delimiter="\t")) == ROWS
    assert schema_path(path).name == "t.schema.toml"


PARQUET: dict[str, tuple[str, str, list[Any]]] = {
    "as it is": ("SELECT unnest([1, NULL, 3])::BIGINT AS x", "BIGINT", [1, None, 3]),
    "a wider type": ("SELECT unnest([1, 255])::UTINYINT AS x", "SMALLINT", [1, 255]),
    "doubles that are whole": ("SELECT unnest([1.0, -2.0])::DOUBLE AS x", "BIGINT", [1, -2]),
    "text that is a number": ("SELECT unnest(['1', '', '-3']) AS x", "BIGINT", [1, None, -3]),
    "a list as text": ("SELECT [1, 2] AS x", "VARCHAR", ["[1, 2]"]),
    "decimals": ("SELECT unnest([1.50, 2.25])::DECIMAL(10,2) AS x", "DECIMAL(18,2)", ["1.50", "2.25"]),
}


@pytest.mark.parametrize("case", PARQUET)
def test_parquet_is_read(case: str, tmp_path: Path) -> None:
    sql, type_, wanted = PARQUET[case]
    found = rows(parquet(tmp_path / "t.parquet", sql), schema({"x": type_}))
    assert [str(x) if type_.startswith("DEC") else x for (x,) in found] == wanted


@pytest.mark.parametrize(
    ("sql", "type_"),
    [
        ("SELECT unnest([1.0, 1.5])::DOUBLE AS x", "BIGINT"),
        ("SELECT unnest([1, 300]) AS x", "TINYINT"),
        ("SELECT unnest([1.25, 1.255])::DECIMAL(10,3) AS x", "DECIMAL(18,2)"),
        (f"SELECT unnest(['1', '{CANARY}']) AS x", "BIGINT"),
        ("SELECT unnest(['2024-01-01 00:00:00', '2024-01-01 10:00:00'])::TIMESTAMP AS x", "DATE"),
    ],
)
def test_parquet_that_would_change_is_refused_with_its_row(sql: str, type_: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"t\.parquet, row 2, column 'x'") as caught:
        rows(parquet(tmp_path / "t.parquet", sql), schema({"x": type_}))
    assert CANARY not in caught.value.message


def test_no_infinity_of_a_parquet_file_is_encrypted(tmp_path: Path) -> None:
    path = parquet(tmp_path / "t.parquet", "SELECT unnest([1.0, 'inf'::DOUBLE, 'nan'::DOUBLE]) AS x")
    encrypted = Schema((Column("x", Kind.ENCRYPTED, "DOUBLE"),), CsvDialect())
    with pytest.raises(InputError, match="row 2, column 'x'"):
        rows(path, encrypted)


def test_a_parquet_file_whose_footer_states_other_rows(tmp_path: Path) -> None:
    """DuckDB reads the row groups and does not look at the sum that the footer states."""
    path = tmp_path / "t.parquet"
    duckdb.execute(f"COPY (SELECT i AS a FROM range(5) numbers(i)) TO '{path}'")
    given = Schema((Column("a", Kind.LOCAL, "BIGINT"),), CsvDialect())
    with open_table([path], given) as table:
        assert table.rows == 5
    stated, other = b"\x16\x0a\x19\x1c", b"\x16\x0e\x19\x1c"  # Thrift: field 3, 5 or 7; field 4, a list
    content = path.read_bytes()
    assert content.count(stated) == 1
    path.write_bytes(content.replace(stated, other))
    with pytest.raises(InputError, match=r"t\.parquet: is read as 5 rows, but its footer states 7"):
        open_table([path], given)
    with (
        open_stream([path], given) as stream,
        pytest.raises(InputError, match="is read as 5 rows, but its footer states 7"),
    ):
        stream.survey()


def test_a_damaged_parquet_file(tmp_path: Path) -> None:
    path = parquet(tmp_path / "t.parquet", "SELECT 1 AS x")
    path.write_bytes(path.read_bytes()[:-20])
    for read in (lambda: rows(path, schema({"x": "BIGINT"})), lambda: propose(path)):
        with pytest.raises(InputError, match=r"t\.parquet: cannot be read as Parquet"):
            read()


def test_a_parquet_file_says_its_types(tmp_path: Path) -> None:
    path = parquet(
        tmp_path / "t.parquet",
        "SELECT i::DOUBLE AS a, i::UINTEGER AS b, [i] AS c, i::VARCHAR AS d, DATE '2024-01-01' AS e FROM range(9) t(i)",
    )
    proposed = propose(path)
    assert [one.type for one in proposed.columns] == ["DOUBLE", "BIGINT", "VARCHAR", "BIGINT", "DATE"]
    assert len(rows(path, proposed)) == 9


def test_standard_input_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(CSV.encode())))
    with open_table("-", WARDS) as table:
        assert table.name == "stdin"
        assert table.rows == 3
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"ward,age\nA,x\n")))
    with pytest.raises(InputError, match="standard input, line 2, column 'age'"):
        rows("-")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"")))
    with pytest.raises(InputError, match="standard input: is empty"):
        rows("-")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(CSV.encode())))
    assert [one.name for one in propose("-").columns] == ["ward", "age"]  # read once, though it is needed often


def test_several_files_are_one_table(tmp_path: Path) -> None:
    (tmp_path / "visits-2.csv").write_text("age,ward\n5,D\n")  # its columns in another order
    (tmp_path / "visits-1.csv").write_text(CSV)
    (tmp_path / "visits-3.csv.gz").write_bytes(gzip.compress(b"ward,age\nE,6\n"))
    parquet(tmp_path / "visits-4.parquet", "SELECT 'F' AS ward, 7 AS age")
    wanted = [*ROWS, ("D", 5), ("E", 6), ("F", 7)]
    assert rows(str(tmp_path / "visits-*")) == wanted
    files = [tmp_path / f"visits-{name}" for name in ("1.csv", "2.csv", "3.csv.gz", "4.parquet")]
    assert rows(files) == wanted
    assert table_name(files) == table_name(str(tmp_path / "visits-*")) == "visits"
    assert schema_path(files) == tmp_path / "visits.schema.toml"
    proposed = propose(files)
    assert proposed.table == "visits"
    assert rows(files, proposed) == wanted


def test_the_file_and_line_of_what_is_wrong_among_several(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(CSV)
    (tmp_path / "b.csv").write_text("ward,age\nD,4\nE,-5\n")
    bounded = Schema((WARDS.columns[0], Column("age", Kind.PLAIN, "BIGINT", lower=0)), CsvDialect())  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"b\.csv, line 3, column 'age': the value is below"):
        rows([tmp_path / "a.csv", tmp_path / "b.csv"], bounded)
    (tmp_path / "b.csv").write_text("ward,height\nD,4\n")
    with pytest.raises(InputError, match=r"b\.csv, line 1, column 'height'"):
        rows([tmp_path / "a.csv", tmp_path / "b.csv"])


def test_a_pattern_that_matches_nothing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="matches no file"):
        open_inputs(str(tmp_path / "*.csv"), CsvDialect())


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_lines_to_skip_are_skipped(end: str, encoding: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(f'Export of "wards\n\nmade 2024\n{CSV}'.replace("\n", end).encode(encoding))
    given = schema({"ward": "VARCHAR", "age": "BIGINT"}, encoding=encoding, skip=3)
    if end == "\n":
        assert rows(path, given) == ROWS
    proposed = propose(path, reading=CsvDialect(skip=3))
    assert proposed.dialect.skip == 3
    assert [one.name for one in proposed.columns] == ["ward", "age"]
    assert rows(path, proposed) == ROWS


def test_lines_skipped_count_in_messages(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("preamble\n\nward,age\nA,1\nB,x\n")
    with pytest.raises(InputError, match="line 5, column 'age'"):
        rows(path, schema({"ward": "VARCHAR", "age": "BIGINT"}, skip=2))
    path.write_text("preamble\n\nward,age\nA,1\nB,2,3\n")
    with pytest.raises(InputError, match="line 5: has 3 fields"):
        rows(path, schema({"ward": "VARCHAR", "age": "BIGINT"}, skip=2))


def test_the_schema_keeps_name_and_skipped_lines(tmp_path: Path) -> None:
    given = Schema(WARDS.columns, CsvDialect(skip=2), "beds")
    path = tmp_path / "t.schema.toml"
    path.write_text(dump_schema(given))
    assert load_schema(path) == given
    for mistake in ("table = 1", 'table = ""', "[csv]\nskip = -1", "[csv]\nskip = true"):
        path.write_text(f'{mistake}\n[columns.a]\nkind = "plain"\ntype = "BIGINT"\n')
        with pytest.raises(InputError, match=r"table|skip"):
            load_schema(path)


class Told:
    def __init__(self) -> None:
        self.stages: list[str] = []
        self.done = 0

    def stage(self, name: str, total: int) -> Callable[[int], None]:
        assert total == 100
        self.stages.append(name)
        return self._advance

    def _advance(self, amount: int) -> None:
        self.done += amount


def test_how_far_reading_is_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cleave.table.progress._SECONDS", 0.01)
    path = tmp_path / "t.csv"
    path.write_text("ward,age\n" + "".join(f"w{i},{i}\n" for i in range(300_000)))
    told = Told()
    with open_table(path, WARDS, told):
        assert told.stages == [f"read {path}"]
        assert told.done == 100
