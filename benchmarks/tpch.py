"""`make bench-tpch`: all 22 queries of TPC-H over eight stored tables, beside DuckDB and PostgreSQL on the clear data.

Every column but keys, dates and flags is encrypted or sealed (tests/samples/tpch), in a folder, without by columns:
every answer comes from rows that are read and opened here. In turn, so that all see the same machine: Cleave in a
session of its own for each answer (first) and in one that has asked all of them before (Cleave), DuckDB on the Parquet
files, PostgreSQL with primary keys and an index of lineitem's parts, hot. Every answer is compared with DuckDB's.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import statistics
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import duckdb

from benchmarks import memory, postgres
from benchmarks.store import each_scale, no_aws, processor, program
from benchmarks.tables import markdown
from cleave.ask.options import Access
from cleave.ask.question import Answer
from cleave.ask.session import Session
from cleave.ask.stored import StoredSource
from cleave.local.embedded import embedded_services
from cleave.objects.locate import open_stores
from cleave.store.seen_versions import SeenVersions

SAMPLE = Path(__file__).parents[1] / "tests" / "samples" / "tpch"
KEYS = {
    "region": "r_regionkey",
    "nation": "n_nationkey",
    "supplier": "s_suppkey",
    "customer": "c_custkey",
    "part": "p_partkey",
    "partsupp": "ps_partkey, ps_suppkey",
    "orders": "o_orderkey",
    "lineitem": "l_orderkey, l_linenumber",
}
# Without it PostgreSQL scans lineitem once for each of thousands of parts (Q17, Q20).
INDEX = "CREATE INDEX ON lineitem (l_partkey, l_suppkey)"
FETCH_LIMIT = 100 << 30
FLOATS = 1e-11  # relative: sums of doubles in another order


def queries(scale: float) -> dict[str, str]:
    """The statements by name, with the parameters of TPC-H's validation runs."""
    text = (SAMPLE / "queries.sql").read_text(encoding="utf-8").replace("0.0001", f"{0.0001 / scale:.10f}")
    return dict(re.findall(r"-- (Q\d+):.*\n((?:(?!--).*\n)+)", text))


