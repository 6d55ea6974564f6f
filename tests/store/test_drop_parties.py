"""A drop of a table whose manifest cannot be opened finds its parties by their heads, and says what it did not find."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cleave.objects.locate import Stores
from cleave.objects.storage import StoreError
from cleave.store.contribution import folder_of
from cleave.store.dropping import drop
from cleave.store.manifest import new_id
from cleave_shared.errors import InputError
from tests.campaign import sampled
from tests.store.contributing import copied_for_each
from tests.store.every_change import Place
from tests.store.faulty import Failing, KilledError
from tests.store.releasing import rows

HEADS = 5  # the table's, two contributors', an analyst's and a reader's


class Other(Place):
    """Another table of the same owner and parties, in the same store."""

    name = "other"


def shared(world: Place) -> None:
    for each in (Other(world.root, world.key_file), world):
        each.put(rows())
        each.register("north")
        each.contribute("north", rows())
        each.collect()
        each.register("south")
        each.contribute("south", rows())  # waits
        each.release("carol")
        each.add_reader("rita", yes=True)


world = copied_for_each(shared, Place)


def names(world: Place) -> set[str]:
    return {name for store in world.stores().distinct() for name in store.names("")}


def others(world: Place) -> set[str]:
    """The objects of the other table: what a drop of the whole one leaves."""
    copy = world.copy(world.root.parent / f"whole {new_id()}")
    drop(copy.tables()[0], "trial")
    return names(copy)


def lost_manifest(world: Place) -> None:
    world.sensitive().delete([world.open().head.manifest.name])


def damaged_manifest(world: Place) -> None:
    name = world.open().head.manifest.name
    content = bytearray(world.sensitive().read(name))
    content[-1] ^= 1
    world.sensitive().delete([name])
    world.sensitive().write(name, bytes(content))


def head_of(world: Place) -> str:
    return f"{world.tables()[0].folder('trial')}/head"


def lost_head(world: Place) -> None:
    """As after a drop that was killed."""
    world.sensitive().delete([head_of(world)])


def damaged_head(world: Place) -> None:
    place = head_of(world)
    world.sensitive().delete([place])
    world.sensitive().write(place, b"{}")


def was_dropped(world: Place) -> None:
    """And is put back."""
    tables = world.tables()[0]
    tables.memory.remember_dropped(world.open().manifest.table_id, 1)


BREAKS = [lost_manifest, damaged_manifest, lost_head, damaged_head, was_dropped]


def test_the_tables_have_parties(world: Place) -> None:
    heads = {each for each in names(world) if each.endswith("/head")}
    assert len(heads) == 2 * HEADS
    assert len({each for each in others(world) if each.endswith("/head")}) == HEADS


@pytest.mark.sampled(5)
@pytest.mark.parametrize("broken", BREAKS)
def test_it_deletes_those_of_the_table_alone(world: Place, broken: Callable[[Place], None]) -> None:
    left = others(world)
    broken(world)
    drop(world.tables()[0], "trial")
    assert names(world) == left
    other = Other(world.root, world.key_file)
    assert other.shown("carol")
    other.collect()
    other.require_reads("rita")


@pytest.mark.slow  # quick: a drop in test_noisy_faults.py
@pytest.mark.parametrize("step", sampled(3, 2, 1))
def test_a_drop_that_was_killed_is_finished(world: Place, tmp_path: Path, step: int) -> None:
    left, at, died = others(world), 0, True
    while died:
        copy = world.copy(tmp_path / f"{at}")
        stores = copy.stores()
        failing = Stores(*(Failing(each, at, made=True) for each in (stores.sensitive, stores.plain)))  # type: ignore[arg-type]
        died = False
        try:
            drop(copy.tables(failing)[0], "trial")
        except KilledError:
            died = True
            drop(copy.tables()[0], "trial")
        assert names(copy) == left, at
        at += step
    assert at > 20


def test_it_says_which_folders_may_be_left(world: Place) -> None:
    """The first put of a contributor was stopped: its folder has no head."""
    table_id = world.open().manifest.table_id
    world.register("east")
    folder = folder_of(table_id, world.identity("east").public)
    world.sensitive().write(f"{folder}/{new_id()}", b"rows")
    left = others(world)
    lost_manifest(world)
    with pytest.raises(StoreError, match=f"the table is dropped, but its manifest could not .* left below {folder}$"):
        drop(world.tables()[0], "trial")
    assert names(world) == {*left, *(each for each in names(world) if each.startswith(folder))}
    with pytest.raises(InputError, match="no table 'trial'"):
        drop(world.tables()[0], "trial")


def test_a_machine_that_never_saw_the_table_says_that_none_was_found(world: Place) -> None:
    damaged_head(world)
    (world.root / "owner.json").unlink()
    with pytest.raises(StoreError, match="may be left below tables/ and releases/"):
        drop(world.tables()[0], "trial")
    assert not [each for each in names(world) if each.startswith(world.tables()[0].folder("trial"))]
