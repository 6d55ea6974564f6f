"""An owner who opens columns to readers, each with what only they have."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

from cleave.ask.options import Access
from cleave.ask.question import Answer
from cleave.ask.reader import ReaderTables
from cleave.ask.session import Session
from cleave.ask.stored import StoredSource
from cleave.ckks.key_file import create_key, open_key
from cleave.ckks.owner_key import OwnerKey
from cleave.ckks.public_key import PublicKey, public_side
from cleave.maintain.readers import add, revoke
from cleave.store.reader import Opened
from cleave.store.rows import Rows
from cleave.store.seen_versions import SeenVersions
from cleave.store.tables import Tables
from cleave.store.views import read_views
from cleave.table.progress import Silent
from tests.store.releasing import Releases

COLUMNS = "ward,bill,name"


class Readers(Releases):
    """`dan`, `eve` and others are readers by name."""

    def reader_file(self, name: str) -> Path:
        path = self.root / f"{name}.json"
        if not path.exists():
            create_key(path, None)
        return path

    def reader(self, name: str) -> OwnerKey:
        return open_key(self.reader_file(name), None)

    def reader_public(self, name: str) -> PublicKey:
        return public_side(self.reader(name))

    def add_reader(self, name: str, columns: str = COLUMNS, tables: Tables | None = None, **how: Any) -> Opened:
        """`how`: names, yes."""
        tables = tables or self.tables()[0]
        return add(tables, self.name, name, self.reader_public(name), columns.split(","), Silent(), **how)

    def revoke_reader(self, name: str, tables: Tables | None = None) -> Opened:
        return revoke(tables or self.tables()[0], self.name, name, Silent())[0]

    def read_as(self, name: str, fingerprint: str | None = "", memory: str = "", **options: Any) -> Session:
        """What a reader opens; `memory` names another machine of theirs."""
        access = Access(
            self.reader_file(name), reads=True, fingerprint=self.print_of_owner if fingerprint == "" else fingerprint
        )
        known = SeenVersions(self.root / f"{name}-reads{memory}.json")
        return Session(StoredSource(self.name, self.stores(), access, memory=known, **options))

    def ask_as(self, name: str, sql: str, **how: Any) -> Answer:
        with self.read_as(name, **how) as session:
            return session.ask(session.plan(sql))

    @property
    def print_of_owner(self) -> str:
        """The fingerprint of the key that the table is under."""
        tables = self.tables()[0]
        moved = (self.root / "new.json").exists() and tables.moved_to(self.name) is not None
        return public_side(open_key(self.root / "new.json", None) if moved else self.key).fingerprint

    def require_reads(self, *names: str) -> None:
        """Require that each of the readers reads the rows that the owner does."""
        tables = self.tables()[0]
        with (
            closing(Rows(tables, tables.open(self.name))) as rows,
            rows.table(COLUMNS.split(","), ordered=True) as table,
        ):
            owners = [list(row) for row in table.connection.execute(f"FROM {table.relation}").fetchall()]
        for each in names:
            assert self.ask_as(each, f"SELECT * FROM {self.name}").result.rows == owners


def reader_tables(world: Readers, name: str, memory: SeenVersions) -> ReaderTables:
    from cleave.ask.owners import Owner  # noqa: PLC0415

    return ReaderTables(world.stores(), world.reader(name), memory, Owner(world.print_of_owner))


def viewed(world: Readers, opened: Opened) -> set[str]:
    """Names of the views of a version, of their pages, and of their list."""
    tables, _ = world.tables()
    return {*read_views(tables, opened).names}


__all__ = ["COLUMNS", "Readers", "reader_tables", "viewed"]
