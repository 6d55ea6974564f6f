"""Questions over files and stored tables made up for it, and what they take: what timings are calibrated by.

Each is asked as by a process that has asked one before: files are read anew and stored tables opened anew. The list of
a table's cells is read before the clock starts: planning reads it, for every way.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from benchmarks.lab.generated import chooser_of
from benchmarks.lab.model.cost import Work
from benchmarks.lab.model.files import work_of
from benchmarks.lab.model.fit import Sample
from benchmarks.lab.model.stored import work_of as work_of_stored
from cleave.ask.choice import Plan
from cleave.ask.here import HereSource
from cleave.ask.here_sums import REQUESTS_UNDER_WAY
from cleave.ask.options import Access
from cleave.ask.services import Embedded
from cleave.ask.session import Session
from cleave.ask.stored import StoredSource, open_tables
from cleave.objects.folder import Folder
from cleave.objects.locate import Stores
from cleave.store.memory import Memory
from cleave.store.put import append, put
from cleave.sums.cellwise import StoredPlan
from cleave.sums.scan import ManyGroupsError
from cleave.table.lazy import of_files as lazy_of_files
from cleave.table.progress import Silent
from cleave.table.schema import Schema, load_schema
from cleave.table.table import open_table
from cleave_shared import duckdb
from cleave_shared.dataclass import dataclass

REPEATS = 3

_SUMS = "SELECT SUM(x0), SUM(x1) FROM made"
FILES: tuple[tuple[int, int, tuple[str, ...]], ...] = (  # rows, encrypted columns, questions
    (50, 2, (_SUMS, "SELECT SUM(x0), SUM(p) FROM made", "SELECT MEDIAN(x0) FROM made")),
    (
        40_000,
        4,
        (
            "SELECT SUM(x0), SUM(x1), SUM(x2), SUM(x3) FROM made",
            "SELECT g, AVG(x0) FROM made GROUP BY g",
            "SELECT g, VAR_POP(x0), SUM(x1) FROM made GROUP BY g",
        ),
    ),
    (
        200_000,
        2,
        (
            _SUMS,
            "SELECT SUM(x0), SUM(p) FROM made",
            "SELECT g, SUM(x0), SUM(x1) FROM made GROUP BY g",
            "SELECT g, VAR_POP(x0) FROM made GROUP BY g",
            "SELECT p % 5000 AS k, SUM(x0) FROM made GROUP BY k",
            "SELECT h, SUM(x0) FROM made GROUP BY h",
            "SELECT AVG(x0) FROM made WHERE p % 3 = 0",
            "SELECT g, MEDIAN(x0) FROM made GROUP BY g",
        ),
    ),
    (600_000, 4, ("SELECT SUM(x0), SUM(x1), SUM(x2), SUM(x3) FROM made", "SELECT g, SUM(x0) FROM made GROUP BY g")),
    (1_500_000, 2, ("SELECT g, SUM(x0), SUM(x1) FROM made GROUP BY g", "SELECT AVG(x0) FROM made WHERE p % 3 = 0")),
)
_KEY = "SELECT {} AS k, SUM(x0), AVG(x1) FROM made GROUP BY k"
STORES: tuple[tuple[tuple[int, ...], str, tuple[str, ...]], ...] = (  # rows of each segment, by, questions
    (
        (40_000,),
        "g",
        (
            "SELECT SUM(x0), COUNT(*) FROM made WHERE g = 3",
            _KEY.format("p % 3"),
            "SELECT MEDIAN(x0) FROM made WHERE p < 10000",
        ),
    ),
    (
        (80_000, 80_000),
        "g",
        (
            "SELECT SUM(x0), AVG(x1) FROM made",
            "SELECT SUM(x0), COUNT(*) FROM made WHERE g = 3",
            _KEY.format("g"),
            _KEY.format("p % 3"),
            _KEY.format("p % 20"),
            "SELECT AVG(x1) FROM made WHERE p < 40000",
            "SELECT g, MEDIAN(x0) FROM made GROUP BY g",
        ),
    ),
    (
        (240_000,),
        "h",
        (
            "SELECT SUM(x0), AVG(x1) FROM made",
            _KEY.format("h % 3"),
            _KEY.format("h"),
            "SELECT SUM(x0), COUNT(*) FROM made WHERE h = 7",
            "SELECT SUM(x0) FROM made WHERE p < 20000",
        ),
    ),
)


@dataclass(frozen=True, slots=True)
class Asked:
    """`spread`: times as long as the shortest run took the longest."""

    sample: Sample
    spread: float


def of_files(folder: Path, key: Path, embedded: Embedded) -> Iterator[Asked]:
    """Raises what questions may."""
    for rows, columns, questions in FILES:
        path, schema = _made(folder, rows, columns)
        for sql in questions:

            def took(sql: str = sql, path: Path = path, schema: Schema = schema) -> float:
                started = time.perf_counter()
                with Session(HereSource(lazy_of_files([path], schema, "made"), Access(key), embedded)) as session:
                    session.ask(session.plan(sql))
                return time.perf_counter() - started

            with (
                Session(HereSource(lazy_of_files([path], schema, "made"))) as session,
                open_table([path], schema) as table,
            ):
                work = work_of(table, session.plan(sql), REQUESTS_UNDER_WAY)
            yield _asked(took, work)


def of_stores(folder: Path, key: Path, embedded: Embedded) -> Iterator[Asked]:
    """By every way there is. Raises what questions may."""
    for place, (segments, by, questions) in enumerate(STORES):
        path, schema = _made(folder, segments[0], 2, f"store{place}")
        stores = Stores(Folder(path.with_name("sensitive")), Folder(path.with_name("plain")))
        memory = Memory(path.with_name("tables.json"))
        tables = open_tables(stores, Access(key), memory)
        with open_table([path], schema) as table:
            put(tables, table, "made", [by], Silent(), scan=True)
            for _ in segments[1:]:
                append(tables, table, "made", Silent())

        def opened(stores: Stores = stores, memory: Memory = memory) -> Session:
            return Session(StoredSource("made", stores, Access(key), memory=memory, embedded=embedded))

        for sql in questions:
            with opened() as session:
                ways = session.ways(sql)
            yield from (each for plan in ways if (each := _way(opened, plan)))


def _way(opened: Callable[[], Session], plan: Plan) -> Asked | None:
    """None for a scan that is given up, and answered by another way, since it has too many groups."""
    if isinstance(plan, StoredPlan) and plan.scans:
        plan = replace(plan, cloud_only=True)
    with opened() as session:
        try:
            groups = len(session.ask(plan).result.rows)
        except ManyGroupsError:
            return None
        chooser = chooser_of(session)
        work = work_of_stored(chooser.stored, plan, pad=False, services=chooser.services, groups=groups)

    def took() -> float:
        with opened() as session:
            session.describe(plan)  # reads the list of cells, as planning does, whatever way is taken
            started = time.perf_counter()
            session.ask(plan)
            return time.perf_counter() - started

    return _asked(took, work)


def _asked(took: Callable[[], float], work: Work) -> Asked:
    runs = repeated(took, REPEATS)
    return Asked(Sample(work, statistics.median(runs)), max(runs) / min(runs))


def repeated(took: Callable[[], float], runs: int) -> list[float]:
    """Seconds of so many runs, after one for imports and what is kept of a first question."""
    took()
    return [took() for _ in range(runs)]


def _made(folder: Path, rows: int, columns: int, name: str = "file") -> tuple[Path, Schema]:
    """A CSV file: 8 values of `g`, 12 rows of each `h`, every row's own `p`, and encrypted columns."""
    place = folder / f"{name}-{rows}"
    place.mkdir()
    path, schema = place / "made.csv", place / "made.schema.toml"
    kinds = {"g": "plain", "h": "plain", "p": "plain"} | {f"x{each}": "encrypted" for each in range(columns)}
    schema.write_text(
        "".join(
            f'[columns.{column}]\nkind = "{kind}"\ntype = "INTEGER"\nlower = 0\nupper = 2000000\nnullable = false\n'
            for column, kind in kinds.items()
        )
    )
    values = ", ".join(f"(i * {7919 + 2 * each}) % 1000000 AS x{each}" for each in range(columns))
    with duckdb.connect() as connection:
        connection.execute(
            f"COPY (SELECT i % 8 AS g, i // 12 AS h, i AS p, {values} FROM range({rows}) r(i)) TO '{path}' (HEADER)"
        )
    return path, load_schema(schema)
