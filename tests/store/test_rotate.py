"""A table under another key: the same answers, nothing left for the old key, and resumed wherever it was stopped."""

from __future__ import annotations

from typing import get_args

import pytest

from cleave.ckks.cipher import Cipher
from cleave.ckks.key_file import create_key, open_key
from cleave.ckks.owner_key import OwnerKey
from cleave.maintain import rotate as rotating
from cleave.maintain.derive import derive_expression as derive
from cleave.maintain.pull import find_damage as verify
from cleave.maintain.rotate import move_table as rotate
from cleave.objects.locate import Stores
from cleave.objects.storage import StoreError
from cleave.store import put as putting
from cleave.store.dropping import drop
from cleave.store.moving import close_as_moved
from cleave.store.reader import Opened
from cleave.store.seen_versions import SeenVersions
from cleave.store.tables import Tables
from cleave.store.vault import Purpose, Vault
from cleave.sums.stored import Stored
from cleave.table.progress import Silent
from cleave_shared.chunks import split
from cleave_shared.errors import CheckFailed, InputError
from tests.campaign import sampled
from tests.store.asking import ask
from tests.store.contributing import World, copied_for_each
from tests.store.test_contributors import NORTH, OWN, SUMS, expected

WEIGHTED = "SELECT ward, SUM(bill * age) FROM trial GROUP BY ward ORDER BY ward"


@pytest.fixture(scope="module")
def new_key(tmp_path_factory: pytest.TempPathFactory) -> OwnerKey:
    path = tmp_path_factory.mktemp("new") / "key.json"
    create_key(path, None)
    return open_key(path, None)


def made(world: World) -> None:
    """Two of the owner's segments and one of a contributor's, with a derived column."""
    world.put(OWN)
    world.register("north")
    world.contribute("north", NORTH)
    world.collect()
    tables, _stores = world.tables()
    derive(tables, "trial", "bill * age", "weighted", Silent())
    append(world)


world = copied_for_each(made)


def append(world: World) -> None:
    tables, _stores = world.tables()
    putting.append(tables, world.table(OWN), "trial", Silent(), again=True)


def under(world: World, new: OwnerKey, stores: Stores | None = None) -> Opened:
    stores = stores or world.stores()
    tables, _ = world.tables(stores)
    return rotate(tables, tables_of(world, new, stores), "trial", Silent())


def tables_of(world: World, key: OwnerKey, stores: Stores) -> Tables:
    return Tables(stores, key, SeenVersions(world.root / "owner.json"))


def stored_under(world: World, key: OwnerKey, contributor: str | None = None) -> Stored:
    tables = tables_of(world, key, world.stores())
    return Stored(tables, tables.open("trial"), contributor)


def test_it_is_the_same_table(world: World, new_key: OwnerKey) -> None:
    opened = world.open()
    before, log, names = opened.manifest, world.tables()[0].log(opened), opened.manifest.objects()
    weighted = ask(world.stored(), WEIGHTED).result.rows
    under(world, new_key)
    stored = stored_under(world, new_key)
    assert ask(stored, SUMS).result.rows == expected(world, OWN + NORTH + OWN, SUMS)
    assert ask(stored, WEIGHTED).result.rows == weighted == expected(world, OWN + NORTH + OWN, WEIGHTED)
    assert ask(stored_under(world, new_key, "north"), SUMS).result.rows == expected(world, NORTH, SUMS)
    with stored.rows.table([each.name for each in stored.schema.columns], ordered=True) as table:
        found = table.connection.execute(f"SELECT * FROM {table.relation} ORDER BY ALL").fetchall()
        assert [list(row) for row in found] == expected(world, OWN + NORTH + OWN, "SELECT * FROM trial ORDER BY ALL")
    after = stored.manifest
    assert after.version == before.version + 1
    assert isinstance(stored.tables, Tables)
    *earlier, last, end = stored.tables.log(stored.opened)
    assert end.what == "rotate ends"
    assert tuple(earlier) == log, "sealed again as they were"
    assert (last.what, last.key_id, last.rows) == ("rotate", new_key.key_id, 0)
    assert [each.name for each in after.contributors] == ["north"]
    assert after.secret != before.secret
    assert not after.objects() & names, "every object has a name, and so a key, of its own"
    assert verify(stored, Silent()) == []


