"""Parts that no registration or key collects: the owner is told of them, and deletes them."""

from __future__ import annotations

import pytest

from cleave.ckks.key_file import create_key, open_key
from cleave.contributions.collect import collect
from cleave.contributions.invitation import remove
from cleave.contributions.lost import clear
from cleave.maintain.rotate import move_table as rotate
from cleave.store.contribution import folder_of
from cleave.store.dropping import drop
from cleave.store.seen_versions import SeenVersions
from cleave.store.tables import Tables
from cleave.table.progress import Silent
from tests.store.contributing import World, copied_for_each
from tests.store.test_contributors import NORTH, OWN, SOUTH


def begun(world: World) -> None:
    world.put(OWN)
    for name in ("north", "south"):
        world.register(name)
        world.contribute(name, NORTH)
    world.collect()


world = copied_for_each(begun)


def told(tables: Tables) -> list[str]:
    said: list[str] = []
    collect(tables, "trial", Silent(), (), said.append)
    return said


def in_folder(world: World, table_id: str, name: str) -> set[str]:
    folder = folder_of(table_id, world.identity(name).public)
    return {each.rpartition("/")[2] for each in world.sensitive().names(folder)}


def test_of_a_contributor_who_was_removed(world: World) -> None:
    tables, invited = world.tables()[0], world.public()
    assert told(tables) == [], "what was collected is not lost"
    remove(tables, "trial", "north")
    assert told(tables) == []
    for rows in (NORTH, SOUTH):
        world.contribute("north", rows, public=invited)
    world.contribute("south", SOUTH)
    (said,) = told(tables)
    key = world.identity("north").public
    assert f"a dropped table: {key[:16]}... (2 parts)." in said
    assert "`cleave contributor clear trial` deletes the parts" in said
    of_south = [each.rows for each in tables.open("trial").manifest.segments if each.contributor == "south"]
    assert sum(of_south) == (NORTH + SOUTH).count("\n"), "others are collected"
    assert [each.parts for each in clear(tables, "trial")] == [2]
    assert in_folder(world, tables.open("trial").manifest.table_id, "north") == {"head"}
    assert told(tables) == []
    world.register("north")
    world.contribute("north", NORTH, replace=True)
    assert [each.contributor.name for each in world.collect()] == ["north"], "it may come back"


@pytest.mark.slow  # quick: the test above
def test_of_the_key_before(world: World) -> None:
    old, invited = world.tables()[0], world.public()
    before = old.open("trial").manifest.table_id
    create_key(world.root / "new.json", None)
    new = Tables(world.stores(), open_key(world.root / "new.json", None), SeenVersions(world.root / "owner.json"))
    rotate(old, new, "trial", Silent())
    assert told(new) == []
    world.contribute("south", SOUTH, public=invited)
    (said,) = told(new)
    assert "a dropped table: south (1 part)." in said
    clear(new, "trial")
    assert in_folder(world, before, "south") == {"head"}
    assert told(new) == []


@pytest.mark.slow  # quick: the first test
def test_of_a_dropped_table(world: World) -> None:
    dropped = world.open().manifest.table_id
    world.register("east")
    invited = world.public()
    drop(world.tables()[0], "trial")
    world.put(OWN)
    world.contribute("east", NORTH, public=invited)
    (said,) = told(world.tables()[0])
    assert "... (1 part)." in said
    clear(world.tables()[0], "trial")
    assert in_folder(world, dropped, "east") == {"head"}


def test_what_anyone_may_have_put_there_stops_no_collect(world: World) -> None:
    tables, invited = world.tables()[0], world.public()
    remove(tables, "trial", "north")
    world.contribute("north", NORTH, public=invited)
    folder = folder_of(tables.open("trial").manifest.table_id, world.identity("north").public)
    head = world.sensitive().read(f"{folder}/head")
    for number, content in enumerate((b"[]", b"{" * 100, b"[" * 100_000, head, head.replace(b"north", b"x"))):
        world.sensitive().write(f"tables/{number:032}/head", content)
    assert len(told(tables)) == 1
    world.sensitive().delete([f"{folder}/head"])
    world.sensitive().write(f"{folder}/head", head.replace(b'"version": 2', b'"version": 3'))
    assert told(tables) == []
