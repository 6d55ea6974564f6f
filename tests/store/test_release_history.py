"""Releases of a table that changes: old values stay where new ones would show few rows."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from cleave.maintain.changes import update
from cleave.store import put as putting
from cleave.store.change import apply
from cleave.store.pieces import SegmentRows
from cleave.store.rows import Rows
from cleave.table.progress import Silent
from cleave.table.table import Table
from cleave_shared.errors import InputError
from tests.campaign import FACTOR
from tests.store.contributing import kept_as
from tests.store.releasing import LEAST, Releases, lines_of, rows, truth
from tests.unit.test_renewal import least_support

SUMS = "SELECT ward, sex, COUNT(*), SUM(age), SUM(bill) FROM trial GROUP BY ward, sex ORDER BY ALL"
Cell = tuple[str, str]
CELLS: list[Cell] = [("A", "f"), ("A", "m"), ("B", "f")]


class History:
    """A world, the rows that are in it, and every set of rows of a cell whose totals were released."""

    def __init__(self, world: Releases) -> None:
        self.world = world
        self.lines = rows([cell for cell in CELLS for _ in range(8)]).splitlines(keepends=True)
        self.made = len(self.lines)
        self.released: dict[Cell, list[frozenset[int]]] = {}

    def append(self, cells: Sequence[Cell]) -> None:
        new = rows(cells, self.made)
        self.made += len(cells)
        with self.world.table(new) as table:
            tables = self.world.tables()[0]
            tables.sweep(putting.append(tables, table, self.world.name, Silent(), again=True))
        self.lines += new.splitlines(keepends=True)

    def rewrite(self, what: str, gone: Sequence[str] = ()) -> None:
        """Merge all segments, without the lines that are `gone`."""
        tables, opened = self.world.tables()[0], self.world.open()
        names = ", ".join(f"'{line.strip().rpartition(',')[2]}'" for line in gone) or "''"
        select = f"FROM {Table.relation} WHERE name NOT IN ({names})"
        with closing(Rows(tables, opened)) as old:
            same_rows, deleted = what != "update", len(gone)  # as `update` says
            piece = SegmentRows(old, opened.manifest.segments, lambda _: select, same_rows=same_rows)
            tables.sweep(apply(tables, opened, opened.manifest, [piece], what, [names], Silent(), deleted=deleted))
        self.lines = [line for line in self.lines if line not in gone]

    def release(self) -> None:
        self.world.release("carol")
        made = self.world.open().manifest.release
        assert made is not None
        source = self.world.source("carol")
        totals = source._release(self.world.name).totals
        source.close()
        for key, count, as_of in zip(totals.keys, totals.rows, totals.as_of, strict=True):
            cell = (str(key[0]), str(key[1]))
            now = frozenset(self.numbers(cell))
            if totals.times[as_of][0] == made.number:
                self.released.setdefault(cell, []).append(now)
            assert count == len(self.released[cell][-1])

    def numbers(self, cell: Cell) -> list[int]:
        of = lines_of("".join(self.lines), [cell]).splitlines()
        return [int(line.rpartition(",p")[2]) for line in of]

    def check(self) -> None:
        """What is answered is the sum over the rows that were there when each cell had its value."""
        last = {number for sets in self.released.values() for number in sets[-1]}
        every = rows([("X", "x")] * self.made).splitlines()
        cell_of = {number: cell for cell, sets in self.released.items() for number in sets[-1]}
        csv = "".join(",".join([*cell_of[number], *every[number].split(",")[2:]]) + "\n" for number in sorted(last))
        shown = self.world.shown("carol")
        answer = self.world.ask("carol", SUMS).result.rows
        assert [tuple(row) for row in answer] == [row for row in truth(csv, SUMS) if row[:2] in shown]
        for sets in self.released.values():
            assert least_support(sets, LEAST) is None


def started(world: Releases) -> None:
    history = History(world)
    world.put("".join(history.lines))
    world.release("carol")


@pytest.fixture
def history(tmp_path: Path, key_file: Path) -> History:
    found = History(kept_as(Releases, tmp_path / "world", key_file, started))
    found.released = {cell: [frozenset(found.numbers(cell))] for cell in CELLS}
    return found


def counts(history: History) -> list[int]:
    return [history.world.shown("carol")[cell] for cell in CELLS]


def test_few_new_rows_change_no_value(history: History) -> None:
    history.append([("A", "f")] * 4 + [("A", "m")] * 5)
    history.release()
    assert counts(history) == [8, 13, 8]
    history.append([("A", "f")])
    history.release()
    assert counts(history) == [13, 13, 8]
    history.check()
    answer = history.world.ask("carol", SUMS).result
    assert answer.trust.count(" as of ") == 3


def test_few_deleted_rows_change_no_value(history: History) -> None:
    history.append([("B", "f")] * 5)
    history.release()
    history.rewrite("delete", history.lines[:1] + history.lines[8:13])
    history.release()
    assert counts(history) == [8, 8, 13], "three of eight rows are left of the second cell"
    history.rewrite("delete", history.lines[-5:])
    history.release()
    assert counts(history) == [8, 8, 13], "one that grew is not renewed when it shrinks"
    history.check()


def test_no_row_that_was_added_is_released_once_rows_were_deleted(history: History) -> None:
    """They may be the deleted ones, in another cell."""
    history.rewrite("delete", history.lines[:1])
    history.append([("B", "f")] * 5 + [("B", "m")] * 6)
    assert history.world.release("carol").closed
    assert history.world.shown("carol") == dict.fromkeys(CELLS, 8)
    history.release()
    history.check()


def test_merged_segments_change_no_value_and_stop_no_renewal(history: History) -> None:
    history.append([("A", "f")] * 2)
    history.rewrite("compact")
    history.append([("A", "f")] * 3)
    history.rewrite("compact")
    history.release()
    assert counts(history) == [13, 8, 8]
    history.check()


def test_an_update_freezes_the_cells_of_its_segments(history: History) -> None:
    history.rewrite("update")
    history.append([("A", "f")] * 9)
    history.release()
    assert counts(history) == [8, 8, 8]


def test_no_update_moves_rows_to_another_cell(history: History) -> None:
    """Six rows and one more under another name: the difference would be the one."""
    history.append([("A", "m")])
    tables, before = history.world.tables()[0], history.world.open().manifest.version
    for values in ({"sex": "'x'"}, {"age": "1", "ward": "ward"}):
        with pytest.raises(InputError, match=r"is one of its --by columns") as refused:
            update(tables, history.world.name, values, "sex = 'm'", Silent(), yes=True)
        assert "delete the rows, and append them" in str(refused.value.hint)
    assert history.world.open().manifest.version == before


def test_a_cell_without_rows_leaves_the_release(history: History) -> None:
    history.rewrite("delete", history.lines[:8])
    history.release()
    assert set(history.world.shown("carol")) == set(CELLS[1:])
    history.append([("A", "f")] * 6)
    history.release()
    assert set(history.world.shown("carol")) == set(CELLS[1:]), "the six may be those that went"
    history.check()


def test_another_partition_is_refused(history: History) -> None:
    tables, opened = history.world.tables()[0], history.world.open()
    tables.commit(opened.manifest.model_copy(update={"by": ("ward",)}), opened, "alter")
    with pytest.raises(InputError, match="was released by ward, sex, and is stored by ward"):
        history.world.release()


@pytest.mark.slow  # each of its changes is quick in a test above
@pytest.mark.parametrize("seed", range(2 * FACTOR))
def test_any_history(history: History, seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(6):
        what = rng.choice(["append", "append", "delete", "compact", "release"])
        if what == "append":
            history.append([rng.choice(CELLS[:2]) for _ in range(rng.choice([1, 5, 12]))])
        elif what == "delete":
            history.rewrite("delete", rng.sample(history.lines, min(len(history.lines) - 1, rng.choice([1, 6]))))
        elif what == "compact":
            history.rewrite("compact")
        else:
            history.release()
    history.release()
    history.check()
