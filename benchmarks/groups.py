"""GROUP BY over 10 to 100,000 groups of 1,000,000 rows: Cleave, DuckDB in the clear, and hand-written TenSEAL, in turn.

Hand-written TenSEAL encrypts each group's values in vectors of its own, as one must whose service is to add up groups
without masks. Of many groups it does 200 and counts the time of all.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import tenseal as ts

ROWS = 1_000_000
GROUPS = (10, 1_000, 10_000, 100_000)
REPEATS = 3
SAMPLED = 200
SCHEMA = """[csv]
delimiter = ","
quote = "\\""
encoding = "utf-8"
header = true
decimal = "."
[columns.g]
kind = "plain"
type = "BIGINT"
nullable = false
reason = "benchmark"
[columns.cents]
kind = "encrypted"
type = "DECIMAL(18,2)"
decimals = 2
nullable = false
lower = 0
upper = 16384
reason = "benchmark"
[columns.x]
kind = "encrypted"
type = "DOUBLE"
nullable = false
reason = "benchmark"
"""


def report(folder: Path, key: Path) -> None:
    print(f"\n{ROWS:,} rows: g, SUM(cents), AVG(x), COUNT(*) by g; medians of {REPEATS}")
    print("   groups   cleave      CPU   finish  requests  chunks        up      down   DuckDB  ts.ckks_vector")
    first = 0.0
    for groups in GROUPS:
        random = np.random.default_rng(groups)
        g, x = random.integers(0, groups, ROWS), random.normal(100, 20, ROWS)
        table = folder / f"groups{groups}.csv"
        np.savetxt(
            table, np.stack([g, random.uniform(0, 16384, ROWS), x], 1), "%d,%.2f,%.17g", header="g,cents,x", comments=""
        )
        table.with_suffix(".schema.toml").write_text(SCHEMA)
        sql = f"SELECT g, SUM(cents), AVG(x), COUNT(*) FROM {table.stem} GROUP BY g"
        ours, clear, theirs = [], [], []
        for _ in range(REPEATS):  # in turn, so that all three see the same machine
            ours.append(_cleave(table, key, sql))
            clear.append(_duckdb(table, sql))
            theirs.append(_tenseal(g, x, groups))
        plan = ours[-1]["plan"]
        seconds, duckdb_seconds, by_hand = _median(ours, "seconds"), statistics.median(clear), statistics.median(theirs)
        print(
            f"{groups:9,} {seconds:7.2f}s {_median(ours, 'cpu'):7.2f}s "
            f"{statistics.median(run['timings']['finish'] for run in ours):7.2f}s {plan['sensitive_requests']:9} "
            f"{plan['chunks']:7} {plan['bytes_sent'] / 1e6:7.1f}MB {plan['bytes_received'] / 1e6:7.2f}MB "
            f"{duckdb_seconds:7.2f}s {by_hand:14.1f}s  "
            f"{seconds / duckdb_seconds:.1f} x DuckDB's time; by hand takes {by_hand / seconds:.1f} x ours"
        )
        first = first or seconds
        if len(ours[-1]["rows"]) != len(np.unique(g)):
            raise SystemExit("groups are missing")
        print(f"{'':9} {seconds / first:.2f} x the time of {GROUPS[0]} groups", flush=True)


def _median(runs: list[dict[str, Any]], name: str) -> float:
    return statistics.median(run[name] for run in runs)


def _cleave(table: Path, key: Path, sql: str) -> dict[str, Any]:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    command = [str(Path(sys.executable).with_name("cleave")), "query", str(table), "--json", "--key", str(key), sql]
    answer: dict[str, Any] = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    seconds, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {**answer, "seconds": seconds, "cpu": cpu}


def _duckdb(table: Path, sql: str) -> float:
    started = time.perf_counter()
    with duckdb.connect(config={"threads": len(os.sched_getaffinity(0))}) as connection:
        connection.execute(f"CREATE TABLE {table.stem} AS FROM read_csv('{table}')")
        connection.execute(sql).fetchall()
    return time.perf_counter() - started


def _tenseal(g: np.ndarray[Any, Any], x: np.ndarray[Any, Any], groups: int) -> float:
    """Two columns, so twice the time of one."""
    context = ts.context(ts.SCHEME_TYPE.CKKS, 8192, coeff_mod_bit_sizes=[60, 40, 40, 60], n_threads=1)
    context.global_scale = 2.0**40
    chosen = np.unique(g)[: min(groups, SAMPLED)]
    started = time.perf_counter()
    for group in chosen:
        values = x[g == group]
        total = None
        for start in range(0, len(values), 4096):
            part = values[start : start + 4096]
            sent = ts.ckks_vector(context, np.pad(part, (0, 4096 - len(part))).tolist()).serialize()
            vector = ts.ckks_vector_from(context, sent)
            total = vector if total is None else total + vector
        if total is not None and abs(sum(total.decrypt()) - values.sum()) > 1:
            raise SystemExit("the TenSEAL baseline is wrong")
    return 2 * (time.perf_counter() - started) * len(np.unique(g)) / len(chosen)
