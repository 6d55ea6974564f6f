"""A write that was killed when all of it was done adds nothing when it is repeated; meant, it adds its rows again.

What a SIGKILL leaves at each change of the stores is copied while one whole run goes on.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from cleave.objects.locate import Stores
from cleave.objects.storage import Storage
from cleave.store import put as putting
from cleave.store.dropping import drop
from cleave.table.progress import Silent
from tests.store.asking import ask
from tests.store.contributing import World, copied_for_each
from tests.store.faulty import Failing
from tests.store.test_contribute_resume import draft_of
from tests.store.test_contributors import NORTH, OWN, SOUTH, SUMS, expected


class Watched(Failing):
    """`storage`, and a call before each change of it. No other change that holds `lock` happens meanwhile."""

    def __init__(self, storage: Storage, before: Callable[[], object], lock: threading.Lock) -> None:
        super().__init__(storage, 1 << 30, made=True)
        self._before = before
        self._lock = lock

    def _change(self, change: Callable[[], object]) -> object:
        with self._lock:  # drafts and segments are written by threads
            self._before()
            return super()._change(change)


def kills(world: World, folder: Path, work: Callable[[Stores], object], *, every: bool = False) -> list[World]:
    """What `work` leaves when it is killed early on, before each of its last changes and after all of them; or before
    `every` change.
    """
    copies: list[Path] = []

    def copy() -> None:
        copies.append(folder / f"{len(copies)}")
        shutil.copytree(world.root, copies[-1])

    stores, lock = world.stores(), threading.Lock()
    work(Stores(*(Watched(each, copy, lock) for each in (stores.sensitive, stores.plain))))  # type: ignore[arg-type]
    copy()
    assert len(copies) > 8
    chosen = copies if every else (copies[len(copies) // 2], *copies[-6:])
    return [World(each, world.key_file) for each in chosen]


def started(world: World) -> None:
    world.put(OWN)


world = copied_for_each(started)


def append(world: World, rows: str, stores: Stores | None = None, *, again: bool = False) -> list[str]:
    """What was said of it."""
    said: list[str] = []
    tables, stores = world.tables(stores)
    putting.append(tables, world.table(rows), "trial", Silent(), again=again, say=said.append)
    return said


def contribute(world: World, rows: str, stores: Stores | None = None, *, again: bool = False) -> list[str]:
    world.said.clear()
    with world.table(rows) as table, putting.as_stream(table) as stream:
        world.contributions("north", stores).put(stream, Silent(), again=again)
    return list(world.said)


@pytest.mark.slow  # quick: test_kills.py
def test_an_append_killed_late_is_repeated_to_the_same_table(world: World, tmp_path: Path) -> None:
    before = world.open().manifest.version
    done = 0
    for each in kills(world, tmp_path, lambda stores: append(world, NORTH, stores)):
        found = each.open().manifest.version
        said = append(each, NORTH)
        manifest = each.open().manifest
        assert (manifest.version, manifest.rows) == (before + 1, (OWN + NORTH).count("\n"))
        assert any("nothing is added" in line for line in said) == (found > before)
        done += found > before
    assert done > 2, "also where nothing was left to be done"
    assert done < 7
    append(world, NORTH, again=True)
    assert ask(world.stored(), SUMS).result.rows == expected(world, OWN + NORTH * 2, SUMS)


def test_a_draft_goes_with_its_change(world: World) -> None:
    append(world, NORTH)
    assert append(world, SOUTH) == []
    tables, stores = world.tables()
    assert not [*stores.sensitive.names(tables.drafts("trial"))]
    assert append(world, NORTH) != [], "one of the newest changes added these rows"
    assert world.open().manifest.rows == (OWN + NORTH + SOUTH).count("\n")
    folder = tables.folder("trial")
    drop(tables, "trial")
    assert not [*world.stores().sensitive.names(folder), *world.stores().plain.names(folder)]


@pytest.mark.slow  # quick: test_kills.py
def test_a_contribution_killed_late_is_repeated_to_the_same_rows(world: World, tmp_path: Path) -> None:
    world.register("north")
    world.identity("north")
    done = 0
    for each in kills(world, tmp_path, lambda stores: contribute(world, NORTH, stores)):
        there = each.contributions("north").head()[0] is not None
        assert any("nothing is added" in line for line in contribute(each, NORTH)) == there
        head, _ = each.contributions("north").head()
        assert head is not None
        assert (head.version, len(head.parts)) == (1, 1)
        done += there
    assert 2 <= done < 7
    world.collect()
    assert contribute(world, NORTH) != [], "also when the owner has taken the rows in"
    assert contribute(world, NORTH, again=True) == []
    world.collect()
    assert ask(world.stored(), SUMS).result.rows == expected(world, OWN + NORTH * 2, SUMS)


def test_what_is_left_of_a_contribution_holds_no_secret(world: World) -> None:
    world.register("north")
    contribute(world, NORTH)
    left = draft_of(world)
    assert left is not None
    assert (left.segments, left.rows, left.key) == ((), NORTH.count("\n"), "0" * 64)
    drafts = world.contributions("north")._drafts
    assert drafts.resumable(left, left.head) is None, "and it is not gone on from, whatever head a store shows"
