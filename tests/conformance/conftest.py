from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import pytest

from cleave.local.embedded import embedded_services
from cleave.session import Access, Session
from cleave.table.lazy import of_files
from tests.conformance.tables import MACROS, TABLES, write_table
from tests.conftest import no_passphrase


@dataclass
class Tally:
    """What was asked, for the summary."""

    asked: int = 0
    sources: Counter[str] = field(default_factory=Counter)
    refused: list[str] = field(default_factory=list)


_TALLY = pytest.StashKey[Tally]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_TALLY] = Tally()


@pytest.fixture(scope="session")
def tally(request: pytest.FixtureRequest) -> Tally:
    return request.config.stash[_TALLY]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    tally = config.stash[_TALLY]
    if not tally.asked:
        return
    outputs = tally.sources.total()
    shares = ", ".join(f"{name} {number} ({number / outputs:.0%})" for name, number in tally.sources.most_common())
    terminalreporter.write_line(
        f"conformance: {tally.asked} queries, {len(tally.refused)} refused; outputs by source: {shares}"
    )


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
            session = Session(self._tables[name], self._access, embedded_services, others=further)
            self._sessions[name, *others] = self._open.enter_context(session)
        return self._sessions[name, *others]


@pytest.fixture(scope="session")
def tables(tmp_path_factory: pytest.TempPathFactory, key_file: Path) -> Iterator[Tables]:
    with ExitStack() as stack:
        oracle = stack.enter_context(duckdb.connect(config={"threads": 1}))
        oracle.execute(MACROS)
        yield Tables(tmp_path_factory.mktemp("conformance"), key_file, oracle, stack)
