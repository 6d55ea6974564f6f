"""A table is as its head has it: old or new, and nobody else's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cleave.ckks.secret_key import SecretKey
from cleave.store.locate import Stores
from cleave.store.manifest import Manifest, new_id
from cleave.store.memory import Memory
from cleave.store.storage import ConflictError, Storage
from cleave.store.tables import Tables
from cleave.store.vault import Vault
from cleave_shared.errors import CheckFailed, InputError


@pytest.fixture
def tables(storage: Storage, key: SecretKey, tmp_path: Path) -> Tables:
    return Tables(Stores(storage, storage), key, Memory(tmp_path / "state" / "tables.json"))


def put(tables: Tables, key: SecretKey, name: str = "trial", **changes: object) -> Manifest:
    """The manifest of a table without rows, its cells' object written."""
    table_id = new_id()
    cells = tables.seal(tables.folder(name), Vault(key, table_id), b"cells")
    settled = {"table": name, "table_id": table_id, "version": 1, "profile": "p", "schema_toml": "", "by": ()}
    settled |= {"measures": (), "lossless": False, "cells": cells, "segments": (), "history": ()}
    return Manifest.model_validate({**settled, **changes})


def test_what_is_committed_is_opened(tables: Tables, key: SecretKey) -> None:
    assert tables.find("trial") is None
    manifest = put(tables, key)
    tables.commit(manifest, None)
    opened = tables.open("TRIAL")
    assert opened.manifest == manifest
    assert tables.unseal(opened.vault, manifest.cells) == b"cells"


def test_a_second_table_of_that_name_does_not_take_its_place(tables: Tables, key: SecretKey) -> None:
    tables.commit(put(tables, key), None)
    with pytest.raises(ConflictError):
        tables.commit(put(tables, key), None)


def test_of_two_writers_the_second_is_told(tables: Tables, key: SecretKey) -> None:
    first = put(tables, key)
    opened = tables.commit(first, None)
    tables.commit(first.model_copy(update={"version": 2}), opened.head)
    with pytest.raises(ConflictError):
        tables.commit(first.model_copy(update={"version": 2, "lossless": True}), opened.head)
    assert not tables.open("trial").manifest.lossless


def test_an_older_head_is_not_believed(tables: Tables, key: SecretKey, storage: Storage) -> None:
    first = put(tables, key)
    opened = tables.commit(first, None)
    place = f"{tables.folder('trial')}/head"
    old = storage.read(place)
    newer = tables.commit(first.model_copy(update={"version": 2}), opened.head)
    storage.replace(place, old, newer.head)
    with pytest.raises(CheckFailed, match="shows version 1"):
        tables.open("trial")
    storage.delete([place])
    with pytest.raises(CheckFailed, match="is gone"):
        tables.open("trial")


def test_another_key_finds_nothing(
    tables: Tables, key: SecretKey, other_key: SecretKey, storage: Storage, tmp_path: Path
) -> None:
    tables.commit(put(tables, key), None)
    others = Tables(Stores(storage, storage), other_key, Memory(tmp_path / "other.json"))
    assert others.find("trial") is None
    assert list(others.all()) == []
    with pytest.raises(InputError, match="no table 'trial'"):
        others.open("trial")


def test_every_byte_of_the_head_counts(tables: Tables, key: SecretKey, storage: Storage) -> None:
    tables.commit(put(tables, key), None)
    place = f"{tables.folder('trial')}/head"
    content = storage.read(place)
    version = storage.read_versioned(place)
    assert version is not None
    known = version[1]
    for at in range(0, len(content), 7):
        damaged = bytearray(content)
        damaged[at] ^= 1
        known = storage.replace(place, bytes(damaged), known)
        with pytest.raises(CheckFailed):
            tables.open("trial")
    for damaged_head in (b"", b"{}", b"[1]", b"null", content[:-1], content + b" " * 5000 + b"{", b"[" * 4000):
        known = storage.replace(place, damaged_head, known)
        with pytest.raises(CheckFailed):
            tables.open("trial")


