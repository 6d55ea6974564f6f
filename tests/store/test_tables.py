"""A table is as its head has it: old or new, and nobody else's."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cleave.ckks.owner_key import OwnerKey
from cleave.files import read_at_most
from cleave.formats import AnotherRelease
from cleave.objects.locate import Folder, Stores
from cleave.objects.storage import ConflictError, Storage, StoreError
from cleave.store.dropping import drop
from cleave.store.manifest import Manifest, Segments, new_id
from cleave.store.padding import padded
from cleave.store.seen_versions import SeenVersions
from cleave.store.tables import Tables
from cleave.store.vault import Vault
from cleave_shared.errors import CheckFailed, InputError


@pytest.fixture
def tables(storage: Storage, key: OwnerKey, tmp_path: Path) -> Tables:
    return Tables(Stores(storage, storage), key, SeenVersions(tmp_path / "state" / "tables.json"))


def put(tables: Tables, key: OwnerKey, name: str = "trial", **changes: object) -> Manifest:
    """The manifest of a table without rows, the objects of its cells and its secret written."""
    table_id = new_id()
    folder, vault = tables.folder(name), Vault(key, table_id)
    cells, secret = tables.seal(folder, vault, "cells", b"cells"), tables.seal(folder, vault, "ckks", b"secret")
    settled = {"table": name, "table_id": table_id, "version": 1, "profile": "p", "schema_toml": "", "by": ()}
    settled |= {
        "measures": (),
        "sealed": (),
        "secret": secret,
        "cells": (cells,),
        "segments": Segments(),
        "changed": "",
    }
    return Manifest.model_validate({**settled, **changes}).model_copy(update={"version": 0})  # none is committed yet


def test_what_is_committed_is_opened(tables: Tables, key: OwnerKey) -> None:
    assert tables.find("trial") is None
    manifest = tables.commit(put(tables, key), None, "put").manifest
    opened = tables.open("TRIAL")
    assert opened.manifest == manifest
    assert tables.unseal(opened.vault, "cells", manifest.cells[0]) == b"cells"


def test_a_second_table_of_that_name_does_not_take_its_place(tables: Tables, key: OwnerKey) -> None:
    tables.commit(put(tables, key), None, "put")
    with pytest.raises(ConflictError):
        tables.commit(put(tables, key), None, "put")


def test_of_two_writers_the_second_is_told(tables: Tables, key: OwnerKey) -> None:
    first = put(tables, key)
    opened = tables.commit(first, None, "put")
    tables.commit(opened.manifest, opened, "put")
    with pytest.raises(ConflictError):
        tables.commit(opened.manifest.model_copy(update={"profile": "other"}), opened, "put")
    assert tables.open("trial").manifest.profile == "p"


def test_an_older_head_is_not_believed(tables: Tables, key: OwnerKey, storage: Storage) -> None:
    first = put(tables, key)
    opened = tables.commit(first, None, "put")
    place = f"{tables.folder('trial')}/head"
    old = storage.read(place)
    newer = tables.commit(opened.manifest, opened, "put")
    storage.replace(place, old, newer.head_etag)
    with pytest.raises(CheckFailed, match="shows an older state"):
        tables.open("trial")
    storage.delete([place])
    with pytest.raises(CheckFailed, match="is gone"):
        tables.open("trial")


def test_another_key_finds_nothing(
    tables: Tables, key: OwnerKey, other_key: OwnerKey, storage: Storage, tmp_path: Path
) -> None:
    tables.commit(put(tables, key), None, "put")
    others = Tables(Stores(storage, storage), other_key, SeenVersions(tmp_path / "other.json"))
    assert others.find("trial") is None
    assert list(others.all()) == []
    with pytest.raises(InputError, match="no table 'trial'"):
        others.open("trial")


def test_every_byte_of_the_head_counts(tables: Tables, key: OwnerKey, storage: Storage) -> None:
    tables.commit(put(tables, key), None, "put")
    place = f"{tables.folder('trial')}/head"
    content = storage.read(place)
    version = storage.read_versioned(place)
    assert version is not None
    known = version[1]
    for at in range(0, len(content), 7):
        damaged = bytearray(content)
        damaged[at] ^= 1
        known = storage.replace(place, bytes(damaged), known)
        with pytest.raises((CheckFailed, AnotherRelease)):
            tables.open("trial")
    for damaged_head in (b"", b"{}", b"[1]", b"null", content[:-1], content + b" " * 5000 + b"{", b"[" * 4000):
        known = storage.replace(place, damaged_head, known)
        with pytest.raises(CheckFailed):
            tables.open("trial")


def test_a_head_of_another_table_does_not_pass(tables: Tables, key: OwnerKey, storage: Storage) -> None:
    tables.commit(put(tables, key), None, "put")
    other = tables.commit(put(tables, key, "other"), None, "put")
    head = storage.read(f"{tables.folder('trial')}/head")
    storage.replace(f"{tables.folder('other')}/head", head, other.head_etag)
    with pytest.raises(CheckFailed):
        tables.open("other")


@pytest.mark.parametrize("damage", ["lost", "flipped", "truncated", "empty", "swapped"])
def test_a_damaged_object_is_told(tables: Tables, key: OwnerKey, storage: Storage, damage: str) -> None:
    manifest = put(tables, key)
    opened = tables.commit(manifest, None, "put")
    content = bytearray(storage.read(manifest.cells[0].name))
    storage.delete([manifest.cells[0].name])
    content[len(content) // 2] ^= 4
    put_back = {
        "flipped": bytes(content),
        "truncated": bytes(content[:-1]),
        "empty": b"",
        "swapped": opened.vault.seal("cells", f"{tables.folder('trial')}/{new_id()}", b"cells"),
    }
    if damage != "lost":
        storage.write(manifest.cells[0].name, put_back[damage])
    with pytest.raises(CheckFailed, match="lost" if damage == "lost" else "damaged"):
        tables.unseal(opened.vault, "cells", manifest.cells[0])


def test_a_sealed_object_opens_in_its_own_place_and_for_its_purpose_only(key: OwnerKey) -> None:
    vault = Vault(key, new_id())
    sealed = vault.seal("rows", "one", b"content")
    assert vault.open("rows", "one", sealed) == b"content"
    for wrong in (
        lambda: vault.open("rows", "two", sealed),
        lambda: vault.open("cells", "one", sealed),
        lambda: Vault(key, new_id()).open("rows", "one", sealed),
    ):
        with pytest.raises(CheckFailed):
            wrong()
    assert vault.seal("rows", "one", b"content") != sealed


def test_pseudorandom_bytes_follow_from_key_table_and_label(key: OwnerKey, other_key: OwnerKey) -> None:
    table = new_id()
    found = {
        Vault(one, id_).pseudorandom(label, 100)
        for one in (key, other_key)
        for id_ in (table, new_id())
        for label in "ab"
    }
    assert len(found) == 8
    assert Vault(key, table).pseudorandom("a", 40) == Vault(key, table).pseudorandom("a", 100)[:40]


def test_a_sealed_objects_size_tells_little(key: OwnerKey) -> None:
    """Whether values compress well shows in few sizes, and small objects are all of one."""
    vault, lengths = Vault(key, new_id()), set()
    for length in range(0, 40_000, 97):
        content = secrets.token_bytes(length)
        sealed = vault.seal("rows", "name", content)
        assert vault.open("rows", "name", sealed) == content
        assert length <= len(sealed) <= max(600, 1.13 * length + 100)
        lengths.add(len(sealed))
    assert len(lengths) < 120
    assert (
        len({len(vault.seal("rows", "name", bytes(100))), len(vault.seal("rows", "name", secrets.token_bytes(400)))})
        == 1
    )
    assert [padded(size) for size in (512, 513, 1000, 1 << 20, (1 << 20) + 1)] == [512, 544, 1024, 1 << 20, 1081344]


def test_tables_are_listed_by_name(tables: Tables, key: OwnerKey) -> None:
    for name in ("b", "A", "c"):
        tables.commit(put(tables, key, name), None, "put")
    assert [each.manifest.table for each in tables.all()] == ["A", "b", "c"]
    drop(tables, "b")
    assert [each.manifest.table for each in tables.all()] == ["A", "c"]
    assert tables.find("b") is None


def test_a_list_reads_each_head_once(
    tables: Tables, key: OwnerKey, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("b", "A", "c"):
        tables.commit(put(tables, key, name), None, "put")
    reads: list[str] = []
    monkeypatch.setattr(storage, "read_versioned", _noting(storage.read_versioned, reads))
    assert len(list(tables.all())) == 3
    assert len(reads) == len(set(reads)) == 3


def _noting(method: Callable[..., Any], names: list[str]) -> Callable[..., Any]:
    def noted(name: str, *more: Any, **named: Any) -> Any:
        names.append(name)
        return method(name, *more, **named)

    return noted


def test_no_name_can_be_read_in_the_store(tables: Tables, key: OwnerKey, storage: Storage) -> None:
    tables.commit(put(tables, key, "hepatitis", schema_toml="diagnosis"), None, "put")
    for name in storage.names(""):
        assert b"hepatitis" not in storage.read(name) + name.encode()
        assert b"diagnosis" not in storage.read(name)


def test_a_reader_whose_version_was_swept_reads_the_next(
    tables: Tables, key: OwnerKey, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = tables.commit(put(tables, key), None, "put")
    real = storage.read_versioned
    heads: list[int] = []

    def read_versioned(name: str, *most: int, earlier: tuple[bytes, str] | None = None) -> tuple[bytes, str] | None:
        found = real(name, *most, earlier=earlier)
        if not heads:  # between a reader's head and its manifest
            heads.append(1)
            tables.commit(first.manifest, first, "put")
        return found

    monkeypatch.setattr(storage, "read_versioned", read_versioned)
    assert tables.open("trial").manifest.version == 2


class Deaf:
    """`storage` whose answer to a head that it has written is lost; `blind`: and it cannot be asked any more."""

    def __init__(self, storage: Storage, error: StoreError, *, blind: bool = False) -> None:
        self._storage, self._error, self._blind = storage, error, blind

    def __getattr__(self, name: str) -> object:
        return getattr(self._storage, name)

    def replace(self, name: str, content: bytes, expected: str | None) -> str:
        self._storage.replace(name, content, expected)
        if self._blind:
            self.read_versioned = self._gone
        raise self._error

    def _gone(self, name: str, *_: int, **__: object) -> tuple[bytes, str] | None:
        raise StoreError(f"{name}: the store cannot be reached")


@pytest.mark.parametrize("error", [StoreError("the connection broke"), ConflictError("another process changed")])
def test_a_commit_whose_answer_is_lost_is_looked_up(
    tables: Tables, key: OwnerKey, storage: Storage, error: StoreError, tmp_path: Path
) -> None:
    first = tables.commit(put(tables, key), None, "put")
    deaf: Any = Deaf(storage, error)
    others = Tables(Stores(deaf, deaf), key, SeenVersions(tmp_path / "other.json"))
    opened = others.commit(first.manifest, first, "put")
    assert tables.open("trial").head == opened.head


def test_a_commit_that_cannot_be_looked_up_is_said_to_be_open(
    tables: Tables, key: OwnerKey, storage: Storage, tmp_path: Path
) -> None:
    deaf: Any = Deaf(storage, StoreError("the connection broke"), blind=True)
    others = Tables(Stores(deaf, deaf), key, SeenVersions(tmp_path / "other.json"))
    with pytest.raises(StoreError, match="the connection broke") as caught:
        others.commit(put(tables, key), None, "put")
    assert "may have changed" in str(caught.value.hint)


def test_a_table_that_was_dropped_does_not_come_back(tables: Tables, key: OwnerKey, storage: Storage) -> None:
    """Somebody keeps a dropped table and puts it in the place of its namesake that was put since."""
    tables.commit(put(tables, key), None, "put")
    folder = tables.folder("trial")
    kept = {name: storage.read(name) for name in storage.names(folder)}
    drop(tables, "trial")
    tables.commit(put(tables, key), None, "put")
    storage.delete([f"{folder}/head"])
    for name, content in kept.items():
        storage.write(name, content)
    for look in (lambda: tables.open("trial"), lambda: list(tables.all())):
        with pytest.raises(CheckFailed, match="not the one seen"):
            look()
    tables.forget("trial")
    tables.open("trial")


def test_an_older_state_is_not_listed(tables: Tables, key: OwnerKey, storage: Storage) -> None:
    opened = tables.commit(put(tables, key), None, "put")
    head = storage.read(f"{tables.folder('trial')}/head")
    newer = tables.commit(opened.manifest, opened, "put")
    storage.replace(f"{tables.folder('trial')}/head", head, newer.head_etag)
    with pytest.raises(CheckFailed, match="shows an older state"):
        list(tables.all())


def test_two_stores_have_tables_of_one_name(key: OwnerKey, tmp_path: Path) -> None:
    memory = SeenVersions(tmp_path / "tables.json")
    for name in ("a", "b"):
        store = Folder(tmp_path / name)
        tables = Tables(Stores(store, store), key, memory)
        assert tables.find("trial") is None
        tables.commit(put(tables, key), None, "put")
        assert tables.open("trial").manifest.version == 1


def test_what_is_not_there_is_not_dropped(tables: Tables, key: OwnerKey, other_key: OwnerKey, tmp_path: Path) -> None:
    tables.commit(put(tables, key), None, "put")
    with pytest.raises(InputError, match="no table 'other'"):
        drop(tables, "other")
    others = Tables(tables.stores, other_key, SeenVersions(tmp_path / "other.json"))
    with pytest.raises(InputError, match="no table 'trial'"):
        drop(others, "trial")


def test_a_memory_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    for content in ("", "[]", '{"a": 1}', '{"a": ["x", true]}', "{"):
        (tmp_path / "tables.json").write_text(content)
        with pytest.raises(InputError, match="cannot be read"):
            SeenVersions(tmp_path / "tables.json").newest("a")


def test_the_memory_never_grows_older(tmp_path: Path) -> None:
    memory, one = SeenVersions(tmp_path / "tables.json"), new_id()
    memory.remember("a", one, 3)
    memory.remember("a", one, 2)
    assert memory.newest("a") == (one, 3)


def test_the_memory_is_read_again_only_where_it_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "tables.json"
    memory, others, one = SeenVersions(path), SeenVersions(path), new_id()
    others.remember("a", one, 3)
    reads: list[Path] = []
    monkeypatch.setattr("cleave.store.seen_versions.read_at_most", _noting(read_at_most, reads))
    assert [memory.newest("a") for _ in range(2)] == [(one, 3)] * 2
    assert len(reads) == 2  # it was just written: what comes next may bear the same time
    os.utime(path, (1, 1))
    assert [memory.newest("a") for _ in range(3)] == [(one, 3)] * 3
    assert len(reads) == 3
    others.remember("a", one, 4)
    assert memory.newest("a") == (one, 4)
    path.unlink()
    assert memory.newest("a") is None


def test_the_memory_is_private_and_whole(tmp_path: Path) -> None:
    memory = SeenVersions(tmp_path / "state" / "tables.json")
    memory.remember("a", new_id(), 3)
    memory.remember("b", new_id(), 1)
    memory.forget("a")
    assert memory.newest("a") is None
    assert memory.newest("b") is not None
    path = tmp_path / "state" / "tables.json"
    assert path.stat().st_mode & 0o077 == 0
    assert list(json.loads(path.read_text())) == ["b"]
