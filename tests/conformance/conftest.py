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


@dataclass(frozen=True)
class Tables:
    """The tables in files and, unsplit, in a DuckDB of their own; a session over each is opened once."""

    sessions: dict[str, Session]
    oracle: duckdb.DuckDBPyConnection


@pytest.fixture(scope="session")
def tables(tmp_path_factory: pytest.TempPathFactory, key_file: Path) -> Iterator[Tables]:
    folder = tmp_path_factory.mktemp("conformance")
    with ExitStack() as stack:
        oracle = stack.enter_context(duckdb.connect(config={"threads": 1}))
        oracle.execute(MACROS)
        access = Access(key_file, no_passphrase)
        sessions = {
            name: stack.enter_context(Session(of_files([write_table(folder, name, oracle)]), access, embedded_services))
            for name in TABLES
        }
        yield Tables(sessions, oracle)
