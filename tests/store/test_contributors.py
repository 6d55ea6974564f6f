"""Contributors add rows without the secret key; the owner takes them in, and asks over all rows or over one's."""

from __future__ import annotations

from contextlib import nullcontext
from functools import cache
from pathlib import Path

import duckdb
import pytest

from cleave.ask.question import Options
from cleave.ask.threshold import NO_THRESHOLD
from cleave.contributions.contributed import _require_canonical
from cleave.contributions.invitation import invitation_of, register, remove
from cleave.maintain.derive import derive_expression as derive
from cleave.maintain.pull import find_damage as verify
from cleave.objects.locate import Folder, Stores
from cleave.store import put as putting
from cleave.store.dropping import drop
from cleave.store.manifest import SealedColumn, new_id
from cleave.store.sealed import ColumnBlock
from cleave.sums.stored import Stored
from cleave.table.csv_reading import CsvReading
from cleave.table.progress import Silent
from cleave.table.schema import Column, Kind, load_schema
from cleave.table.stream import open_stream, open_table
from cleave.table.table import Table
from cleave_shared.errors import CheckFailed, InputError
from tests.store.asking import ask
from tests.store.contributing import HEADER, World, copied_for_each, kept
from tests.unit.test_line_ends import nothing_read, one_row_less

OWN = "A,f,61,12.50,70.25,Ada\nB,m,47,99.00,81.5,Bo\nA,f,33,7.25,,Cy\n"
NORTH = "A,m,50,1.00,60.125,Di\nC,f,20,2.00,55.5,Ed\n"
SOUTH = "C,f,30,3.00,65.0,Flo\nB,m,40,,75.0,Gus\nC,m,44,5.50,90.5,Hal\n"
SUMS = """SELECT ward, sex, COUNT(*), COUNT(bill), SUM(bill), SUM(age), AVG(weight) FROM trial
GROUP BY ward, sex ORDER BY ALL"""


def expected(world: World, rows: str, sql: str) -> list[list[object]]:
    (path := world.root / "expected.csv").write_text(HEADER + rows)
    types = "{'bill': 'DECIMAL(9,2)', 'ward': 'VARCHAR', 'sex': 'VARCHAR'}"
    _oracle().execute(f"CREATE OR REPLACE TABLE trial AS FROM read_csv('{path}', types = {types})")
    return [list(row) for row in _oracle().execute(sql).fetchall()]


@cache
def _oracle() -> duckdb.DuckDBPyConnection:
    """One for all: a DuckDB takes 20 ms to open."""
    return duckdb.connect()


def registered(world: World) -> None:
    world.put(OWN)
    for name in ("north", "south"):
        world.register(name)


def taken_in(world: World) -> None:
    registered(world)
    world.contribute("north", NORTH)
    world.contribute("south", SOUTH)
    world.collect()


world = copied_for_each(registered)


@pytest.fixture
def joined(tmp_path: Path, key_file: Path) -> World:
    """World with the rows of both contributors."""
    return kept(tmp_path / "world", key_file, taken_in)


def test_rows_of_contributors_are_asked_as_the_owners(joined: World) -> None:
    world = joined
    assert world.ask(SUMS).result.rows == expected(world, OWN + NORTH + SOUTH, SUMS)
    with world.stored().rows.table(["ward", "sex", "age", "bill", "weight", "name"], ordered=True) as table:
        found = table.connection.execute(f"SELECT * FROM {table.relation} ORDER BY name").fetchall()
        every = expected(world, OWN + NORTH + SOUTH, "SELECT * FROM trial ORDER BY name")
        assert [list(row) for row in found] == every


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("name", "rows"), [("north", NORTH), ("South", SOUTH), ("owner", OWN)])
def test_one_contributors_rows_alone(joined: World, name: str, rows: str) -> None:
    tables, _ = joined.tables()
    stored = Stored(tables, tables.open("trial"), name)
    assert ask(stored, SUMS).result.rows == expected(joined, rows, SUMS)
    assert stored.manifest.rows == rows.count("\n")
    with stored.rows.table(["name"]) as table:
        assert {row for (row,) in table.connection.execute(f"SELECT name FROM {table.relation}").fetchall()} == {
            line.split(",")[-1] for line in rows.splitlines()
        }


