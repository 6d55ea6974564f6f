"""A dropped table that whoever runs the store puts back, or an older version of it, is refused until `--forget`."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from cleave.ckks.owner_key import OwnerKey
from cleave.objects.locate import Folder, Stores
from cleave.store.dropping import drop
from cleave.store.seen_versions import SeenVersions
from cleave.store.tables import Tables
from cleave_shared.errors import CheckFailed, CleaveWarning, InputError
from tests.store.test_tables import put

BACK = "table 'trial' was dropped, and is back"


class Life:
    """One key on some machines, and a store whose operator keeps copies."""

    def __init__(self, root: Path, key: OwnerKey) -> None:
        self.root, self.key = root, key
        self.store = root / "store"
        self.here = self.machine("here")
        first = self.here.commit(put(self.here, key), None, "put")
        self.keep("older")
        self.here.commit(first.manifest, first, "put")
        self.keep("newest")

    def machine(self, name: str, key: OwnerKey | None = None) -> Tables:
        folder = Folder(self.store)
        return Tables(Stores(folder, folder), key or self.key, SeenVersions(self.root / f"{name}.json"))

    def copied(self, tables: Tables) -> OwnerKey:
        """The key as `cleave key copy` on a machine writes it."""
        copy = OwnerKey.__new__(OwnerKey)
        copy._master, copy.key_id, copy.floors = self.key._master, self.key.key_id, tables.versions()
        return copy

    def keep(self, name: str) -> None:
        shutil.copytree(self.store, self.root / name)

    def put_back(self, name: str) -> None:
        shutil.rmtree(self.store)
        shutil.copytree(self.root / name, self.store)


@pytest.fixture
def life(tmp_path: Path, key: OwnerKey) -> Life:
    return Life(tmp_path, key)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("version", ["older", "newest"])
def test_a_dropped_table_that_is_put_back_is_refused(life: Life, version: str) -> None:
    drop(life.here, "trial")
    assert life.here.find("trial") is None
    life.put_back(version)
    looks: list[Callable[[], object]] = [lambda: life.here.open("trial"), lambda: [*life.here.all()]]
    for look in (*looks, life.here.versions):
        with pytest.raises(CheckFailed, match=BACK) as refused:
            look()
        assert "--forget" in str(refused.value.hint)
    drop(life.here, "trial")  # again
    assert life.here.find("trial") is None
    life.put_back(version)
    life.here.forget("trial")
    assert life.here.open("trial").manifest.table == "trial"


@pytest.mark.sampled(2)
@pytest.mark.parametrize("version", ["older", "newest"])
def test_a_copy_of_the_key_file_knows_what_was_dropped(life: Life, version: str) -> None:
    """Also one that was copied from a copy, where the table was never seen."""
    drop(life.here, "trial")
    copy = life.copied(life.here)
    for name in ("second", "third"):
        machine = life.machine(name, copy)
        assert machine.find("trial") is None
        copy = life.copied(machine)
    life.put_back(version)
    for name in ("second", "fourth"):
        with pytest.raises(CheckFailed, match=BACK):
            life.machine(name, copy).open("trial")
    machine = life.machine("fourth", copy)
    machine.forget("trial")
    machine.open("trial")
    assert machine.versions().keys() == {machine.tag("trial")}, "it is dropped no more"


@pytest.mark.slow  # quick: the tests above
def test_a_copy_from_before_does_not_bring_the_table_back(life: Life) -> None:
    """The floor of the key file says that the table should be there, on the machine that dropped it."""
    copy = life.copied(life.here)
    here = life.machine("here", copy)
    drop(here, "trial")
    assert here.find("trial") is None
    life.put_back("newest")
    with pytest.raises(CheckFailed, match=BACK):
        here.open("trial")


def test_another_table_may_take_the_name(life: Life, key: OwnerKey) -> None:
    drop(life.here, "trial")
    elsewhere = life.machine("elsewhere")
    new = elsewhere.commit(put(elsewhere, key), None, "put")
    assert life.here.open("trial").manifest.table_id == new.manifest.table_id
    life.put_back("newest")
    with pytest.raises(CheckFailed, match="not the one seen here before"):
        life.here.open("trial")


def test_a_table_that_is_replaced_is_not_dropped(life: Life, key: OwnerKey) -> None:
    before = life.here.open("trial")
    again = put(life.here, key).model_copy(update={"table_id": before.manifest.table_id, "version": 2})
    life.here.commit(again, before, "put")
    assert life.here.open("trial").manifest.table_id == before.manifest.table_id


def test_a_memory_that_cannot_be_written_is_told(life: Life, tmp_path: Path) -> None:
    (tmp_path / "here.lock").unlink()
    (tmp_path / "here.lock").mkdir()
    with pytest.warns(CleaveWarning, match="this machine will not notice"), pytest.raises(InputError, match="written"):
        drop(life.here, "trial")
    assert not [*life.store.rglob("head")]