@pytest.mark.slow  # quick: test_keys.py, of an append that is repeated
def test_an_append_whose_answer_was_lost_is_known_after_the_rotation(world: World, new_key: OwnerKey) -> None:
    """By its id: it is not added again, and ends well."""
    tables, _stores = world.tables()
    real = tables.commit

    def lost(*given: object, **more: object) -> object:
        real(*given, **more)  # type: ignore[arg-type]
        under(world, new_key)
        raise StoreError("the answer was lost", status=503)

    tables.commit = lost  # type: ignore[method-assign,assignment]
    putting.append(tables, world.table(NORTH), "trial", Silent())
    assert stored_under(world, new_key).manifest.rows == (OWN + NORTH + OWN + NORTH).count("\n")
    with pytest.raises(InputError, match="under another key now"):
        putting.append(world.tables()[0], world.table(NORTH), "trial", Silent())


def test_the_old_key_opens_nothing_of_it(world: World, new_key: OwnerKey) -> None:
    old = world.open().manifest
    names = old.objects()
    secret = world.tables()[0].secret(old)
    under(world, new_key)
    tables, stores = world.tables()
    with pytest.raises(InputError, match=f"under another key now, {new_key.key_id}"):
        tables.open("trial")
    assert list(tables.all()) == []
    manifest = stored_under(world, new_key).manifest
    folder = tables.folder("trial")
    left = [*stores.sensitive.names(folder), *stores.plain.names(folder)]
    assert len(left) == 2, "the head, and ids of the newest changes"
    assert f"{folder}/head" in left
    assert not any(name in stores.sensitive.names("tables") for name in names)
    vaults = [Vault(world.key, table_id) for table_id in (old.table_id, manifest.table_id)]
    lane = manifest.segments[0].totals[0].lanes[0]
    for name in manifest.objects():
        content = (stores.sensitive if name in set(stores.sensitive.names("tables")) else stores.plain).read(name)
        for vault in vaults:
            for purpose in get_args(Purpose):
                with pytest.raises(CheckFailed):
                    vault.open(purpose, name, content)
    noise = Cipher(secret).decrypt(split(stores.sensitive.read(lane.name)))
    assert abs(noise).mean() > 2**56
    drop(tables, "trial")
    assert tables.find("trial") is None


def test_what_waits_is_taken_in_before(world: World, new_key: OwnerKey) -> None:
    world.contribute("north", NORTH)
    with pytest.raises(InputError, match="contributor 'north' has put rows that are not collected"):
        under(world, new_key)
    assert ask(world.stored(), SUMS).result.rows == expected(world, OWN + NORTH + OWN, SUMS)


def test_keys_that_will_not_do(world: World, new_key: OwnerKey) -> None:
    with pytest.raises(InputError, match="already under this key"):
        under(world, world.key)
    tables = tables_of(world, new_key, world.stores())
    putting.put(tables, world.table(OWN), "trial", ("ward",), Silent())
    with pytest.raises(InputError, match="another table"):
        under(world, new_key)
    assert ask(world.stored(), SUMS).result.rows == expected(world, OWN + NORTH + OWN, SUMS)


class Meanwhile:
    """Old tables that somebody adds rows to, `times` times, just before they are closed."""

    def __init__(self, world: World, times: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left = times

        def appended(tables: Tables, opened: Opened, key_id: str) -> None:
            if self.left:
                self.left -= 1
                append(world)
            close_as_moved(tables, opened, key_id)

        monkeypatch.setattr(rotating, "close_as_moved", appended)


@pytest.mark.parametrize("times", sampled(1, 2, 2))
def test_rows_that_come_meanwhile_are_taken_along(
    world: World, new_key: OwnerKey, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    meanwhile = Meanwhile(world, times, monkeypatch)
    under(world, new_key)
    assert meanwhile.left == 0
    rows = OWN + NORTH + OWN * (1 + times)
    assert ask(stored_under(world, new_key), SUMS).result.rows == expected(world, rows, SUMS)
