"""Key columns: no two rows of a table have the same, whatever is put; `upsert` replaces rows as a dictionary does."""

from __future__ import annotations

import random
from contextlib import closing
from pathlib import Path

import duckdb
import numpy as np
import pytest

import cleave
from cleave.maintain.alter import Alteration
from cleave.maintain.alter import alter_columns as alter
from cleave.maintain.changes import update_rows as update
from cleave.maintain.pull import find_damage as verify
from cleave.objects.locate import Folder, Stores
from cleave.store import compacting
from cleave.store import put as putting
from cleave.store.keys import keys_of
from cleave.store.reader import Opened
from cleave.table.batches import batches
from cleave.table.progress import Silent
from cleave.table.schema import Column, CsvDialect, Kind, Schema
from cleave.table.table import no_table
from cleave_shared.errors import CleaveWarning, InputError
from tests.campaign import FACTOR, sampled
from tests.cli.runner import Cli
from tests.store.contributing import HEADER, SCHEMA, World, copied_for_each
from tests.store.faulty import Failing, KilledError

SPARE = 'Q,m,1,1.00,1,"Zoë, ""the"" one"\n'
OWN = f"A,f,61,12.50,60,Ada\nB,m,34,250.00,81.5,Bob\nA,m,20,1.25,70,Cyd\n{SPARE}"


def put(world: World, rows: str, *, key: tuple[str, ...] = ("name",)) -> Opened:
    tables, _ = world.tables()
    return putting.put(tables, world.loaded(rows), "trial", ("ward", "sex"), Silent(), key=key, segment_rows=2)


def append(world: World, rows: str, *, upsert: bool = False, yes: bool = True, again: bool = False) -> Opened:
    tables, _ = world.tables()
    how = {"upsert": upsert, "yes": yes, "again": again}
    return putting.append(tables, world.loaded(rows), "trial", Silent(), segment_rows=2, **how)


def upsert(world: World, rows: str) -> Opened:
    return append(world, rows, upsert=True)


def rows_of(world: World) -> list[tuple[str, str, int, str, float, str]]:
    """All rows, in the order they were put."""
    names = [each.name for each in world.schema.columns]
    with closing(world.stored()) as stored, stored.rows.table(names, ordered=True) as table:
        sql = f"SELECT ward, sex, age, CAST(bill AS VARCHAR), weight, name FROM {table.relation}"
        return table.connection.execute(sql).fetchall()


def names_of(world: World) -> list[str]:
    return [each[-1] for each in rows_of(world)]


def _keyed(world: World) -> None:
    put(world, OWN)


world = copied_for_each(_keyed)


def test_a_key_that_is_there_is_refused_and_nothing_is_added(world: World) -> None:
    with pytest.raises(InputError, match="table 'trial' already has 1 key of these rows") as caught:
        append(world, "C,f,9,9.00,9,New\nC,f,9,9.00,9,Bob\n")
    assert "Bob" not in str(caught.value)
    assert (len(names_of(world)), world.open().manifest.version) == (4, 1)
    assert append(world, "C,f,9,9.00,9,New\n").manifest.rows == 5


def test_an_append_that_repeats_the_last_one_is_recognised(world: World) -> None:
    assert append(world, "C,f,9,9.00,9,New\n").manifest.version == 2
    assert append(world, "C,f,9,9.00,9,New\n").manifest.version == 2
    with pytest.raises(InputError, match="already has"):
        append(world, "C,f,9,9.00,9,New\n", again=True)
    assert upsert(world, "C,f,9,8.00,9,New\n").manifest.version == 3
    assert upsert(world, "C,f,9,8.00,9,New\n").manifest.version == 3


