"""Numbers and dates as people write them: read where the whole column agrees, else told what is in the way."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from cleave.propose.propose import propose
from cleave.table.schema import Column, CsvDialect, Kind, Schema, load_schema, write_schema
from cleave.table.stream import open_table
from cleave.table.types import canonical, check_format
from cleave_shared.errors import InputError

D = Decimal


def write(folder: Path, fields: list[str]) -> Path:
    path = folder / "t.csv"
    path.write_text("x;k\n" + "".join(f"{field};1\n" for field in fields), "utf-8")
    return path


# fields -> type, unit, format, values
WRITTEN: dict[str, tuple[list[str], str, str, str | None, list[Any]]] = {
    "plus signs": (["+8.5", "-1.25", ""], "DECIMAL(18,2)", "", None, [D("8.50"), D("-1.25"), None]),
    "parentheses": (["(12.50)", "3.00"], "DECIMAL(18,2)", "", None, [D("-12.50"), D("3.00")]),
    "trailing minus": (["12-", "3"], "BIGINT", "", None, [-12, 3]),
    "parentheses and thousands": (["(1,234.50)", "1,000.00"], "DECIMAL(18,2)", "", None, [D("-1234.50"), D("1000.00")]),
    "dollars": (["$12.50", "-$3.00", "$-4.00"], "DECIMAL(18,2)", "$", None, [D("12.50"), D("-3.00"), D("-4.00")]),
    "dollars in parentheses": (["($12.50)", "$3.00"], "DECIMAL(18,2)", "$", None, [D("-12.50"), D("3.00")]),
    "euros": (["12,50 €", "- 3,00 €"], "DECIMAL(18,2)", "€", None, [D("12.50"), D("-3.00")]),
    "a code": (["EUR 12", "EUR 1'000"], "BIGINT", "EUR", None, [12, 1000]),
    "percent": (["12.5%", "3 %"], "DECIMAL(18,1)", "%", None, [D("12.5"), D("3.0")]),
    "many digits in percent": (["0.12345678%", "1%"], "DOUBLE", "%", None, [0.12345678, 1.0]),
    "day first": (["31/12/2024", "01/02/2024"], "DATE", "", "%d/%m/%Y", [date(2024, 12, 31), date(2024, 2, 1)]),
    "month first": (["12/31/2024", "1/2/2024"], "DATE", "", "%m/%d/%Y", [date(2024, 12, 31), date(2024, 1, 2)]),
    "points": (["1.2.2024"], "DATE", "", "%d.%m.%Y", [date(2024, 2, 1)]),
    "short years": (["31.12.24"], "DATE", "", "%d.%m.%y", [date(2024, 12, 31)]),
    "names of months": (["3 Mar 2024", "12 dec 2023"], "DATE", "", "%d %b %Y", [date(2024, 3, 3), date(2023, 12, 12)]),
    "long names": (["March 3, 2024"], "DATE", "", "%B %d, %Y", [date(2024, 3, 3)]),
    "a time": (["31/12/2024 23:59"], "TIMESTAMP", "", "%d/%m/%Y %H:%M", [datetime.fromisoformat("2024-12-31T23:59")]),
    "half days": (
        ["12/31/2024 1:59 PM"],
        "TIMESTAMP",
        "",
        "%m/%d/%Y %I:%M %p",
        [datetime.fromisoformat("2024-12-31T13:59")],
    ),
    "years first": (["2024.12.31"], "DATE", "", "%Y.%m.%d", [date(2024, 12, 31)]),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", WRITTEN)
def test_what_people_write_is_proposed_and_read(case: str, tmp_path: Path) -> None:
    fields, type_, unit, date_format, values = WRITTEN[case]
    path = write(tmp_path, fields)
    proposed = propose(path)
    column = proposed.columns[0]
    assert (column.type, column.unit, column.format) == (type_, unit, date_format), column.reason
    write_schema(proposed, tmp_path / "s.toml")
    with open_table(path, load_schema(tmp_path / "s.toml")) as table:
        assert [x for x, _ in table.connection.execute(f"SELECT * FROM {table.relation}").fetchall()] == values


IN_THE_WAY: dict[str, tuple[list[str], str]] = {
    "two currencies": (["$1"] * 9 + ["€2"], "most with the unit '$', others not, the first in data row 10"),
    "a currency now and then": (["1"] * 9 + ["$2"], "most with no unit, others not, the first in data row 10"),
    "a date that is none": (
        ["31/12/2024"] * 19 + ["31/02/2024"],
        "written %d/%m/%Y, others are not, the first in data row 20",
    ),
    "day or month first": (["01/02/2024"], 'set type DATE and format = "%d/%m/%Y" or "%m/%d/%Y"'),
    "both orders": (["31/12/2024"] * 5 + ["12/31/2024"] * 5, "others are not, the first in data row"),
    "codes with a plus": (["+49", "+1"], "plus sign"),
    "leading zeros": (["$007"], "leading zeros"),
}


@pytest.mark.parametrize("case", IN_THE_WAY)
def test_what_is_in_the_way_is_said(case: str, tmp_path: Path) -> None:
    fields, said = IN_THE_WAY[case]
    (column, _) = propose(write(tmp_path, fields)).columns
    assert column.type == "VARCHAR"
    assert said in column.reason


def test_an_undecided_date_follows_a_decided_one(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b,c\n01/02/2024,31/12/2024,1\n")
    assert [one.format for one in propose(path).columns] == ["%d/%m/%Y", "%d/%m/%Y", None]


def column(type_: str, unit: str = "", date_format: str | None = None) -> Schema:
    type_ = canonical(type_)
    one = Column("x", Kind.PLAIN, type_, unit=unit, format=date_format)
    return Schema((one, Column("k", Kind.LOCAL, "VARCHAR")), CsvDialect(delimiter=";"))


REFUSED: dict[str, tuple[str, Schema, str]] = {
    "no unit": ("12.50", column("DECIMAL(18,2)", "$"), "no number with the unit '$'"),
    "another unit": ("€12.50", column("DECIMAL(18,2)", "$"), "no number with the unit '$'"),
    "the unit twice": ("$12$", column("DECIMAL(18,2)", "$"), "no number with the unit '$'"),
    "the unit amid": ("1$2", column("BIGINT", "$"), "no number with the unit '$'"),
    "more decimals than declared": ("$12.505", column("DECIMAL(18,2)", "$"), "more than the declared 2 digits"),
    "a unit not stated": ("$12.50", column("DECIMAL(18,2)"), "is not a number"),
    "two signs": ("-(12)", column("BIGINT"), "is not a number"),
    "signs at both ends": ("-12-", column("BIGINT"), "is not a number"),
    "parentheses of nothing": ("()", column("BIGINT"), "is not a number"),
    "one parenthesis": ("(12", column("BIGINT"), "is not a number"),
    "another format": ("12/31/2024", column("DATE", "", "%d/%m/%Y"), "is not a DATE written %d/%m/%Y"),
    "a year of two digits": ("31/12/24", column("DATE", "", "%d/%m/%Y"), "is not a DATE written %d/%m/%Y"),
    "no such day": ("31/02/2024", column("DATE", "", "%d/%m/%Y"), "is not a DATE written %d/%m/%Y"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_agree_is_refused_with_its_line(case: str, tmp_path: Path) -> None:
    field, schema, problem = REFUSED[case]
    with pytest.raises(InputError, match=r"t\.csv, line 2, column 'x'") as caught:
        open_table(write(tmp_path, [field]), schema)
    assert problem in caught.value.message
    assert field not in caught.value.message


@pytest.mark.parametrize(
    ("date_format", "type_"),
    [
        ("%d.%m", "DATE"),
        ("%d.%d.%m.%Y", "DATE"),
        ("%Y %y %m %d", "DATE"),
        ("%d.%m.%Y %H:%M", "DATE"),
        ("%d.%m.%Y %H", "TIMESTAMP"),
        ("%d.%m.%Y %I:%M", "TIMESTAMP"),
        ("%d.%m.%Y %z", "TIMESTAMP"),
        ("%d.%m.%Y %", "DATE"),
    ],
)
def test_formats_that_are_none(date_format: str, type_: str) -> None:
    with pytest.raises(ValueError, match=r"must hold|does not know|holds a time"):
        check_format(date_format, type_)


@pytest.mark.parametrize(
    ("lines", "mistake"),
    [
        ('type = "VARCHAR"\nunit = "$"', "unit"),
        ('type = "BIGINT"\nunit = ""', "unit"),
        ('type = "BIGINT"\nunit = "-"', "unit"),
        ('type = "BIGINT"\nformat = "%d.%m.%Y"', "format"),
        ('type = "DATE"\nformat = "%d.%m"', "format"),
    ],
)
def test_a_schemas_mistakes_are_named(lines: str, mistake: str, tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text(f'[columns.a]\nkind = "plain"\n{lines}\n')
    with pytest.raises(InputError, match=rf"\[columns\.a\] {mistake}"):
        load_schema(path)
