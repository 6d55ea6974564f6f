"""An owner and contributors of one table, each with what only they have."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from cleave.ckks.key_file import open_key
from cleave.ckks.owner_key import OwnerKey
from cleave.ckks.public_key import PublicKey, public_side
from cleave.session import Silent
from cleave.store import put as putting
from cleave.store.collect import News, collect
from cleave.store.contribute import Contributions
from cleave.store.contribution import Head
from cleave.store.contributors import register
from cleave.store.folder import Folder
from cleave.store.identity import Identity, create_identity, read_identity
from cleave.store.invitation import invitation_of, invite
from cleave.store.locate import Stores
from cleave.store.measures import SEGMENT_ROWS
from cleave.store.memory import Memory
from cleave.store.storage import Storage
from cleave.store.stored import Stored
from cleave.store.tables import Opened, Tables
from cleave.table.schema import Schema, load_schema
from cleave.table.stream import stream_of
from cleave.table.table import Table, open_table
from tests.store.made import filled

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
HEADER = "ward,sex,age,bill,weight,name\n"


def kept(to: Path, key_file: Path, make: Callable[[World], object]) -> World:
    """Copy of the world that `make` makes, which it does once in a process."""
    folder = filled((make.__module__, make.__qualname__, key_file), lambda it: make(World(it / "world", key_file)))
    world = World(folder / "world", key_file).copy(to)
    world.open()  # so that it is remembered
    return world


class World:
    """A store, its owner (whose key file is `key_file`) and contributors by name."""

    def __init__(self, root: Path, key_file: Path) -> None:
        self.root = root
        self.key_file = key_file
        self.said: list[str] = []  # to contributors
        self.key: OwnerKey = open_key(key_file, None)
        root.mkdir(parents=True, exist_ok=True)
        (root / "schema.toml").write_text(SCHEMA)
        self.schema: Schema = load_schema(root / "schema.toml")

    def copy(self, to: Path) -> World:
        shutil.copytree(self.root, to)
        return World(to, self.key_file)

    def stores(self) -> Stores:
        return Stores(Folder(self.root / "s"), Folder(self.root / "p"))

    def table(self, rows: str) -> Table:
        (path := self.root / "rows.csv").write_text(HEADER + rows)
        return open_table([path], self.schema)

    # the owner's

    def tables(self, stores: Stores | None = None) -> tuple[Tables, Stores]:
        stores = stores or self.stores()
        return Tables(stores, self.key, Memory(self.root / "owner.json")), stores

    def put(self, rows: str, by: tuple[str, ...] = ("ward", "sex"), **options: bool) -> Opened:
        """`options` of put: scan."""
        tables, stores = self.tables()
        return putting.put(tables, stores, self.key, self.table(rows), "trial", by, Silent(), **options)

    def open(self) -> Opened:
        return self.tables()[0].open("trial")

    def stored(self) -> Stored:
        tables, _ = self.tables()
        return Stored(tables, tables.open("trial"), self.key)

    def public(self) -> PublicKey:
        invitation = invite(self.open().manifest).model_dump_json()
        return public_side(self.key, invitation)

    def register(self, name: str) -> None:
        identity = self.identity(name)
        register(self.tables()[0], "trial", name, identity.public)

    def collect(self, *names: str) -> list[News]:
        tables, stores = self.tables()
        return collect(tables, stores, self.key, "trial", Silent(), names)[1]

    # a contributor's

    def identity(self, name: str) -> Identity:
        path = self.root / f"{name}.pem"
        return read_identity(path) if path.exists() else create_identity(path)[0]

    def contributions(self, name: str, stores: Stores | None = None, public: PublicKey | None = None) -> Contributions:
        public = public or self.public()
        memory = Memory(self.root / f"{name}.json")
        return Contributions(
            stores or self.stores(),
            public,
            invitation_of(public, "trial"),
            self.identity(name),
            memory,
            self.said.append,
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
    ) -> Head:
        contributions = self.contributions(name, stores, public)
        with self.table(rows) if isinstance(rows, str) else rows as table, stream_of(table) as stream:
            return contributions.put(stream, Silent(), replace=replace, segment_rows=segment_rows)[0]

    def sensitive(self) -> Storage:
        return self.stores().sensitive
