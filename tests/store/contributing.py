"""An owner and contributors of one table, each with what only they have."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self, TypeVar

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from cleave.ask.question import Answer
from cleave.ask.session import Session
from cleave.ckks.key_file import open_key
from cleave.ckks.owner_key import OwnerKey
from cleave.ckks.public_key import PublicKey, open_sealed, public_side
from cleave.contributions.collect import News, collect, newest_versions
from cleave.contributions.contribute import Contributions, Invited
from cleave.contributions.invitation import invitation_of, invite, register
from cleave.objects.locate import Folder, Stores
from cleave.objects.storage import Storage
from cleave.store import put as putting
from cleave.store.contribution import (
    ContributedSegment,
    ContributionHead,
    Entry,
    PartManifest,
    context_of,
    dump_head,
    folder_of,
)
from cleave.store.identity import Identity, create_identity, read_identity
from cleave.store.manifest import Sealed, described, new_id
from cleave.store.measures import SEGMENT_ROWS
from cleave.store.reader import Opened
from cleave.store.sealed import ColumnPlace
from cleave.store.seen_versions import SeenVersions
from cleave.store.tables import Tables
from cleave.store.vault import key_of_object
from cleave.sums.stored import Stored
from cleave.table.progress import Silent
from cleave.table.schema import Schema, load_schema
from cleave.table.stream import open_table, stream_of
from cleave.table.table import Table
from cleave_shared.errors import CheckFailed, InputError
from tests.store.asking import ask, session_of
from tests.store.made import filled, loaded

SCHEMA = """
[columns.ward]
kind = "plain"
type = "VARCHAR"
[columns.sex]
kind = "sealed"
type = "VARCHAR"
[columns.age]
kind = "encrypted"
type = "BIGINT"
lower = 0
upper = 127
[columns.bill]
kind = "encrypted"
type = "DECIMAL(9,2)"
lower = 0
upper = 1000
[columns.weight]
kind = "encrypted"
type = "DOUBLE"
lower = 0
upper = 400
[columns.name]
kind = "sealed"
type = "VARCHAR"
"""
W = TypeVar("W", bound="World")
HEADER = "ward,sex,age,bill,weight,name\n"


def kept(to: Path, key_file: Path, make: Callable[[World], object]) -> World:
    return kept_as(World, to, key_file, make)


def kept_as(kind: type[W], to: Path, key_file: Path, make: Callable[[W], object]) -> W:
    """Copy of the world that `make` makes, which it does once in a process."""
    folder = filled((kind, make.__module__, make.__qualname__, key_file), lambda it: make(kind(it / "world", key_file)))
    world = kind(folder / "world", key_file).copy(to)
    world.open()  # so that it is remembered
    return world


def copied_for_each(make: Callable[[W], object], kind: type[W] | None = None) -> Any:
    """A fixture: each test has a copy of its own of the world, of `kind`, that `make` makes."""

    @pytest.fixture
    def copied(tmp_path: Path, key_file: Path) -> W:
        return kept_as(kind or World, tmp_path / "world", key_file, make)

    return copied


class World:
    """A store, its owner (whose key file is `key_file`) and contributors by name."""

    schema_text, header, name = SCHEMA, HEADER, "trial"

    def __init__(self, root: Path, key_file: Path) -> None:
        self.root = root
        self.key_file = key_file
        self.said: list[str] = []  # to contributors
        self.key: OwnerKey = open_key(key_file, None)
        root.mkdir(parents=True, exist_ok=True)
        (root / "schema.toml").write_text(self.schema_text)
        self.schema: Schema = load_schema(root / "schema.toml")

    def copy(self, to: Path) -> Self:
        shutil.copytree(self.root, to)
        return type(self)(to, self.key_file)

    def stores(self) -> Stores:
        return Stores(Folder(self.root / "s"), Folder(self.root / "p"))

    def table(self, rows: str) -> Table:
        (path := self.root / "rows.csv").write_text(self.header + rows)
        return open_table([path], self.schema)

    def loaded(self, rows: str) -> Table:
        """The same, shared by those that load it next: nothing may close it."""
        return loaded(self.header + rows, self.schema_text)

    # the owner's

    def tables(self, stores: Stores | None = None) -> tuple[Tables, Stores]:
        stores = stores or self.stores()
        return Tables(stores, self.key, SeenVersions(self.root / "owner.json")), stores

    def put(self, rows: str, by: tuple[str, ...] = ("ward", "sex"), **options: bool) -> Opened:
        """`options` of put: scan."""
        tables, _stores = self.tables()
        return putting.put(tables, self.loaded(rows), self.name, by, Silent(), **options)

    def open(self) -> Opened:
        return self.tables()[0].open(self.name)

    def stored(self) -> Stored:
        tables, _ = self.tables()
        return Stored(tables, tables.open(self.name))

    def session(self, **options: Any) -> Session:
        """Of the owner. `options`: of `session_of`."""
        return session_of(self.stores(), self.key_file, SeenVersions(self.root / "owner.json"), self.name, **options)

    def ask(self, sql: str) -> Answer:
        with closing(self.stored()) as stored:  # the next takes over its DuckDB
            return ask(stored, sql)

    def public(self) -> PublicKey:
        manifest = self.open().manifest
        invitation = invite(manifest, newest_versions(self.tables()[0], manifest)).model_dump_json()
        return public_side(self.key, invitation)

    def register(self, name: str) -> None:
        identity = self.identity(name)
        register(self.tables()[0], self.name, name, identity.public)

    def collect(self, *names: str) -> list[News]:
        tables, _stores = self.tables()
        return collect(tables, self.name, Silent(), names)[1]

    # a contributor's

    def identity(self, name: str) -> Identity:
        path = self.root / f"{name}.pem"
        return read_identity(path) if path.exists() else create_identity(path)[0]

    def folder_of(self, name: str) -> str:
        """Where the contributor's parts are."""
        return folder_of(self.open().manifest.table_id, self.identity(name).public)

    def contributions(self, name: str, stores: Stores | None = None, public: PublicKey | None = None) -> Contributions:
        public = public or self.public()
        invited = Invited(public, invitation_of(public, self.name), self.identity(name))
        return Contributions(
            stores or self.stores(), invited, self.said.append, SeenVersions(self.root / f"{name}.json")
        )

    def contribute(
        self,
        name: str,
        rows: str | Table,
        *,
        replace: bool = False,
        stores: Stores | None = None,
        public: PublicKey | None = None,
        segment_rows: int = SEGMENT_ROWS,
    ) -> ContributionHead:
        contributions = self.contributions(name, stores, public)
        with stream_of(self.loaded(rows) if isinstance(rows, str) else rows) as stream:
            return contributions.put(stream, Silent(), replace=replace, segment_rows=segment_rows)[0]

    def sensitive(self) -> Storage:
        return self.stores().sensitive