@pytest.mark.slow  # quick: `test_whose.py` says who is known
def test_an_unknown_contributor_is_told(world: World) -> None:
    tables, _ = world.tables()
    with pytest.raises(InputError, match="no contributor 'east'") as told:
        Stored(tables, tables.open("trial"), "east")
    assert "north, south" in (told.value.hint or "")


def test_nothing_counts_until_it_is_taken_in(world: World) -> None:
    world.contribute("north", NORTH)
    assert world.ask(SUMS).result.rows == expected(world, OWN, SUMS)
    assert [len(each.added) for each in world.collect()] == [1]
    assert world.collect() == []
    version = world.open().manifest.version
    world.contribute("north", SOUTH)
    world.contribute("north", NORTH)
    assert [len(each.added) for each in world.collect("north")] == [2]
    assert world.open().manifest.version == version + 1
    assert world.ask(SUMS).result.rows == expected(world, OWN + NORTH * 2 + SOUTH, SUMS)


def test_a_contributor_that_is_not_registered_puts_nothing(world: World) -> None:
    with pytest.raises(InputError, match="does not name this identity") as raised:
        world.contribute("east", NORTH)
    assert "cleave contributor add" in (raised.value.hint or "")
    world.register("east")
    before = world.public()
    remove(world.tables()[0], "trial", "east")
    world.contribute("east", NORTH, public=before)
    assert world.collect() == []
    assert world.open().manifest.rows == 3


def test_a_contributor_replaces_what_it_put(joined: World) -> None:
    joined.contribute("north", "B,f,1,1.00,1.0,Ivy\n", replace=True)
    (found,) = joined.collect()
    assert (len(found.added), len(found.gone)) == (1, 1)
    assert joined.ask(SUMS).result.rows == expected(joined, OWN + SOUTH + "B,f,1,1.00,1.0,Ivy\n", SUMS)
    keys = "SELECT ward, sex, COUNT(*) FROM trial GROUP BY ALL ORDER BY ALL"
    assert ["A", "m", 1] not in joined.ask(keys).result.rows, "an empty cell is no group"
    head = joined.contributions("north").head()[0]
    assert head is not None
    assert head.version == 2


def test_what_is_taken_in_is_the_owners(world: World) -> None:
    """Copies of it: nothing of the contributor's folder is read again; only its head and draft are left there."""
    head = world.contribute("north", NORTH)
    folder = world.contributions("north").folder
    assert len(list(world.sensitive().names(folder))) > 5
    world.collect()
    for store in (world.stores().sensitive, world.stores().plain):
        store.delete([f"{folder}/head", f"{folder}/draft"])
        assert list(store.names(folder)) == []
    assert world.ask(SUMS).result.rows == expected(world, OWN + NORTH, SUMS)
    folders = {name.rpartition("/")[0] for name in world.open().manifest.objects()}
    assert folders == {world.tables()[0].folder("trial")}
    assert head.version == 1


@pytest.mark.slow  # quick: the owner puts anew, below
def test_a_put_leaves_what_waits_and_deletes_what_it_replaces(world: World) -> None:
    folder = world.contributions("north").folder
    one = len(list(world.sensitive().names(folder))) if world.contribute("north", NORTH) else 0
    world.contribute("north", SOUTH)
    assert len(list(world.sensitive().names(folder))) == 2 * one - 2  # head and draft are there once
    world.contribute("north", NORTH, replace=True)
    assert len(list(world.sensitive().names(folder))) == one - 1  # whose draft is needed no more
    world.collect()
    world.contribute("north", SOUTH)
    assert len(list(world.sensitive().names(folder))) == one
    world.collect()
    assert world.ask(SUMS).result.rows == expected(world, OWN + NORTH + SOUTH, SUMS)


