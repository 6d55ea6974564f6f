"""Many writers and askers of one table at once: see `World` of tests/store/writing.py for what must hold."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cleave.maintain.changes import delete_rows as delete
from cleave.maintain.rotate import move_table as rotate
from cleave.store import attempts, compacting
from cleave.store import put as putting
from cleave.store.compacting import compact
from cleave.store.log import records_after
from cleave.store.manifest import Object
from cleave.store.reader import LostError, Opened
from cleave.store.vault import Purpose, Vault
from cleave.table.progress import Silent
from tests.campaign import FACTOR, FULL
from tests.store.conftest import aws_environment
from tests.store.writing import (
    COMPACTS,
    DELETES,
    UPDATES,
    World,
    adds,
    some,
    times_of,
    with_columns,
    with_readers,
    with_releases,
)


@pytest.fixture
def world(tmp_path: Path, key_file: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(attempts, "HELD_SECONDS", 600.0)  # a revocation may take long on a busy machine
    return World(tmp_path / "world", key_file)


@pytest.mark.slow  # quick: the tests below, and test_faults.py of two writers
@pytest.mark.parametrize(("times", "least"), [(2, 20), pytest.param(5, 60, marks=pytest.mark.slow)])
def test_appends_by_five_writers_at_once_conflict_with_nothing(world: World, times: int, least: int) -> None:
    """`times` by each, beside compactions, a deleter and questions. `least`: rows then."""
    world.begin(some("first", 0, 6))
    works = [adds(world, f"w{number}", times, batches=number % 2 == 1, upserts=number == 4) for number in range(5)]
    works += [times_of(world, "compacts", 2, COMPACTS), times_of(world, "deletes", times // 2 + 1, DELETES)]
    world.run(works, [world.totals, world.verify])
    assert world.told == []
    assert len(world.check()[-1]) > least


def test_a_compaction_beside_appends_is_made(world: World) -> None:
    """However many: none changes what it merges. What it has merged counts."""
    world.begin(some("first", 0, 6))
    for number in range(2):
        putting.append(world.as_user("before"), world.file(some("before", number)), "trial", Silent())
    tables, left = world.as_user("compacts"), list(range(5))  # more, and one of them merges
    real = tables.commit

    def meanwhile(*given: Any, **more: Any) -> Opened:
        if left:
            loaded = world.file(some("meanwhile", left.pop()))
            putting.append(world.as_user("meanwhile"), loaded, "trial", Silent())
        return real(*given, **more)

    tables.commit = meanwhile  # type: ignore[method-assign]
    merged = compact(tables, "trial", Silent()).manifest
    assert left == []
    assert max(each.rows for each in merged.segments) == 12
    assert merged.rows == 27


def test_an_append_is_made_though_a_delete_swept_what_it_wrote(world: World) -> None:
    """A delete sweeps all drafts. Nobody else changes the table then."""
    world.begin(some("first", 0, 6))
    tables = world.as_user("appends")
    real = tables.commit

    def meanwhile(*given: Any, **more: Any) -> Opened:
        tables.commit = real  # type: ignore[method-assign]
        delete(world.as_user("deletes"), "trial", "name = 'first-0-0'", Silent(), yes=True)
        return real(*given, **more)

    tables.commit = meanwhile  # type: ignore[method-assign]
    assert putting.append(tables, world.file(some("appends", 0)), "trial", Silent()).manifest.rows == 8


@pytest.mark.sampled(2)
@pytest.mark.parametrize("swept", ["draft", "manifest"])
def test_what_a_delete_sweeps_before_it_is_read_back_is_written_again(
    world: World, swept: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No store has lost it, and no other process continues the draft."""
    world.begin(some("first", 0, 6))
    tables, left = world.as_user("appends"), [0]
    store = tables.stores.sensitive
    replace, seal = store.replace, tables.seal

    def sweep() -> None:
        if left:
            delete(world.as_user("deletes"), "trial", f"name = 'first-0-{left.pop()}'", Silent(), yes=True)

    def replaced(name: str, content: bytes, expected: str | None) -> str:
        version = replace(name, content, expected)
        if swept == "draft" and name.startswith("drafts/"):
            sweep()
        return version

    def sealed(folder: str, vault: Vault, purpose: Purpose, content: bytes, longest: int = 0) -> Object:
        written = seal(folder, vault, purpose, content, longest)
        if swept == purpose and content.startswith(b'{"format"'):  # not a page
            sweep()
        return written

    monkeypatch.setattr(store, "replace", replaced)
    monkeypatch.setattr(tables, "seal", sealed)
    assert putting.append(tables, world.file(some("appends", 0)), "trial", Silent()).manifest.rows == 8
    assert left == []


