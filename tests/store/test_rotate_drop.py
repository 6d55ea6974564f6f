"""A table dropped after its rotation was stopped, wherever: no object is left that neither key lists."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

import pytest

from cleave.ckks.key_file import create_key, open_key
from cleave.ckks.owner_key import OwnerKey
from cleave.maintain.rotate import move_table as rotate
from cleave.maintain.rotate import undo
from cleave.objects.locate import Stores
from cleave.objects.storage import Storage
from cleave.store import put as putting
from cleave.store.dropping import drop
from cleave.store.seen_versions import SeenVersions
from cleave.store.tables import Tables
from cleave.table.progress import Silent
from cleave_shared.errors import InputError
from tests.campaign import sampled
from tests.store.contributing import World
from tests.store.test_contributors import NORTH, OWN
from tests.store.test_repeats import kills


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory, key: OwnerKey) -> tuple[OwnerKey, OwnerKey, OwnerKey]:
    """The table's, and two it is put under."""
    found = []
    for name in ("new", "last"):
        path = tmp_path_factory.mktemp(name) / "key.json"
        create_key(path, None)
        found.append(open_key(path, None))
    return key, *found


def keyed(world: World, key: OwnerKey) -> Tables:
    return Tables(world.stores(), key, SeenVersions(world.root / "owner.json"))


def names(world: World) -> set[str]:
    found: list[Storage] = world.stores().distinct()
    return {name for store in found for name in store.names("")}


def is_listed(world: World, key: OwnerKey) -> bool:
    return bool(list(keyed(world, key).all()))


@pytest.fixture(scope="module")
def stopped(
    tmp_path_factory: pytest.TempPathFactory, key_file: Path, keys: tuple[OwnerKey, OwnerKey, OwnerKey]
) -> list[World]:
    """A rotation stopped at every change."""
    root = tmp_path_factory.mktemp("rotated")
    world = World(root / "world", key_file)
    world.put(OWN)
    old, new, _ = keys

    def turn(stores: Stores) -> None:
        of = [Tables(stores, key, SeenVersions(root / "owner.json")) for key in (old, new)]
        rotate(of[0], of[1], "trial", Silent())

    return kills(world, root, turn, every=True)


@pytest.mark.parametrize("step", sampled(5, 2, 1))
def test_nothing_is_left_that_no_key_lists(
    stopped: list[World], tmp_path: Path, keys: tuple[OwnerKey, OwnerKey, OwnerKey], step: int
) -> None:
    cleared = 0
    for at, each in [*enumerate(stopped)][::step]:
        first, other = at % 2, 1 - at % 2
        world = each.copy(tmp_path / f"{at}")
        moved = keyed(world, keys[0]).folder("trial")  # a head that says so, and ids of changes
        with contextlib.suppress(InputError):  # there is none under this key
            drop(keyed(world, keys[first]), "trial")
        if not is_listed(world, keys[other]):
            assert left_beside(world, moved) == set(), at
            cleared += 1
        with contextlib.suppress(InputError):
            drop(keyed(world, keys[other]), "trial")
        assert left_beside(world, moved) == set(), at
        shutil.rmtree(world.root)
    assert cleared > 12 // step


def left_beside(world: World, moved: str) -> set[str]:
    """All objects but the two of the folder `moved` that say where its table is now."""
    there = names(world)
    kept = {each for each in there if each.startswith(f"{moved}/")}
    return there - kept if len(kept) in (0, 2) and (not kept or f"{moved}/head" in kept) else there


@pytest.mark.slow  # quick: the test above
def test_what_a_stopped_rotation_left_goes_with_one_to_another_key(
    stopped: list[World], tmp_path: Path, keys: tuple[OwnerKey, OwnerKey, OwnerKey]
) -> None:
    """Versions of the table in between keep the notes."""
    world = stopped[8].copy(tmp_path / "world")
    old, new, last = keys
    abandoned = keyed(world, new).folder("trial")
    tables, _stores = world.tables()
    putting.append(tables, world.table(NORTH), "trial", Silent())
    assert any(name.startswith(abandoned) for name in names(world))
    rotate(keyed(world, old), keyed(world, last), "trial", Silent())
    assert not any(name.startswith(abandoned) for name in names(world))
    assert keyed(world, last).open("trial").manifest.rows == (OWN + NORTH).count("\n")


def test_a_table_is_under_one_key_and_dropped_by_that(
    stopped: list[World], tmp_path: Path, keys: tuple[OwnerKey, OwnerKey, OwnerKey]
) -> None:
    old, new, _ = keys
    assert all(is_listed(each, old) != is_listed(each, new) for each in stopped)
    copied = [each for each in stopped if is_listed(each, old) and is_there(each, new)]
    assert copied, "stopped when the copy was whole and the old table not closed yet"
    for at, each in enumerate(copied):
        world = each.copy(tmp_path / f"{at}")
        with pytest.raises(InputError, match="still under the key that it is being moved from"):
            drop(keyed(world, new), "trial")
        assert keyed(world, old).open("trial").manifest.objects() <= names(world)
        drop(keyed(world, old), "trial")
        assert names(world) == set()


@pytest.mark.parametrize("step", [8, pytest.param(2, marks=pytest.mark.slow)])
def test_a_rotation_that_is_undone_leaves_the_table_and_nothing_else(
    stopped: list[World], tmp_path: Path, keys: tuple[OwnerKey, OwnerKey, OwnerKey], step: int
) -> None:
    old, new, _ = keys
    for at, each in enumerate(stopped[::-step]):
        world = each.copy(tmp_path / f"{at}")
        if is_listed(each, new):
            with pytest.raises(InputError, match="under another key now"):
                undo(keyed(world, old), keyed(world, new), "trial")
            continue
        opened = undo(keyed(world, old), keyed(world, new), "trial")
        putting.append(keyed(world, old), world.table(NORTH), "trial", Silent())
        assert not any(name.startswith(keyed(world, new).folder("trial")) for name in names(world))
        assert keyed(world, old).open("trial").manifest.rows == opened.manifest.rows + NORTH.count("\n")


def is_there(world: World, key: OwnerKey) -> bool:
    return f"{keyed(world, key).folder('trial')}/head" in names(world)
