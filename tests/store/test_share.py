"""A contributor adds cells up to its share of the table's limit: no one fills the table for all others."""

from __future__ import annotations

import pytest

from cleave.contributions.invitation import remove
from cleave.store import put as putting
from cleave.store.cells import Cells
from cleave.table.progress import Silent
from cleave_shared.errors import InputError
from tests.store.asking import ask
from tests.store.contributing import World, copied_for_each, refuses
from tests.store.test_contributors import OWN, SUMS, expected, registered

MOST = 9  # a share is 3 with two contributors; the owner's rows have 2


@pytest.fixture(autouse=True)
def few_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("store.cells", "contributions.collect"):
        monkeypatch.setattr(f"cleave.{module}.MOST_CELLS", MOST)


world = copied_for_each(registered)


def rows(*wards: str) -> str:
    return "".join(f"{each},f,50,1.00,60.5,Di\n" for each in wards)


def cells(world: World) -> int:
    opened, (tables, _) = world.open(), world.tables()
    return len(tables.cells(opened))


def append(world: World, more: str) -> None:
    tables, _stores = world.tables()
    putting.append(tables, world.table(more), "trial", Silent())


def test_more_than_a_share_is_refused_before_anything_is_written(world: World) -> None:
    world.contribute("north", rows(*"PQRS"))
    world.contribute("south", rows("A", *"XYZ"))  # ward A is the owner's
    refuses(world, r"too many combinations of ward, sex .* 4 .*, and its share is 3")
    world.contribute("north", rows(*"PQR"), replace=True)
    world.collect()
    append(world, rows("B"))
    truth = OWN + rows("B") + rows("A", *"XYZ") + rows(*"PQR")
    assert ask(world.stored(), SUMS).result.rows == expected(world, truth, SUMS)
    world.contribute("south", rows("W"))
    with pytest.raises(InputError, match=r"'south'.* 4 that the owner"):
        world.collect()


@pytest.mark.slow  # quick: the test above
def test_the_limit_holds_where_shares_do(world: World) -> None:
    append(world, rows(*"CDEG"))
    world.contribute("north", rows(*"PQR"))
    world.collect()
    world.contribute("south", rows("X"))
    refuses(world, r"there would be 10 of 9", name="south", others=0)


@pytest.mark.slow  # `test_the_limit_holds_where_shares_do` is quick
def test_rows_of_cells_that_are_there_are_taken_in_whatever_the_share(world: World) -> None:
    world.contribute("north", rows(*"PQR"))
    world.collect()
    for name in ("east", "west"):
        world.register(name)  # a share is 1 now
    world.contribute("north", rows("P"))
    world.collect()
    world.contribute("north", rows("A", "B"), replace=True)
    world.collect()
    assert ask(world.stored(), SUMS).result.rows == expected(world, OWN + rows("A", "B"), SUMS)


@pytest.mark.slow  # `test_more_than_a_share_is_refused_before_anything_is_written` is quick
def test_cells_that_lost_their_rows_are_used_again(world: World) -> None:
    for wards in ("PQR", "YZP"):
        world.contribute("north", rows(*wards), replace=True)
        world.collect()
    assert cells(world) == 5
    assert ask(world.stored(), SUMS).result.rows == expected(world, OWN + rows(*"YZP"), SUMS)
    remove(world.tables()[0], "trial", "north")
    append(world, rows("C", "D"))
    assert cells(world) == 5
    assert ask(world.stored(), SUMS).result.rows == expected(world, OWN + rows("C", "D"), SUMS)


def test_a_number_is_given_again_only_without_rows() -> None:
    held = Cells([("a",), ("b",), ("c",)], [1, 0, 0])
    numbers = held.add(["ward"], [("c",), ("d",), ("e",)], [4, 5, 6])
    assert (held.keys[0], held.rows[0]) == (("a",), 1)
    assert numbers[0] == 2, "a key that is there keeps its number"
    assert sorted(numbers[1:]) == [1, 3]
    assert [held.keys[each] for each in numbers] == [("c",), ("d",), ("e",)]
    assert [held.rows[each] for each in numbers] == [4, 5, 6]
