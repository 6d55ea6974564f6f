"""A pull onto a full disk is one clear error, whatever the format, and leaves nothing."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import BinaryIO

import duckdb
import pytest

import cleave
from cleave.maintain import pull as pulling
from cleave_shared.errors import InputError
from tests.cli.runner import Cli, cli

__all__ = ["cli"]
FULL = os.strerror(errno.ENOSPC)


@pytest.fixture
def store(tmp_path: Path, key_file: Path, cli: Cli) -> str:
    (tmp_path / "t.csv").write_text("w,n\na,1\nb,2\n")
    (tmp_path / "t.schema.toml").write_text(
        '[columns.w]\nkind = "plain"\ntype = "VARCHAR"\n[columns.n]\nkind = "sealed"\ntype = "BIGINT"\n'
    )
    cli.environment |= {"CLEAVE_KEY": str(key_file), "XDG_STATE_HOME": str(tmp_path / "state")}
    (tmp_path / "state").mkdir()
    store = str(tmp_path / "store")
    cleave.put(tmp_path / "t.csv", "t", store=store, by=[], key=key_file)
    return store


def test_duckdb_finds_the_disk_full(store: str, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = pulling._path

    def full(file: BinaryIO) -> str:  # the pulled file has a name, the parts of it have none
        return "/dev/full" if isinstance(file.name, int) and ".x.parquet." in os.readlink(path(file)) else path(file)

    monkeypatch.setattr(pulling, "_path", full)
    before = sorted(tmp_path.iterdir())
    told = cli.fails(3, "pull", "t", "--store", store, "-o", tmp_path / "x.parquet")
    assert f"x.parquet: cannot be written ({FULL})" in told
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.filterwarnings("ignore:this pull is not in the log")
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_this_process_finds_the_disk_full(
    store: str, key_file: Path, tmp_path: Path, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, FULL)

    monkeypatch.setattr(os, "fsync", full)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(InputError, match=f"cannot be written \\({FULL}\\)"):
        cleave.pull("t", tmp_path / f"x.{ending}", store=store, key=key_file)
    assert sorted(tmp_path.iterdir()) == before


def test_a_failure_of_another_kind_has_no_value_in_it(
    store: str, key_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken:
        def execute(self, sql: str) -> None:
            if sql.startswith("COPY"):
                raise duckdb.IOException("zz-canary")

        def close(self) -> None:
            """Nothing is open."""

    monkeypatch.setattr(pulling, "connect_reading", Broken)
    with pytest.raises(InputError, match="cannot be written") as caught:
        cleave.pull("t", tmp_path / "x.parquet", store=store, key=key_file)
    assert "zz-canary" not in f"{caught.value} {caught.value.__cause__} {caught.value.__context__}"
    assert not (tmp_path / "x.parquet").exists()
