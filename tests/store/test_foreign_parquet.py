"""Parquet of contributors: tried within bounds before it is opened here."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from cleave.session import Silent
from cleave.store import foreign_parquet
from cleave.store.foreign_parquet import require_readable
from cleave.store.pull import pull_arrow
from cleave_shared.errors import CheckFailed
from tests.store.contributing import World
from tests.store.test_contributors import NORTH, OWN

MIB = 1 << 20


def parquet(path: Path, select: str) -> bytes:
    duckdb.connect().execute(f"COPY ({select}) TO '{path}' (FORMAT parquet, COMPRESSION zstd)")
    return path.read_bytes()


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds that a test can exceed without taking the machine's memory."""
    monkeypatch.setattr(foreign_parquet, "_ALLOWED", foreign_parquet._Allowed(values=8 * MIB, memory=256 * MIB))
    monkeypatch.setattr(foreign_parquet, "_tried", set())


@pytest.mark.usefixtures("small")
def test_a_file_that_is_larger_than_it_looks_is_refused(tmp_path: Path) -> None:
    rows = 1 << 17
    bomb = parquet(tmp_path / "bomb.parquet", f"SELECT repeat('x', 4000) AS name FROM range({rows})")
    assert len(bomb) < 100_000, "of half a gigabyte"
    with pytest.raises(CheckFailed, match="more memory"):
        require_readable(bomb, rows)
    assert foreign_parquet._server.peak_kb < 600 << 10
    good = parquet(tmp_path / "good.parquet", "SELECT range AS number, 'word' AS name FROM range(1000)")
    require_readable(good, 1000)


@pytest.mark.usefixtures("small")
def test_what_a_file_states_is_compared_first(tmp_path: Path) -> None:
    good = parquet(tmp_path / "good.parquet", "SELECT range AS number FROM range(1000)")
    with pytest.raises(CheckFailed, match="another number of rows"):
        require_readable(good, 999)
    wide = parquet(tmp_path / "wide.parquet", "SELECT repeat('x', 900) || range AS name FROM range(10000)")
    with pytest.raises(CheckFailed, match="states more than 8,388,608 bytes"):
        require_readable(wide, 10_000)
    for content in (b"", b"PAR1", good[:-9] + good[-8:], b"PAR1" + bytes(50) + b"PAR1"):
        with pytest.raises(CheckFailed, match="a contributor's file of columns"):
            require_readable(content, 1000)


def test_collect_and_pull_try_the_files_of_contributors(
    tmp_path: Path, key_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of rows that were taken in with --trust-rows, which nothing had opened."""
    world = World(tmp_path / "world", key_file)
    world.put(OWN)
    world.register("north")
    world.contribute("north", NORTH)
    tried: list[int] = []

    def refuse(_: bytes, rows: int) -> None:
        tried.append(rows)
        raise CheckFailed("stored", "too large")

    monkeypatch.setattr("cleave.store.contributed.require_readable", refuse)
    with pytest.raises(CheckFailed, match="contributor 'north': too large"):
        world.collect()
    monkeypatch.setattr("cleave.store.contributed.require_readable", lambda *_: None)
    world.collect(trust_rows=True)
    monkeypatch.setattr("cleave.store.rebuild.require_readable", refuse)
    with pytest.raises(CheckFailed, match="too large"):
        pull_arrow(world.stored(), Silent())
    assert tried == [2, 2], "the owner's own are not tried"
