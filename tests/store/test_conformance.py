"""The conformance suite's questions over the same tables in a store; the quick suite asks one of each shape.

The slow suite asks one in four of the others, and all of files (tests/conformance); a campaign asks all.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from cleave.ask.options import Access
from cleave.ask.owners import open_tables
from cleave.ask.session import Session
from cleave.ask.stored import StoredSource
from cleave.finish import ResultTable
from cleave.local.embedded import embedded_services
from cleave.objects.locate import Folder, Stores
from cleave.store.put import put
from cleave.store.seen_versions import SeenVersions
from cleave.sums.stored import Stored
from cleave.table.lazy import LazyTable, of_files
from cleave.table.progress import Silent
from cleave.table.schema import Kind
from tests.conformance.asked import bare_calls, expect, is_ordered
from tests.conformance.compare import differences
from tests.conformance.queries import QUERIES, Query
from tests.conformance.shapes import one_of_each
from tests.conformance.tables import MACROS, TABLES, write_table
from tests.conftest import no_passphrase


def _all_stored(path: Path) -> LazyTable:
    """A table none of whose columns stays behind, so that every question can be asked of it."""
    lazy = of_files([path])
    columns = tuple(
        replace(each, kind=Kind.SEALED) if each.kind is Kind.LOCAL else each for each in lazy.schema.columns
    )
    return of_files([path], replace(lazy.schema, columns=columns))


class StoredTables:
    """Tables in one store, each put when it is first wanted and asked through one session."""

    def __init__(
        self, folder: Path, key_file: Path, oracle: duckdb.DuckDBPyConnection, open_: ExitStack, *, scan: bool = False
    ) -> None:
        self.oracle = oracle
        self._folder = folder
        self._access = Access(key_file, no_passphrase)
        self._open = open_
        self._files = {name: _all_stored(write_table(folder, name, oracle)) for name in TABLES}
        self._sessions: dict[str | None, Session] = {}
        self._opened: dict[str, Stored] = {}
        self._scan = scan
        self._there: set[str] = set()

    def _put(self, name: str) -> None:
        if name not in self._there:
            tables = open_tables(self.stores(), self._access, self._memory())
            with self._files[name].read(None) as table:
                put(tables, table, name, None, Silent(), scan=self._scan)
            self._there.add(name)

    def session(self, query: Query, *, named: bool = True) -> Session:
        """Over the tables of `query`: its own is named, or none is."""
        for each in filter(None, (query.table, query.other)):
            self._put(each)
        name = query.table if named else None
        if name not in self._sessions:
            source = StoredSource(name, self.stores(), self._access, memory=self._memory(), embedded=embedded_services)
            self._sessions[name] = self._open.enter_context(Session(source))
        return self._sessions[name]

    def stores(self) -> Stores:
        return Stores(Folder(self._folder / "sensitive"), Folder(self._folder / "plain"))

    def table(self, name: str) -> Stored:
        if name not in self._opened:
            self._put(name)
            tables = open_tables(self.stores(), self._access, self._memory())
            self._opened[name] = Stored(tables, tables.open(name))
        return self._opened[name]

    def _memory(self) -> SeenVersions:
        return SeenVersions(self._folder / "tables.json")


@pytest.fixture(scope="session")
def stored(tmp_path_factory: pytest.TempPathFactory, key_file: Path) -> Iterator[StoredTables]:
    with ExitStack() as stack:
        oracle = stack.enter_context(duckdb.connect(config={"threads": 1}))
        oracle.execute(MACROS)
        yield StoredTables(tmp_path_factory.mktemp("stored"), key_file, oracle, stack)


@pytest.mark.parametrize("query", one_of_each(QUERIES, topics=False, every=4))
def test_is_answered_as_duckdb_answers(stored: StoredTables, query: Query) -> None:
    session = stored.session(query)
    check(stored, query, session.ask(session.plan(query.sql)).result)


@pytest.mark.parametrize("query", [each for each in QUERIES if each.other], ids=lambda each: each.name)
def test_tables_of_the_store_are_joined(stored: StoredTables, query: Query) -> None:
    session = stored.session(query, named=False)
    check(stored, query, session.ask(session.plan(query.sql)).result)


def check(stored: StoredTables, query: Query, result: ResultTable) -> None:
    sources = tuple(column.source for column in result.columns)
    calls = bare_calls(query.sql) if "encrypted" in sources else []
    of_columns = [
        call if source == "encrypted" and call else None
        for call, source in zip(calls or [None] * len(sources), sources, strict=True)
    ]
    expected = expect(stored.oracle, query.sql, [call for call in of_columns if call])
    assert differences(result, expected, of_columns, is_ordered(stored.oracle, query.sql)) == []