@pytest.mark.slow  # quick: an older head is not taken, in test_contributor_faults.py
def test_on_a_new_machine_an_older_store_is_not_accepted(world: World, tmp_path: Path) -> None:
    """The invitation has the version of what was put, whether it was taken in or not."""
    before = world.public()
    world.contribute("north", NORTH)
    older = world.copy(tmp_path / "older")
    world.contribute("north", SOUTH)
    waits = world.public()
    world.collect()
    taken = world.public()
    for invitation, refused in ((before, False), (waits, True), (taken, True)):
        (older.root / "north.json").unlink(missing_ok=True)  # what this machine has seen
        contributions = older.contributions("north", public=invitation)
        with pytest.raises(CheckFailed, match="version 1 of what was put here, 2 was") if refused else nullcontext():
            contributions.head()
    with pytest.raises(CheckFailed, match="is gone"):
        world.contributions("north", Stores(Folder(tmp_path / "empty"), Folder(tmp_path / "none")), waits).head()
    assert world.contributions("north").head()[0] is not None


@pytest.mark.slow  # quick: heads are refused in test_contributor_faults.py
def test_a_contributor_whose_head_is_refused_stops_no_invitation(world: World) -> None:
    for name, rows in (("north", NORTH), ("south", SOUTH)):
        world.contribute(name, rows)
    place = f"{world.contributions('north').folder}/head"
    world.sensitive().delete([place])
    world.sensitive().write(place, b"{}")
    invitation = invitation_of(world.public(), "trial")
    assert [invitation.floor_of(world.identity(name).public) for name in ("north", "south")] == [0, 1]


def test_a_removed_contributors_rows_are_gone(joined: World) -> None:
    tables, _ = joined.tables()
    invited = joined.public()
    remove(tables, "trial", "south")
    assert joined.ask(SUMS).result.rows == expected(joined, OWN + NORTH, SUMS)
    remove(tables, "trial", "north")
    assert joined.ask(SUMS).result.rows == expected(joined, OWN, SUMS)
    joined.contribute("north", SOUTH, public=invited)
    assert joined.collect() == []
    joined.register("north")
    with pytest.raises(CheckFailed, match="collected before"):
        joined.collect()
    assert joined.open().manifest.rows == 3


def test_wrong_names_of_contributors_are_refused(world: World) -> None:
    tables, _ = world.tables()
    for name in ("", "owner", "Owner", "North", " x", "a" * 65, "a\nb", "\x1b[0m"):
        with pytest.raises(InputError):
            register(tables, "trial", name, "ab" * 32)
    with pytest.raises(InputError, match="that of contributor 'north'"):
        register(tables, "trial", "other", world.identity("north").public)
    register(tables, "trial", "St. Mary-2", "ab" * 32)


@pytest.mark.slow  # quick: test_products.py, of rows that are added later
def test_what_was_derived_since_is_made_of_the_rows(world: World) -> None:
    invited = world.public()
    tables, _stores = world.tables()
    derive(tables, "trial", "bill * age", "weighted", Silent())
    world.contribute("north", NORTH, public=invited)
    world.contribute("south", SOUTH)
    world.collect()
    sql = "SELECT ward, SUM(bill * age) FROM trial GROUP BY ward ORDER BY ward"
    assert world.ask(sql).result.rows == expected(world, OWN + NORTH + SOUTH, sql)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("by", "scan"),
    [
        ((), True),
        (("sex",), False),
        pytest.param((), False, marks=pytest.mark.slow),
        pytest.param(("sex",), True, marks=pytest.mark.slow),
    ],
)
def test_however_the_table_was_put(world: World, by: tuple[str, ...], *, scan: bool) -> None:
    tables, _ = world.tables()
    drop(tables, "trial")
    world.put("", by, scan=scan)  # a table of no rows, to which others contribute
    world.register("north")
    rows = "".join(f"W,{'fm'[i % 2]},{i % 100},{i % 7}.5,{i / 7},N{i}\n" for i in range(200))
    world.contribute("north", rows)
    world.collect()
    sql = "SELECT COUNT(*), SUM(bill), SUM(age) FROM trial"
    assert world.ask(sql).result.rows == expected(world, rows, sql)
    with world.stored().rows.table(["weight", "name"], ordered=True) as table:
        found = table.connection.execute(f"SELECT weight, name FROM {table.relation}").fetchall()
    assert [list(row) for row in found] == expected(world, rows, "SELECT weight, name FROM trial")


