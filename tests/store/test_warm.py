"""What a session read for one question, it does not read again for the next; and it lets go of it at its end."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from cleave.ckks.secret_key import SecretKey
from cleave.store.folder import Folder
from cleave.store.stored import _compact
from tests.store.trial import World

SQL = "SELECT ward, SUM(age), AVG(age) FROM trial GROUP BY ward ORDER BY ward"


def test_asked_again_nothing_is_read(key: SecretKey, tmp_path: Path) -> None:
    world = World(Folder(tmp_path / "store"), key, tmp_path)
    world.put("ward")
    stored = world.stored()
    parts = [(column.measure, column.part) for column in stored.columns()]
    first = stored.totals(parts[:2])
    read = world.tables.objects_read
    again = stored.totals(parts[:2])
    assert world.tables.objects_read == read
    assert all((first[part] == again[part]).all() for part in first)
    stored.totals(parts)
    assert world.tables.objects_read > read
    whole = world.stored().totals(parts)
    assert all((whole[part] == found).all() for part, found in stored.totals(parts).items())


def test_the_table_of_cells_is_made_once_and_closed(key: SecretKey, tmp_path: Path) -> None:
    world = World(Folder(tmp_path / "store"), key, tmp_path)
    world.put("ward")
    stored = world.stored()
    before = len(os.listdir("/proc/self/fd"))
    assert stored.cell_table() is stored.cell_table()
    assert len(os.listdir("/proc/self/fd")) > before
    stored.close()
    stored.close()
    assert len(os.listdir("/proc/self/fd")) == before


def test_totals_keep_their_values_in_eight_bytes_or_as_they_are() -> None:
    small = np.array([0, 1, (1 << 61) - 1], object)
    assert _compact(small).dtype == np.int64
    assert _compact(small).tolist() == small.tolist()
    for large in (np.array([1 << 61, 1 << 61], object), np.array([1 << 200, 0], object)):  # the sum of which must fit
        assert _compact(large) is large
