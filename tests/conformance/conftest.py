from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import pytest

from cleave.ask.files import FileSource
from cleave.ask.options import Access
from cleave.ask.session import Session
from cleave.local.embedded import embedded_services
from cleave.table.lazy import of_files
from tests.conformance.tables import MACROS, TABLES, write_table
from tests.conftest import no_passphrase


@dataclass
class Tally:
    """What was asked."""

    asked: int = 0
    sources: Counter[str] = field(default_factory=Counter)
    refused: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        outputs = max(1, self.sources.total())
        shares = (f"{source} {number} ({number / outputs:.0%})" for source, number in self.sources.most_common())
        return f"conformance: {self.asked} queries, {len(self.refused)} refused; outputs by source: {', '.join(shares)}"


@pytest.fixture(scope="session")
def tally(printed_figures: list[str]) -> Iterator[Tally]:
    tally = Tally()
    yield tally
    if tally.asked:
        printed_figures.append(str(tally))


class Tables:
    """The tables in files and, unsplit, in a DuckDB of their own; a session over each is opened once, by need."""

    def __init__(self, folder: Path, key_file: Path, oracle: duckdb.DuckDBPyConnection, open_: ExitStack) -> None:
        self.oracle = oracle
        self._access = Access(key_file, no_passphrase)
        self._open = open_
        self._tables = {name: of_files([write_table(folder, name, oracle)]) for name in TABLES}
        self._sessions: dict[tuple[str, ...], Session] = {}

    def session(self, name: str, *others: str) -> Session:
        if (name, *others) not in self._sessions:
            further = [self._tables[other] for other in others]
            session = Session(FileSource(self._tables[name], self._access, embedded_services, others=further))
            self._sessions[name, *others] = self._open.enter_context(session)
        return self._sessions[name, *others]


@pytest.fixture(scope="session")
def tables(tmp_path_factory: pytest.TempPathFactory, key_file: Path) -> Iterator[Tables]:
    with ExitStack() as stack:
        oracle = stack.enter_context(duckdb.connect(config={"threads": 1}))
        oracle.execute(MACROS)
        yield Tables(tmp_path_factory.mktemp("conformance"), key_file, oracle, stack)