@pytest.mark.parametrize("loads", sampled(2, 8, 12 * FACTOR))
def test_rows_are_replaced_as_in_a_dictionary(world: World, loads: int) -> None:
    """Random loads; some merge segments in the same step, some leave none of a segment's rows."""
    rng, expected = random.Random(5), {each[-1]: each for each in rows_of(world)}
    people = [f"p{number}" for number in range(12)] + [each[-1] for each in expected.values()]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compacting, "MOST_SMALL", 3)
        for _ in range(loads):
            chosen = rng.sample(people, rng.randint(1, 6))
            rows = [(rng.choice("ABC"), rng.choice("fm"), rng.randrange(120), rng.randrange(900), 5, n) for n in chosen]
            text = "".join(f'{w},{s},{a},{b}.25,{g},"{n.replace(chr(34), 2 * chr(34))}"\n' for w, s, a, b, g, n in rows)
            before, stays = len(expected), {*expected} - {*chosen}
            done = upsert(world, text)
            expected = {name: row for name, row in expected.items() if name in stays}
            expected |= {n: (w, s, a, f"{b}.25", float(g), n) for w, s, a, b, g, n in rows}
            tables, _ = world.tables()
            record = next(each for each in reversed(tables.log(done)) if each.what != "merge")
            assert (record.what, record.rows) == ("append", len(expected) - before)
            assert record.details.get("replaced", 0) == before - len(stays)
    assert sorted(rows_of(world)) == sorted(expected.values())
    tables, _ = world.tables()
    assert sum(tables.cells(tables.open("trial")).rows) == len(expected)
    assert verify(world.stored(), Silent()) == []
    sums = cleave.query(None, "SELECT ward, SUM(age) FROM trial GROUP BY ward ORDER BY 1", **place(world)).rows
    wards = sorted({each[0] for each in expected.values()})
    assert sums == [(ward, sum(each[2] for each in expected.values() if each[0] == ward)) for ward in wards]


def place(world: World) -> dict[str, object]:
    return {"store": f"{world.root / 's'},{world.root / 'p'}", "key": world.key_file}


def test_rows_that_stay_keep_their_order(world: World) -> None:
    before = names_of(world)
    upsert(world, "B,f,1,1.00,1,Bob\n")
    assert names_of(world) == [*(each for each in before if each != "Bob"), "Bob"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (OWN + "B,f,1,1.00,1,Bob\n", r"rows.csv, line 6, key column 'name': has the same values as a row before"),
        ("A,f,61,12.50,60,\n" + OWN, r"rows.csv, line 2, key column 'name': is NULL"),
    ],
)
def test_a_key_names_one_row(world: World, rows: str, said: str) -> None:
    """The line is said of a file; here the rows are a table already, of which all are lines."""
    (path := world.root / "rows.csv").write_text(HEADER + rows)
    options = {"schema": world.root / "schema.toml", "by": ["ward"], **place(world)}
    with pytest.raises(InputError, match=said) as caught:
        cleave.put(path, "other", key_columns="name", **options)
    assert "Bob" not in str(caught.value)
    assert cleave.put(path, "other", **options).rows == 5
    files = [world.root / "first.csv", path]
    files[0].write_text(HEADER + "C,f,9,9.00,9,New\n")
    with pytest.raises(InputError, match=said):
        cleave.put(files, "third", key_columns=["name"], **options)


@pytest.mark.slow  # `test_rows_are_replaced_as_in_a_dictionary` is quick
def test_a_key_of_several_columns(tmp_path: Path, key_file: Path) -> None:
    world = World(tmp_path / "world", key_file)
    put(world, OWN, key=("NAME", "ward"))
    assert world.open().manifest.key == ("name", "ward")
    assert append(world, "C,f,9,9.00,9,Ada\n").manifest.rows == 5
    with pytest.raises(InputError, match="already has 2 keys"):
        append(world, "C,f,9,9.00,9,Ada\nA,f,9,9.00,9,Ada\n")
    assert upsert(world, "C,f,9,9.00,9,Ada\nA,f,9,9.00,9,Ada\n").manifest.rows == 5


@pytest.mark.sampled(2)
@pytest.mark.parametrize("column", ["weight", "nothing"])
def test_what_is_no_key(tmp_path: Path, key_file: Path, column: str) -> None:
    with pytest.raises(InputError, match=column):
        put(World(tmp_path / "world", key_file), OWN, key=(column,))


