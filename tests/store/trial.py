"""A table in a store and the same rows in DuckDB: the sample table, or one made by SQL."""

from __future__ import annotations

import shutil
from contextlib import closing
from fractions import Fraction
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any

import duckdb

from cleave.ask.files import FileSource
from cleave.ask.options import Access
from cleave.ask.question import DEFAULTS, Answer, Options
from cleave.ask.session import Session
from cleave.ckks.owner_key import OwnerKey
from cleave.local.embedded import embedded_services
from cleave.objects.locate import Folder, Stores
from cleave.objects.storage import Storage
from cleave.store import put as putting
from cleave.store.reader import Opened
from cleave.store.seen_versions import SeenVersions
from cleave.store.tables import Tables
from cleave.sums.stored import Stored
from cleave.table.lazy import LazyTable, of_files
from cleave.table.progress import Silent
from cleave.table.schema import Schema, load_schema
from cleave.table.stream import open_table
from cleave.table.table import Table
from tests.store.asking import ask, session_of
from tests.store.made import filled

SAMPLE = Path(__file__).parents[1] / "samples"
SCHEMA = SAMPLE / "patients.schema.toml"


class World:
    """A table in a store. `plain`: another store, for the plain half. `oracle`: DuckDB with the rows of `make`."""

    def __init__(
        self, storage: Storage, key: OwnerKey, root: Path, plain: Storage | None = None, *, name: str = "trial"
    ) -> None:
        self.root, self.key, self.name = root, key, name
        self.stores = Stores(storage, plain or storage)
        self.memory = SeenVersions(root / "tables.json")
        self.tables = Tables(self.stores, key, self.memory)

    @cached_property
    def oracle(self) -> duckdb.DuckDBPyConnection:
        return duckdb.connect()

    def make(self, sql: str, schema: str) -> LazyTable:
        """Make the table in DuckDB; return it as a file of that schema (TOML)."""
        file = self.root / f"{self.name}.parquet"
        file.with_suffix(".schema.toml").write_text(schema)
        self.oracle.execute(f"CREATE OR REPLACE TABLE {self.name} AS {sql}; COPY {self.name} TO '{file}'")
        return of_files([file], name=self.name)

    def write(self, rows: LazyTable, *by: str, append: bool = False, **options: Any) -> Opened:
        """Put or append `rows`. `options`: of `put` and `append`."""
        with rows.read(None) as table:
            if append:
                return putting.append(self.tables, table, self.name, Silent(), again=True, **options)
            return putting.put(self.tables, table, self.name, by, Silent(), **options)

    def session(self, key: Path | Access, *others: LazyTable, **options: Any) -> Session:
        """`options`: of `session_of`."""
        given = {"memory": self.memory, "name": self.name, "others": others}
        return session_of(self.stores, key, **given | options)

    def put(
        self,
        *by: str,
        schema: Path = SCHEMA,
        append: bool = False,
        appended: int = 0,
        replace: bool = False,
        **options: int,
    ) -> None:
        """Put the samples, or `append` them. A first put is a copy of one like it; `appended`: times its rows were."""
        if append or replace:
            self._put(by, schema, append=append, replace=replace, **options)
            return
        arguments = (self.key.key_id, by, schema.read_bytes(), appended, *sorted(options.items()))

        def fill(folder: Path) -> None:
            world = World(Folder(folder / "s"), self.key, folder, Folder(folder / "p"))
            world._put(by, schema, **options)
            for _ in range(appended):
                world._put((), schema, append=True)

        made = filled(("trial", *arguments), fill)
        copied(made / "s", self.stores.sensitive)
        copied(made / "p", self.stores.plain)
        self.tables.open("trial")  # so that it is remembered
        self.tables.reset_counts()

    def _put(self, by: tuple[str, ...], schema: Path, *, append: bool = False, **options: int) -> None:
        table = _loaded(load_schema(schema))
        if append:
            putting.append(self.tables, table, "trial", Silent(), again=True)
        else:
            putting.put(self.tables, table, "trial", by, Silent(), **options)

    def over(self, rows: LazyTable, key: Path, *by: str, file: bool, **options: Any) -> Session:
        """A session over `rows`: over their file, or stored by `write`."""
        if file:
            return Session(FileSource(rows, embedded=embedded_services))
        self.write(rows, *by, **options)
        return self.session(key)

    def stored(self) -> Stored:
        return Stored(self.tables, self.tables.open(self.name))

    def ask(self, sql: str, options: Options = DEFAULTS, *, cloud_only: bool = True) -> Answer:
        """`cloud_only`: no row is read for it."""
        with closing(self.stored()) as stored:  # the next takes over its DuckDB
            return ask(stored, sql, options, cloud_only=cloud_only)


def copied(folder: Path, to: Storage) -> None:
    """Copy the objects in the folder of a store into another store."""
    if isinstance(to, Folder):
        shutil.copytree(folder, to.location, dirs_exist_ok=True)
        return
    store = Folder(folder)
    for name in store.names(""):
        to.write(name, store.read(name))


def truth(sql: str) -> list[tuple[object, ...]]:
    return samples().connection.execute(sql).fetchall()


@lru_cache(3)
def _loaded(schema: Schema) -> Table:
    return open_table([SAMPLE / "patients.csv"], schema)


@cache
def samples() -> Table:
    """Read once; view `trial` is of its rows."""
    table = _loaded(load_schema(SCHEMA))
    table.connection.execute(f"CREATE VIEW trial AS SELECT * FROM {table.relation}")
    return table


def check(rows: list[list[object]], bounds: list[list[float | None]], expected: list[tuple[object, ...]]) -> None:
    assert len(rows) == len(expected)
    for row, limits, wanted in zip(rows, bounds, expected, strict=True):
        for value, bound, exact in zip(row, limits, wanted, strict=True):
            if isinstance(exact, float) and isinstance(value, float):
                assert abs(Fraction(value) - Fraction(exact)) <= Fraction(bound or 0) + abs(Fraction(exact)) / 10**12
            else:
                assert value == exact or str(value) == str(exact)
