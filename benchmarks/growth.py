"""`make bench-growth`: what a small change and small questions cost in a table of 100 to 20,000 segments.

The first segment is put: one day, 8 wards, 540,000 rows. All others repeat it for other days, at most 1,000 in all,
with ids, index and cells of their own; their other objects are hard links to its objects. So the head, the manifest,
the list of cells and the listing of the store are those of a large table, and no row is encrypted twice. Rows are read
of the first day only, which one segment has.

For each size, in a new process each: opening the table, sums by ward from totals, the median of one day from its rows,
and an append of 1,000 rows with its sweep. Requests, bytes and listed objects are counted at the store (a service's
reads too), processor time in all processes. Every answer is compared with DuckDB's.
"""

from __future__ import annotations

import argparse
import datetime
import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from benchmarks.tables import figure, machine, markdown
from cleave.ask.options import Access
from cleave.ask.session import Session
from cleave.ask.stored import StoredSource
from cleave.ckks.cipher import Cipher
from cleave.ckks.key_file import create_key, open_key
from cleave.local.embedded import embedded_services, prepare_embedded
from cleave.objects.locate import Folder, Stores
from cleave.store import lanes
from cleave.store import put as putting
from cleave.store.cells import Cells, Index, index_of
from cleave.store.encrypting import encrypt_lane
from cleave.store.manifest import WINDOW, Object, Segment, Segments, new_id
from cleave.store.reader import Opened
from cleave.store.seen_versions import SeenVersions
from cleave.store.tables import Tables
from cleave.table.lazy import of_files
from cleave.table.progress import Silent
from cleave_shared import limits
from cleave_shared.chunks import joined, split
from cleave_shared.params import DEFAULT_PROFILE

SIZES = (100, 1_000, 5_000)
ROWS, WARDS, APPENDED = 540_000, 8, 1_000
DAYS = 1_000  # with 8 wards below the cells of one ciphertext: totals of the first segment fit all others
FIRST = datetime.date(2000, 1, 1)
_MOST_SECONDS = 3600.0  # of one work
_PAGE = 1_000  # objects of S3 in one answer to a listing
_SCHEMA = """
[columns.day]
kind = "plain"
type = "DATE"
[columns.ward]
kind = "plain"
type = "VARCHAR"
[columns.age]
kind = "encrypted"
type = "INTEGER"
nullable = false
lower = 0
upper = 127
[columns.bill]
kind = "encrypted"
type = "INTEGER"
nullable = false
lower = 0
upper = 1000000
[columns.name]
kind = "sealed"
type = "VARCHAR"
"""
_MADE = """SELECT DATE '{day}' AS day, 'ward ' || i % {wards} AS ward, (hash(i) % 120)::INTEGER AS age,
(hash(i + 7) % 1000000)::INTEGER AS bill, 'p' || i AS name FROM range({rows}) r(i)"""
_TOTALS = "SELECT ward, COUNT(*), SUM(bill) FROM t GROUP BY ward ORDER BY ward"
_DAY = f"SELECT MEDIAN(bill), COUNT(DISTINCT name) FROM t WHERE day = DATE '{FIRST}'"