def test_the_plain_place_learns_of_it_with_the_owners_word_alone(world: World) -> None:
    with pytest.raises(InputError, match="which rows are replaced, chosen by columns that are not plain: name"):
        append(world, "B,f,1,1.00,1,Bob\n", upsert=True, yes=False)
    assert append(world, "B,f,1,1.00,1,New\n", upsert=True, yes=False).manifest.rows == 5, "none is replaced"


def test_a_table_without_key_has_no_upsert(tmp_path: Path, key_file: Path) -> None:
    world = World(tmp_path / "world", key_file)
    put(world, OWN, key=())
    with pytest.raises(InputError, match="no key columns"):
        upsert(world, OWN)


def test_a_key_stays_a_key(world: World) -> None:
    tables, _ = world.tables()
    with pytest.raises(InputError, match="'name' is a key column: its values stay"):
        update(tables, "trial", {"NAME": "'x'"}, "age > 0", Silent(), yes=True)
    with pytest.raises(InputError, match="'name' is a key column"):
        alter(tables, "trial", Alteration(drop=["Name"]), Silent())
    done = alter(tables, "trial", Alteration(rename=["Name=who"], widen=["age=0..4000"]), Silent())
    assert done.manifest.key == ("who",)
    assert "key" in cleave.show("trial", **place(world)).text
    assert cleave.ls(**place(world))[0].facts["key_columns"] == ["who"]


def test_a_contributor_adds_no_key_twice(world: World) -> None:
    """The owner is told; the contributor's other rows are refused with them, and its objects go either way."""
    world.register("north")
    world.contribute("north", "C,f,9,9.00,9,New\nC,f,9,9.00,9,Bob\n")
    with pytest.raises(InputError, match="contributor 'north': the table already has 1 key") as caught:
        world.collect()
    assert "Bob" not in str(caught.value)
    assert len(names_of(world)) == 4
    world.contribute("north", "C,f,9,9.00,9,New\nC,f,9,9.00,9,New\n")
    with pytest.raises(InputError, match="contributor 'north': row 2 of its new rows, key column 'name'"):
        world.collect()
    world.contribute("north", "C,f,9,9.00,9,Newer\n")
    world.collect()
    assert names_of(world)[-1] == "Newer"
    upsert(world, "B,f,1,1.00,1,Newer\n")
    assert {each.contributor for each in world.open().manifest.segments} == {None}


@pytest.mark.slow  # `test_of_two_writers_both_change_the_table` is quick
def test_of_two_writers_the_second_replaces_what_the_first_made(world: World) -> None:
    """Both replace the same row: as if the second came last."""
    tables, _ = world.tables()
    real = tables.commit

    def meanwhile(*given: object, **more: object) -> object:
        tables.commit = real  # type: ignore[method-assign]
        upsert(world, "A,f,2,2.00,2,Bob\n")
        return real(*given, **more)  # type: ignore[arg-type]

    tables.commit = meanwhile  # type: ignore[method-assign,assignment]
    putting.append(tables, world.loaded("B,f,1,1.00,1,Bob\n"), "trial", Silent(), upsert=True, yes=True)
    assert sorted(names_of(world)) == sorted(["Ada", "Bob", "Cyd", 'Zoë, "the" one'])
    assert ("B", "f", 1, "1.00", 1.0, "Bob") in rows_of(world)


@pytest.mark.slow  # quick: test_kills.py goes on with an upsert
@pytest.mark.parametrize("step", sampled(30, 5, 1))  # the 30th write is after its segments and before its head
def test_other_rows_do_not_go_on_where_an_upsert_was_killed(world: World, tmp_path: Path, step: int) -> None:
    """Its draft has segments without rows that the second one does not replace."""
    before, at, died = {each[-1]: each for each in rows_of(world)}, step - 1, True
    while died:
        copy = world.copy(tmp_path / f"{at}")
        copy.open()
        tables, _ = copy.tables(Stores(Failing(Folder(copy.root / "s"), at, made=True), Folder(copy.root / "p")))
        died = False
        try:
            putting.append(tables, copy.loaded("B,f,1,1.00,1,Bob\n"), "trial", Silent(), upsert=True, yes=True)
        except KilledError:
            died = True
        bob = ("B", "f", 1, "1.00", 1.0, "Bob") in rows_of(copy)
        upsert(copy, "B,f,1,1.00,1,Ada\n")
        expected = before | {"Ada": ("B", "f", 1, "1.00", 1.0, "Ada")}
        expected |= {"Bob": ("B", "f", 1, "1.00", 1.0, "Bob")} if bob else {}
        assert sorted(rows_of(copy)) == sorted(expected.values()), at
        assert bob or died
        at += step
    assert at > step


