from pathlib import Path

import pytest

from cleave.ckks import key_file as key_files
from tests.cli.prepared import prepared
from tests.cli.runner import Cli, cli
from tests.samples import copy_patients

__all__ = ["cli", "prepared"]


@pytest.fixture
def ready(cli: Cli, key_file: Path) -> Cli:
    """Commands with a key."""
    cli.environment["CLEAVE_KEY"] = str(key_file)
    return cli


@pytest.fixture
def cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wrapping a key takes 1 ms, not 0.1 s of a processor."""
    monkeypatch.setattr(key_files, "ARGON2", {"iterations": 1, "lanes": 1, "memory_cost": 64})


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """The sample of patients, with its schema."""
    return copy_patients(tmp_path)
