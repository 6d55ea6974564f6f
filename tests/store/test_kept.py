"""Which rows the totals of a noisy release count (rule N1), against sums in Python over rows and their random bits."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from contextlib import closing
from decimal import Decimal
from fractions import Fraction
from itertools import product
from types import SimpleNamespace

import duckdb
import numpy as np
import pytest

from cleave.disclosure.noise import Clamp, Statistic, statistics
from cleave.releases import kept
from cleave.releases.kept import NoisyReading, kept_totals
from cleave.sql.rejoin import Texts
from cleave.store import put as putting
from cleave.store.rows import Rows
from cleave.table.progress import Silent
from tests.store.contributing import World, copied_for_each

COLUMNS = ("number", "patient", "clinic", "born", "height", "ward", "level", "bill", "age", "smoker")
SCHEMA = """
[columns.number]
kind = "encrypted"
type = "BIGINT"
nullable = false
[columns.patient]
kind = "sealed"
type = "BIGINT"
[columns.clinic]
kind = "plain"
type = "VARCHAR"
[columns.born]
kind = "sealed"
type = "DATE"
[columns.height]
kind = "sealed"
type = "DOUBLE"
[columns.ward]
kind = "plain"
type = "VARCHAR"
[columns.level]
kind = "sealed"
type = "INTEGER"
[columns.bill]
kind = "encrypted"
type = "DECIMAL(9,2)"
[columns.age]
kind = "encrypted"
type = "BIGINT"
[columns.smoker]
kind = "sealed"
type = "BOOLEAN"
"""
CLAMPS = (
    Clamp("bill", -500, 20_000, 2, nullable=True),
    Clamp("age", 18, 90, 0, nullable=True),
    Clamp("smoker", 0, 1, 0, nullable=True),
)
STATISTICS = statistics(CLAMPS, 1, Fraction(100), squares=True, split={})
VALUES = {"ward": ("A", "B", "C", None), "level": ("1", "2", None)}
Row = Mapping[str, str]  # column -> text; "" is NULL


def rows_of(numbers: range) -> list[Row]:
    """Persons with up to nine rows, some without an identity. No row is of ward C; none of ward B, level 2 has a value;
    ward Z and level 7 are no cells.
    """
    chance = np.random.default_rng(numbers.start)
    made = []
    for number in numbers:
        ward, level = chance.choice(["A", "A", "B", "", "Z"]), chance.choice(["1", "2", "2", "", "7"])
        row = {
            "number": str(number),
            "patient": str(chance.choice(["", "1", "2", "3", "4", "9007199254740993", "9007199254740992"])),
            "clinic": str(chance.choice(["", "it's", "B"])),
            "born": str(chance.choice(["", "1970-01-01", "1970-01-02", "0001-01-01"])),
            "height": str(chance.choice(["", "0.0", "-0.0", "1.5"])),  # DuckDB's GROUP BY has one zero
            "ward": str(ward),
            "level": str(level),
            "bill": str(
                chance.choice(["", f"{chance.integers(-20, 300)}.{chance.integers(10, 99)}", "-4.99", "200.01"])
            ),
            "age": str(chance.choice(["", "17", "18", "91", str(chance.integers(0, 120))])),
            "smoker": str(chance.choice(["", "true", "false"])),
        }
        if (ward, level) == ("B", "2"):
            row |= dict.fromkeys(("bill", "age", "smoker"), "")
        made.append(row)
    return made


PARTS = [rows_of(range(80)), rows_of(range(100, 160)), rows_of(range(200, 270))]  # put, appended, contributed
ROWS = {row["number"]: row for part in PARTS for row in part}


def csv(rows: Sequence[Row]) -> str:
    return "".join(",".join(row[each] for each in COLUMNS) + "\n" for row in rows)


class Visits(World):
    schema_text, header = SCHEMA, ",".join(COLUMNS) + "\n"


def fill(world: Visits) -> None:
    world.put(csv(PARTS[0]), by=("ward", "level"))
    with world.table(csv(PARTS[1])) as table:
        putting.append(world.tables()[0], table, world.name, Silent())
    world.register("north")
    world.contribute("north", csv(PARTS[2]))
    world.collect()


world = copied_for_each(fill, Visits)


class Drawn:
    """Random bytes of the operating system, remembered in the order in which they were drawn."""

    def __init__(self) -> None:
        self.bytes: list[bytes] = []

    def token_bytes(self, count: int) -> bytes:
        self.bytes.append(secrets.token_bytes(count))
        return self.bytes[-1]


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> Drawn:
    drawn = Drawn()
    monkeypatch.setattr(kept, "secrets", drawn)
    return drawn


def totals_of(world: Visits, reading: NoisyReading, numbers: Sequence[Statistic] = STATISTICS) -> tuple[list[int], ...]:
    return kept_totals(world.tables()[0], world.open(), reading, numbers)


def rows_and_bits(world: Visits, drawn: Drawn) -> list[tuple[int, Row]]:
    """All rows, each with its contributor, and the bits that were drawn for it."""
    found = []
    opened = world.open()
    with closing(Rows(world.tables()[0], opened)) as rows:
        for segment, data in zip(opened.manifest.segments, drawn.bytes, strict=True):
            contributor = {"contributor": segment.contributor or "owner"}
            bits = [int.from_bytes(data[at : at + 8], "little") for at in range(0, len(data), 8)]
            with rows.table(["number"], segments=[segment]) as table:
                numbers = table.connection.execute(f"SELECT number FROM {table.relation}").fetchall()
            found += [(each, ROWS[str(number)] | contributor) for each, (number,) in zip(bits, numbers, strict=True)]
    assert len(found) == len(ROWS)
    return found


def value_of(clamp: Clamp, text: str) -> int | None:
    if not text:
        return None
    units = int(text == "true") if clamp.name == "smoker" else int(Decimal(text) * 10**clamp.decimals)
    return sorted([clamp.low, units, clamp.high])[1]


def summed(rows: Sequence[tuple[int, Row]], reading: NoisyReading) -> list[list[int]]:
    people: dict[tuple[str, ...], list[tuple[int, Row]]] = {}
    for bits, row in rows:
        person = tuple(row[each].replace("-0.0", "0.0") for each in reading.entity)
        if all(person):
            people.setdefault(person, []).append((bits, row))
    cells: dict[Texts, list[Row]] = {key: [] for key in product(*reading.values)}
    for theirs in people.values():
        for _, row in sorted(theirs, key=lambda each: each[0])[: reading.most_rows]:
            cells.get(tuple(row[each] or None for each in reading.by), []).append(row)
    values = [
        [[value for row in rows if (value := value_of(clamp, row[clamp.name])) is not None] for rows in cells.values()]
        for clamp in reading.clamps
    ]
    rows_of_cells = [len(rows) for rows in cells.values()]
    figures = {"count": len, "sum": sum, "square": lambda those: sum(each * each for each in those)}
    return [
        rows_of_cells if each.measure is None else [figures[each.part](those) for those in values[each.measure]]
        for each in STATISTICS
    ]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "entity",
    [
        ("patient",),
        ("clinic", "patient"),
        ("born",),
        ("height",),
        ("contributor",),
        ("contributor", "patient"),
    ],
)
@pytest.mark.parametrize("by", [(), ("ward",), ("level", "ward")])
def test_totals_are_of_the_rows_with_the_lowest_bits_of_each_person(
    world: Visits, drawn: Drawn, entity: tuple[str, ...], by: tuple[str, ...]
) -> None:
    reading = NoisyReading(by, tuple(VALUES[each] for each in by), entity, CLAMPS, most_rows=9)
    totals = totals_of(world, reading)
    expected = summed(rows_and_bits(world, drawn), reading)
    assert list(totals) == expected
    assert 0 < sum(expected[0]) < len(ROWS), "rows beyond the limit do not count"


def test_cells_without_rows_or_values_have_zeros(world: Visits) -> None:
    reading = NoisyReading(("ward", "level"), (VALUES["ward"], VALUES["level"]), ("patient",), CLAMPS, most_rows=1000)
    rows, *others = totals_of(world, reading)
    cells = list(product(*reading.values))
    b2 = cells.index(("B", "2"))
    assert rows[b2] > 0
    assert {each[b2] for each in others} == {0}
    for place in (place for place, (ward, _) in enumerate(cells) if ward == "C"):
        assert {each[place] for each in (rows, *others)} == {0}


def test_bits_are_drawn_anew_for_each_row(world: Visits, drawn: Drawn) -> None:
    reading = NoisyReading((), (), ("patient",), CLAMPS, most_rows=1)
    for _ in range(2):
        totals_of(world, reading)
    assert list(map(len, drawn.bytes)) == [8 * len(part) for part in PARTS] * 2
    assert len(set(drawn.bytes)) == 6


def test_no_row_counts_without_random_bits(world: Visits, monkeypatch: pytest.MonkeyPatch) -> None:
    fewer = SimpleNamespace(token_bytes=lambda count: secrets.token_bytes(count - 8))
    monkeypatch.setattr(kept, "secrets", fewer)
    with pytest.raises(duckdb.ConstraintException):
        totals_of(world, NoisyReading((), (), ("patient",), CLAMPS, most_rows=1))
