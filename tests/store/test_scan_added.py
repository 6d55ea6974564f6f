"""Rows for scans of a table that is stored already: added, asked and dropped."""

from __future__ import annotations

from pathlib import Path

import pytest

from cleave.ckks.owner_key import OwnerKey
from cleave.maintain.derive import add_scan_rows as add_scan
from cleave.maintain.derive import drop_scan_rows as drop_scan
from cleave.objects.locate import Folder
from cleave.store.pages import pages_of
from cleave.sums.scan import order_of
from cleave.table.progress import Silent
from cleave_shared.errors import InputError
from tests.store.trial import World


def test_rows_for_scans_are_those_of_a_put_with_scan(tmp_path: Path, key: OwnerKey) -> None:
    world = World(Folder(tmp_path / "store"), key, tmp_path)
    world.put("ward", appended=1)
    before = world.tables.open("trial").manifest
    add_scan(world.tables, "trial", Silent())
    stored = world.stored()
    for segment in stored.manifest.segments:
        assert segment.scan is not None
        assert len(segment.scan.lanes) == stored.row_lanes.count
        assert sorted(order_of(stored, segment).tolist()) == list(range(segment.rows))
    with pytest.raises(InputError, match="already"):
        add_scan(world.tables, "trial", Silent())
    dropped = drop_scan(world.tables, "trial")
    assert dropped.manifest.objects() - {*pages_of(dropped.manifest)} == before.objects() - {*pages_of(before)}
    with pytest.raises(InputError, match="no rows for scans"):
        drop_scan(world.tables, "trial")
