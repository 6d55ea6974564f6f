"""A contribution that was stopped goes on where it was: only for the same rows, and they are never put twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from cleave.contributions.contribute import ContributionDraft, ContributionStep, contribution_drafts, new_contribution
from cleave.objects.locate import Stores
from cleave.objects.storage import ConflictError
from tests.store.contributing import World, copied_for_each
from tests.store.faulty import Failing, KilledError
from tests.store.test_contributors import NORTH, OWN, SOUTH, SUMS, expected

ROWS = NORTH + SOUTH  # five of them, two in a segment


def registered(world: World) -> None:
    world.put(OWN)
    world.register("north")


world = copied_for_each(registered)


def put(world: World, rows: str = ROWS, at: int | None = None, *, made: bool = False, replace: bool = False) -> bool:
    """Whether it came to its end, and was not killed at write number `at`."""
    stores = world.stores()
    if at is not None:
        stores = Stores(*(Failing(each, at, made=made) for each in (stores.sensitive, stores.plain)))  # type: ignore[arg-type]
    try:
        world.contribute("north", rows, stores=stores, segment_rows=2, replace=replace)
    except KilledError:
        return False
    return True


def objects(world: World) -> set[str]:
    return {
        *world.stores().sensitive.names(world.folder_of("north")),
        *world.stores().plain.names(world.folder_of("north")),
    }


def check(world: World, rows: str) -> None:
    head, _ = world.contributions("north").head()
    assert head is not None
    world.collect()
    assert world.ask(SUMS).result.rows == expected(world, OWN + rows, SUMS)
    assert objects(world) - {f"{world.folder_of('north')}/draft"} == {f"{world.folder_of('north')}/head"}


def draft_of(world: World, who: str = "north") -> ContributionDraft | None:
    """What is left of the last put, by the identity of `who` in north's folder."""
    asked = world.contributions("north")._request(replace=False)
    return contribution_drafts(world.stores(), world.folder_of("north"), world.identity(who)).find(asked)


@pytest.mark.slow
def test_as_long_as_a_put_has_anything_left_to_do_it_is_not_put_twice(world: World, tmp_path: Path) -> None:
    """The draft, by which it is known, goes after all that is deleted. The plain store is not changed at all."""
    assert put(world)
    whole = world.copy(tmp_path / "whole")
    stores = whole.stores()
    counting = [Failing(each, 1000, made=True) for each in (stores.sensitive, stores.plain)]
    whole.contribute("north", SOUTH, stores=Stores(*counting), segment_rows=2, replace=True)  # type: ignore[arg-type]
    assert counting[1].changes == 0
    done = 0
    for left in range(4):
        place = world.copy(tmp_path / f"{left}")
        stores = place.stores()
        at = counting[0].changes - 1 - left
        failing = [Failing(each, at, made=False) for each in (stores.sensitive, stores.plain)]
        with pytest.raises(KilledError):
            place.contribute("north", SOUTH, stores=Stores(*failing), segment_rows=2, replace=True)  # type: ignore[arg-type]
        head, _ = place.contributions("north").head()
        assert head is not None
        version = head.version
        assert put(place, SOUTH, replace=True)
        head, _ = place.contributions("north").head()
        assert head is not None
        if version == 2:
            done += 1
            assert head.version == 2
        check(place, SOUTH)
    assert done > 1


def test_it_says_that_it_goes_on(world: World) -> None:
    put(world, at=12)
    assert put(world)
    (told,) = world.said
    assert told.startswith("resuming an interrupted put of the same rows: ")
    head, _ = world.contributions("north").head()
    assert head is not None
    assert (head.version, len(head.parts)) == (1, 1)
    check(world, ROWS)


@pytest.mark.slow  # the owner's: `test_fewer_or_more_rows` is quick
def test_other_rows_are_put_anew(world: World) -> None:
    put(world, at=12)
    assert put(world, SOUTH + NORTH)
    assert world.said == ["the rows differ from those of the interrupted put: all of them are stored again"]
    check(world, SOUTH + NORTH)


@pytest.mark.slow  # quick: `test_other_rows_are_put_anew`
def test_what_is_asked_otherwise_is_put_anew(world: World) -> None:
    put(world, at=12)
    assert put(world, replace=True)
    assert world.said == []
    check(world, ROWS)


@pytest.mark.slow  # quick: test_resume.py, of an owner's draft
def test_a_draft_that_is_not_whole_is_not_used(world: World) -> None:
    put(world, at=12)
    draft = draft_of(world)
    assert draft is not None
    world.sensitive().delete([draft.segments[0].columns[0].object.name])
    assert put(world)
    assert world.said == []
    check(world, ROWS)


def test_nobody_else_reads_a_draft(world: World) -> None:
    put(world, at=12)
    content = b"".join(world.sensitive().read(each) for each in objects(world) if "/draft" in each)
    mine = draft_of(world)
    assert mine is not None
    assert mine.segments
    assert mine.key.encode() not in content
    assert bytes.fromhex(mine.key) not in content
    for each in mine.segments:
        assert each.id.encode() not in content
    assert draft_of(world, "south") is None


@pytest.mark.slow  # quick: test_faults.py, of two writers
def test_of_two_by_one_identity_one_is_told(world: World) -> None:
    put(world, at=12)
    drafts = [contribution_drafts(world.stores(), world.folder_of("north"), world.identity("north")) for _ in range(2)]
    for each in drafts:
        each.find("asked")
    step = ContributionStep(id="0" * 32, rows=1, digest="")
    first = drafts[0].add(new_contribution("asked", None, world.schema), step)
    with pytest.raises(ConflictError):
        drafts[1].add(new_contribution("asked", None, world.schema), step)
    found = drafts[1].find("asked")
    assert found == first
    drafts[0].add(first, step)
    with pytest.raises(ConflictError):
        drafts[1].add(found, step)