def test_the_owner_puts_anew(joined: World) -> None:
    """By the same schema what contributors put fits; they are to be registered again, for nothing is kept of them."""
    invited = joined.public()
    again = (joined.tables()[0], joined.loaded(OWN), "trial", ("ward",), Silent())
    before = joined.open().manifest
    with pytest.raises(InputError, match=r"would lose .*: north \(2 rows\)"):
        putting.put(*again, replace=True)
    assert joined.open().manifest == before
    putting.put(*again, replace=True, drop_contributors=True)
    assert joined.open().manifest.contributors == ()
    joined.register("north")
    joined.contribute("north", NORTH, public=invited, replace=True)
    with pytest.raises(CheckFailed, match="contributor 'north': a sealed object is damaged") as raised:
        joined.collect()
    assert "another invitation" in (raised.value.hint or "")


def test_rows_that_do_not_fit_are_refused_where_they_are(world: World) -> None:
    with pytest.raises(InputError, match="'age'"):
        world.contribute("north", "A,m,500,1.00,60.0,Di\n")
    with pytest.raises(InputError, match="no rows"):
        world.contribute("north", "")
    assert world.collect() == []
    (world.root / "other.toml").write_text((world.root / "schema.toml").read_text().replace("BIGINT", "INTEGER"))
    (path := world.root / "x.csv").write_text(HEADER + NORTH)
    other = open_table([path], load_schema(world.root / "other.toml"))
    with pytest.raises(InputError, match="the schema is not the one"):
        world.contribute("north", other)


@pytest.mark.parametrize(
    ("reader", "problem"),
    [
        (nothing_read, "line 2: this line and all later ones"),
        (one_row_less, "is read as 1 row, but a second count finds 2"),
    ],
)
def test_a_file_of_which_a_row_is_not_read_is_refused(
    world: World, monkeypatch: pytest.MonkeyPatch, reader: object, problem: str
) -> None:
    monkeypatch.setattr(CsvReading, "rows", reader)
    (path := world.root / "x.csv").write_text(HEADER + NORTH)
    contributions = world.contributions("north")
    with open_stream([path], world.schema) as stream, pytest.raises(InputError, match=problem):
        contributions.put(stream, Silent(), replace=True, segment_rows=1000)
    assert world.collect() == []


@pytest.mark.slow  # quick: the next test
def test_small_groups_are_left_out_by_default(world: World) -> None:
    """A has two rows of the owner, whom north knows, beside north's."""
    world.contribute("north", NORTH * 6)
    world.collect()
    sql = "SELECT ward, COUNT(*), SUM(age) FROM trial GROUP BY ward ORDER BY ward"
    with world.session(services=False) as asked:
        answer = asked.ask(asked.plan(sql))
        assert [row[0] for row in answer.result.rows] == ["C"]
        assert answer.usage.min_group == 5
        for least, shown in ((3, ["C"]), (2, ["A", "C"]), (1, ["A", "B", "C"])):
            plan = asked.plan(sql, Options(min_group=least, yes=True))
            assert [row[0] for row in asked.ask(plan).result.rows] == shown


def test_a_group_left_out_cannot_be_had_by_subtraction(world: World) -> None:
    """ROLLUP would give all wards' total: less the wards that are shown it is that of a ward that is not."""
    world.contribute("north", NORTH * 3 + "D,f,1,1.00,1.0,Ivy\n" * 9)
    world.contribute("south", "A,f,2,1.00,1.0,Jo\n" * 6 + "D,f,1,1.00,1.0,Kim\n" * 6)
    world.collect()
    with world.session(services=False) as asked:
        plan = asked.plan("SELECT ward, COUNT(*) FROM trial GROUP BY ROLLUP (ward)")
        shown = {ward for ward, _ in asked.ask(plan).result.rows}
    assert shown in ({"A", "D"}, {"D", None}, {"A", None})


