"""The bounds and NULLs that a proposed schema states: true of the file, and no cell of it."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cleave.propose.bounds import with_bounds
from cleave.propose.propose import propose
from cleave.table.schema import Column, CsvDialect, Kind, Schema, load_schema, write_schema
from cleave.table.table import open_table
from cleave.table.types import decimals_of


def measured(path: Path, column: Column, dialect: CsvDialect | None = None) -> Column:
    dialect = dialect or CsvDialect()
    as_text = Schema((Column(column.name, Kind.LOCAL, "VARCHAR"),), dialect)
    with open_table(path, as_text) as text:
        (found,) = with_bounds(text, [column], dialect)
    return found


MOST = 2**63 - 1
# type, fields, lower, upper
CASES = [
    ("BIGINT", "37 101", "0", "128"),
    ("BIGINT", "128 64", "0", "128"),
    ("BIGINT", "129", "0", "256"),
    ("BIGINT", "-1 0", "-1", "0"),
    ("BIGINT", "-129 3", "-256", "4"),
    ("BIGINT", "0", "0", "0"),
    ("BIGINT", f"{MOST} {-MOST - 1}", str(-MOST - 1), str(MOST)),
    ("DECIMAL(18,2)", "0.01 0.37", "0", "1"),
    ("DECIMAL(18,2)", "1334.05 2.00", "0", "2048"),
    ("DECIMAL(18,2)", "-9999999999999999.99 1", "-9999999999999999.99", "1"),
    ("DOUBLE", "0.3 0.2", "0", "0.5"),
    ("DOUBLE", "-0.125 3.5e3", "-0.125", "4096"),
    ("DOUBLE", "1e-300", "0", str(Decimal(2) ** -30)),
    ("DOUBLE", "8e307 1", "0", str(2**1023)),
    ("DOUBLE", "1.7e308 1", None, None),
    ("DOUBLE", "inf 1", None, None),
    ("DOUBLE", "-1e-320 1", str(-(Decimal(2) ** -30)), "1"),
]


@pytest.mark.parametrize(("type_", "content", "lower", "upper"), CASES)
def test_outwards_to_powers_of_two(
    type_: str, content: str, lower: str | None, upper: str | None, tmp_path: Path
) -> None:
    path = tmp_path / "t.csv"
    path.write_text("n\n" + "\n".join(content.split()) + "\n")
    column = measured(path, Column("n", Kind.PLAIN, type_, decimals_of(type_)))
    assert (column.lower, column.upper) == (lower and Decimal(lower), upper and Decimal(upper))
    write_schema(Schema((column,), CsvDialect()), tmp_path / "s.toml")
    assert load_schema(tmp_path / "s.toml").columns == (column,)
    with open_table(path, load_schema(tmp_path / "s.toml")) as table:
        assert table.rows == len(content.split())


@settings(max_examples=60, deadline=None)
@given(st.lists(st.decimals(-(10**12), 10**12, places=2), min_size=1, max_size=20))
def test_bounds_hold_and_two_files_of_one_magnitude_state_the_same(
    tmp_path_factory: pytest.TempPathFactory, values: list[Decimal]
) -> None:
    path = tmp_path_factory.mktemp("bounds") / "t.csv"
    path.write_text("n\n" + "".join(f"{value}\n" for value in values))
    column = measured(path, Column("n", Kind.ENCRYPTED, "DECIMAL(18,2)", 2))
    assert column.lower is not None
    assert column.upper is not None
    assert column.lower <= min(values)
    assert max(values) <= column.upper
    for bound, extreme in ((column.upper, max(values)), (-column.lower, -min(values))):
        if bound:
            assert int(bound).bit_count() == 1
            assert bound == int(bound)
            assert bound == 1 or bound < 2 * extreme
        else:
            assert extreme <= 0


def test_nothing_is_stated_of_what_is_not_computed_on(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("n\n47\n")
    for kind in (Kind.SEALED, Kind.LOCAL):
        column = Column("n", kind, "BIGINT", 0)
        assert measured(path, column) == column


def test_proposals_say_where_a_field_may_be_empty(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a;bill;weight;x\n" + "1;1.234,5;0,25;\n2;n/a;0,5;\n" * 5 + "\n")
    found = {column.name: column for column in propose(path).columns}
    assert [found[name].nullable for name in ("bill", "weight", "x")] == [True, False, True]
    assert (found["bill"].lower, found["bill"].upper) == (0, 2048)
    assert (found["weight"].lower, found["weight"].upper) == (0, 1)
    assert (found["x"].lower, found["x"].upper) == (None, None)
