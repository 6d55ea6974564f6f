"""Releases that are stopped, tampered with or replayed; and what files of analysts (rule R6) and contributors open."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, get_args

import pytest

from cleave.ckks import public_key as public_keys
from cleave.ckks.owner_key import box_keys
from cleave.ckks.public_key import open_sealed, public_side
from cleave.objects.locate import Stores
from cleave.objects.storage import ConflictError, StoreError
from cleave.releases import exact, parts
from cleave.releases.exact_totals import ExactTotals
from cleave.releases.publishing import publish
from cleave.releases.release import ReleaseHead
from cleave.releases.releases import open_totals, release, revoke
from cleave.share.addressed import read_head
from cleave.store import put as putting
from cleave.store.compacting import compact
from cleave.store.identity import Identity, create_identity
from cleave.store.vault import Purpose, Vault
from cleave.table.progress import Silent
from cleave_shared.errors import CheckFailed, CleaveError, CleaveWarning, InputError
from tests.campaign import FULL, sampled
from tests.store.contributing import copied_for_each
from tests.store.faulty import Failing, KilledError
from tests.store.releasing import Releases, rows

COUNT = "SELECT COUNT(*) FROM trial"
# writes from one kill to the next; the quick kill, at write 5, is between the commit and the analysts' heads
STEPS = pytest.mark.parametrize("step", sampled(10, 3, 1))
# killed once a write is made, a store holds the same as killed before the next
MADE = pytest.mark.parametrize("made", [False, pytest.param(True, marks=pytest.mark.slow)])
BEFORE, AFTER = 27, 33  # rows in cells of at least five: six come to one of them


def append(world: Releases, count: int = 6, start: int = 40) -> None:
    with world.table(rows([("A", "f")] * count, start)) as table:
        tables = world.tables()[0]
        putting.append(tables, table, world.name, Silent())


def grown(world: Releases) -> None:
    world.put(rows())
    world.release("carol", "dave")
    append(world)


world = copied_for_each(grown, Releases)


def rows_shown(world: Releases, name: str, memory: str = "") -> int:
    return int(world.ask(name, COUNT, memory=memory).result.rows[0][0])


def stopped(world: Releases, change: Callable[[Any], object], at: int, *, made: bool) -> bool:
    """Kill `change` of the tables at write number `at`; False where it came to its end before."""
    stores = world.stores()
    failing = Stores(*(Failing(each, at, made=made) for each in (stores.sensitive, stores.plain)))  # type: ignore[arg-type]
    try:
        change(world.tables(failing)[0])
    except KilledError:
        return True
    return False


def left_over(world: Releases) -> set[str]:
    there = {each for store in world.stores().distinct() for each in store.names(world.tables()[0].folder(world.name))}
    return there - world.open().manifest.objects()


@STEPS
@MADE
def test_a_release_that_is_killed_shows_the_old_or_the_new(
    world: Releases, tmp_path: Path, *, made: bool, step: int
) -> None:
    for at in range(step // 2, 100, step):
        copy = world.copy(tmp_path / f"killed {at}")
        if not stopped(copy, lambda tables: release(tables, world.name, {}), at, made=made):
            break
        assert {rows_shown(copy, "carol"), rows_shown(copy, "dave")} <= {BEFORE, AFTER}
        if FULL or at // step % 3 == 0:
            append(copy, 1, 50)  # whose sweep leaves what an analyst's head may still name
            assert {rows_shown(copy, "carol"), rows_shown(copy, "dave")} <= {BEFORE, AFTER}
        again = copy.release()
        assert (rows_shown(copy, "carol"), rows_shown(copy, "dave")) in ((AFTER, AFTER), (AFTER + 1, AFTER + 1))
        if not again.made:
            append(copy, 1, 60)
        for path in (copy.root / "s").rglob("*"):
            if path.is_file():
                os.utime(path, (0, 0))
        compact(copy.tables()[0], copy.name, Silent())  # a day later
        assert len(left_over(copy)) == 3, "head, manifest, log"
    assert at > 6


@pytest.mark.slow  # quick: the test above
@STEPS
@MADE
def test_a_revocation_that_is_killed_is_finished_by_the_next(
    world: Releases, tmp_path: Path, *, made: bool, step: int
) -> None:
    for at in range(step // 2, 100, step):
        copy = world.copy(tmp_path / f"killed {at}")
        if not stopped(copy, lambda tables: revoke(tables, world.name, "dave"), at, made=made):
            break
        assert rows_shown(copy, "carol") == BEFORE
        copy.revoke("dave")
        assert rows_shown(copy, "carol") == BEFORE, "nothing is published"
        with pytest.raises(InputError, match="no release"):
            copy.source("dave")
    assert at > 6


def test_of_two_releases_at_once_one_is_refused(world: Releases) -> None:
    tables = world.tables()[0]
    commit = tables.commit

    def second(*given: Any, **named: Any) -> Any:
        world.release("erin")
        return commit(*given, **named)

    tables.commit = second  # type: ignore[method-assign]
    with pytest.raises(ConflictError):
        release(tables, world.name, {})
    assert [rows_shown(world, name) for name in ("carol", "dave", "erin")] == [BEFORE] * 3


def test_an_older_release_takes_the_place_of_no_newer_one(world: Releases) -> None:
    world.release()
    old = world.open()
    append(world, 5, 60)
    world.release()
    publish(world.tables()[0], old, bytes(32))
    assert rows_shown(world, "carol") == AFTER + 5


@pytest.mark.parametrize("step", sampled(4, 2, 1))
def test_a_full_disk_loses_nothing(world: Releases, tmp_path: Path, step: int) -> None:
    class Full(Failing):
        def _change(self, change: Callable[[], object]) -> object:
            try:
                return super()._change(change)
            except KilledError:
                raise StoreError("no space left on device") from None

    for at in range(step // 2, 100, step):
        copy = world.copy(tmp_path / f"full {at}")
        stores = copy.stores()
        full = Stores(*(Full(each, at, made=False) for each in (stores.sensitive, stores.plain)))  # type: ignore[arg-type]
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always", CleaveWarning)
            try:
                release(copy.tables(full)[0], copy.name, {})
            except StoreError:
                assert {rows_shown(copy, "carol"), rows_shown(copy, "dave")} <= {BEFORE, AFTER}
                continue
        assert {rows_shown(copy, "carol"), rows_shown(copy, "dave")} == {AFTER}
        if not said:
            break
    assert at > 6


def head_of(world: Releases, name: str) -> str:
    release = world.open().manifest.release
    assert release is not None
    (place,) = (each.place for each in release.analysts if each.name == name)
    return f"{place}/head"


def put_back(world: Releases, objects: dict[str, bytes]) -> None:
    store = world.sensitive()
    for name, content in objects.items():
        store.delete([name])
        store.write(name, content)


def state(world: Releases) -> dict[str, bytes]:
    store = world.sensitive()
    return {name: store.read(name) for top in ("tables", "releases") for name in store.names(top)}


def test_an_older_release_is_not_believed(world: Releases) -> None:
    old = state(world)
    world.release()
    assert rows_shown(world, "carol") == AFTER
    put_back(world, old)
    with pytest.raises(CheckFailed, match="shows release 1 of 'trial', older than or different from release 2"):
        world.source("carol")


def test_a_new_machine_accepts_no_release_before_the_number_that_the_owner_stated(world: Releases) -> None:
    old = state(world)
    stated = world.release().fingerprint
    assert stated == f"{public_side(world.key).fingerprint}@2"
    world.source("carol", stated, memory=" of another machine").close()
    put_back(world, old)
    with pytest.raises(CheckFailed, match="shows release 1 of 'trial', older than or different from release 2"):
        world.source("carol", stated, memory=" of a third")
    for number in ("", "2.0", "-2", "9" * 5000):
        with pytest.raises(InputError, match="after @ is not a number"):
            world.source("carol", f"{public_side(world.key).fingerprint}@{number}")


def test_an_analyst_accepts_an_older_release_that_is_whole(world: Releases) -> None:
    old, mine = state(world), head_of(world, "carol")
    stated = world.release().fingerprint
    assert rows_shown(world, "carol") == AFTER
    put_back(world, old)
    store, holder = world.sensitive(), world.public_of("carol")
    totals = read_head(ReleaseHead, store.read(mine), holder, world.name).totals.name
    whole = store.read(totals)
    store.delete([totals])
    store.write(totals, whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(CheckFailed, match="a release is damaged"):
        world.source("carol", accepts=1)
    store.delete([totals])
    store.write(totals, whole)
    with pytest.raises(CheckFailed, match="older than or different from release 2"):
        world.source("carol")
    with pytest.raises(CheckFailed, match="older than or different from release 2"):
        world.source("carol", stated, accepts=1)
    with pytest.raises(InputError, match="has release 1, not 2"):
        world.source("carol", accepts=2)
    world.source("carol", accepts=1).close()
    assert rows_shown(world, "carol") == BEFORE


def test_heads_of_others_are_not_believed(world: Releases) -> None:
    store, mine = world.sensitive(), head_of(world, "carol")
    content = store.read(mine)
    fields = json.loads(content)
    changes: list[bytes] = [
        store.read(head_of(world, "dave")),
        content[:-1],
        content + b" " * (17 << 10),
        b"{}",
        b"\xff",
    ]
    changes += [
        json.dumps(fields | {name: value}).encode()
        for name, value in {"number": 99, "least": 1, "suite": "none", "release": "0" * 32, "key": "AAAA"}.items()
    ]
    for each in changes:
        put_back(world, {mine: each})
        with pytest.raises(CleaveError):
            world.source("carol", memory=" of another machine")
    put_back(world, {mine: content})
    world.source("carol").close()


def test_an_identity_opens_the_releases_made_for_it_and_nothing_else(
    world: Releases, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every object there ever was, tried with the keys that follow from an analyst's and a contributor's files."""
    monkeypatch.setattr(public_keys, "box_keys", cache(box_keys))  # of each identity once
    world.register("north")
    world.contribute("north", rows([("B", "m")] * 5, 70))
    objects = state(world)
    world.collect()
    objects |= state(world)
    (world.root / "heads").mkdir()
    versions: list[dict[str, bytes]] = [objects]
    world.release()
    versions.append(state(world))
    world.revoke("dave")
    versions.append(state(world))
    heads: dict[str, list[ReleaseHead]] = {}
    public = {name: public_side(identity) for name, identity in identities(world).items()}
    for version in versions:
        for name, content in version.items():
            for who, key in public.items():
                if name.startswith("releases/"):
                    try:
                        heads.setdefault(who, []).append(read_head(ReleaseHead, content, key, world.name))
                    except CheckFailed:
                        continue
    blobs = {name: content for version in versions for name, content in version.items()}
    every = [head for found in heads.values() for head in found]
    table_id = world.open().manifest.table_id
    opened: dict[str, set[int]] = {}
    for who, identity in identities(world).items():
        opened[who] = set()
        vault = Vault(identity, table_id)
        for name, content in blobs.items():
            for purpose in get_args(Purpose):
                assert not opens(lambda: vault.open(purpose, name, content))  # noqa: B023
            for context in (name, *(head.bound(public[who].fingerprint) for head in every)):
                assert not opens(lambda: open_sealed(identity, context, content, 1 << 27))  # noqa: B023
            for head in every:
                if opens(lambda: open_totals(identity, public[who], head, content)):  # noqa: B023
                    assert name == head.totals.name
                    opened[who].add(head.number)
    first = min(opened["carol"])
    assert opened["carol"] == {head.number for head in heads["carol"]}
    assert opened["dave"] == {head.number for head in heads["dave"]} < opened["carol"]
    assert first == 1
    assert opened["north"] == opened["stranger"] == set()


