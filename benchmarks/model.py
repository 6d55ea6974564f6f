"""`make bench-model`: what a cost model estimates beside what is measured, at sizes and questions it was not fitted on.

Calibrates first (benchmarks.lab.calibrate). Then each question is asked RUNS times, the file read anew each
time (a stored table opened anew), in a process that has asked one before; the median is compared with the estimate, and
the spread of the runs told beside it. Memory is that of a whole `cleave query`, all of its processes.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import duckdb

from benchmarks import memory
from benchmarks.lab.asked import repeated
from benchmarks.lab.calibrate import calibrate
from benchmarks.lab.generated import TABLES, World, chooser_of, ways
from benchmarks.lab.model.cost import PROGRAM_BYTES, Prices
from benchmarks.lab.model.files import work_of as work_of_files
from benchmarks.lab.model.stored import work_of
from benchmarks.lab.model.timings import Timings
from cleave.ask.choice import Plan, name_of
from cleave.ask.here import HereSource
from cleave.ask.here_sums import REQUESTS_UNDER_WAY
from cleave.ask.options import Access
from cleave.ask.session import Session
from cleave.local.embedded import embedded_services, prepare_embedded
from cleave.table.lazy import of_files
from cleave.table.progress import Silent
from cleave.table.schema import load_schema
from cleave_shared.dataclass import dataclass

RUNS = 5
STORED_ROWS = 150_000
_FILE_CASES = (
    (6_000, 4, "SELECT SUM(x0), SUM(x1), SUM(x2), SUM(x3) FROM t"),
    (30_000, 2, "SELECT g, SUM(x0), AVG(x1) FROM t WHERE p % 3 > 0 GROUP BY g"),
    (100_000, 4, "SELECT g, SUM(x0), VAR_POP(x1) FROM t GROUP BY g"),
    (300_000, 2, "SELECT SUM(x0), SUM(p) FROM t"),
    (500_000, 4, "SELECT g, SUM(x0), SUM(x1), SUM(x2), SUM(x3) FROM t GROUP BY g"),
    (1_000_000, 4, "SELECT g, SUM(x0), SUM(x1), SUM(x2), SUM(x3) FROM t GROUP BY g"),
    (1_000_000, 1, "SELECT p % 30000 AS k, SUM(x0) FROM t GROUP BY k"),
    (2_000_000, 2, "SELECT AVG(x0), AVG(x1), COUNT(*) FROM t WHERE p % 2 = 0"),
)
_STORED = (
    "SELECT ward AS k, SUM(bill), AVG(age) FROM visits GROUP BY k ORDER BY k",
    "SELECT day // 60 AS k, SUM(bill) FROM visits GROUP BY k ORDER BY k",
    "SELECT AVG(score), AVG(bill), COUNT(*) FROM visits WHERE day < 100",
)


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    foreseen: float
    runs: list[float]

    @property
    def seconds(self) -> float:
        return statistics.median(self.runs)

    @property
    def error(self) -> float:
        return self.foreseen / self.seconds - 1

    def line(self) -> str:
        spread = (max(self.runs) - min(self.runs)) / self.seconds
        return f"| {self.name} | {self.foreseen:.3f} | {self.seconds:.3f} | {self.error:+.1%} | {spread:.0%} |"


def made(folder: Path, rows: int, columns: int) -> Path:
    """A CSV and its schema; values of 1 to 10^6, 20 groups."""
    place = folder / f"{rows}x{columns}"
    place.mkdir()
    values = ", ".join(f"((i * {7919 + 2 * c}) % 1000000)::INTEGER AS x{c}" for c in range(columns))
    sql = f"COPY (SELECT i % 20 AS g, i AS p, {values} FROM range({rows}) r(i)) TO '{place / 't.csv'}' (HEADER)"
    with duckdb.connect() as connection:
        connection.execute(sql)
    kinds = [("g", "plain", "BIGINT"), ("p", "plain", "BIGINT")]
    kinds += [(f"x{c}", "encrypted", "INTEGER") for c in range(columns)]
    lines = [f'[columns.{name}]\nkind = "{kind}"\ntype = "{type_}"\nnullable = false' for name, kind, type_ in kinds]
    (place / "t.schema.toml").write_text(
        "\n".join(each + ("\nlower = 0\nupper = 1000000" if "encrypted" in each else "") for each in lines) + "\n"
    )
    return place


def of_a_file(place: Path, key: Path, sql: str, runs: int, timings: Timings) -> tuple[Case, int]:
    """And the bytes of memory that are foreseen."""

    def source() -> HereSource:
        lazy = of_files([place / "t.csv"], load_schema(place / "t.schema.toml"), "t")
        return HereSource(lazy, Access(key), embedded_services)

    def ask() -> float:
        started = time.perf_counter()
        with Session(source()) as opened:
            opened.ask(opened.plan(sql))
        return time.perf_counter() - started

    read = source()
    with Session(read) as opened:
        work = work_of_files(read.read(Silent()), opened.plan(sql), REQUESTS_UNDER_WAY)
    seconds = Prices(bucket=False, elsewhere=False, timings=timings).of(work).seconds
    return Case(f"`{sql}`, {place.name}", seconds, repeated(ask, runs)), PROGRAM_BYTES + work.memory


def of_a_store(world: World, runs: int, timings: Timings) -> Iterator[Case]:
    for sql in _STORED:
        with world.session(TABLES[0]) as session:
            plans = {name_of(plan): plan for plan in ways(session, sql)}
            groups = len(session.ask(plans["rows"]).result.rows)  # which the plain service tells before a scan goes on
            chooser = chooser_of(session)
            foreseen = {
                name: Prices(bucket=False, elsewhere=False, timings=timings).of(
                    work_of(chooser.stored, plan, pad=False, services=chooser.services, groups=groups)
                )
                for name, plan in plans.items()
            }
        for name, plan in plans.items():

            def ask(plan: Plan = plan) -> float:
                with world.session(TABLES[0]) as session:
                    session.describe(plan)  # reads the list of cells, as planning does
                    started = time.perf_counter()
                    session.ask(plan)
                    return time.perf_counter() - started

            yield Case(f"`{sql}`, stored, by {name}", foreseen[name].seconds, repeated(ask, runs))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--most", type=int, default=2_000_000, help="rows of the largest case")
    given = parser.parse_args()
    prepare_embedded()
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        program, key = str(Path(sys.executable).with_name("cleave")), folder / "key.json"
        words = [program, "--quiet", "key", "new", "--no-passphrase", "--key", str(key)]
        subprocess.run(words, check=True, capture_output=True)
        timings = calibrate(embedded_services)
        print(f"{len(os.sched_getaffinity(0))} cores, {platform.machine()}, load {os.getloadavg()[0]:.1f}\n")
        print("| question | foreseen, s | measured, s | error | spread of the runs |\n|---|---:|---:|---:|---:|")
        cases, peaks = [], []
        for rows, columns, sql in (each for each in _FILE_CASES if each[0] <= given.most):
            place = made(folder, rows, columns)
            case, foreseen = of_a_file(place, key, sql, given.runs, timings)
            ran = memory.run([program, "--quiet", "query", str(place / "t.csv"), sql, "--key", str(key)], os.environ)
            cases.append(case)
            print(case.line(), flush=True)
            peaks.append((case.name, foreseen / 1e6, ran.peak_mb))
        (folder / "world").mkdir()
        for case in of_a_store(World(folder / "world", key, STORED_ROWS, stack), given.runs, timings):
            cases.append(case)
            print(case.line(), flush=True)
    errors = sorted(each.error for each in cases)
    mean = statistics.geometric_mean([1 + each for each in errors])
    absolute = statistics.median(abs(each) for each in errors)
    print(f"\nErrors from {errors[0]:+.1%} to {errors[-1]:+.1%}; of the median case {absolute:.1%};", end=" ")
    print(f"foreseen over measured, geometric mean: {mean:.3f}. CryptOracle, published: -7.0% to +8.4%.\n")
    print("| question | memory foreseen, MB | measured, MB | error |\n|---|---:|---:|---:|")
    print("\n".join(f"| {name} | {told:,.0f} | {peak:,.0f} | {told / peak - 1:+.0%} |" for name, told, peak in peaks))


if __name__ == "__main__":
    main()