@pytest.mark.slow  # quick: the tests above
def test_a_group_of_few_rows_besides_a_partys_own_is_left_out(world: World) -> None:
    """Totals by contributor tell it, rows where people are counted as well."""
    world.contribute("north", "A,f,2,1.00,1.0,Jo\n" * 9 + "D,f,1,1.00,1.0,Ivy\n" * 9)
    world.contribute("south", "A,f,2,1.00,1.0,Jo\n" * 2 + "D,f,1,1.00,1.0,Kim\n" * 5)
    world.collect()
    with world.session(services=False) as asked:
        for more, name, why in (
            ("", "totals", "a minimum group size counts the rows of each contributor"),
            (", MAX(age)", "rows", "an argument may be NULL"),
            (", LIST(1)", "rows", "there is no plain service"),
            (", COUNT(*) FROM trial WHERE name <> ''", "rows", "'name' is not one of the columns"),
        ):
            source = "" if "FROM" in more else " FROM trial"
            plan = asked.plan(f"SELECT ward, COUNT(*){more}{source} GROUP BY ward ORDER BY ward")
            assert [row[0] for row in asked.ask(plan).result.rows] == ["D"]
            for way in asked.describe(plan).ways:
                assert why in way.reason, "the local aggregate reads rows, not the threshold"
            assert asked.describe(plan).ways[0].name == name


def test_a_table_of_the_owners_alone_shows_every_group(tmp_path: Path, key_file: Path) -> None:
    world = World(tmp_path / "world", key_file)
    world.put(OWN)
    with world.session(services=False) as asked:
        assert asked.plan("SELECT COUNT(*) FROM trial").threshold == NO_THRESHOLD
        assert len(asked.ask(asked.plan("SELECT ward, COUNT(*) FROM trial GROUP BY ward")).result.rows) == 2


@pytest.mark.slow  # quick: damage anywhere is found, in test_contributor_faults.py
def test_verify_reads_all_of_it(joined: World) -> None:
    tables, _ = joined.tables()
    opened = tables.open("trial")
    assert verify(Stored(tables, opened), Silent()) == []


def test_dropping_a_table_deletes_what_was_contributed(joined: World) -> None:
    tables, stores = joined.tables()
    answer = f"results/{tables.folder('trial').removeprefix('tables/')}/{new_id()}"
    stores.sensitive.write(answer, b"of somebody who died before it was read")
    drop(tables, "trial")
    assert [*stores.sensitive.names(""), *stores.plain.names("")] == []


class Endless(World):
    """Whose rows have dates and times that are infinite."""

    schema_text = "".join(
        f'[columns.{name}]\nkind = "sealed"\ntype = "{type_}"\nnullable = true\n'
        for name, type_ in (("since", "DATE"), ("seen", "TIMESTAMP"), ("until", "TIMESTAMP WITH TIME ZONE"))
    )

    def rows(self) -> Table:
        path = self.root / "endless.parquet"
        values = ", ".join(f"('{each}', '{each}', '{each}')" for each in ("infinity", "-infinity", "2026-01-02"))
        with duckdb.connect() as connection:
            connection.execute(
                "COPY (SELECT since::DATE AS since, seen::TIMESTAMP AS seen, until::TIMESTAMPTZ AS until "
                f"FROM (VALUES {values}) v(since, seen, until)) TO '{path}' (FORMAT PARQUET)"
            )
        return open_table([path], self.schema)


def test_infinite_dates_and_times_are_taken_in(tmp_path: Path, key_file: Path) -> None:
    world = Endless(tmp_path / "world", key_file)
    tables, _stores = world.tables()
    putting.put(tables, world.rows(), "trial", (), Silent())
    world.register("north")
    world.contribute("north", world.rows())
    world.collect()
    with world.stored().rows.table(["since", "seen", "until"], ordered=True) as table:
        found = table.connection.execute(
            f"SELECT since::VARCHAR, seen::VARCHAR, isinf(until) FROM {table.relation}"
        ).fetchall()
    mine = [
        ("infinity", "infinity", True),
        ("-infinity", "-infinity", True),
        ("2026-01-02", "2026-01-02 00:00:00", False),
    ]
    assert found == mine * 2


@pytest.mark.parametrize(
    ("type_", "width", "value"),
    [("DATE", 4, -(2**31)), ("TIMESTAMP", 8, -(2**63)), ("TIMESTAMP", 8, -(2**63) + 2)],
)
def test_what_is_beyond_the_infinite_is_refused(type_: str, width: int, value: int) -> None:
    column = SealedColumn(name="since", id=new_id(), type=type_, width=width, nullable=False)
    block = ColumnBlock(1, None, memoryview(value.to_bytes(width, "little", signed=True)), None)
    with pytest.raises(CheckFailed, match="beyond its column's bounds"):
        _require_canonical(column, Column("since", Kind.SEALED, type_), block)
