"""Scans of what rows do not hold by themselves, derived columns and squares, and of rows that contributors added."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from cleave.ask.question import DEFAULTS, Options
from cleave.ckks.key_file import create_key, open_key
from cleave.ckks.owner_key import OwnerKey
from cleave.maintain.derive import derive_expression as derive
from cleave.maintain.rotate import move_table as rotate
from cleave.objects.locate import Folder
from cleave.store.manifest import Segment
from cleave.store.seen_versions import SeenVersions
from cleave.store.tables import Tables
from cleave.sums import scan
from cleave.sums.stored import Stored
from cleave.table.progress import Silent
from cleave_shared.errors import QueryRefused
from tests.store.contributing import World as Parties
from tests.store.contributing import kept
from tests.store.scan_asking import Services, ask_by_scan, scan_plan
from tests.store.test_contributors import expected, taken_in
from tests.store.trial import World, check

ROWS = 9_000  # two ciphertexts of each lane
SCHEMA = """
[columns.day]
kind = "plain"
type = "INTEGER"
[columns.bill]
kind = "encrypted"
type = "DECIMAL(9,2)"
lower = -500
upper = 1000
[columns.age]
kind = "encrypted"
type = "BIGINT"
lower = 0
upper = 127
nullable = true
[columns.weight]
kind = "encrypted"
type = "DOUBLE"
[derived.cost]
sql = "bill * age"
[derived.load]
sql = "weight * weight"
"""
VALUES = """SELECT (i * 7919 % 365)::INTEGER AS day, ((i * 104729 % 150001 - 50000) / 100)::DECIMAL(9,2) AS bill,
CASE WHEN i % 11 > 0 THEN i * 31 % 128 END AS age, sin(i) * 1e6 + 3 AS weight FROM range({}) r(i)"""
QUESTIONS = [
    "SELECT day % 3 AS rest, COUNT(*), VAR_SAMP(bill), STDDEV_POP(age) FROM trial WHERE day > 30 GROUP BY 1 ORDER BY 1",
    "SELECT SUM(bill * age), AVG(bill * age), STDDEV(bill * age) FROM trial WHERE day < 100",
    "SELECT SUM(weight * weight), VAR_POP(weight) FILTER (WHERE day < 20) FROM trial",
    "SELECT day % 2 AS odd, SUM(2 * bill - 3), AVG(1 - age) FROM trial GROUP BY 1 ORDER BY 1",
    "SELECT STDDEV(age) FROM trial WHERE day = 400",
]


class Moments(World):
    def __init__(self, folder: Path, key: OwnerKey, **options: bool) -> None:
        super().__init__(Folder(folder / "s"), key, folder, Folder(folder / "p"))
        self.rows = self.make(VALUES.format(ROWS), SCHEMA)
        self.write(self.rows, **options)

    def append(self) -> None:
        self.write(self.rows, append=True)
        self.oracle.execute("INSERT INTO trial FROM trial")

    def check(self, sql: str) -> None:
        services = Services(self.stores)
        answer = ask_by_scan(self.stored(), services, sql).result
        assert services.asked[0] == "select"
        check(answer.rows, answer.bounds, self.oracle.execute(sql).fetchall())


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory, key: OwnerKey) -> Iterator[Moments]:
    with ExitStack() as stack:
        made = Moments(tmp_path_factory.mktemp("moments"), key, scan=True)
        stack.callback(made.oracle.close)
        yield made


@pytest.mark.sampled(2)
@pytest.mark.parametrize("sql", QUESTIONS)
def test_squares_and_derived_columns_are_added_up(table: Moments, sql: str) -> None:
    table.check(sql)


def test_rows_are_what_they_were(table: Moments) -> None:
    """What rows hold for sums is not in them when they are fetched."""
    with table.stored().rows.table(["day", "bill", "age", "weight"], ordered=True) as found:
        rows = found.connection.execute(f"SELECT day, bill, age FROM {found.relation}").fetchall()
    assert rows == table.oracle.execute("SELECT day, bill, age FROM trial").fetchall()


@pytest.mark.slow
def test_what_was_appended_is_in_the_sums_and_what_was_derived_later_is_not(tmp_path: Path, key: OwnerKey) -> None:
    table = Moments(tmp_path, key, scan=True)
    table.append()
    table.check(QUESTIONS[0])
    table.check(QUESTIONS[1])
    derive(table.tables, "trial", "bill * day", "by_day", Silent())
    table.check(QUESTIONS[1])
    with pytest.raises(QueryRefused, match="rows do not hold"):
        scan_plan(table.stored(), "SELECT SUM(bill * day) FROM trial WHERE day < 9")


OWN = "".join(f"{'AB'[at % 2]},f,{at},{at}.25,{50 + at / 8},Ada\n" for at in range(40))
NORTH = "".join(f"{'ABC'[at % 3]},m,{90 - at},{at * 9}.50,{60 + at},Di\n" for at in range(30))
SOUTH = "A,f,30,3.00,65.0,Flo\nB,m,40,1000,75.0,Gus\nC,m,44,5.50,90.5,Hal\nD,m,0,0,0,Ian\n"
BY_WARD = "SELECT ward, COUNT(*), SUM(bill), AVG(age), VAR_SAMP(bill) FROM trial GROUP BY ward ORDER BY ward"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, key_file: Path) -> Parties:
    world = Parties(tmp_path_factory.mktemp("contributed") / "world", key_file)
    world.put(OWN, (), scan=True)
    for name, rows in (("north", NORTH), ("south", SOUTH)):
        world.register(name)
        world.contribute(name, rows)
    world.collect()
    return world


def _asked(world: Parties, sql: str, options: Options = DEFAULTS, contributor: str | None = None) -> list[list[object]]:
    tables, stores = world.tables()
    stored = Stored(tables, tables.open("trial"), contributor)
    return ask_by_scan(stored, Services(stores), sql, options).result.rows


def test_rows_of_contributors_are_added_up_with_the_owners(world: Parties) -> None:
    for contributor, rows in ((None, OWN + NORTH + SOUTH), ("north", NORTH), ("owner", OWN)):
        found = _asked(world, BY_WARD, contributor=contributor)
        for row, exact in zip(found, expected(world, rows, BY_WARD), strict=True):
            assert row[:3] == exact[:3]
            assert row[3] == pytest.approx(exact[3], rel=1e-12)
            assert row[4] == (None if exact[4] is None else pytest.approx(exact[4], rel=1e-12))


@pytest.mark.slow  # quick: test_scan.py, tests/unit/test_suppress.py
def test_small_groups_are_suppressed_and_cannot_be_had_by_subtraction(world: Parties) -> None:
    assert [row[0] for row in _asked(world, BY_WARD, Options(min_group=5))] == ["A", "B", "C"]  # D is one person
    in_all = "SELECT ward, COUNT(*), SUM(bill) FROM trial GROUP BY ROLLUP (ward) ORDER BY ward"
    assert [row[0] for row in _asked(world, in_all)] == ["A", "B", "C", "D", None]
    shown = [row[0] for row in _asked(world, in_all, Options(min_group=5))]
    assert "D" not in shown
    assert len(shown) < 4, "D is the total less the wards that are shown"


def test_segments_without_a_selected_row_are_not_asked_about(world: Parties, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a column's least and largest values would rule out, and more: of these neither order nor lanes are read."""
    orders: list[str] = []
    real = scan.order_of

    def order_of(stored: Stored, segment: Segment) -> object:
        orders.append(str(segment.contributor))
        return real(stored, segment)

    monkeypatch.setattr(scan, "order_of", order_of)
    for where, asked in (("ward = 'D'", ["south"]), ("ward = 'B'", ["None", "north", "south"]), ("ward = 'E'", [])):
        orders.clear()
        tables, stores = world.tables()
        services = Services(stores)
        stored = Stored(tables, tables.open("trial"))
        ask_by_scan(stored, services, f"SELECT COUNT(*), SUM(bill) FROM trial WHERE {where}")
        assert sorted(orders) == sorted(asked)
        assert services.asked == ["select", *["scan"] * len(asked)]


