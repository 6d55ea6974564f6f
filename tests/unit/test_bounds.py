"""The bounds and NULLs that a proposed schema states: true of the file, with room, and of its meaning."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cleave.propose.bounds import with_bounds
from cleave.propose.propose import propose
from cleave.store.columns import sealed_column
from cleave.table.schema import Column, CsvDialect, Kind, Schema, load_schema, write_schema
from cleave.table.stream import open_table
from tests.campaign import FACTOR


def measured(path: Path, column: Column, dialect: CsvDialect | None = None) -> Column:
    dialect = dialect or CsvDialect()
    as_text = Schema((Column(column.name, Kind.LOCAL, "VARCHAR"),), dialect)
    with open_table(path, as_text) as text:
        (found,) = with_bounds(text, [column], dialect)
    return found


MOST = 2**63 - 1
# type, fields, bound on either side: four times the largest value fits, and as many whole bytes are used
ROOMY = [
    ("BIGINT", "0", "64"),
    ("BIGINT", "3 16", "64"),
    ("BIGINT", "-16", "64"),
    ("BIGINT", "17", str(2**14)),
    ("BIGINT", "-4097 5", str(2**22)),
    ("BIGINT", str(2**60), str(2**62)),
    ("BIGINT", str(2**60 + 1), None),
    ("BIGINT", f"{MOST} {-MOST - 1}", None),
    ("TINYINT", "16", "64"),
    ("TINYINT", "17", None),
    ("DECIMAL(18,2)", "0.01 0.25", "1"),
    ("DECIMAL(18,2)", "0.26", "256"),
    ("DECIMAL(18,2)", "1334.05 2.00", str(2**16)),
    ("DECIMAL(18,2)", "-9999999999999999.99 1", None),
    ("DECIMAL(18,2)", "-99999999999.99 1", str(2**40)),
    ("DECIMAL(5,2)", "260.00", None),
    ("DECIMAL(18,6)", "0.5", "8"),
    ("DOUBLE", "0.25 0.2", "1"),
    ("DOUBLE", "-0.26 3.5e3", str(2**16)),
    ("DOUBLE", "0 0", "1"),
    ("DOUBLE", "1e-300", str(Decimal(2) ** -32)),
    ("DOUBLE", "1.7e308 1", None),
    ("DOUBLE", "inf 1", None),
    ("FLOAT", "-1e-30 1", "256"),
]


@pytest.mark.parametrize(("type_", "content", "bound"), ROOMY)
@pytest.mark.sampled(3)
def test_a_bound_without_a_meaning_leaves_room(type_: str, content: str, bound: str | None, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("n\n" + "\n".join(content.split()) + "\n")
    column = measured(path, Column("n", Kind.PLAIN, type_))
    assert (column.lower, column.upper) == (bound and -Decimal(bound), bound and Decimal(bound))
    write_schema(Schema((column,), CsvDialect()), tmp_path / "s.toml")
    assert load_schema(tmp_path / "s.toml").columns == (column,)
    with open_table(path, load_schema(tmp_path / "s.toml")) as table:
        assert table.rows == len(content.split())


# name, unit, type, values of one file and of another, bounds of both, bytes a value is stored in, an outlier within
MEANT = [
    ("age", "", "BIGINT", "34 71", "0 3", ("0", "128"), 2, "117"),
    ("alter_bei_aufnahme", "", "BIGINT", "34", "99", ("0", "128"), 2, "117"),
    ("Geburtsjahr", "", "BIGINT", "1961", "2020", ("0", "4096"), 2, "1901"),
    ("month", "", "BIGINT", "1", "12", ("0", "64"), 1, "12"),
    ("discount", "%", "DECIMAL(18,1)", "5.5", "90", ("-256", "256"), 2, "-100"),
    ("tax_percent", "", "BIGINT", "5", "90", ("-256", "256"), 2, "200"),
    ("bill", "", "DECIMAL(18,2)", "12.50", "9130.20", (str(-(2**24)), str(2**24)), 4, "-1000000.01"),
    ("cost_per_day", "€", "BIGINT", "3", "1000", (str(-(2**24)), str(2**24)), 4, "9999999"),
    ("x", "$", "DECIMAL(18,2)", "0.01", "99.00", (str(-(2**24)), str(2**24)), 4, "9999999.99"),
    ("price", "", "DOUBLE", "4096", "99000", (str(-(2**24)), str(2**24)), 8, "9999999"),
    ("weight", "", "DECIMAL(18,1)", "3.4", "85.2", ("0", "1024"), 2, "300"),
    ("weight", "", "DOUBLE", "3.4", "85.2", ("0", "1024"), 8, "300"),
    ("temperature", "", "DECIMAL(18,1)", "36.6", "41.0", ("-1024", "1024"), 2, "-40"),
    ("visits", "", "BIGINT", "1", "40", ("0", str(2**20)), 4, "9000"),
]


@pytest.mark.parametrize(("name", "unit", "type_", "one", "other", "bounds", "width", "outlier"), MEANT)
@pytest.mark.sampled(4)
def test_two_files_of_one_meaning_get_the_same_bounds(
    name: str,
    unit: str,
    type_: str,
    one: str,
    other: str,
    bounds: tuple[str, str],
    width: int,
    outlier: str,
    tmp_path: Path,
) -> None:
    column = Column(name, Kind.ENCRYPTED, type_, unit=unit)
    found = []
    for place, content in enumerate((one, other)):
        path = tmp_path / f"{place}.csv"
        path.write_text(f"{name}\n" + "".join(f"{value}{unit}\n" for value in content.split()), encoding="utf-8")
        found.append(measured(path, column))
    assert found[0] == found[1]
    assert (found[0].lower, found[0].upper) == tuple(map(Decimal, bounds))
    assert sealed_column(found[0]).width == width
    later = tmp_path / "later.csv"
    later.write_text(f"{name}\n{outlier}{unit}\n", encoding="utf-8")
    with open_table(later, Schema((found[0],), CsvDialect())) as table:
        assert table.rows == 1


@pytest.mark.parametrize(
    ("name", "type_", "content", "bound"),
    [
        ("age", "BIGINT", "-1 40", str(2**14)),  # no age, whatever the column is called
        ("age", "BIGINT", "12000", str(2**22)),  # in days
        ("price", "DOUBLE", "4095.5", str(2**16)),  # totals of floats keep their digits
    ],
)
def test_values_that_contradict_a_meaning(name: str, type_: str, content: str, bound: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"{name}\n" + "\n".join(content.split()) + "\n")
    column = measured(path, Column(name, Kind.ENCRYPTED, type_))
    assert (column.lower, column.upper) == (-Decimal(bound), Decimal(bound))
    assert "with room" in column.reason


@settings(max_examples=10 * FACTOR, deadline=None)
@given(st.lists(st.decimals(-(10**12), 10**12, places=2), min_size=1, max_size=20))
def test_bounds_hold_with_room_and_fill_the_bytes(
    tmp_path_factory: pytest.TempPathFactory, values: list[Decimal]
) -> None:
    path = tmp_path_factory.mktemp("bounds") / "t.csv"
    path.write_text("n\n" + "".join(f"{value}\n" for value in values))
    column = measured(path, Column("n", Kind.ENCRYPTED, "DECIMAL(18,2)"))
    assert column.lower is not None
    assert column.upper is not None
    largest, bound = max(map(abs, values)), int(column.upper)
    assert column.lower == -bound
    assert bound.bit_count() == 1
    assert 4 * largest <= bound <= max(1, 4 * 512 * largest)
    assert (200 * bound).bit_length() > 8 * -(-(100 * bound).bit_length() // 8) - 1  # twice as much needs another byte


def test_nothing_is_stated_of_what_is_not_computed_on(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("n\n47\n")
    for kind in (Kind.SEALED, Kind.LOCAL):
        column = Column("n", kind, "BIGINT")
        assert measured(path, column) == column


def test_proposals_say_where_a_field_may_be_empty(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a;bill;weight;x\n" + "1;1.234,5;0,25;\n2;n/a;0,5;\n" * 5 + "\n")
    found = {column.name: column for column in propose(path).columns}
    assert [found[name].nullable for name in ("bill", "weight", "x")] == [True, False, True]
    assert (found["bill"].lower, found["bill"].upper) == (-(2**24), 2**24)
    assert found["bill"].reason.endswith("amounts: -2^24 to 2^24")
    assert (found["weight"].lower, found["weight"].upper) == (0, 1024)
    assert found["weight"].reason.endswith("measurements: 0 to 1024")
    assert (found["x"].lower, found["x"].upper) == (None, None)
