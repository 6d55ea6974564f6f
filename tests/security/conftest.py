"""Fixtures: a wrapped key, folders that are watched, and the three ways to the services, each recorded."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from cleave.ckks.key_file import create_key, open_key
from cleave.ckks.owner_key import OwnerKey
from tests.cli.runner import cli
from tests.functional.conftest import lines
from tests.security.canaries import PASSPHRASE, Canaries, KeyTraces, canaries

__all__ = ["cli", "lines"]


@dataclass(frozen=True)
class WrappedKey:
    """`traces`: those of this key, and of every CKKS key that is made in this process while a test runs."""

    path: Path
    traces: KeyTraces


@pytest.fixture(scope="session")
def wrapped_key(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, OwnerKey]:
    path = tmp_path_factory.mktemp("wrapped") / "key.json"
    create_key(path, PASSPHRASE.encode())
    return path, open_key(path, PASSPHRASE.encode)


def watched(wrapped_key: tuple[Path, OwnerKey], patch: pytest.MonkeyPatch) -> WrappedKey:
    path, opened = wrapped_key
    traces = KeyTraces(opened)
    traces.watch(patch)
    return WrappedKey(path, traces)


@pytest.fixture
def wrapped(wrapped_key: tuple[Path, OwnerKey], monkeypatch: pytest.MonkeyPatch) -> WrappedKey:
    return watched(wrapped_key, monkeypatch)


@pytest.fixture(scope="session")
def table() -> Canaries:
    return canaries()


@dataclass(frozen=True)
class Places:
    """Where a program might leave something: home, the folder it runs in, and that of temporary files."""

    home: Path
    here: Path
    temporary: Path

    def listing(self) -> dict[str, bytes]:
        return {
            str(path): path.read_bytes()
            for place in (self.home, self.here, self.temporary)
            for path in sorted(place.rglob("*"))
            if path.is_file()
        }

    @property
    def environment(self) -> dict[str, str | None]:
        return {"HOME": str(self.home), "TMPDIR": str(self.temporary)}


def settled(root: Path, patch: pytest.MonkeyPatch) -> Places:
    """Places under `root`, which a program of this process finds until `patch` is undone."""
    found = Places(root / "home", root / "here", root / "temporary")
    for folder in (found.home, found.here, found.temporary):
        folder.mkdir()
    patch.setenv("HOME", str(found.home))
    patch.setenv("TMPDIR", str(found.temporary))
    patch.setattr(tempfile, "tempdir", None)
    patch.chdir(found.here)
    return found


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Places:
    return settled(tmp_path, monkeypatch)