def test_an_append_is_done_though_the_table_moved_after_it(world: World) -> None:
    """Others have deleted the log in which it looks for theirs."""
    world.begin(some("first", 0, 6))
    tables, other = world.as_user("appends"), ["before"]
    real = tables.commit

    def meanwhile(*given: Any, **more: Any) -> Opened:
        if other:
            putting.append(world.as_user("other"), world.file(some(other.pop(), 0)), "trial", Silent())
        done = real(*given, **more)
        rotate(world.as_user("rotates"), world.as_user("rotates", new=True), "trial", Silent())
        return done

    tables.commit = meanwhile  # type: ignore[method-assign]
    assert putting.append(tables, world.file(some("appends", 0)), "trial", Silent()).manifest.rows == 12
    assert world.newest("asks").open("trial").manifest.rows == 12


@pytest.mark.slow  # quick: the test above
def test_an_append_is_done_though_its_log_is_never_read(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others record something whenever it looks for changes by others."""
    world.begin(some("first", 0, 6))
    tables, other = world.as_user("appends"), ["before"]
    real = tables.commit

    def meanwhile(*given: Any, **more: Any) -> Opened:
        if other:
            putting.append(world.as_user("other"), world.file(some(other.pop(), 0)), "trial", Silent())
        done = real(*given, **more)
        monkeypatch.setattr("cleave.store.tables.records_after", after_another)
        return done

    def after_another(*given: Any) -> Any:
        pulls = world.as_user("pulls")
        pulls.record(pulls.open("trial"), "pull", 0)
        return records_after(*given)

    tables.commit = meanwhile  # type: ignore[method-assign]
    assert putting.append(tables, world.file(some("appends", 0)), "trial", Silent()).manifest.rows == 12


@pytest.mark.slow  # quick: an append beside a delete, above
def test_an_append_is_done_though_its_merge_reads_what_others_replaced(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.begin(some("first", 0, 6))

    def lost(_: object) -> tuple[()]:
        raise LostError("an object is missing", "tables/a/b", lambda: False)

    monkeypatch.setattr(compacting, "merge_due", lost)
    assert (
        putting.append(world.as_user("appends"), world.file(some("appends", 0)), "trial", Silent()).manifest.rows == 9
    )


def all_at_once(world: World, rounds: int) -> None:
    """Everybody changes the table, `rounds` times each; in the end it moves to another key."""
    world.begin(some("first", 0, 30))
    ended = threading.Barrier(2)
    works = [
        adds(world, "plain", rounds),
        adds(world, "batches", rounds, batches=True),
        adds(world, "upserts", rounds, upserts=True),
        adds(world, "more", 2 * rounds),
        times_of(world, "compacts", rounds, COMPACTS),
        times_of(world, "deletes", rounds, DELETES),
        times_of(world, "updates", rounds, UPDATES),
        times_of(world, "readers", max(1, rounds // 2), *with_readers(world)),
        times_of(world, "columns", max(1, rounds // 2), *with_columns()),
        times_of(world, "releases", rounds, *with_releases(world)),
    ]

    def rotated() -> None:
        ended.wait()
        rotate(world.as_user("rotates"), world.as_user("rotates", new=True), "trial", Silent())

    def last(work: Callable[[], None]) -> None:
        ended.wait()
        work()

    world.run(works, [world.totals, world.rows, world.verify, world.pull])
    world.is_over.clear()
    world.run(
        [rotated, partial(last, adds(world, "late", max(2, rounds // 2)))],
        [world.totals, world.verify],
    )


@pytest.mark.slow
def test_all_changes_at_once(world: World, printed_figures: list[str]) -> None:
    """Beside all kinds of questions. What is added is never in conflict; a file that lacks a new column is refused."""
    all_at_once(world, 4 * FACTOR if FULL else 3)
    told = Counter(what for what, _ in world.told)
    printed_figures.append(f"writers at once: {sum(map(len, world.done.values()))} changes, {dict(told)} in conflict")
    world.check()


@pytest.mark.slow
def test_all_changes_at_once_in_s3(
    tmp_path: Path, key_file: Path, s3_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in aws_environment(s3_endpoint).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(attempts, "HELD_SECONDS", 600.0)  # as above
    world = World(tmp_path / "world", key_file, s3_endpoint)
    all_at_once(world, 2 * FACTOR if FULL else 1)
    world.check()