def test_the_command_line_takes_key_columns(tmp_path: Path, key_file: Path) -> None:
    cli = Cli(environment={"XDG_STATE_HOME": str(tmp_path / "state")})
    (tmp_path / "first.csv").write_text(HEADER + OWN)
    (tmp_path / "daily").mkdir()
    (tmp_path / "daily/one.csv").write_text(HEADER + "B,f,1,1.00,1,Bob\n")
    (tmp_path / "daily/two.csv").write_text(HEADER + "B,f,2,2.00,2,Bob\nB,f,2,2.00,2,New\n")
    (tmp_path / "first.schema.toml").write_text(SCHEMA)
    words = ["--table", "t", "--store", str(tmp_path / "s"), "--key", str(key_file)]
    assert cli.run("put", str(tmp_path / "first.csv"), "--by", "ward", "--key-columns", "name", *words).exit_code == 0
    daily = ["put", str(tmp_path / "daily"), "--append", *words]
    refused = cli.run(*daily)
    assert (refused.exit_code, "--upsert" in refused.stderr) == (3, True), refused.stderr
    refused = cli.run(*daily, "--upsert")
    assert (refused.exit_code, "--yes" in refused.stderr) == (3, True), refused.stderr
    done = cli.run(*daily, "--upsert", "--yes")
    assert (done.exit_code, done.stderr.count("replacing 1 row by rows")) == (0, 2), done.stderr
    pulled = cleave.pull("t", store=tmp_path / "s", key=key_file)
    assert pulled is not None
    assert sorted(pulled.arrow().column("name").to_pylist()) == sorted(["Ada", "Bob", "Cyd", "New", 'Zoë, "the" one'])
    for more in (["--upsert"], ["--yes"]):
        found = cli.run("put", str(tmp_path / "first.csv"), "--replace", *more, *words)
        assert (found.exit_code, "a new table" in found.stderr) == (2, True), found.stderr


@pytest.mark.slow  # quick: the test above
def test_python_states_what_it_takes(world: World) -> None:
    frame = cleave.pull("trial", **place(world))
    assert frame is not None
    with pytest.raises(InputError, match="already has"):
        cleave.append(frame.arrow(), "trial", **place(world))
    with pytest.warns(CleaveWarning, match="replacing 4 rows"):
        assert cleave.append(frame.arrow(), "trial", upsert=True, yes=True, **place(world)).rows == 4


@pytest.mark.slow  # quick: `test_rows_that_stay_keep_their_order`
def test_many_rows_that_stay_keep_their_order() -> None:
    """So many that DuckDB joins them in several threads."""
    schema = Schema((Column("k", Kind.SEALED, "BIGINT"), Column("text", Kind.SEALED, "VARCHAR")), CsvDialect())
    with no_table("t", schema, 400_000) as table:
        table.connection.execute("SET threads = 4")
        values = "SELECT (i * 7919) % 1000003 AS k, repeat('x', i % 50) AS text FROM range(400_000) r(i)"
        table.connection.execute(f"CREATE TABLE {table.relation} AS {values}")
        keys = keys_of(batches(duckdb.connect(), "SELECT 3 * i AS k FROM range(80_000) r(i)"), schema, ["k"], str)
        assert keys is not None
        found = table.connection.execute(keys.others(table)).fetchnumpy()["k"]
        every = np.arange(400_000) * 7919 % 1000003
        assert (found == every[~np.isin(every, 3 * np.arange(80_000))]).all()
