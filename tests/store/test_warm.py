"""What a session read for one question, it does not read again for the next; and it lets go of it at its end."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from cleave.ckks.owner_key import OwnerKey
from cleave.objects.locate import Folder
from cleave.store.manifest import NUMBER
from cleave.store.measures import columns_of
from cleave.store.reader import LostError
from cleave.sums.stored import _compact
from cleave.table import table as tables
from tests.store.asking import ask
from tests.store.trial import World, check, truth

SQL = "SELECT ward, SUM(age), AVG(age) FROM trial GROUP BY ward ORDER BY ward"


def test_asked_again_nothing_is_read(key: OwnerKey, tmp_path: Path) -> None:
    world = World(Folder(tmp_path / "store"), key, tmp_path)
    world.put("ward")
    stored = world.stored()
    parts = [(column.measure, column.part) for column in columns_of(stored.manifest.measures)]
    first = stored.totals(parts[:2])
    read = world.tables.objects_read
    again = stored.totals(parts[:2])
    assert world.tables.objects_read == read
    assert all((first[part] == again[part]).all() for part in first)
    stored.totals(parts)
    assert world.tables.objects_read > read
    whole = world.stored().totals(parts)
    assert all((whole[part] == found).all() for part, found in stored.totals(parts).items())


def test_the_table_of_cells_is_made_once_and_closed(
    key: OwnerKey, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "_idle", {})
    monkeypatch.setattr(tables, "_MOST_IDLE", 0)
    world = World(Folder(tmp_path / "store"), key, tmp_path)
    world.put("ward")
    stored = world.stored()
    before = len(os.listdir("/proc/self/fd"))
    assert stored.cells_by().table(["ward"]) is stored.cells_by().table(["ward"])
    assert len(os.listdir("/proc/self/fd")) > before
    stored.close()
    stored.close()
    assert len(os.listdir("/proc/self/fd")) == before


def test_the_table_of_cells_has_what_was_read_of_them(key: OwnerKey, tmp_path: Path) -> None:
    """Whatever came first; and none is made where all cells are in one group."""
    world = World(Folder(tmp_path / "store"), key, tmp_path)
    world.put("ward", "admitted", "insured")
    stored = world.stored()
    for sql, columns in (
        ("SELECT COUNT(*), SUM(age), AVG(bill) FROM trial", None),
        ("SELECT admitted, SUM(age) FROM trial GROUP BY admitted ORDER BY 1", ["admitted"]),
        ("SELECT SUM(age) FILTER (WHERE ward = 'Surgery') AS s FROM trial", ["admitted", "ward"]),
        ("SELECT ward, admitted, SUM(age) FROM trial GROUP BY ALL ORDER BY ALL", ["admitted", "ward"]),
        ("SELECT COUNT(admitted) FROM trial WHERE 1 = 1", ["admitted", "ward"]),
        (
            "SELECT insured, ward, COUNT(*) FROM trial GROUP BY CUBE (1, 2) ORDER BY ALL",
            ["admitted", "insured", "ward"],
        ),
    ):
        answer = ask(stored, sql).result
        check(answer.rows, answer.bounds, truth(sql))
        table = stored.cells_by()._cell_table._table
        if columns is None:
            assert table is None
        else:
            assert table is not None
            held = table.connection.execute(f"SELECT * FROM {table.relation} LIMIT 0").description
            assert sorted(name for name, *_ in held if name != NUMBER) == columns
    stored.close()


def test_the_list_of_cells_is_read_only_to_tell_cells_apart(key: OwnerKey, tmp_path: Path) -> None:
    world = World(Folder(tmp_path / "store"), key, tmp_path)
    world.put("ward", "admitted")
    stored = world.stored()
    cells = tmp_path / "store" / stored.manifest.cells[0].name
    content = cells.read_bytes()
    cells.unlink()
    for sql in ("SELECT COUNT(*) FROM trial", "SELECT COUNT(*), SUM(age), AVG(bill) FROM trial"):
        answer = ask(stored, sql).result
        check(answer.rows, answer.bounds, truth(sql))
    with pytest.raises(LostError):
        ask(stored, "SELECT ward, COUNT(*) FROM trial GROUP BY ward")
    cells.write_bytes(content)
    sql = "SELECT ward, COUNT(*), SUM(age), AVG(bill) FROM trial GROUP BY ward ORDER BY ward"  # by what is known
    answer = ask(stored, sql).result
    check(answer.rows, answer.bounds, truth(sql))
    stored.close()


def test_each_condition_selects_cells_of_its_own(key: OwnerKey, tmp_path: Path) -> None:
    world = World(Folder(tmp_path / "store"), key, tmp_path)
    world.put("ward", "admitted")
    stored = world.stored()
    cells, conditions = stored.cells_by(), ("ward = 'Surgery'", "ward <> 'Surgery'")
    surgery, others = (cells.selected((each,), ["ward"]) for each in conditions)
    assert surgery is not None
    assert others is not None
    assert surgery.flags.any()
    assert (surgery.flags != others.flags).all()
    assert cells.selected(conditions[1:], ["ward"]) is others
    stored.close()


def test_cells_without_rows_are_in_no_group(key: OwnerKey, tmp_path: Path) -> None:
    world = World(Folder(tmp_path / "store"), key, tmp_path)
    world.put("ward", "admitted")
    stored = world.stored()
    emptied = next(cell for cell, (_, day) in enumerate(stored.cells.keys) if day == "2025-01-14")
    kept = len(set(stored.cells.keys)) - 1
    stored.cells.rows[emptied] = 0
    of_all = "SELECT COUNT(*) FROM trial WHERE 1 = 1"  # without a WHERE the manifest tells
    assert ask(stored, of_all).result.rows == [[sum(stored.cells.rows)]]
    assert len(ask(stored, "SELECT ward, admitted, COUNT(*) FROM trial GROUP BY ALL").result.rows) == kept
    stored.close()


def test_totals_keep_their_values_in_eight_bytes_or_as_they_are() -> None:
    small = np.array([0, 1, (1 << 61) - 1], object)
    assert _compact(small).dtype == np.int64
    assert _compact(small).tolist() == small.tolist()
    for large in (np.array([1 << 61, 1 << 61], object), np.array([1 << 200, 0], object)):  # the sum of which must fit
        assert _compact(large) is large
