"""The schema file (every mistake named, round trip, hash) and what is proposed for real-life CSV files."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cleave.propose.propose import propose
from cleave.table.schema import (
    Column,
    CsvDialect,
    Kind,
    Schema,
    dump_schema,
    load_schema,
    schema_path,
    write_schema,
)
from cleave.table.stream import open_table
from cleave.table.types import canonical, decimals_of
from cleave_shared.errors import InputError
from tests.campaign import FACTOR
from tests.samples import make_patients

SAMPLES = Path(__file__).parents[1] / "samples"
AGE = Column("Age", Kind.ENCRYPTED, "BIGINT")
BILL = Column("bill", Kind.ENCRYPTED, "DECIMAL(18,2)")
GOOD = '[columns.age]\nkind = "encrypted"\ntype = "BIGINT"\n'

MISTAKES = {
    "not TOML": ("kind = ", "is not TOML"),
    "nothing in it": ("", "names no column"),
    "unknown table": (GOOD + "[rows]\n", "does not know the key 'rows'"),
    "unknown key of a column": (GOOD + 'kidn = "plain"\n', "[columns.age]: does not know the key 'kidn'"),
    "unknown key of the dialect": (GOOD + '[csv]\nsep = ";"\n', "[csv]: does not know the key 'sep'"),
    "no kind": ('[columns.age]\ntype = "BIGINT"\n', "[columns.age] kind: is missing"),
    "no type": ('[columns.age]\nkind = "plain"\n', "[columns.age] type: is missing"),
    "kind is no text": ('[columns.age]\nkind = 1\ntype = "BIGINT"\n', "[columns.age] kind: must be text"),
    "unknown kind": ('[columns.age]\nkind = "secret"\ntype = "BIGINT"\n', "[columns.age] kind: must be one of plain"),
    "unknown type": ('[columns.age]\nkind = "plain"\ntype = "BLOB"\n', "[columns.age] type: must be one of TINYINT"),
    "decimals beyond digits": ('[columns.a]\nkind = "plain"\ntype = "DECIMAL(4,5)"\n', "[columns.a] type: must be"),
    "text encrypted": ('[columns.a]\nkind = "encrypted"\ntype = "VARCHAR"\n', "[columns.a] kind: VARCHAR cannot"),
    "plain interval": ('[columns.a]\nkind = "plain"\ntype = "INTERVAL"\n', "[columns.a] kind: INTERVAL cannot"),
    "decimals of a float": (
        '[columns.a]\nkind = "plain"\ntype = "DOUBLE"\ndecimals = 2\n',
        "[columns.a] decimals: does not fit DOUBLE",
    ),
    "other decimals": ('[columns.a]\nkind = "plain"\ntype = "DECIMAL(9,2)"\ndecimals = 3\n', "decimals: does not fit"),
    "bounds of a text": ('[columns.a]\nkind = "plain"\ntype = "VARCHAR"\nlower = 1\n', "[columns.a] lower: VARCHAR"),
    "bound is no number": (GOOD + 'upper = "9"\n', "[columns.age] upper: must be a finite number"),
    "bound is infinite": (GOOD + "upper = inf\n", "[columns.age] upper: must be a finite number"),
    "nullable is no boolean": (GOOD + 'nullable = "no"\n', "[columns.age] nullable: must be true or false"),
    "unsure is no boolean": (GOOD + "unsure = 1\n", "[columns.age] unsure: must be true or false"),
    "bounds crossed": (GOOD + "lower = 2\nupper = 1\n", "[columns.age] lower: is above upper"),
    "names differ in case only": (GOOD + GOOD.replace("age", "Age"), "[columns.Age]: differs"),
    "column is no table": ("columns = {a = 1}\n", "[columns.a]: must be a table"),
    "delimiter": (GOOD + '[csv]\ndelimiter = ";;"\n', "[csv] delimiter"),
    "quote": (GOOD + '[csv]\nquote = ","\n', "[csv] quote"),
    "header": (GOOD + '[csv]\nheader = "yes"\n', "[csv] header"),
    "encoding": (GOOD + '[csv]\nencoding = "ebcdic-7"\n', "[csv] encoding"),
    "decimal": (GOOD + '[csv]\ndecimal = "x"\n', "[csv] decimal"),
    "thousands": (GOOD + '[csv]\nthousands = "."\n', "[csv] thousands"),
    "null_tokens": (GOOD + '[csv]\nnull_tokens = "NA"\n', "[csv] null_tokens"),
    "date_format": (GOOD + '[csv]\ndate_format = "%d.%m"\n', "[csv] date_format"),
    "date_format with a time": (GOOD + '[csv]\ndate_format = "%d.%m.%Y %H"\n', "[csv] date_format"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_every_mistake_is_named(case: str, tmp_path: Path) -> None:
    text, problem = MISTAKES[case]
    path = tmp_path / "s.toml"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        load_schema(path)
    assert caught.value.message.startswith(f"{path}: ")
    assert caught.value.message.count(problem.split("]")[0]) == 1
    assert problem in caught.value.message
    assert caught.value.hint


def test_a_missing_or_unreadable_schema(tmp_path: Path) -> None:
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    for name, problem in (("none.toml", "no such schema"), (".", "cannot be read"), ("binary.toml", "not UTF-8")):
        with pytest.raises(InputError, match=problem):
            load_schema(tmp_path / name)


def test_types_have_synonyms(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text(
        '[columns.a]\nkind = "plain"\ntype = "numeric(10, 3)"\n[columns.b]\nkind = "plain"\ntype = "text"\n'
    )
    assert [(one.type, one.decimals) for one in load_schema(path).columns] == [("DECIMAL(10,3)", 3), ("VARCHAR", None)]


TYPES = ["BIGINT", "SMALLINT", "DOUBLE", "FLOAT", "DECIMAL(18,2)", "BOOLEAN", "VARCHAR", "DATE", "TIMESTAMP"]


@st.composite
def columns(draw: st.DrawFn) -> Column:
    type_ = draw(st.sampled_from(TYPES))
    kinds = [Kind.PLAIN, Kind.SEALED, Kind.LOCAL] + ([Kind.ENCRYPTED] if TYPES.index(type_) < 6 else [])
    lower = draw(st.none() | st.decimals(allow_nan=False, allow_infinity=False)) if TYPES.index(type_) < 5 else None
    text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
    name = draw(text.filter(bool))
    return Column(
        name,
        draw(st.sampled_from(kinds)),
        type_,
        lower,
        reason=draw(text),
        nullable=draw(st.booleans()),
        unsure=draw(st.booleans()),
    )


@settings(max_examples=25 * FACTOR, deadline=None)
@given(st.lists(columns(), min_size=1, max_size=5, unique_by=lambda column: column.name.lower()), st.data())
def test_a_schema_that_was_written_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, parts: list[Column], data: st.DataObject
) -> None:
    tokens = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=4), max_size=3).map(tuple)
    dialect = CsvDialect(
        delimiter=data.draw(st.sampled_from(",;\t|")),
        encoding=data.draw(st.sampled_from(["utf-8", "cp1252"])),
        decimal=",",
        thousands=data.draw(st.sampled_from(["", ".", "\u00a0"])),
        null_tokens=data.draw(tokens),
        text_null_tokens=data.draw(tokens),
        date_format=data.draw(st.sampled_from([None, "%d.%m.%Y"])),
    )
    path = tmp_path_factory.mktemp("schema") / "s.toml"
    schema = Schema(tuple(parts), dialect)
    path.write_bytes(dump_schema(schema).encode())
    loaded = load_schema(path)
    assert loaded == schema
    assert loaded.hash() == schema.hash()


def test_hash_depends_on_what_services_compute_with() -> None:
    schema = Schema((AGE, BILL), CsvDialect())
    assert len(schema.hash()) == 32
    same = [
        Schema((BILL, AGE), CsvDialect()),
        Schema((replace(AGE, name="age"), BILL), CsvDialect()),
        Schema((replace(AGE, reason="x", lower=Decimal(1)), BILL), CsvDialect(delimiter=";")),
    ]
    others = [
        Schema((AGE,), CsvDialect()),
        Schema((replace(AGE, name="edad"), BILL), CsvDialect()),
        Schema((replace(AGE, kind=Kind.PLAIN), BILL), CsvDialect()),
        Schema((replace(AGE, type="INTEGER"), BILL), CsvDialect()),
        Schema((AGE, replace(BILL, type="DECIMAL(18,3)")), CsvDialect()),
    ]
    assert {one.hash() for one in same} == {schema.hash()}
    assert len({one.hash() for one in [schema, *others]}) == 1 + len(others)


def test_columns_are_found_whatever_the_case() -> None:
    schema = Schema((AGE, BILL), CsvDialect())
    assert schema.column("aGE") is AGE
    assert schema.only(["bill"]).column("BILL") is BILL
    with pytest.raises(InputError) as caught:
        schema.column("ward")
    assert caught.value.hint == "the schema names Age, bill"


@pytest.mark.parametrize(
    ("declared", "found", "others"),
    [
        ("\N{KELVIN SIGN}", ["k", "K"], []),
        ("\N{LATIN CAPITAL LETTER I WITH DOT ABOVE}", ["i\N{COMBINING DOT ABOVE}"], ["i", "I"]),
        ("\N{LATIN SMALL LETTER SHARP S}", ["\N{LATIN CAPITAL LETTER SHARP S}"], ["ss", "SS"]),
        ("\N{GREEK SMALL LETTER FINAL SIGMA}", [], ["\N{GREEK CAPITAL LETTER SIGMA}"]),
    ],
)
def test_letters_beyond_ascii_are_lowered_and_not_folded(declared: str, found: list[str], others: list[str]) -> None:
    column = Column(declared, Kind.PLAIN, "BIGINT")
    schema = Schema((column, AGE), CsvDialect())
    assert all(schema.find(name) is column for name in [declared, *found])
    assert not any(map(schema.find, others))


def test_the_first_of_equal_names_is_found() -> None:
    assert Schema((AGE, replace(AGE, name="age")), CsvDialect()).column("AGE") is AGE


def test_a_schema_is_not_overwritten_unless_told(tmp_path: Path) -> None:
    path = schema_path(tmp_path / "patients.csv")
    assert path == tmp_path / "patients.schema.toml"
    write_schema(Schema((AGE,), CsvDialect()), path)
    with pytest.raises(InputError, match="already exists"):
        write_schema(Schema((BILL,), CsvDialect()), path)
    assert load_schema(path).columns == (AGE,)
    write_schema(Schema((BILL,), CsvDialect()), path, overwrite=True)
    assert load_schema(path).columns == (BILL,)
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


# content, differences of the dialect from the default, types, rows with NULLs as None
PROPOSES: dict[str, tuple[str | bytes, dict[str, Any], list[str], int]] = {
    "plain": ("n,d,f,t\n1,1.50,0.12345678,x\n2,2.25,1e-3,y\n", {}, ["BIGINT", "DECIMAL(18,2)", "DOUBLE", "VARCHAR"], 2),
    "semicolon, decimal comma": (
        "n;d\n1;1,50\n2;2,25\n",
        {"delimiter": ";", "decimal": ","},
        ["BIGINT", "DECIMAL(18,2)"],
        2,
    ),
    "tab": ("n\tt\n1\tx\n", {"delimiter": "\t"}, ["BIGINT", "VARCHAR"], 1),
    "bar": ("n|t\n1|x\n", {"delimiter": "|"}, ["BIGINT", "VARCHAR"], 1),
    "apostrophes": ("n;t\n1;'x;y'\n2;'z'\n", {"delimiter": ";", "quote": "'"}, ["BIGINT", "VARCHAR"], 2),
    "newlines in fields": ('n,t\n1,"x\n\ny,z"\n', {}, ["BIGINT", "VARCHAR"], 1),
    "one column": ("n\n1\n2\n", {}, ["BIGINT"], 2),
    "UTF-8 with mark": (b"\xef\xbb\xbfn,t\n1,x\n", {}, ["BIGINT", "VARCHAR"], 1),
    "UTF-16": ("n,t\n1,é\n".encode("utf-16"), {"encoding": "utf-16"}, ["BIGINT", "VARCHAR"], 1),
    "Latin-1": ("n,t\n1,é\n".encode("latin-1"), {"encoding": "latin-1"}, ["BIGINT", "VARCHAR"], 1),
    "Windows-1252": ("n,t\n1,€\n".encode("cp1252"), {"encoding": "cp1252"}, ["BIGINT", "VARCHAR"], 1),
    "point and comma": ('d,n\n"1,234.50","1,000"\n12.00,7\n', {"thousands": ","}, ["DECIMAL(18,2)", "BIGINT"], 2),
    "comma and point": (
        "d;n\n1.234,50;1.000\n12,00;7\n",
        {"delimiter": ";", "decimal": ",", "thousands": "."},
        ["DECIMAL(18,2)", "BIGINT"],
        2,
    ),
    "blanks between thousands": (
        "d;n\n1 234,50;1\n",
        {"delimiter": ";", "decimal": ",", "thousands": " "},
        ["DECIMAL(18,2)", "BIGINT"],
        1,
    ),
    "Swiss": ("d;n\n1'234.50;1\n", {"delimiter": ";", "thousands": "'"}, ["DECIMAL(18,2)", "BIGINT"], 1),
    "thousands that look like decimals, comma-delimited": ('n\n"1,234"\n"5,678"\n', {"thousands": ","}, ["BIGINT"], 2),
    "NULL tokens": (
        "n,f,t\n1,nan,NA\n-,2.5,x\nNULL,3.5,-\n",
        {"null_tokens": ("-", "nan", "null")},
        ["BIGINT", "DECIMAL(18,1)", "VARCHAR"],
        3,
    ),
    "no header": ("1,x\n2,y\n", {"header": False}, ["BIGINT", "VARCHAR"], 2),
    "years as headers": ("ward,2019,2020\nA,1,2\n", {}, ["VARCHAR", "BIGINT", "BIGINT"], 1),
    "repeated and empty headers": ("a,,a\n1,2,3\n", {}, ["BIGINT"] * 3, 1),
    "leading zeros and plus signs": ("a,b\n007,+49\n123,+1\n", {}, ["VARCHAR", "VARCHAR"], 2),
    "negative and zero": ("a,b\n0,-0.5\n-12,0.0\n", {}, ["BIGINT", "DECIMAL(18,1)"], 2),
    "beyond 64 bits": (f"a,b\n{2**63},{2**63 - 1}\n", {}, ["VARCHAR", "BIGINT"], 1),
    "many digits": ("a,b\n1234567890123.123456,1.1234567\n", {}, ["DOUBLE", "DOUBLE"], 1),
    "infinity": ("a,b\n1.5,1\ninf,2\n", {}, ["VARCHAR", "BIGINT"], 2),
    "booleans": ("a,b,c,d\ntrue,Yes,y,1\nFALSE,no,n,0\n", {}, ["BOOLEAN", "BOOLEAN", "BOOLEAN", "BIGINT"], 2),
    "no booleans": ("a,b\ny,F\ny,F\n", {}, ["VARCHAR", "VARCHAR"], 2),
    "dates": ("a,b\n2024-02-29,2024-02-29 10:00:00\n", {}, ["DATE", "TIMESTAMP"], 1),
    "days that are none": ("a,b\n2024-02-30,1\n", {}, ["VARCHAR", "BIGINT"], 1),
    "day first": ("a,b\n29.02.2024,1\n", {}, ["DATE", "BIGINT"], 1),
    "month first": ("a,b\n02/29/2024,02/03/2024\n", {}, ["DATE", "DATE"], 1),
    "day or month first": ("a,b\n02/03/2024,1\n", {}, ["VARCHAR", "BIGINT"], 1),
    "no values": ("a,b\n,1\n,2\n", {}, ["VARCHAR", "BIGINT"], 2),
    "CR LF": ("a,b\r\n1,x\r\n", {}, ["BIGINT", "VARCHAR"], 1),
    "ends in a delimiter": ("a,b,\n1,x,\n", {}, ["BIGINT", "VARCHAR", "VARCHAR"], 1),
    "one odd value late": ("a\n" + "1\n" * 5000 + "x\n", {}, ["VARCHAR"], 5001),
    "thousands late": ("a,b\n" + "1,2\n" * 5000 + '"1,000",2\n', {"thousands": ","}, ["BIGINT", "BIGINT"], 5001),
    "decimals late": ("a,b\n" + "1.5,2\n" * 5000 + "1.255,2\n", {}, ["DECIMAL(18,3)", "BIGINT"], 5001),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", PROPOSES)
@pytest.mark.filterwarnings("ignore:.* is called:cleave.CleaveWarning")
def test_kinds_and_types_are_proposed(case: str, tmp_path: Path) -> None:
    content, dialect, types, rows = PROPOSES[case]
    path = tmp_path / "t.csv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    schema = propose(path)
    assert schema.dialect == CsvDialect(**dialect)
    assert [column.type for column in schema.columns] == types
    assert [column.decimals for column in schema.columns] == [decimals_of(canonical(type_)) for type_ in types]
    assert all(column.reason for column in schema.columns)
    write_schema(schema, tmp_path / "s.toml")
    with open_table(path, load_schema(tmp_path / "s.toml")) as table:
        assert table.rows == rows


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "is empty"),
        ("a,b\n", "has no rows"),
        ("a,b\n1,2\n3\n", r"line 3: has 1 field, the first record has 2"),
        ('a,b\n1,"2\n', r"line 2: a quoted field"),
        (b"a,b\n1,\0\n", "holds NUL bytes"),
        (b"\xff\xfea\0,\0b\0\n\0x", "is not utf-16 text"),
    ],
)
def test_proposes_nothing_for_what_cannot_be_read(content: str | bytes, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(InputError, match=problem):
        propose(path)


def test_what_the_reviewer_must_know_is_said(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("bill,weight,code,day\n" + "1.5,1.234,007,01/02/2024\n" * 30 + "unheard-of,2.345,008,02/02/2024\n")
    reasons = [column.reason for column in propose(path).columns]
    for reason, part in zip(
        reasons,
        (
            "30 of 31 fields are numbers; others: 1, the first in data row 31",
            "three digits",
            "leading zeros",
            "is not clear",
        ),
        strict=True,
    ):
        assert part in reason
        assert "unheard" not in reason


def test_the_sample_is_what_its_script_makes(tmp_path: Path) -> None:
    with (tmp_path / "patients.csv").open("w", encoding="utf-8", newline="") as file:
        make_patients.write(file)
    assert (tmp_path / "patients.csv").read_bytes() == (SAMPLES / "patients.csv").read_bytes()