def identities(world: Releases) -> dict[str, Identity]:
    path = world.root / "stranger.pem"
    stranger = world.analyst("stranger") if path.exists() else create_identity(path, analyst=True)[0]
    return {name: world.analyst(name) for name in ("carol", "dave", "north")} | {"stranger": stranger}


def opens(work: Callable[[], object]) -> bool:
    try:
        work()
    except (CleaveError, ValueError):
        return False
    return True


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    "change",
    [
        {"sql": "nosuch + 1"},
        {"sql": "(SELECT max(bill) FROM trial)"},
        {"sql": "f(", "derived": True},
        {"name": "nosuch", "sql": "nosuch"},
        {"name": "both", "sql": "age + bill", "derived": True},
        {"type": "NONSENSE"},
        {"decimals": 77},
        {"decimals": None, "exponent": 1 << 40},
        {"lower": None, "upper": None},
        {"nullable": False},
        {"by": ("nosuch", "sex")},
        {"by": ("ward", "ward")},
    ],
    ids=str,
)
def test_a_release_with_measures_of_another_schema_is_refused(
    world: Releases, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any]
) -> None:
    """Its owner is hostile: it is signed and sealed as it should be."""
    real = parts.released_totals

    def made(*given: Any) -> ExactTotals:
        totals = real(*given)
        if "by" in change:
            return totals.model_copy(update=change)
        first, *rest = totals.measures
        return totals.model_copy(update={"measures": (*rest[:1], first.model_copy(update=change), *rest[1:])})

    monkeypatch.setattr(exact, "released_totals", made)
    monkeypatch.setattr(ExactTotals, "dump", lambda totals: totals.model_dump_json().encode())
    world.release()
    for sql in (
        COUNT,
        "SELECT ward, SUM(bill), AVG(age) FROM trial GROUP BY ward",
        "SELECT CORR(age, bill) FROM trial",
    ):
        with pytest.raises(CheckFailed, match="a release is damaged"):
            world.ask("carol", sql)