class Bench:
    """One scale: the data, the stored tables, and everyone who is asked."""

    def __init__(self, folder: Path, data: Path, scale: str, stack: ExitStack) -> None:
        self._folder = folder
        self._environment = os.environ | {"XDG_STATE_HOME": str(folder / "state")}
        self._key, self._store = folder / "key.json", folder / "store"
        self._data = data / f"tpch-{scale}"
        if not self._data.exists():
            made = data / f"tpch-{scale}.part"
            subprocess.run(
                [program("tpchgen-cli"), "parquet", "-s", scale, f"--output-dir={made}"],
                check=True,
                capture_output=True,
            )
            made.rename(self._data)
        self.queries = queries(float(scale))
        self.duckdb = stack.enter_context(duckdb.connect(config={"threads": len(os.sched_getaffinity(0))}))
        for name in KEYS:
            self.duckdb.execute(f"CREATE VIEW {name} AS FROM '{self._data / name}.parquet'")
        self.wanted = {name: self.duckdb.execute(sql).fetchall() for name, sql in self.queries.items()}
        self._put()
        self.postgres = self._loaded(stack)

    def _cleave(self, *words: str) -> memory.Ran:
        return memory.run([program("cleave"), "--quiet", *words, "--key", str(self._key)], self._environment)

    def _put(self) -> None:
        self._cleave("key", "new", "--no-passphrase")
        seconds = peak = 0.0
        for name in KEYS:
            schema = ("--schema", str(SAMPLE / f"{name}.schema.toml"), "--by", "")
            ran = self._cleave("put", str(self._data / f"{name}.parquet"), "--table", name, *schema, *self._place)
            seconds, peak = seconds + ran.seconds, max(peak, ran.peak_mb)
        stored = sum(path.stat().st_size for path in self._store.rglob("*") if path.is_file())
        clear = sum(path.stat().st_size for path in self._data.iterdir())
        print(f"  put, eight commands: {seconds:.1f} s, peak {peak:.0f} MB; {stored / 1e6:,.0f} MB stored", end="")
        print(f", {clear / 1e6:,.0f} MB as Parquet", flush=True)

    @property
    def _place(self) -> tuple[str, str]:
        return "--store", str(self._store)

    def _loaded(self, stack: ExitStack) -> postgres.Postgres | None:
        started = time.perf_counter()
        server = postgres.Postgres.beside(self._folder, stack)
        if server is None:
            return None
        for name, key in KEYS.items():
            csv = self._folder / f"{name}.csv"
            self.duckdb.execute(f"COPY {name} TO '{csv}' (FORMAT csv, HEADER false)")
            columns = [f"{column} {type_}" for column, type_, *_ in self.duckdb.execute(f"DESCRIBE {name}").fetchall()]
            more = [INDEX] if name == "lineitem" else []
            server.load(name, ", ".join([*columns, f"PRIMARY KEY ({key})"]), csv, more)
            csv.unlink()
        print(f"  PostgreSQL {server.version()}: loaded in {time.perf_counter() - started:.0f} s", flush=True)
        return server

    def open(self) -> contextlib.AbstractContextManager[Session]:
        """A session over all eight tables."""
        seen = SeenVersions(self._folder / "state" / "cleave" / "tables.json")
        stores = open_stores(str(self._store), no_aws)
        return Session(
            StoredSource(
                None, stores, Access(self._key), memory=seen, embedded=embedded_services, fetch_limit=FETCH_LIMIT
            )
        )

    def checked(self, name: str, answer: Answer) -> Answer:
        """Compare an answer with DuckDB's: exactly, doubles but for the order of their sums."""
        rows, wanted = answer.result.rows, self.wanted[name]
        if len(rows) != len(wanted) or not all(map(_same, rows, wanted)):
            raise SystemExit(f"{name}: not what DuckDB answers")
        return answer

    def run(self, repeats: int) -> None:
        read: dict[str, dict[str, int]] = {}
        seconds: dict[str, dict[str, list[float]]] = {}
        used: dict[str, dict[str, list[float]]] = {}
        with self.open() as session:
            ask: dict[str, Callable[[str], Any]] = {
                "first": self._first,
                "Cleave": lambda sql: session.ask(session.plan(sql)),
                "DuckDB": lambda sql: self.duckdb.execute(sql).fetchall(),
            }
            if self.postgres:
                ask["PostgreSQL"] = self.postgres.seconds
            for turn in range(repeats + 1):
                for name, sql in self.queries.items():
                    for who, way in ask.items():
                        before, started = processor(), time.perf_counter()
                        found = way(sql)
                        taken = time.perf_counter() - started
                        if turn:
                            seconds.setdefault(name, {}).setdefault(who, []).append(
                                found if who == "PostgreSQL" else taken
                            )
                            used.setdefault(name, {}).setdefault(who, []).append(processor() - before)
                        if who in ("first", "Cleave"):
                            read.setdefault(name, {})[who] = self.checked(name, found).usage.bytes_read
        self._show(list(ask), read, _medians(seconds), _medians(used))

    def _first(self, sql: str) -> Answer:
        """The answer to the first query of a session, which is opened and closed for it."""
        with self.open() as session:
            return session.ask(session.plan(sql))

    def _show(
        self,
        who: Sequence[str],
        read: dict[str, dict[str, int]],
        seconds: dict[str, dict[str, float]],
        used: dict[str, dict[str, float]],
    ) -> None:
        head = [
            "query",
            "first, MB",
            "Cleave, MB",
            *(f"{each}, s" for each in who),
            "first / DuckDB",
            "Cleave / DuckDB",
        ]
        head += ["PostgreSQL / Cleave"] if self.postgres else []

        def line(name: str, sizes: dict[str, int], took: Callable[[str], float]) -> list[str]:
            ratios = [took("first") / took("DuckDB"), took("Cleave") / took("DuckDB")]
            ratios += [took("PostgreSQL") / took("Cleave")] if self.postgres else []
            cells = [
                *(f"{sizes[each] / 1e6:.1f}" for each in ("first", "Cleave")),
                *(f"{took(each):.3f}" for each in who),
            ]
            return [name, *cells, *(f"{each:.2f}" for each in ratios)]

        lines = [line(name, read[name], seconds[name].__getitem__) for name in self.queries]
        sizes = {each: sum(of[each] for of in read.values()) for each in ("first", "Cleave")}
        lines.append(line("all 22", sizes, lambda each: sum(took[each] for took in seconds.values())))
        print(markdown(head, lines))
        print()
        for each in ("first", "Cleave"):
            ratios = [took[each] / took["DuckDB"] for took in seconds.values()]
            print(f"{each} / DuckDB: median {statistics.median(ratios):.2f}, most {max(ratios):.2f}")
        totals = {each: sum(took[each] for took in used.values()) for each in who}
        print("processor time, all 22: " + ", ".join(f"{each} {taken:.1f} s" for each, taken in totals.items()))
        print(f"load {os.getloadavg()[0]:.1f}", flush=True)


def _same(ours: Sequence[object], theirs: Sequence[object]) -> bool:
    """A row as it is, or as text; doubles to within FLOATS."""
    return all(
        abs(mine - other) <= FLOATS * abs(other)
        if isinstance(mine, float) and isinstance(other, float)
        else mine == other or str(mine) == str(other)
        for mine, other in zip(ours, theirs, strict=True)
    )


def _medians(found: dict[str, dict[str, list[float]]]) -> dict[str, dict[str, float]]:
    return {name: {who: statistics.median(each) for who, each in taken.items()} for name, taken in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--scales", default="1", help="TPC-H scale factors: 1,10 (10: 15 GB of disk)")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--data", type=Path, help="where generated data is kept for the next run; else nowhere")
    given = parser.parse_args()

    def run(scale: str, folder: Path, stack: ExitStack) -> None:
        print(f"\nTPC-H at scale {scale}; medians of {given.repeats}, in one run")
        Bench(folder, given.data or folder, scale, stack).run(given.repeats)

    each_scale(given.scales, run)


if __name__ == "__main__":
    main()