class Counting(Folder):
    """A folder that counts what a bucket would be asked for."""

    def __init__(self, root: Path, counts: Counter[str]) -> None:
        super().__init__(root)
        self._counts = counts

    def _count(self, requests: int = 1, **more: int) -> None:
        self._counts.update(requests=requests, **more)

    def read(self, name: str, start: int = 0, stop: int | None = None, most: int = limits.MAX_OBJECT_BYTES) -> bytes:
        content = super().read(name, start, stop, most)
        self._count(read=len(content))
        return content

    def write(self, name: str, content: bytes) -> None:
        super().write(name, content)
        self._count(written=len(content))

    def replace(self, name: str, content: bytes, expected: str | None) -> str:
        self._count(written=len(content))
        return super().replace(name, content, expected)

    def sizes(self, prefix: str) -> dict[str, int]:
        found = super().sizes(prefix)
        self._count(1 + len(found) // _PAGE, listed=len(found))
        return found

    def names(self, prefix: str) -> Iterator[str]:
        found = list(super().names(prefix))
        self._count(1 + len(found) // _PAGE, listed=len(found))
        yield from found

    def delete(self, names: Iterable[str]) -> None:
        every = list(names)
        self._count(-(-len(every) // _PAGE))
        super().delete(every)

    def link(self, name: str, seconds: int) -> str:
        self._count(read=self.path(name).stat().st_size)  # by the service
        return super().link(name, seconds)

    def path(self, name: str) -> Path:
        return Path(self.location) / name


class World:
    """The table in `root`, and its owner. `counts`: requests, and bytes and objects, since they were cleared."""

    def __init__(self, root: Path) -> None:
        self.root, self.counts = root, Counter[str]()
        self.key_file = root / "key.json"
        if not self.key_file.exists():
            create_key(self.key_file, None)
        self.sensitive, self.plain = (Counting(root / half, self.counts) for half in ("s", "p"))
        self.stores = Stores(self.sensitive, self.plain)
        self.memory = SeenVersions(root / "seen.json")
        self.tables = Tables(self.stores, open_key(self.key_file, None), self.memory)

    def rows(self, day: datetime.date, rows: int) -> Path:
        path = self.root / "t.parquet"
        path.with_suffix(".schema.toml").write_text(_SCHEMA)
        duckdb.execute(f"COPY ({_MADE.format(day=day, wards=WARDS, rows=rows)}) TO '{path}'")
        return path

    def put(self) -> None:
        with of_files([self.rows(FIRST, ROWS)], name="t").stream() as stream:
            putting.put(self.tables, stream, "t", ("day", "ward"), Silent())

    def grow(self, segments: int) -> None:
        """Add repeated segments up to `segments`."""
        opened = self.tables.open("t")
        cells, first = self.tables.cells(opened), opened.manifest.segments[0]
        variants = list(self._encrypted_again(opened, first))
        index = index_of(first)
        days = range(len(opened.manifest.segments), segments)
        more = [
            self._repeated(opened, variants[day % WINDOW], index, cells, 1 + (day - 1) % (DAYS - 2)) for day in days
        ]
        first = first.model_copy(update={"cells": len(cells)})
        old = (first, *(each.model_copy(update={"cells": len(cells)}) for each in opened.manifest.segments[1:]))
        more = [each.model_copy(update={"cells": len(cells)}) for each in more]
        manifest = opened.manifest.model_copy(update={"segments": Segments.of((*old, *more))})
        manifest = manifest.model_copy(update={"cells": self.tables.seal_cells(manifest, cells)})
        self.tables.commit(manifest, opened, "nothing")

    def _encrypted_again(self, opened: Opened, segment: Segment) -> Iterator[Segment]:
        """The segment with new ciphertexts, one for each place in a window: the noise of equal ones would add up."""
        cipher, (totals,) = Cipher(self.tables.secret(opened.manifest)), segment.totals
        layout = lanes.total_lanes(opened.manifest.measures, DEFAULT_PROFILE)
        guard, label = layout.layout.guard, lanes.total_label(totals.label)
        planes = []
        for which in totals.lanes:
            plane = cipher.decrypt(split(self.tables.read(which)))[:, : layout.capacity].reshape(-1)[: segment.cells]
            planes.append((plane + (1 << (guard - 1))) >> guard << guard)
        for _ in range(WINDOW):
            files = [joined(encrypt_lane(layout, plane, cipher, label, at)) for at, plane in enumerate(planes)]
            written = tuple(self.tables.write(self.tables.folder("t"), each) for each in files)
            yield segment.model_copy(update={"totals": (totals.model_copy(update={"lanes": written}),)})

    def shrink(self) -> None:
        """Remove what was appended, so that the table grows on."""
        opened = self.tables.open("t")
        kept = tuple(each for each in opened.manifest.segments if each.rows == ROWS)
        cells = self.tables.cells(opened)
        for segment in opened.manifest.segments[len(kept) :]:
            cells.count(index_of(segment), -1)
        manifest = opened.manifest.model_copy(
            update={"segments": Segments.of(kept), "cells": self.tables.seal_cells(opened.manifest, cells)}
        )
        self.tables.commit(manifest, opened, "nothing")

    def _repeated(self, opened: Opened, first: Segment, index: Index, cells: Cells, day: int) -> Segment:
        folder, rows = self.tables.folder("t"), dict(zip(index.cells.tolist(), index.rows.tolist(), strict=True))
        keys = [(str(FIRST + datetime.timedelta(day)), cells.keys[cell][1]) for cell in rows]
        numbers = dict(zip(rows, cells.add(opened.manifest.by, keys, [*rows.values()]), strict=True))
        runs = [(numbers[cell], of_run) for cell, of_run in index.runs.tolist()]
        mine = Index(np.asarray([*numbers.values()]), index.rows, np.asarray(runs, np.int64))

        def linked(which: Object, store: Counting) -> Object:
            name = f"{folder}/{new_id()}"
            os.link(store.path(which.name), store.path(name))
            return which.model_copy(update={"name": name})

        columns = [each.model_copy(update={"object": linked(each.object, self.sensitive)}) for each in first.columns]
        totals = [
            each.model_copy(update={"lanes": tuple(linked(lane, self.sensitive) for lane in each.lanes)})
            for each in first.totals
        ]
        update = {
            "id": new_id(),
            "index": mine.dump(),
            "columns": tuple(columns),
            "totals": tuple(totals),
            "plain": linked(first.plain, self.plain) if first.plain else None,
        }
        return first.model_copy(update=update)

    def ask(self, sql: str) -> list[list[Any]]:
        source = StoredSource("t", self.stores, Access(self.key_file), memory=self.memory, embedded=embedded_services)
        with Session(source) as session:
            found: list[list[Any]] = session.ask(session.plan(sql)).result.rows
        return found


def _answer(sql: str) -> list[list[Any]]:
    """DuckDB's, over the rows of the first segment."""
    rows = f"({_MADE.format(day=FIRST, wards=WARDS, rows=ROWS)})"
    return [list(row) for row in duckdb.execute(sql.replace("FROM t ", f"FROM {rows} AS t ")).fetchall()]


def _open(world: World) -> Callable[[int], bool]:
    opened = world.tables.open("t")
    return lambda segments: len(opened.manifest.segments) == segments


def _totals(world: World) -> Callable[[int], bool]:
    found = world.ask(_TOTALS)
    return lambda segments: found == [[ward, *(each * segments for each in row)] for ward, *row in _answer(_TOTALS)]


def _day(world: World) -> Callable[[int], bool]:
    found = world.ask(_DAY)
    return lambda _: found == _answer(_DAY)


def _append(world: World) -> Callable[[int], bool]:
    with of_files([world.root / "t.parquet"], name="t").stream() as stream:
        done = putting.append(world.tables, stream, "t", Silent(), again=True)
    return lambda segments: done.manifest.rows == segments * ROWS + APPENDED


WORKS: dict[str, Callable[[World], Callable[[int], bool]]] = {
    "open": _open,
    "query from totals": _totals,
    "query of one day's rows": _day,
    "append of 1,000 rows": _append,
}


def _processor(process: int | None = None) -> float:
    """Seconds of processor time of this process and of all that it started."""
    ticks = os.sysconf("SC_CLK_TCK")
    folder = Path(f"/proc/{process or os.getpid()}")
    fields = (folder / "stat").read_text().rpartition(")")[2].split()
    own = sum(map(int, fields[11:15])) / ticks  # with that of children that ended
    children = [each for task in (folder / "task").iterdir() for each in (task / "children").read_text().split()]
    return own + sum(_processor(int(each)) for each in children)


def _measured(root: Path, work: str, segments: int) -> dict[str, float]:
    """Run in a new process."""
    prepare_embedded()  # while there is one thread
    world = World(root)
    world.counts.clear()
    processor, started = _processor(), time.perf_counter()
    check = WORKS[work](world)
    found = {"s": time.perf_counter() - started, "processor": _processor() - processor}
    found |= {name: float(world.counts[name]) for name in ("requests", "read", "written", "listed")}
    assert check(segments), work
    return found


def measured(root: Path, sizes: Sequence[int]) -> Iterator[list[str]]:
    """A line of the table for each size and work."""
    world, context = World(root), get_context("spawn")
    world.put()
    for segments in sizes:
        world.grow(segments)
        world.rows(FIRST - datetime.timedelta(1), APPENDED)
        manifest = world.tables.open("t").head.manifest.bytes
        for work in WORKS:  # the append comes last
            with ProcessPoolExecutor(1, context) as pool:
                found = pool.submit(_measured, root, work, segments).result(_MOST_SECONDS)
            mega = [figure(found[each] / 1e6) for each in ("read", "written")]
            counts = [f"{found[each]:,.0f}" for each in ("requests", "listed")]
            yield [work, f"{segments:,}", figure(found["s"]), figure(found["processor"]), *mega, *counts]
        world.shrink()
        yield [f"(manifest {figure(manifest / 1e6)} MB)", f"{segments:,}", *[""] * 6]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="segments, ascending")
    sizes = sorted(map(int, parser.parse_args().sizes.split(",")))
    os.fsync = lambda _: None  # building the table only: what is measured runs in other processes
    with tempfile.TemporaryDirectory() as root:
        head = ["", "segments", "s", "processor s", "MB read", "MB written", "requests", "objects listed"]
        print(f"{machine()}\n\n{markdown(head, ())}")
        for line in measured(Path(root), sizes):
            print(f"| {' | '.join(line)} |", flush=True)


if __name__ == "__main__":
    main()
