"""Hostile contributors, stores and others: the table stays as it was, and an error names the contributor."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cleave.ckks.public_key import PublicKey, open_sealed
from cleave.store import contribute
from cleave.store.contribution import Head, PartManifest, dump_head, folder_of
from cleave.store.locate import Stores
from cleave.store.manifest import Object, described, new_id
from cleave_shared.errors import CheckFailed, CleaveError, InputError
from tests.store.asking import ask
from tests.store.campaign import FACTOR, sampled
from tests.store.contributing import World
from tests.store.faulty import DAMAGES, Failing, KilledError, damage
from tests.store.test_contributors import NORTH, OWN, SOUTH, SUMS, expected

ROUNDS = sampled(12, 50, 50 * FACTOR)  # CLEAVE_CAMPAIGN has more


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


def folder(world: World, name: str) -> str:
    return folder_of(world.open().manifest.table_id, world.identity(name).public)


def refused(world: World, match: str = "contributor 'north'") -> CheckFailed:
    version = world.open().manifest.version
    with pytest.raises(CheckFailed, match=match) as told:
        world.collect("north")
    assert world.open().manifest.version == version
    assert all(word not in told.value.message for word in ("Di", "60.125", "Ed"))
    return told.value


@pytest.mark.parametrize("rounds", ROUNDS)
def test_damage_anywhere_is_found(world: World, rounds: int) -> None:
    """Damage of any kind to any object of the contributor's."""
    rng = random.Random(20)
    stores, place = world.stores(), folder(world, "north")
    objects = [(store, name) for store in (stores.sensitive, stores.plain) for name in store.names(place)]
    listed = {_names_list(world), f"{place}/draft"}  # only the contributor reads them
    for _ in range(rounds):
        store, name = rng.choice([each for each in objects if each[1] not in listed])
        whole = store.read(name)
        others = [other for at, other in objects if at is store and other != name]
        damage(store, name, rng.choice(DAMAGES), rng, others)
        try:
            if name.endswith("/head") and store.read_versioned(name) is None:
                assert world.collect("north") == [], "nothing was taken in yet: there is nothing to miss"
            else:
                refused(world)
        finally:
            store.delete([name])
            store.write(name, whole)
    assert ask(world.stored(), SUMS).result.rows == expected(world, OWN, SUMS)


def _names_list(world: World) -> str:
    head, _ = world.contributions("north").head()
    assert head is not None
    return head.parts[0].names.name


def _head(world: World, name: str) -> tuple[str, dict[str, Any]]:
    place = f"{folder(world, name)}/head"
    return place, json.loads(world.sensitive().read(place))


def _with_head(world: World, content: bytes, check: Callable[[], object]) -> None:
    place = f"{folder(world, 'north')}/head"
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
    signed = Head.model_validate({name: value for name, value in members.items() if name != "signature"})
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
    head = Head.model_validate(members | change)
    content = dump_head(head, world.identity("north").sign(head.signed()))
    _with_head(world, content, lambda: refused(world))