class Forger:
    """A contributor who put rows, and then signs whatever it makes of its part."""

    def __init__(self, world: World, name: str) -> None:
        self._world = world
        self._name = name
        self._public = world.public()
        self.invitation = invitation_of(self._public, world.name)
        contributions = world.contributions(name)
        self.folder = contributions.folder
        head, _ = contributions.head()
        assert head is not None
        self.head = head

    def context(self, part: str, name: str, changed: Mapping[str, str] = MappingProxyType({})) -> str:
        """What a part is sealed for, as the owner expects it but for what is `changed`."""
        key = self._world.identity(self._name).public
        expected = {
            "owner": self._public.fingerprint,
            "table_id": self.invitation.table_id,
            "contributor": key,
            "registration": self.invitation.registration_of(key),
            "terms": self.invitation.terms,
            "part": part,
            "name": name,
        }
        return context_of(**{**expected, **changed})

    def part(self) -> dict[str, Any]:
        """The first part that was put, as JSON has it."""
        entry = self.head.parts[0]
        content = self._world.sensitive().read(entry.manifest.name)
        opened = open_sealed(self._world.key, self.context(entry.id, entry.manifest.name), content, 1 << 27)
        found: dict[str, Any] = json.loads(opened)
        return found

    def block(self, part: dict[str, Any], column: str, content: bytes) -> None:
        """Seal `content` as the one block of a column of the first segment."""
        found = PartManifest.model_validate(part)
        number = [each.name for each in found.columns].index(column)
        segment: ContributedSegment = found.segments[0]
        name = f"{self.folder}/{new_id()}"
        place = ColumnPlace(found.table_id, name[-32:], segment.id, found.columns[number], segment.rows)
        nonce = os.urandom(12)
        key = key_of_object(bytes.fromhex(found.key), name)
        sealed = nonce + AESGCM(key).encrypt(nonce, content, place.bound(0))
        self._world.sensitive().write(name, sealed)
        lengths = () if place.column.width else (len(sealed),)
        self._world.sensitive().delete([segment.columns[number].object.name])
        stored = Sealed(object=described(name, sealed), lengths=lengths)
        part["segments"][0]["columns"][number] = json.loads(stored.model_dump_json())

    def show(self, part: dict[str, Any], changed: Mapping[str, str] = MappingProxyType({})) -> None:
        """Put `part` in place of the first. `changed`: what it is sealed for, other than the owner expects."""
        replaced = self.head.parts[0]
        self._world.sensitive().delete([replaced.manifest.name, replaced.names.name])
        part_id, name = part.get("id", new_id()), f"{self.folder}/{new_id()}"
        sealed = self._public.seal(self.context(part_id, name, changed), json.dumps(part).encode())
        self._world.sensitive().write(name, sealed)
        objects = [each["object"]["name"] for segment in part["segments"] for each in segment["columns"]]
        listed = json.dumps([each.rpartition("/")[2] for each in objects if each.startswith(self.folder)]).encode()
        names = f"{self.folder}/{new_id()}"
        self._world.sensitive().write(names, listed)
        entry = Entry(id=part_id, manifest=described(name, sealed), names=described(names, listed))
        self.sign((entry,))

    def sign(self, parts: tuple[Entry, ...], folder: str = "", **changed: object) -> None:
        """A head with these parts, in `folder` (none given: its own)."""
        head = self.head.model_copy(update={"parts": parts, **changed})
        place = f"{folder or self.folder}/head"
        self._world.sensitive().delete([place])
        self._world.sensitive().write(place, dump_head(head, self._world.identity(self._name).sign(head.signed())))


def refuses(world: World, match: str, *, name: str = "north", others: int = 1) -> CheckFailed | InputError:
    """Collect what is there: the part of contributor `name` is refused, the rows of `others` are taken in."""
    before = world.open().manifest
    with pytest.raises((CheckFailed, InputError), match=f"contributor '{name}': .*{match}") as raised:
        world.collect()
    manifest = world.open().manifest
    assert not [each for each in manifest.segments if each.contributor == name]
    assert len(manifest.segments) == len(before.segments) + others
    (who,) = (each for each in manifest.contributors if each.name == name)
    assert [each.segments for each in who.parts] == [()]
    assert world.collect() == [], "what was refused is not tried again"
    table = world.tables()[0].folder(world.name)
    there = {each for store in world.stores().distinct() for each in store.names(table)}
    assert len(there - manifest.objects()) == 3, "head, manifest and log: nothing of what was refused was left there"
    return raised.value
