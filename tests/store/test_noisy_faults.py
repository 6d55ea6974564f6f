"""Noisy releases that are stopped at any write, or made twice at once: each is published and paid once (rule N5)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cleave.objects.locate import Stores
from cleave.objects.storage import ConflictError
from cleave.releases.kind import made as made_of
from cleave.releases.noisy import NoisyReleaseFacts
from cleave.releases.noisy_totals import NoisyTotals
from cleave.releases.releases import drafted, release, revoke
from cleave.store import put as putting
from cleave.store.dropping import drop
from cleave.table.progress import Silent
from cleave_shared.errors import InputError
from tests.campaign import sampled
from tests.store.contributing import copied_for_each
from tests.store.noising import NoisyReleases, made
from tests.store.test_release_faults import stopped

# writes from one kill to the next; a quick kill is at write 2, before the commit, and at 5, after it
STEPS = pytest.mark.parametrize("step", sampled(3, 2, 1))
MADE = pytest.mark.parametrize("made", [False, pytest.param(True, marks=pytest.mark.slow)])


world = copied_for_each(NoisyReleases.begin, NoisyReleases)


def released(world: NoisyReleases, stores: Stores | None = None) -> NoisyReleaseFacts:
    analysts = {name: world.public_of(name) for name in ("carol", "dave")}
    facts = made_of(drafted(world.tables(stores)[0], world.name, analysts, world.noise()))
    assert isinstance(facts, NoisyReleaseFacts)
    return facts


def read(world: NoisyReleases, name: str) -> NoisyTotals | None:
    try:
        return world.drawn(name)
    except InputError:
        return None


@STEPS
@MADE
def test_a_release_that_is_killed_publishes_once_and_spends_once(
    world: NoisyReleases, tmp_path: Path, *, made: bool, step: int
) -> None:
    spent = set()
    for at in range(step - 1, 100, step):
        copy = world.copy(tmp_path / f"killed {at}")
        if not stopped(copy, lambda tables, copy=copy: released(copy, tables.stores), at, made=made):
            break
        before = copy.spent()
        spent.add(before)
        seen = [each for each in (read(copy, "carol"), read(copy, "dave")) if each is not None]
        assert before == 1_000_000 or not seen, "what is published is paid"
        facts = released(copy)
        assert facts.publishes == (not before)
        assert copy.spent() == 1_000_000
        drawn = read(copy, "carol")
        assert drawn is not None
        assert drawn == read(copy, "dave")
        assert all(each == drawn for each in seen), "no one reads two draws"
        said = [each.details.get("epsilon") for each in copy.tables()[0].log(copy.open())]
        assert said == [None, "1"]
    assert spent == {0, 1_000_000}
    assert at > 4


@STEPS
@MADE
def test_a_killed_revocation_seals_the_same_numbers(
    world: NoisyReleases, tmp_path: Path, *, made: bool, step: int
) -> None:
    released(world)
    drawn = world.drawn("carol")
    for at in range(step - 1, 100, step):
        copy = world.copy(tmp_path / f"killed {at}")
        if not stopped(copy, lambda tables: revoke(tables, world.name, "dave"), at, made=made):
            break
        assert read(copy, "carol") == drawn
        copy.revoke("dave")
        assert (read(copy, "carol"), copy.spent()) == (drawn, 1_000_000)
        with pytest.raises(InputError, match="no release"):
            copy.source("dave")
    assert at > 4


@pytest.mark.slow  # quick: the tests above
@STEPS
@MADE
def test_a_release_to_new_analysts_that_is_killed_is_finished_by_the_next(
    world: NoisyReleases, tmp_path: Path, *, made: bool, step: int
) -> None:
    released(world)
    drawn, erin = world.drawn("carol"), {"erin": world.public_of("erin")}
    for at in range(step - 1, 100, step):
        copy = world.copy(tmp_path / f"killed {at}")
        if not stopped(copy, lambda tables: release(tables, world.name, erin), at, made=made):
            break
        assert read(copy, "erin") in (None, drawn)
        for _ in range(2):
            facts = release(copy.tables()[0], copy.name, erin)
            assert (facts.number, facts.fingerprint[-2:]) == (2, "@2")
            assert read(copy, "erin") == read(copy, "carol") == drawn
        assert copy.spent() == 1_000_000
    assert at > 4


def test_of_two_releases_at_once_one_is_refused_and_spends_nothing(world: NoisyReleases) -> None:
    draft = world.draft("carol")
    commit = draft.tables.commit

    def second(*given: Any, **named: Any) -> Any:
        world.draw("carol", epsilon=0.5)
        return commit(*given, **named)

    draft.tables.commit = second  # type: ignore[method-assign]
    with pytest.raises(ConflictError):
        made_of(draft)
    assert world.spent() == 500_000


@pytest.mark.parametrize("step", [6, pytest.param(2, marks=pytest.mark.slow)])
def test_a_drop_that_is_killed_forgets_nothing_that_was_spent(world: NoisyReleases, tmp_path: Path, step: int) -> None:
    released(world)
    for at in range(0, 20, step):
        copy = world.copy(tmp_path / f"killed {at}")
        (copy.root / "owner.json").unlink()  # of a machine that has only opened it
        was_stopped = stopped(copy, lambda tables: drop(tables, world.name), at, made=True)
        drop(copy.tables()[0], copy.name) if was_stopped else None
        copy.put(made())
        assert copy.spent() == 1_000_000
        if not was_stopped:
            break
    assert at > 3


def test_what_is_sealed_again_after_other_changes_is_what_was_drawn(world: NoisyReleases) -> None:
    released(world)
    drawn = world.drawn("carol")
    opened = world.open()
    newest = opened.manifest.release
    assert newest is not None
    assert newest.noisy is not None
    assert newest.noisy.drawn == opened.manifest.version
    world.tables()[0].record(opened, "queries", 0)
    assert world.spent() == 1_000_000, "a record of the log spends nothing"
    assert not released(world).publishes
    assert world.drawn("carol") == drawn


@pytest.mark.slow  # quick: the first test
def test_a_retry_publishes_what_was_committed_whatever_others_added_since(world: NoisyReleases, tmp_path: Path) -> None:
    """Killed after the commit, before all analysts can read it; then rows are appended."""
    retried = 0
    for at in range(100):
        copy = world.copy(tmp_path / f"killed {at}")
        if not stopped(copy, lambda tables, copy=copy: released(copy, tables.stores), at, made=True):
            break
        if not copy.spent() or read(copy, "dave") is not None:
            continue
        with copy.table(made(20, start=500)) as table:
            putting.append(copy.tables()[0], table, copy.name, Silent())
        facts = released(copy)
        assert (facts.publishes, facts.spent) == (False, "1")
        assert read(copy, "dave") == read(copy, "carol") is not None
        retried += 1
        with pytest.raises(InputError, match="has spent epsilon 1"):
            released(copy)
    assert retried
