from pathlib import Path

import pytest

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
def table(tmp_path: Path) -> Path:
    """The sample of patients, with its schema."""
    return copy_patients(tmp_path)
