"""`make bench-store`: TPC-H's lineitem as a stored table, beside DuckDB and PostgreSQL on the clear data, in one run.

Quantity, price, discount and tax are encrypted, totals are kept of these and of three derived columns, by ship
date, return flag and line status, which are sealed. For each scale: put (time, rate, bytes, memory); pull into CSV;
then in turn, so that all see the same machine: Q1 over cells, Q6's sum by ship date over cells, Q6, one day's median
and a median by supplier over fetched rows. Cleave is used in a session (warm) and as a whole process (cold), DuckDB on
Parquet and on a table in memory, PostgreSQL hot. Every answer is compared with DuckDB's, to the last digit.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb

from benchmarks import memory, postgres
from cleave.ask.options import Access
from cleave.ask.session import Session
from cleave.ask.stored import StoredSource
from cleave.local.embedded import embedded_services, prepare_embedded
from cleave.objects.locate import open_stores
from cleave.store.seen_versions import SeenVersions

KINDS = {
    "l_suppkey": "plain",
    "l_quantity": "encrypted",
    "l_extendedprice": "encrypted",
    "l_discount": "encrypted",
    "l_tax": "encrypted",
    "l_returnflag": "sealed",
    "l_linestatus": "sealed",
    "l_shipdate": "sealed",
}
BOUNDS = {"l_quantity": (0, 64), "l_extendedprice": (0, 131072), "l_discount": (0, 1), "l_tax": (0, 1)}
BY = ("l_shipdate", "l_returnflag", "l_linestatus")
DERIVED = {
    "disc_price": "l_extendedprice * (1 - l_discount)",
    "charge": "l_extendedprice * (1 - l_discount) * (1 + l_tax)",
    "saved": "l_extendedprice * l_discount",
}
YEAR = "l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1995-01-01'"


@dataclass(frozen=True)
class Question:
    name: str
    sql: str
    way: str  # what Cleave's figures come from
    cloud_only: bool = False  # rows are not fetched


QUESTIONS = (
    Question(
        "Q1",
        """SELECT l_returnflag, l_linestatus, sum(l_quantity) AS sum_qty, sum(l_extendedprice) AS sum_base_price,
        sum(l_extendedprice * (1 - l_discount)) AS sum_disc_price,
        sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) AS sum_charge, avg(l_quantity) AS avg_qty,
        avg(l_extendedprice) AS avg_price, avg(l_discount) AS avg_disc, count(*) AS count_order
        FROM lineitem WHERE l_shipdate <= DATE '1998-09-02'
        GROUP BY l_returnflag, l_linestatus ORDER BY l_returnflag, l_linestatus""",
        "encrypted",
    ),
    Question(
        "Q6's sum by date",
        f"SELECT sum(l_extendedprice * l_discount) AS revenue FROM lineitem WHERE {YEAR}",
        "encrypted",
    ),
    Question(
        "Q6",
        "SELECT sum(l_extendedprice * l_discount) AS revenue FROM lineitem "
        f"WHERE {YEAR} AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24",
        "local",
    ),
    Question(
        "one day's median",
        "SELECT median(l_extendedprice) AS price, count(*) AS rows FROM lineitem WHERE l_shipdate = DATE '1995-03-15'",
        "local",
    ),
    Question(
        "median by supplier",
        "SELECT l_suppkey, median(l_extendedprice) AS price FROM lineitem GROUP BY l_suppkey ORDER BY l_suppkey",
        "local",
    ),
)
IN_POSTGRES = {"median(l_extendedprice)": "percentile_cont(0.5) WITHIN GROUP (ORDER BY l_extendedprice)"}


def schema(columns: Sequence[tuple[str, str]]) -> str:
    lines = ["[csv]", 'delimiter = ","', 'quote = "\\""', 'encoding = "utf-8"', "header = true", 'decimal = "."']
    for name, type_ in columns:
        lines += [f"[columns.{name}]", f'kind = "{KINDS.get(name, "local")}"', f'type = "{type_}"', "nullable = false"]
        if name in BOUNDS:
            lines += ["decimals = 2", f"lower = {BOUNDS[name][0]}", f"upper = {BOUNDS[name][1]}"]
    for name, sql in DERIVED.items():
        lines += [f"[derived.{name}]", f'sql = "{sql}"']
    return "\n".join(lines) + "\n"


class Bench:
    """One scale: the data, the stored table, and everybody who is asked."""

    by: str = ",".join(BY)
    options: tuple[str, ...] = ()  # of put, besides

    def __init__(self, folder: Path, scale: str, stack: ExitStack) -> None:
        self._folder = folder
        self._environment = os.environ | {"XDG_STATE_HOME": str(folder / "state")}
        self._store, self._key = folder / "store", folder / "key.json"
        self._parquet = folder / "lineitem.parquet"
        generate = [program("tpchgen-cli"), "parquet", "-s", scale, "--tables=lineitem", f"--output-dir={folder}"]
        subprocess.run(generate, check=True, capture_output=True)
        self.duckdb = stack.enter_context(duckdb.connect(config={"threads": len(os.sched_getaffinity(0))}))
        file = f"read_parquet('{self._parquet}')"
        described = self.duckdb.execute(f"DESCRIBE SELECT * FROM {file}").fetchall()
        self._parquet.with_suffix(".schema.toml").write_text(schema([(name, type_) for name, type_, *_ in described]))
        self.duckdb.execute(f"CREATE TABLE hot AS SELECT {', '.join(KINDS)} FROM {file}")
        self.duckdb.execute(f"CREATE VIEW file AS FROM {file}")
        ((self.rows,),) = self.duckdb.execute("SELECT count(*) FROM hot").fetchall()
        self.postgres = self._postgres(stack)
        self._run("--quiet", "key", "new", "--no-passphrase")

    def _postgres(self, stack: ExitStack) -> postgres.Postgres | None:
        server = postgres.Postgres.beside(self._folder, stack)
        if server is None:
            return None
        csv = self._folder / "hot.csv"
        self.duckdb.execute(f"COPY hot TO '{csv}' (FORMAT csv, HEADER false)")
        columns = self.duckdb.execute("DESCRIBE hot").fetchall()
        server.load("lineitem", ", ".join(f"{name} {type_}" for name, type_, *_ in columns), csv)
        csv.unlink()
        return server

    def _run(self, *words: str) -> memory.Ran:
        return memory.run([program("cleave"), *words, "--key", str(self._key)], self._environment)

    def put(self, *, steps: bool = False) -> None:
        where = ("--store", str(self._store))
        words = ("put", str(self._parquet), "--table", "lineitem", *where, "--by", self.by, *self.options)
        put = self._run("--quiet", *words)
        if steps:
            sampled = [
                sys.executable,
                "-m",
                "benchmarks.steps",
                "--quiet",
                *words,
                "--replace",
                "--key",
                str(self._key),
            ]
            print(memory.run(sampled, self._environment).output.decode())
        encrypted = self.rows * sum(kind == "encrypted" for kind in KINDS.values())
        facts = json.loads(self._run("show", "lineitem", "--json", *where).output)
        print(
            f"  put {put.seconds:.1f} s: {self.rows / put.seconds:,.0f} rows/s, {encrypted / put.seconds:,.0f} "
            f"encrypted values/s; peak {put.peak_mb:.0f} MB of all its processes\n"
            f"  {facts['bytes'] / 1e6:,.0f} MB stored, {facts['bytes'] / encrypted:.1f} B for each encrypted value; "
            f"{self._parquet.stat().st_size / 1e6:,.0f} MB as Parquet with all 16 columns"
        )

    def pull(self, repeats: int) -> None:
        """The stored columns into a CSV file, beside DuckDB from Parquet; both into the same folder."""
        file = self._folder / "pulled.csv"
        words = ("--quiet", "pull", "lineitem", "-o", str(file), "--store", str(self._store))
        copy = f"COPY (SELECT {', '.join(KINDS)} FROM file) TO '{file}' (FORMAT csv)"
        ours: list[memory.Ran] = []
        theirs: list[float] = []
        used: list[tuple[float, float]] = []
        for _ in range(repeats):
            before = processor()
            ours.append(self._run(*words))
            between, size = processor(), file.stat().st_size
            file.unlink()
            theirs.append(_timed(lambda: self.duckdb.execute(copy)))
            used.append((between - before, processor() - between))
            file.unlink()
        seconds = statistics.median(each.seconds for each in ours)
        other = statistics.median(theirs)
        cpu = [statistics.median(each) for each in zip(*used, strict=True)]
        print(f"  pull into CSV, {size / 1e6:,.0f} MB (medians of {repeats})")
        print(f"    {'cleave, a whole process':<26}{seconds:9.3f} s{cpu[0]:22.3f} s CPU", end="")
        print(f", peak {max(each.peak_mb for each in ours):.0f} MB")
        print(f"    {'DuckDB on Parquet':<26}{other:9.3f} s{cpu[1]:22.3f} s CPU  {seconds / other:7.2f} x")

    def open(self, stack: ExitStack) -> Session:
        stores = open_stores(str(self._store), no_aws)
        seen = SeenVersions(self._folder / "state" / "cleave" / "tables.json")
        session = Session(StoredSource("lineitem", stores, Access(self._key), memory=seen, embedded=embedded_services))
        return stack.enter_context(session)

    def ask(self, question: Question, repeats: int) -> None:
        with ExitStack() as stack:
            started = time.perf_counter()
            session = self.open(stack)
            first = self._check(question, session)
            opened = time.perf_counter() - started
            ways: dict[str, Callable[[], object]] = {
                "cleave, asked again": lambda: session.ask(session.plan(question.sql, cloud_only=question.cloud_only)),
                "DuckDB on Parquet": lambda: self._in_duckdb(question, "file"),
                "DuckDB on its table": lambda: self._in_duckdb(question, "hot"),
            }
            seconds: dict[str, list[float]] = {name: [] for name in ways}
            used: dict[str, list[float]] = {name: [] for name in ways}
            if self.postgres:
                seconds["PostgreSQL, hot"] = []
                self._in_postgres(question)
            for way in ways.values():
                way()
            for _ in range(repeats):
                for name, way in ways.items():
                    before = processor()
                    seconds[name].append(_timed(way))
                    used[name].append(processor() - before)
                if self.postgres:
                    seconds["PostgreSQL, hot"].append(self._in_postgres(question))
        process = [self._query(question) for _ in range(min(3, repeats))]
        ours = statistics.median(seconds["cleave, asked again"])
        print(f"  {question.name} ({first}; medians of {repeats}, and the least)")
        print(
            f"    {'cleave, a whole process':<26}{statistics.median(each.seconds for each in process):9.3f} s", end=""
        )
        print(f", peak {max(each.peak_mb for each in process):.0f} MB")
        print(f"    {'cleave, session and first':<26}{opened:9.3f} s")
        for name, found in seconds.items():
            other = statistics.median(found)
            cpu = f"{statistics.median(used[name]):7.3f} s CPU" if name in used else " " * 13
            ratio = "" if other == ours else f"  {other / ours:7.2f} x the time of Cleave asked again"
            print(f"    {name:<26}{other:9.3f} s  ({min(found):.3f}){cpu}{ratio}", flush=True)

    def _query(self, question: Question) -> memory.Ran:
        more = ["--cloud-only"] if question.cloud_only else []
        return self._run("query", "lineitem", question.sql, "--store", str(self._store), "--json", *more)

    def _in_duckdb(self, question: Question, relation: str) -> list[tuple[Any, ...]]:
        return self.duckdb.execute(question.sql.replace("FROM lineitem", f"FROM {relation}")).fetchall()

    def _in_postgres(self, question: Question) -> float:
        assert self.postgres is not None
        sql = question.sql
        for ours, theirs in IN_POSTGRES.items():
            sql = sql.replace(ours, theirs)
        return self.postgres.seconds(sql)

    def _check(self, question: Question, session: Session) -> str:
        """Compare with DuckDB, to the last digit; means with the exact quotient, to within their bounds."""
        answer = session.ask(session.plan(question.sql, cloud_only=question.cloud_only))
        sources = {column.source for column in answer.result.columns}
        if question.way not in sources:
            raise SystemExit(f"{question.name}: answered {sources}, not {question.way}")
        exact = question.sql
        for name in ("l_quantity", "l_extendedprice", "l_discount"):
            exact = exact.replace(f"avg({name})", f"(sum({name}), count({name}))")
        wanted = self.duckdb.execute(exact.replace("FROM lineitem", "FROM hot")).fetchall()
        if len(wanted) != len(answer.result.rows):
            raise SystemExit(f"{question.name}: another number of rows than DuckDB")
        for ours, bounds, theirs in zip(answer.result.rows, answer.result.bounds, wanted, strict=True):
            for value, bound, known in zip(ours, bounds, theirs, strict=True):
                if isinstance(known, tuple):  # a mean: of bound 0 it is the double next to it
                    mean = Fraction(known[0]) / known[1]
                    right = value == float(mean) or abs(Fraction(value) - mean) <= Fraction(bound)
                else:
                    right = value == known
                if not right:
                    raise SystemExit(f"{question.name}: not what DuckDB answers")
        return f"{len(wanted):,} rows, {question.way}, as DuckDB has it"


def no_aws() -> Any:
    raise SystemExit("the store is a folder")


def program(name: str) -> str:
    return str(Path(sys.executable).with_name(name))


def processor() -> float:
    """Seconds so far of all threads, of all processes that were waited for, and of descendants that live on, with
    theirs: of these the kernel tells hundredths.
    """
    both = [resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    told: dict[int, tuple[int, int]] = {}  # of every process its parent and its time
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended meanwhile
            fields = stat.read_text().rpartition(") ")[2].split()
            told[int(stat.parent.name)] = int(fields[1]), sum(map(int, fields[11:15]))
    living, ours = 0, {os.getpid()}
    while ours := {pid for pid, (parent, _) in told.items() if parent in ours}:
        living += sum(told[pid][1] for pid in ours)
    return sum(each.ru_utime + each.ru_stime for each in both) + living / os.sysconf("SC_CLK_TCK")


def _timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def each_scale(given: str, run: Callable[[str, Path, ExitStack], None]) -> None:
    """Set up what every benchmark of TPC-H needs, and run it for each scale with a folder and a stack of its own."""
    prepare_embedded()  # as the Python interface does, while there is one thread
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # PostgreSQL and the folder go with it
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell's background has ignored
    print(f"{len(os.sched_getaffinity(0))} cores, {platform.machine()}; DuckDB {duckdb.__version__}", flush=True)
    for scale in given.split(","):
        with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
            os.chmod(name, 0o711)  # noqa: S103 - PostgreSQL runs as another user; nothing in there is anybody's
            run(scale, Path(name), stack)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--scales", default="0.1,1", help="TPC-H scale factors: 0.1,1 (10: 15 GB of disk, an hour)")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--steps", action="store_true", help="put once more, and show where its time goes")
    given = parser.parse_args()

    def run(scale: str, folder: Path, stack: ExitStack) -> None:
        bench = Bench(folder, scale, stack)
        print(f"\nlineitem at scale {scale}: {bench.rows:,} rows", end="")
        print(f"; PostgreSQL {bench.postgres.version()}" if bench.postgres else "", flush=True)
        bench.put(steps=given.steps)
        bench.pull(min(3, given.repeats))
        for question in QUESTIONS:
            bench.ask(question, given.repeats)

    each_scale(given.scales, run)


if __name__ == "__main__":
    main()
