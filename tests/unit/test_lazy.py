"""A table that is read by a thread while the rest of a question's start is under way."""

from __future__ import annotations

import gzip
import os
import threading
from pathlib import Path

import pytest

from cleave.table import duck, lazy, stream
from cleave.table.lazy import of_files, prefetch
from cleave_shared.errors import InputError

SCHEMA = '[columns.age]\nkind = "plain"\ntype = "BIGINT"\n'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "people.schema.toml").write_text(SCHEMA)
    path = tmp_path / "people.csv"
    path.write_text("age\n1\n2\n")
    return path


@pytest.fixture
def readers(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the threads that have read a table."""
    found: list[str] = []
    before = stream.open_table

    def read(*given: object) -> object:
        found.append(threading.current_thread().name)
        return before(*given)  # type: ignore[arg-type]  # as given

    monkeypatch.setattr(stream, "open_table", read)
    return found


def test_a_small_table_is_read_by_a_thread(path: Path, readers: list[str]) -> None:
    before = set(threading.enumerate())
    table = prefetch(of_files([path]))
    with table.read(None) as read:
        assert read.connection.execute(f"SELECT sum(age) FROM {read.relation}").fetchall() == [(3,)]
    assert readers == ["table"]
    # what is forked now is forked of one thread
    assert "table" not in {each.name for each in {*threading.enumerate()} - before}
    assert prefetch(table) is table


def test_what_planning_needs_is_opened_beside_the_table(path: Path) -> None:
    duck._instances.pop(os.getpid(), None)
    with prefetch(of_files([path])).read(None):
        assert os.getpid() in duck._instances


def test_what_is_wrong_is_told_by_who_reads_it(path: Path) -> None:
    path.write_text("age\n1\nold\n")
    told = []
    for table in (of_files([path]), prefetch(of_files([path]))):
        with pytest.raises(InputError) as caught:
            table.read(None)
        told.append(str(caught.value))
    assert told[0] == told[1]
    assert "line 3" in told[0]
    prefetch(of_files([path]))  # nobody asks: nothing is told, nothing waits
    for each in threading.enumerate():  # its reading is not for the next test to see
        if each.name == "table":
            each.join()


def test_what_takes_its_time_is_read_when_it_is_asked_for(
    path: Path, readers: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = path.with_suffix(".csv.gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    schema = path.with_suffix(".schema.toml")
    assert not of_files([packed], schema).small
    assert not of_files([path, "-"], schema).small
    assert of_files([path, path]).small
    monkeypatch.setattr(lazy, "_SMALL", path.stat().st_size - 1)
    table = of_files([path])
    assert prefetch(table) is table
    with table.read(None):
        assert readers == ["MainThread"]
