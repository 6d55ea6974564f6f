"""Columns of a stored table changed: rows, totals and cells are those of DuckDB's table after the same ALTER."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import duckdb
import pytest

from cleave.ckks.owner_key import OwnerKey
from cleave.maintain.alter import Alteration
from cleave.maintain.alter import alter_columns as alter
from cleave.maintain.changes import update_rows as update
from cleave.maintain.derive import derive_expression as derive
from cleave.maintain.pull import find_damage as verify
from cleave.objects.locate import Folder
from cleave.store import put as putting
from cleave.store.schemas import load_stored_schema
from cleave.sums.stored import Stored
from cleave.table.progress import Silent
from cleave.table.table import Table
from cleave_shared.errors import InputError
from tests.campaign import FULL
from tests.store.asking import ask
from tests.store.test_changes import Unsplit, pulled
from tests.store.test_faults import killed_at, put_at, table
from tests.store.trial import World

__all__ = ["table"]
ALTERATIONS = [
    (
        Alteration(rename=["bill=cost"], drop=["age"], add=["n INTEGER encrypted"], by=["ward", "admitted"]),
        ["RENAME bill TO cost", "DROP age", "ADD n INTEGER"],
        True,
    ),
    (Alteration(widen=["age=0..40000"]), [], False),
    (Alteration(widen=["weight=0..100000", "bill=DECIMAL(20,4)"]), ["ALTER bill TYPE DECIMAL(20,4)"], False),
    (Alteration(add=["note VARCHAR", "extra BIGINT encrypted"]), ["ADD note VARCHAR", "ADD extra BIGINT"], False),
    (Alteration(add=["city VARCHAR plain"]), ["ADD city VARCHAR"], True),
    (Alteration(rename=["bill=cost"]), ["RENAME bill TO cost"], False),
    (Alteration(rename=["ward=station"]), ["RENAME ward TO station"], True),
    (Alteration(drop=["email", "age"]), ["DROP email", "DROP age"], False),
    (Alteration(by=["insured"]), [], True),
    (Alteration(by=["insured", "ward"]), [], False),
]


@pytest.fixture
def world(tmp_path: Path, key: OwnerKey) -> World:
    world = World(Folder(tmp_path / "s"), key, tmp_path, Folder(tmp_path / "p"))
    world.put("ward", appended=1)
    return world


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", ["x", "y"])
@pytest.mark.parametrize("kind", ["sealed", "encrypted", "plain"])
def test_a_column_in_place_of_a_dropped_one_is_null(tmp_path: Path, key: OwnerKey, kind: str, name: str) -> None:
    """Even if it has the name and type of that one: nobody reads what was dropped."""
    world = World(Folder(tmp_path / "s"), key, tmp_path, Folder(tmp_path / "p"))
    schema = f"[columns.g]\nkind = 'plain'\ntype = 'VARCHAR'\n[columns.x]\nkind = '{kind}'\ntype = 'BIGINT'\n"
    world.write(world.make("SELECT 'a' AS g, range AS x FROM range(3)", schema), "g")
    alter(world.tables, "trial", Alteration(drop=["x"], add=[f"{name} BIGINT {kind}"]), Silent())
    assert pulled(world) == [("a", None)] * 3
    with closing(world.stored()) as stored:
        assert ask(stored, f"SELECT COUNT({name}) FROM trial", cloud_only=False).result.rows == [[0]]


@pytest.mark.sampled(10)  # the first has a change of each kind but `widen`, which the next test has
@pytest.mark.parametrize(("wanted", "statements", "rewrites"), ALTERATIONS)
def test_it_is_the_table_that_duckdb_makes(
    world: World, wanted: Alteration, statements: list[str], *, rewrites: bool
) -> None:
    unsplit = Unsplit()
    for each in statements:
        unsplit.connection.execute(f"ALTER TABLE trial {each}")
    before = world.tables.open("trial").manifest
    done = alter(world.tables, "trial", wanted, Silent())
    assert list(map(str, pulled(world))) == list(map(str, unsplit.rows()))
    stored = load_stored_schema(done.manifest)
    assert list(stored.names) == [name for name, *_ in unsplit.rows("DESCRIBE trial")]
    assert ([each.plain for each in done.manifest.segments] == [each.plain for each in before.segments]) != rewrites
    by = ", ".join(done.manifest.by)
    measure = next(each for each in ("bill", "cost") if each in stored.names)
    sql = f"SELECT {by}, COUNT(*), SUM({measure}), AVG(weight) FROM trial GROUP BY ALL ORDER BY ALL"
    for row, expected in zip(world.ask(sql).result.rows, unsplit.rows(sql), strict=True):
        for value, exact in zip(row, expected, strict=True):
            assert value == (pytest.approx(exact, rel=1e-12) if isinstance(exact, float) else value)
            assert isinstance(exact, float) or value == exact or str(value) == str(exact)
    assert verify(world.stored(), Silent()) == []
    cells = world.tables.cells(done)
    assert sum(cells.rows) == done.manifest.rows
    assert world.tables.log(done)[-1].what == "alter"


def test_what_is_widened_takes_wider_values(world: World) -> None:
    values = {"age": "age + 1000"}
    with pytest.raises(InputError, match="breaks the schema"):
        update(world.tables, "trial", values, "age >= 0", Silent())
    alter(world.tables, "trial", Alteration(widen=["age=..5000"]), Silent())
    update(world.tables, "trial", values, "age >= 0", Silent())
    unsplit = Unsplit()
    assert world.ask("SELECT SUM(age) FROM trial").result.rows == [
        list(each) for each in unsplit.rows("SELECT SUM(age + 1000) FROM trial")
    ]


def test_a_new_name_alone_writes_no_segment(world: World) -> None:
    before = world.tables.open("trial").manifest.segments
    done = alter(world.tables, "trial", Alteration(rename=["bill=cost"]), Silent())
    assert done.manifest.segments == before


VALUES = {
    "BOOLEAN": "TRUE",
    "TINYINT": "-128",
    "SMALLINT": "32767",
    "INTEGER": "-2147483648",
    "BIGINT": "9223372036854775807",
    "FLOAT": "-0.0",
    "DOUBLE": "1e-300",
    "DECIMAL(4,1)": "-999.9",
    "DECIMAL(9,2)": "1234567.89",
    "DECIMAL(18,0)": "-999999999999999999",
    "DECIMAL(38,10)": "9999999999999999999999999999.9999999999",
    "NUMERIC(5)": "12345",
    "decimal(10, 3)": "0.001",
    "VARCHAR": "'a\n\u2028'",
    "DATE": "DATE '1899-12-31'",
    "TIME": "TIME '23:59:59.999999'",
    "TIMESTAMP": "TIMESTAMP '2024-02-29 12:00:00.000001'",
    "TIMESTAMP WITH TIME ZONE": "TIMESTAMPTZ '2024-02-29 12:00:00+05'",
    "INTERVAL": "INTERVAL '1 month 30 days'",
}
REFUSED = {("VARCHAR", "encrypted"), ("INTERVAL", "plain")}


@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.slow)])
def test_a_column_of_each_type_and_kind_is_added_and_filled(
    tmp_path: Path, key: OwnerKey, table: Table, every: int
) -> None:
    """Of all pairs, or of one in three, with each type and each kind."""
    tables, _ = put_at(tmp_path / "place", key, table).tables()
    types = [(type_, kind) for type_ in VALUES for kind in ("plain", "encrypted", "sealed", "")][::every]
    added = {f"c{place}": each for place, each in enumerate(types) if each not in REFUSED}
    alter(tables, "trial", Alteration(add=[" ".join([name, *each]) for name, each in added.items()]), Silent())
    values = {name: VALUES[type_] for name, (type_, _) in added.items()}
    update(tables, "trial", values, "TRUE", Silent(), yes=True)
    stored = Stored(tables, tables.open("trial"))
    kinds = {each.name: str(each.kind) for each in stored.schema.columns}
    assert {name: kinds[name] for name in added} == {name: kind or "sealed" for name, (_, kind) in added.items()}
    shown = ", ".join(f"typeof({name}), CAST({name} AS VARCHAR)" for name in added)
    with closing(stored), stored.rows.table(list(added)) as rows, duckdb.connect() as oracle:
        oracle.execute("SET TimeZone = 'UTC'")
        # numbers as texts: a cast of the number -0.0 makes 0.0 of it
        texts = {name: f"'{value}'" if value[-1].isdigit() else value for name, value in values.items()}
        cast = ", ".join(f"CAST({text} AS {added[name][0]}) AS {name}" for name, text in texts.items())
        expected = oracle.execute(f"SELECT {shown} FROM (SELECT {cast} FROM range(3))").fetchall()
        assert rows.connection.execute(f"SELECT {shown} FROM {rows.relation}").fetchall() == expected
    assert verify(Stored(tables, tables.open("trial")), Silent()) == []


@pytest.mark.parametrize(("type_", "kind"), [*sorted(REFUSED), ("BIGINT", "local"), ("DECIMAL(39,2)", "sealed")])
def test_a_column_of_no_such_type_and_kind_is_refused(derived: World, type_: str, kind: str) -> None:
    with pytest.raises(InputError, match=r"--add x|column 'x'"):
        alter(derived.tables, "trial", Alteration(add=[f"x {type_} {kind}"]), Silent())


@pytest.fixture(scope="module")
def derived(tmp_path_factory: pytest.TempPathFactory, key: OwnerKey) -> World:
    """Nothing here changes it."""
    folder = tmp_path_factory.mktemp("derived")
    world = World(Folder(folder / "s"), key, folder, Folder(folder / "p"))
    world.put("ward", appended=1)
    derive(world.tables, "trial", "bill * age", "weighted", Silent())
    return world


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (Alteration(widen=["age=10..127"]), "can only be widened"),
        (Alteration(widen=["age=TINYINT"]), "does not hold every BIGINT"),
        (Alteration(widen=["age=x..y"]), "a bound is no number"),
        (Alteration(widen=["age"]), "is not one name, = and a value"),
        (Alteration(widen=["email=0..1"]), "email"),
        (Alteration(add=["age BIGINT"]), "age"),
        (Alteration(add=["x NONSENSE"]), "must be one of"),
        (Alteration(rename=["weight=age"]), "there would be two columns"),
        (Alteration(rename=["bill=cost"]), "derived column 'weighted' reads it"),
        (Alteration(drop=["bill"]), "derived column 'weighted' reads it"),
        (Alteration(drop=["ward"]), "is one of --by"),
        (Alteration(drop=["nothing"]), "nothing"),
        (Alteration(by=["weight"]), "are no cell"),
    ],
)
def test_what_is_refused_changes_nothing(derived: World, wanted: Alteration, said: str) -> None:
    with pytest.raises(InputError, match=said):
        alter(derived.tables, "trial", wanted, Silent())
    assert derived.tables.open("trial").manifest.version == 3


@pytest.mark.slow  # quick: test_kills.py
@pytest.mark.parametrize("made", [False, True])
def test_killed_at_any_write_it_is_done_or_not(tmp_path: Path, key: OwnerKey, table: Table, *, made: bool) -> None:
    step = 1 if FULL else 4
    start, at, died = put_at(tmp_path / "start", key, table), made * step // 2 or step // 5, True
    putting.append(start.tables()[0], table, "trial", Silent())
    wanted = Alteration(widen=["age=0..4000"], add=["x BIGINT encrypted"], by=["name", "ward"])
    while died:
        place = start.copy(tmp_path / f"{at}")
        died = killed_at(place, lambda it, _: alter(it, "trial", wanted, Silent()), table, at, made=made)
        tables = place.tables()[0]
        old = "x" not in load_stored_schema(tables.open("trial").manifest).names
        assert old or tables.open("trial").manifest.by == ("name", "ward")
        assert [str(each) for each in place.answer("SELECT COUNT(*), SUM(bill) FROM trial")[0]] == ["6", "237.50"]
        if old:
            alter(tables, "trial", wanted, Silent())
        (row,) = ask(
            Stored(tables, tables.open("trial")), "SELECT SUM(age), COUNT(x) FROM trial WHERE name = 'Bo'"
        ).result.rows
        assert row == [94, 0]
        at += step
    assert at > 10
