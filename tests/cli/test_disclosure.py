"""docs/disclosure.md is run as it stands."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.prepared import Prepared
from tests.cli.runner import Cli
from tests.cli.test_contributors import Parties, blocks_of

PAGE = (Path(__file__).parents[2] / "docs" / "disclosure.md").read_text()


def test_every_command_of_the_page_runs(cli: Cli, prepared: Prepared, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(blocks_of(PAGE)) == 7
    with prepared.used():
        parties = Parties(cli, prepared, monkeypatch, PAGE)
        parties.play()
        assert parties.fingerprint.startswith("SHA256:")
        again = ("--min-cell", "3", "--new-lineage", "--yes", "--dry-run", "--store", "../store", "--key", "key.json")
        assert "- ward = A: 4 rows, 3 people\n" in parties.at("west").run("release", "new", "stays", *again).stdout
        monkeypatch.undo()  # out of the folder