def test_a_table_without_rows_is_not_scanned(tmp_path: Path, key_file: Path) -> None:
    world = Parties(tmp_path / "world", key_file)
    world.put("", (), scan=True)
    with pytest.raises(QueryRefused, match="no rows"):
        _asked(world, BY_WARD)


@pytest.mark.slow
def test_under_another_key_rows_hold_the_same(tmp_path: Path, key_file: Path) -> None:
    """A contributor's too."""
    world = Parties(tmp_path / "world", key_file)
    world.put(OWN, (), scan=True)
    world.register("north")
    world.contribute("north", NORTH)
    world.collect()
    before = _asked(world, BY_WARD)
    create_key(tmp_path / "new.json", None)
    new, stores = open_key(tmp_path / "new.json", None), world.stores()
    tables = Tables(stores, new, SeenVersions(world.root / "owner.json"))
    rotate(world.tables(stores)[0], tables, "trial", Silent())
    assert ask_by_scan(Stored(tables, tables.open("trial")), Services(stores), BY_WARD).result.rows == before


@pytest.mark.slow  # quick: test_scan.py, of the owner's rows
def test_contributors_of_a_table_put_without_room_are_not_scanned(tmp_path: Path, key_file: Path) -> None:
    world = kept(tmp_path / "world", key_file, taken_in)
    with pytest.raises(QueryRefused, match="without --scan"):
        _asked(world, BY_WARD)
