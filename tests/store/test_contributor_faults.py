"""Hostile contributors, stores and others: the table stays as it was, and an error names the contributor."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cleave.contributions import contribute
from cleave.store.contribution import ContributionHead, dump_head
from cleave_shared.errors import CheckFailed, CleaveError, InputError
from tests.campaign import FACTOR, sampled
from tests.store.contributing import HEADER, SCHEMA, World
from tests.store.faulty import DAMAGES, damage
from tests.store.test_contributors import NORTH, OWN, SOUTH, SUMS, expected

ROUNDS = sampled(6, 25, 50 * FACTOR)  # CLEAVE_CAMPAIGN has more


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, key_file: Path) -> World:
    """Nothing that a test does here is ever taken in."""
    made = World(tmp_path_factory.mktemp("hostile") / "world", key_file)
    made.put(OWN)
    for name in ("north", "south"):
        made.register(name)
    made.contribute("north", NORTH)
    made.contribute("south", SOUTH)
    return made


def refused(world: World, match: str = "contributor 'north'") -> CheckFailed:
    version = world.open().manifest.version
    with pytest.raises(CheckFailed, match=match) as told:
        world.collect("north")
    assert world.open().manifest.version == version
    assert all(word not in told.value.message for word in ("Di", "60.125", "Ed"))
    return told.value


@pytest.mark.parametrize("rounds", sampled(3, 25, 50 * FACTOR))
def test_damage_anywhere_is_found(world: World, tmp_path: Path, rounds: int) -> None:
    """Damage of any kind to any object of the contributor's: its rows are not taken in, and those of another are."""
    rng = random.Random(20)
    head, _ = world.contributions("north").head()
    assert head is not None
    listed = {head.parts[0].names.name, f"{world.folder_of('north')}/draft"}  # only the contributor reads them
    for number in range(rounds):
        copy = world.copy(tmp_path / str(number))
        store, place = copy.sensitive(), world.folder_of("north")
        objects = sorted(set(store.names(place)) - listed)
        name, kind = rng.choice(objects), rng.choice(DAMAGES)
        damage(store, name, kind, rng, [other for other in objects if other != name])
        lost = name.endswith("/head") and store.read_versioned(name) is None
        if lost:
            assert len(copy.collect()) == 1, "nothing was taken in yet: there is nothing to miss"
        else:
            with pytest.raises(CheckFailed, match="contributor 'north'") as raised:
                copy.collect()
            assert all(word not in raised.value.message for word in ("Di", "60.125", "Ed"))
        assert copy.ask(SUMS).result.rows == expected(copy, OWN + SOUTH, SUMS)


def _head(world: World, name: str) -> tuple[str, dict[str, Any]]:
    place = f"{world.folder_of(name)}/head"
    return place, json.loads(world.sensitive().read(place))


def _with_head(world: World, content: bytes, check: Callable[[], object]) -> None:
    place = f"{world.folder_of('north')}/head"
    whole = world.sensitive().read(place)
    world.sensitive().delete([place])
    world.sensitive().write(place, content)
    try:
        check()
    finally:
        world.sensitive().delete([place])
        world.sensitive().write(place, whole)


@pytest.mark.parametrize("rounds", ROUNDS)
def test_a_wrong_signature_is_an_error(world: World, rounds: int) -> None:
    """Signature of another contributor, of a stranger, under other content, or with a bit flipped."""
    rng = random.Random(21)
    _, members = _head(world, "north")
    _, others = _head(world, "south")
    stranger = world.identity("stranger")
    signed = ContributionHead.model_validate({name: value for name, value in members.items() if name != "signature"})
    for number in range(rounds):
        changed = dict(members)
        kind = number % 5
        if kind == 0:
            changed["signature"] = others["signature"]
        elif kind == 1:
            changed["signature"] = stranger.sign(signed.signed())
        elif kind == 2:
            changed["version"] = members["version"] + 1 + rng.randrange(1000)
        elif kind == 3:
            bit = bytearray.fromhex(members["signature"])
            bit[rng.randrange(64)] ^= 1 << rng.randrange(8)
            changed["signature"] = bit.hex()
        else:
            changed = dict(others)
        told = "contributor 'north': .*(signature|contributor)"
        _with_head(world, json.dumps(changed).encode(), lambda told=told: refused(world, told))  # type: ignore[misc]


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[]", b"null", b"[" * 100_000, b"\xff", b'{"signature": 1}', b"x" * (2 << 20)]
)
def test_a_head_that_is_none(world: World, content: bytes) -> None:
    _with_head(world, content, lambda: refused(world))


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "change",
    [
        {"owner": "0" * 32},
        {"table_id": "0" * 32},
        {"contributor": "0" * 64},
    ],
)
def test_a_head_that_is_for_others(world: World, change: dict[str, str]) -> None:
    """Signed by the contributor, but taken from elsewhere."""
    _, members = _head(world, "north")
    del members["signature"]
    head = ContributionHead.model_validate(members | change)
    content = dump_head(head, world.identity("north").sign(head.signed()))
    _with_head(world, content, lambda: refused(world))