class Liar:
    """A contributor with a right signature under what `lie` makes of its part."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.public: PublicKey = world.public()
        self.place = folder(world, "north")
        head, _ = world.contributions("north").head()
        assert head is not None
        self.head = head

    def sealed(self, content: bytes) -> Object:
        name = f"{self.place}/{new_id()}"
        made = self.public.seal(name, content)
        self.world.sensitive().write(name, made)
        return described(name, made)

    def opened(self, which: Object) -> bytes:
        return open_sealed(self.world.key, which.name, self.world.sensitive().read(which.name), 1 << 20)

    def part(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.opened(self.head.parts[0].manifest))
        return found

    def tell(self, part: dict[str, Any], check: Callable[[], object]) -> None:
        part_id = part.get("id", new_id())
        entry = self.head.parts[0].model_copy(
            update={"id": part_id, "manifest": self.sealed(json.dumps(part).encode())}
        )
        head = self.head.model_copy(update={"parts": (entry,)})
        content = dump_head(head, self.world.identity("north").sign(head.signed()))
        _with_head(self.world, content, check)

    def facts(self, part: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.opened(Object.model_validate(part["segments"][0]["facts"])))
        return found

    def index(self, part: dict[str, Any]) -> dict[str, Any]:
        which = Object.model_validate(part["segments"][0]["segment"]["index"])
        found: dict[str, Any] = json.loads(self.opened(which))
        return found


def _first(facts: dict[str, Any]) -> list[int]:
    totals: list[int] = facts["totals"][1]
    return totals


FACTS: dict[str, Callable[[dict[str, Any]], object]] = {
    "a total of a cell is one more": lambda f: _first(f).__setitem__(0, _first(f)[0] + 1),
    "totals of two cells are exchanged": lambda f: _first(f).reverse(),
    "a total is beyond its bounds": lambda f: _first(f).__setitem__(0, 10**30),
    "a total is negative": lambda f: _first(f).__setitem__(0, -1),
    "a total is no number": lambda f: _first(f).__setitem__(0, "1"),
    "a total is a boolean": lambda f: _first(f).__setitem__(0, True),
    "a column is missing": lambda f: f["totals"].pop(),
    "a cell is missing": lambda f: f["keys"].pop(),
    "rows of cells are exchanged": lambda f: f["rows"].__setitem__(slice(None), [2, 0]),
    "keys of cells are exchanged": lambda f: f["keys"].reverse(),
    "a key twice": lambda f: f["keys"].__setitem__(1, f["keys"][0]),
    "a key of one column": lambda f: f["keys"].__setitem__(0, ["A"]),
    "a key that is no text": lambda f: f["keys"].__setitem__(0, ["A", 1]),
    "a key of another row": lambda f: f["keys"].__setitem__(0, ["Z", "m"]),
    "a member more": lambda f: f.update(more=1),
    "too many digits": lambda f: _first(f).__setitem__(0, 1) or f.update(rows=[10**20, 1]),
}


@pytest.mark.parametrize("name", FACTS)
def test_facts_that_are_not_of_its_rows(world: World, name: str) -> None:
    liar = Liar(world)
    part = liar.part()
    facts = liar.facts(part)
    FACTS[name](facts)
    part["segments"][0]["facts"] = liar.sealed(json.dumps(facts).encode()).model_dump()
    liar.tell(part, lambda: refused(world))


def _zero(name: str) -> Callable[[dict[str, Any]], object]:
    return lambda index: index[name].__setitem__(0, index[name][0] + 1)


@pytest.mark.parametrize(
    "change", [_zero("cells"), _zero("rows"), lambda i: i.pop("rows"), lambda i: i["cells"].reverse()]
)
def test_an_index_that_is_not_of_its_rows(world: World, change: Callable[[dict[str, Any]], object]) -> None:
    liar = Liar(world)
    part = liar.part()
    index = liar.index(part)
    change(index)
    part["segments"][0]["segment"]["index"] = liar.sealed(json.dumps(index).encode()).model_dump()
    liar.tell(part, lambda: refused(world))


@pytest.mark.parametrize(
    ("which", "content"),
    [
        ("order", b""),
        ("order", bytes(8)),
        ("order", (2**32 - 1).to_bytes(4, "little") * 2),
        ("sealed", b""),
        ("sealed", b"PAR1" + bytes(100) + b"PAR1"),
        ("index", b"[]"),
        ("index", b"{" * 10_000),
        ("facts", b"null"),
        ("facts", b"\xff"),
    ],
)
def test_sealed_parts_that_are_none(world: World, which: str, content: bytes) -> None:
    liar = Liar(world)
    part = liar.part()
    made = liar.sealed(content).model_dump()
    segment = part["segments"][0]
    (segment if which == "facts" else segment["segment"])[which] = made
    liar.tell(part, lambda: refused(world))


PARTS: dict[str, Callable[[dict[str, Any], dict[str, Any]], object]] = {
    "another id": lambda p, _: p["segments"][0].update(id="0" * 32) or p.update(id="1" * 32),
    "another contributor": lambda p, _: p.update(contributor="0" * 64),
    "other terms": lambda p, _: p.update(terms="0" * 64),
    "another measure": lambda p, _: p["measures"][0].update(upper=128),
    "a measure more": lambda p, _: p["measures"].append(p["measures"][0]),
    "no measures": lambda p, _: p.update(measures=[]),
    "one segment twice": lambda p, _: p["segments"].append(p["segments"][0]),
    "fewer rows": lambda _, s: s.update(rows=1),
    "more rows": lambda _, s: s.update(rows=3),
    "no rows": lambda _, s: s.update(rows=0),
    "rows without end": lambda _, s: s.update(rows=1 << 60),
    "made by the owner": lambda _, s: s.update(sentinels=None),
    "made by somebody": lambda _, s: s.update(contributor="south"),
    "other sentinels": lambda _, s: s.update(sentinels="0" * 64),
    "a lane less": lambda _, s: s["lanes"].pop(),
    "a lane's object less": lambda _, s: s["lanes"][0].pop(),
    "lanes exchanged": lambda _, s: s["lanes"].reverse(),
    "no plain half": lambda _, s: s.update(plain=None),
    "no sealed columns": lambda _, s: s.update(sealed=None),
    "no order": lambda _, s: s.update(order=None),
    "plain half and order exchanged": lambda _, s: s.update(plain=s["order"], order=s["plain"]),
    "totals of its own": lambda _, s: s.update(
        totals=[{"first": 0, "stop": 1, "lanes": [], "sums": [], "weighted": []}]
    ),
    "an object twice": lambda _, s: s.update(order=s["index"]),
    "an object of no name": lambda _, s: s["index"].update(name="tables/../../etc/passwd"),
    "a member more": lambda _, s: s.update(more=1),
}


@pytest.mark.parametrize("name", PARTS)
def test_a_part_that_is_not_right(world: World, name: str) -> None:
    liar = Liar(world)
    part = liar.part()
    PARTS[name](part, part["segments"][0]["segment"])
    liar.tell(part, lambda: refused(world))


def test_objects_of_others_are_not_taken(world: World) -> None:
    """Neither the owner's nor another contributor's: to claim rows, or to have them told as damaged."""
    liar = Liar(world)
    south, _ = world.contributions("south").head()
    assert south is not None
    theirs = open_sealed(
        world.key, south.parts[0].manifest.name, world.sensitive().read(south.parts[0].manifest.name), 1 << 20
    )
    others = PartManifest.model_validate_json(theirs).segments[0].segment
    owners = world.open().manifest.segments[0]
    for lanes in (others.lanes, owners.lanes):
        part = liar.part()
        part["segments"][0]["segment"]["lanes"] = json.loads(
            others.model_copy(update={"lanes": lanes}).model_dump_json()
        )["lanes"]
        liar.tell(part, lambda: refused(world, "objects that are not its own|ciphertexts are not those"))
    part = liar.part()
    part["segments"][0] = json.loads(theirs)["segments"][0]
    liar.tell(part, lambda: refused(world, "objects that are not its own"))


def test_what_is_checked_of_the_rows_is_needed(world: World) -> None:
    """Without the check of rows a lie about totals would be taken in: it is what finds it."""
    liar = Liar(world)
    part = liar.part()
    facts = liar.facts(part)
    FACTS["a total of a cell is one more"](facts)
    part["segments"][0]["facts"] = liar.sealed(json.dumps(facts).encode()).model_dump()

    def checked() -> None:
        refused(world, "a total it tells of column 'age' is not that of its rows")
        copy = world.copy(world.root.parent / "trusting")
        assert copy.collect("north", trust_rows=True)

    liar.tell(part, checked)


def test_an_older_head_is_not_taken(tmp_path: Path, key_file: Path) -> None:
    world = World(tmp_path / "world", key_file)
    world.put(OWN)
    world.register("north")
    world.contribute("north", NORTH)
    place = f"{folder(world, 'north')}/head"
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
    head = Head.model_validate(_without(first, 2))
    world.sensitive().delete([place])
    world.sensitive().write(place, dump_head(head, world.identity("north").sign(head.signed())))
    with pytest.raises(CheckFailed, match="another state than version 2"):
        world.collect()
    assert ask(world.stored(), SUMS).result.rows == expected(world, OWN + SOUTH, SUMS)


def _without(content: bytes, version: int) -> dict[str, Any]:
    members: dict[str, Any] = json.loads(content)
    del members["signature"]
    return members | {"version": version}


@pytest.mark.parametrize("step", sampled(9, 3, 1))  # odd, so that both sides of a write have their turn
def test_a_contributor_or_owner_dies_at_every_write(tmp_path: Path, key_file: Path, step: int) -> None:
    """What was there, or that and what was put; and whoever tries again is not in the way of what was left behind."""
    start = World(tmp_path / "start", key_file)
    start.put(OWN)
    start.register("north")
    before, after = (expected(start, rows, SUMS) for rows in (OWN, OWN + NORTH))
    for work in ("contribute", "collect"):
        at = 0
        while True:
            world = start.copy(tmp_path / f"{work}{at}")
            inside = world.stores()
            failing = [Failing(each, at, made=at % 2 == 1) for each in (inside.sensitive, inside.plain)]
            stores = Stores(*failing)  # type: ignore[arg-type]
            world.stores = lambda stores=stores: stores  # type: ignore[method-assign,misc]
            died = True
            try:
                world.contribute("north", NORTH) if work == "contribute" else world.collect()
                died = False
            except KilledError:
                pass
            del world.stores  # type: ignore[method-assign]
            assert ask(world.stored(), SUMS).result.rows in (before, after)
            if work == "contribute" and died and world.contributions("north").head()[0] is None:
                world.contribute("north", NORTH)
            world.collect()
            assert ask(world.stored(), SUMS).result.rows == after, (work, at)
            if not died:
                break
            at += step
        assert at > (8 if work == "contribute" else 12)
        start.contribute("north", NORTH) if work == "contribute" else None


def test_nothing_a_contributor_puts_can_be_read(world: World) -> None:
    """By no other, by no store: no value, name, key of a cell or column in any object but the plain half's."""
    words = ("Di", "60.125", "Gus", "75.0", "weight", "bill", "north", "trial", "ward")
    for name in world.sensitive().names("tables"):
        content = world.sensitive().read(name)
        for word in words:
            assert word.encode() not in content or len(word) < 3, name
    assert not hasattr(contribute, "OwnerKey"), "the contributor's side imports nothing that holds a secret"


def test_a_contributor_without_rows_is_told(world: World) -> None:
    with pytest.raises(InputError, match=r"has no rows to put"):
        world.contribute("north", "")


def test_a_contributors_errors_hold_no_value(world: World) -> None:
    for rows in ("A,m,999,1.00,60.125,Zoe\n", "A,m,5,123456.00,60.125,Zoe\n", "A,m,x,1.00,60.125,Zoe\n"):
        with pytest.raises((InputError, CleaveError)) as told:
            world.contribute("north", rows)
        assert not any(word in f"{told.value.message} {told.value.hint}" for word in ("Zoe", "999", "123456", "60.125"))
