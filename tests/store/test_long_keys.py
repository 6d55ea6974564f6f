"""A long by value: every text of the list of cells is padded to the longest, so nobody makes a cell with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cleave.contributions import contribute
from cleave.maintain.alter import Alteration
from cleave.maintain.alter import alter_columns as alter
from cleave.maintain.changes import update_rows as update
from cleave.releases.exact_totals import ExactTotals
from cleave.releases.noisy_plan import _texts
from cleave.releases.release import MOST_TOTALS
from cleave.store import put as putting
from cleave.store.by import propose
from cleave.store.cells import longest_in, longest_texts
from cleave.store.padding import padded
from cleave.store.vault import seal_record
from cleave.table.duck import private
from cleave.table.progress import Silent
from cleave.table.schema import Column, Kind
from cleave.table.stream import stream_of
from cleave_shared import limits
from cleave_shared.errors import CleaveError, InputError
from tests.store.contributing import World, copied_for_each, refuses
from tests.store.test_contributors import OWN, SOUTH, SUMS, expected, registered

MOST = limits.MAX_KEY_BYTES
TOO_LONG = "has more than 1,000 bytes"


def rows(ward: str, name: str = "Di") -> str:
    return f'A,m,5,1.00,60.5,Zoe\n"{ward}",f,50,1.00,60.5,"{name}"\n'


LONG = {
    "plain letters": "x" * (MOST + 1),
    "two bytes each": "\u00e4" * (MOST // 2 + 1),
    "quotes are escaped": '""' * (MOST // 2 + 1),
}


world = copied_for_each(registered)


def append(world: World, more: str, **how: Any) -> object:
    return putting.append(world.tables()[0], world.table(more), world.name, Silent(), **how)


def changed(world: World, ward: str) -> object:
    value = ward.replace('""', '"').replace("'", "''")
    return update(world.tables()[0], world.name, {"ward": f"'{value}'"}, "age > 0", Silent(), yes=True)


def by_it(world: World, ward: str) -> object:
    append(world, rows("A", ward))
    return alter(world.tables()[0], world.name, Alteration(by=["name"]), Silent())


MAKERS: dict[str, tuple[Callable[[World, str], object], str]] = {
    "put": (lambda world, ward: putting.put(*_new(world, ward), ["ward"], Silent()), "row 2, column 'ward'"),
    "append": (lambda world, ward: append(world, rows(ward)), "row 2, column 'ward'"),
    "update": (changed, "column 'ward'"),
    "alter --by": (by_it, "column 'name'"),
    "a contributor's put": (lambda world, ward: world.contribute("north", rows(ward)), "row 2, column 'ward'"),
}


def _new(world: World, ward: str) -> tuple[Any, Any, str]:
    return world.tables()[0], world.table(rows(ward)), "other"


@pytest.mark.parametrize("long", LONG.values(), ids=LONG)
@pytest.mark.parametrize(("make", "where"), MAKERS.values(), ids=MAKERS)
def test_nobody_makes_a_cell_of_a_long_value(
    world: World, make: Callable[[World, str], object], where: str, long: str
) -> None:
    with pytest.raises(InputError, match=f"{where}: the value {TOO_LONG}, too many for a by column") as told:
        make(world, long)
    assert "xx" not in told.value.message
    if make is not by_it:
        assert world.ask(SUMS).result.rows == expected(world, OWN, SUMS)


@pytest.mark.parametrize("fits", [each[: -2 if '"' in each else -1] for each in LONG.values()], ids=LONG)
def test_the_longest_that_fits_is_stored(world: World, fits: str) -> None:
    if '"' in fits:
        fits = '""' * (MOST // 2)
    append(world, rows(fits))
    world.contribute("north", rows(fits))
    world.collect()
    assert world.ask("SELECT COUNT(*) FROM trial").result.rows == [[OWN.count("\n") + 4]]


@pytest.mark.parametrize("long", LONG.values(), ids=LONG)
def test_a_part_with_one_is_refused_before_anything_is_written(
    world: World, monkeypatch: pytest.MonkeyPatch, long: str
) -> None:
    """By a contributor whose own software lets it pass; the others are collected."""
    monkeypatch.setattr(contribute, "count_cells", lambda *_: 1)
    world.contribute("north", rows(long))
    world.contribute("south", SOUTH)
    assert "xx" not in refuses(world, f"a value of by column 'ward' {TOO_LONG}").message
    assert world.ask(SUMS).result.rows == expected(world, OWN + SOUTH, SUMS)


@pytest.mark.parametrize("who", ["put", "append", "collect"])
def test_the_padded_list_of_cells_has_a_limit(world: World, monkeypatch: pytest.MonkeyPatch, who: str) -> None:
    """No value is too long alone: it is the number of cells times the longest one."""
    long = "x" * 900
    world.contribute("north", rows(long))
    world.contribute("south", SOUTH)
    monkeypatch.setattr(limits, "MAX_KEYS_BYTES", 2_000)
    if who == "collect":
        refuses(world, "combinations of values would take more than 2,000 bytes")
        assert world.ask(SUMS).result.rows == expected(world, OWN + SOUTH, SUMS)
        return
    with pytest.raises(InputError, match=r"ward, sex: . combinations of values would take more than 2,000 bytes"):
        append(world, rows(long)) if who == "append" else putting.put(*_new(world, long), ["ward", "sex"], Silent())
    assert world.ask(SUMS).result.rows == expected(world, OWN, SUMS)


def test_a_proposal_leaves_long_columns_out(world: World) -> None:
    for length, by in ((MOST + 1, []), (MOST, ["ward"])):
        with world.table(rows("x" * length) * 30) as table, stream_of(table) as stream:
            assert propose(stream, 60)[0] == by


def test_declared_values_have_the_limit() -> None:
    column = Column("ward", Kind.PLAIN, "VARCHAR")
    with pytest.raises(InputError, match=f"value 2, column 'ward': the value {TOO_LONG}"):
        _texts(column, ["A", "x" * (MOST + 1)])


def test_sql_and_python_measure_alike() -> None:
    texts = [*map(chr, range(0x300)), "\u2028", "\U0001f600", "a/b", '"\\"', None, ""]
    with private() as connection:
        for each in texts:
            sql = f"SELECT {longest_in(['k'])} FROM (SELECT ?::VARCHAR AS k)"
            (found,) = connection.execute(sql, [each]).fetchall()[0]
            assert found == (longest_texts([(each,)], 1)[0] if each is not None else 0)


def test_padding_is_bounded_before_it_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_OBJECT_BYTES", 10_000)
    keys = b'{"keys":[["%s"],%s]}'
    seal_record(bytes(32), "name", keys % (b"x" * 900, b",".join([b'["a"]'] * 8)), 8)
    with pytest.raises(InputError, match="would take more than 10,000 bytes"):
        seal_record(bytes(32), "name", keys % (b"x" * 900, b",".join([b'["a"]'] * 9)), 8)


def test_a_release_that_no_analyst_would_read_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    totals = ExactTotals(
        table="t", schema_toml="", by=("k",), measures=(), people=False, times=(), keys=(("x" * 900,),) * 9
    )
    size = len(totals.dump())
    assert size == padded(size) < MOST_TOTALS
    monkeypatch.setattr("cleave.releases.exact_totals.MOST_TOTALS", size - 1)
    with pytest.raises(CleaveError, match="the release of 9 parts would take more than"):
        totals.dump()