def test_an_older_head_is_not_taken(tmp_path: Path, key_file: Path) -> None:
    world = World(tmp_path / "world", key_file)
    world.put(OWN)
    world.register("north")
    world.contribute("north", NORTH)
    place = f"{world.folder_of('north')}/head"
    first = world.sensitive().read(place)
    world.contribute("north", SOUTH, replace=True)
    world.collect()
    world.sensitive().delete([place])
    with pytest.raises(CheckFailed, match="gone from the store"):
        world.collect()
    world.sensitive().write(place, first)
    with pytest.raises(CheckFailed, match="another state than version 2"):
        world.collect()
    with pytest.raises(CheckFailed, match="shows version 1 of what was put here, 2 was here before"):
        world.contribute("north", NORTH)
    # the same version once more, with other content and a right signature: an identity that is in two hands
    head = ContributionHead.model_validate(_without(first, 2))
    world.sensitive().delete([place])
    world.sensitive().write(place, dump_head(head, world.identity("north").sign(head.signed())))
    with pytest.raises(CheckFailed, match="another state than version 2"):
        world.collect()
    assert world.ask(SUMS).result.rows == expected(world, OWN + SOUTH, SUMS)


def _without(content: bytes, version: int) -> dict[str, Any]:
    members: dict[str, Any] = json.loads(content)
    del members["signature"]
    return members | {"version": version}


class Canaries(World):
    """All that could be read begins with a word that is too long to be among random bytes by chance."""

    name, header = "canarytable", HEADER.replace(",", ",canary_").replace("ward", "canary_ward")
    schema_text = (
        SCHEMA.replace("columns.", "columns.canary_").replace("1000", "9876543210").replace("400", "9876543210")
    )


@pytest.mark.slow  # quick: test_faults.py, of the owner's
def test_nothing_a_contributor_puts_can_be_read(tmp_path: Path, key_file: Path) -> None:
    """By no other, by no store: no value, name, key of a cell or column; and nothing is at the plain place."""
    world = Canaries(tmp_path / "world", key_file)
    world.put("canary,f,61,12.50,70.25,Ada\n", ("canary_ward", "canary_sex"))
    world.register("canarynorth")
    world.contribute("canarynorth", "canarykey,canary sex,50,9876543.25,9876543.125,canary Di\n")
    place = world.folder_of("canarynorth")
    assert list(world.stores().plain.names(place)) == []
    written = {name: world.sensitive().read(name) for name in world.sensitive().names("tables")}
    assert any(name.startswith(place) for name in written)
    for name, content in written.items():
        for word in (b"canary", b"9876543"):
            assert word not in name.encode() + content.lower(), name
    assert not hasattr(contribute, "OwnerKey"), "the contributor's side imports nothing that holds a secret"


def test_a_contributor_without_rows_is_told(world: World) -> None:
    with pytest.raises(InputError, match=r"has no rows to put"):
        world.contribute("north", "")


def test_a_contributors_errors_hold_no_value(world: World) -> None:
    for rows in ("A,m,999,1.00,60.125,Zoe\n", "A,m,5,123456.00,60.125,Zoe\n", "A,m,x,1.00,60.125,Zoe\n"):
        with pytest.raises((InputError, CleaveError)) as told:
            world.contribute("north", rows)
        assert not any(word in f"{told.value.message} {told.value.hint}" for word in ("Zoe", "999", "123456", "60.125"))