def test_a_head_of_another_table_does_not_pass(tables: Tables, key: SecretKey, storage: Storage) -> None:
    tables.commit(put(tables, key), None)
    other = tables.commit(put(tables, key, "other"), None)
    head = storage.read(f"{tables.folder('trial')}/head")
    storage.replace(f"{tables.folder('other')}/head", head, other.head)
    with pytest.raises(CheckFailed):
        tables.open("other")


@pytest.mark.parametrize("damage", ["lost", "flipped", "truncated", "empty", "swapped"])
def test_a_damaged_object_is_told(tables: Tables, key: SecretKey, storage: Storage, damage: str) -> None:
    manifest = put(tables, key)
    opened = tables.commit(manifest, None)
    content = bytearray(storage.read(manifest.cells.name))
    storage.delete([manifest.cells.name])
    content[len(content) // 2] ^= 4
    put_back = {
        "flipped": bytes(content),
        "truncated": bytes(content[:-1]),
        "empty": b"",
        "swapped": opened.vault.seal(f"{tables.folder('trial')}/{new_id()}", b"cells"),
    }
    if damage != "lost":
        storage.write(manifest.cells.name, put_back[damage])
    with pytest.raises(CheckFailed, match="lost" if damage == "lost" else "damaged"):
        tables.unseal(opened.vault, manifest.cells)


def test_a_sealed_object_opens_in_its_own_place_only(key: SecretKey) -> None:
    vault = Vault(key, new_id())
    sealed = vault.seal("one", b"content")
    assert vault.open("one", sealed) == b"content"
    for wrong in (lambda: vault.open("two", sealed), lambda: Vault(key, new_id()).open("one", sealed)):
        with pytest.raises(CheckFailed):
            wrong()
    assert vault.seal("one", b"content") != sealed


def test_pseudorandom_bytes_follow_from_key_table_and_label(key: SecretKey, other_key: SecretKey) -> None:
    table = new_id()
    found = {
        Vault(one, id_).pseudorandom(label, 100)
        for one in (key, other_key)
        for id_ in (table, new_id())
        for label in "ab"
    }
    assert len(found) == 8
    assert Vault(key, table).pseudorandom("a", 40) == Vault(key, table).pseudorandom("a", 100)[:40]


def test_tables_are_listed_by_name(tables: Tables, key: SecretKey) -> None:
    for name in ("b", "A", "c"):
        tables.commit(put(tables, key, name), None)
    assert [each.manifest.table for each in tables.all()] == ["A", "b", "c"]
    tables.drop("b")
    assert [each.manifest.table for each in tables.all()] == ["A", "c"]
    assert tables.find("b") is None


def test_no_name_can_be_read_in_the_store(tables: Tables, key: SecretKey, storage: Storage) -> None:
    tables.commit(put(tables, key, "hepatitis", schema_toml="diagnosis"), None)
    for name in storage.names(""):
        assert b"hepatitis" not in storage.read(name) + name.encode()
        assert b"diagnosis" not in storage.read(name)


def test_what_nothing_names_is_swept(tables: Tables, key: SecretKey, storage: Storage) -> None:
    opened = tables.commit(put(tables, key), None)
    tables.seal(tables.folder("trial"), opened.vault, b"left behind")
    assert tables.sweep(opened) == 1
    assert tables.sweep(opened) == 0
    assert tables.unseal(opened.vault, opened.manifest.cells) == b"cells"


def test_a_memory_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    for content in ("", "[]", '{"a": 1}', '{"a": ["x", true]}', "{"):
        (tmp_path / "tables.json").write_text(content)
        with pytest.raises(InputError, match="cannot be read"):
            Memory(tmp_path / "tables.json").newest("a")


def test_the_memory_is_private_and_whole(tmp_path: Path) -> None:
    memory = Memory(tmp_path / "state" / "tables.json")
    memory.remember("a", new_id(), 3)
    memory.remember("b", new_id(), 1)
    memory.forget("a")
    assert memory.newest("a") is None
    assert memory.newest("b") is not None
    path = tmp_path / "state" / "tables.json"
    assert path.stat().st_mode & 0o077 == 0
    assert list(json.loads(path.read_text())) == ["b"]
