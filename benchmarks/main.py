"""`make bench-query`: the main job, and the same sums by hand-written packed TenSEAL, in one run on this machine.

For 6,000 x 8 (4 encrypted) and 1,000,000 x 4 (4 encrypted) prints the median seconds of `cleave query` as a whole
process, its stages, bytes and peak memory, and the ratio to `ts.ckks_vector`, 4,096 values to a ciphertext. The
encrypted columns are float64 without declared bounds, which never share a lane: the worst case; then float64 with
bounds (half lanes), and cents. Last 1,000,000 rows by 10 to 100,000 groups (groups.py). Nothing is asserted.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tenseal as ts

from benchmarks import groups

ENCRYPTED = 4
SLOTS = 4096


@dataclass(frozen=True)
class Case:
    """`declared`: the schema states bounds that keep off 0. `cents`: the columns are DECIMAL(18,2)."""

    rows: int
    plain: int
    repeats: int
    declared: bool = False
    cents: bool = False

    @property
    def values(self) -> int:
        return self.rows * ENCRYPTED


CASES = (
    Case(6_000, 4, 7),
    Case(1_000_000, 0, 3),
    Case(1_000_000, 0, 3, declared=True),
    Case(1_000_000, 0, 3, declared=True, cents=True),
)
LEAST, MOST = 2, 256


def write_table(folder: Path, case: Case) -> tuple[Path, np.ndarray]:
    """The CSV and its schema; returns the encrypted columns (rows, 4)."""
    random = np.random.default_rng(case.rows)
    values = np.clip(random.normal(100.0, 20.0, (case.rows, ENCRYPTED)), LEAST, MOST)
    if case.cents:
        values = values.round(2)
    plain = random.integers(0, 5, (case.rows, case.plain))
    names = [f"p{i}" for i in range(case.plain)] + [f"e{i}" for i in range(ENCRYPTED)]
    path = folder / f"table{case.rows}{'declared' * case.declared}{'cents' * case.cents}.csv"
    formats = ["%d"] * case.plain + ["%.2f" if case.cents else "%.17g"] * ENCRYPTED
    np.savetxt(path, np.hstack([plain, values]), formats, delimiter=",", header=",".join(names), comments="")
    schema = ["[csv]", 'delimiter = ","', 'quote = "\\""', 'encoding = "utf-8"', "header = true", 'decimal = "."']
    for name in names:
        encrypted = "DECIMAL(18,2)" if case.cents else "DOUBLE"
        kind, kind_type = ("plain", "BIGINT") if name.startswith("p") else ("encrypted", encrypted)
        schema += [f"[columns.{name}]", f'kind = "{kind}"', f'type = "{kind_type}"', 'reason = "benchmark"']
        schema += ["nullable = false"]
        if case.cents and kind == "encrypted":
            schema += ["decimals = 2"]
        if case.declared:
            schema += [f"lower = {LEAST}", f"upper = {MOST}"]
    path.with_suffix(".schema.toml").write_text("\n".join(schema) + "\n")
    return path, values


def run_cleave(table: Path, key: Path) -> dict[str, Any]:
    """One `cleave query` process: its own timings and counts, its seconds, its peak memory in MB."""
    sums = ", ".join(f"SUM(e{i})" for i in range(ENCRYPTED))
    command = [str(Path(sys.executable).with_name("cleave")), "query", str(table), "--json", "--key", str(key)]
    started = time.perf_counter()
    process = subprocess.Popen([*command, f"SELECT {sums} FROM {table.stem}"], stdout=subprocess.PIPE)
    assert process.stdout is not None
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - started
    if status:
        raise SystemExit(f"cleave query failed with status {status}")
    answer: dict[str, Any] = json.loads(output)
    return {**answer, "seconds": seconds, "peak_mb": usage.ru_maxrss / 1024}


def run_tenseal(values: np.ndarray) -> dict[str, float]:
    """The same sums as a TenSEAL user writes them: packed vectors, added by a service, decrypted and folded here."""
    seconds: dict[str, float] = {}
    mark = time.perf_counter()

    def lap(stage: str) -> None:
        nonlocal mark
        now = time.perf_counter()
        seconds[stage] = seconds.get(stage, 0.0) + now - mark
        mark = now

    context = ts.context(ts.SCHEME_TYPE.CKKS, 8192, coeff_mod_bit_sizes=[60, 40, 40, 60], n_threads=1)
    context.global_scale = 2.0**40
    public = context.copy()
    public.make_context_public()
    sent = received = 0
    lap("keys")
    for column in values.T:
        uploads = []
        for start in range(0, len(column), SLOTS):
            uploads.append(ts.ckks_vector(context, column[start : start + SLOTS].tolist()).serialize())
        sent += sum(map(len, uploads))
        lap("encrypt")
        total = None
        for upload in uploads:
            vector = ts.ckks_vector_from(public, upload)
            if total is None:
                total = vector
            elif vector.size() == total.size():
                total += vector
            else:  # the last, shorter one
                short = vector
        answers = [total.serialize()] + ([short.serialize()] if len(column) % SLOTS and len(uploads) > 1 else [])
        received += sum(map(len, answers))
        lap("evaluate")
        found = sum(sum(ts.ckks_vector_from(context, answer).decrypt()) for answer in answers)
        lap("decrypt")
        if abs(found - column.sum()) > 1e-3 * len(column):
            raise SystemExit("the TenSEAL baseline is wrong")
    return {**seconds, "bytes_sent": sent, "bytes_received": received}


def median(runs: list[dict[str, Any]], *path: str) -> float:
    def get(run: Any) -> float:
        for name in path:
            run = run[name]
        return float(run)

    return statistics.median(get(run) for run in runs)


def report(case: Case, folder: Path, key: Path) -> None:
    table, values = write_table(folder, case)
    run_cleave(table, key)  # warms the disk cache
    ours, theirs = [], []
    for _ in range(case.repeats):  # alternating, so that both see the same machine
        ours.append(run_cleave(table, key))
        theirs.append(run_tenseal(values))
    exact = values.sum(axis=0)
    error = max(abs(float(v) - e) for v, e in zip(ours[-1]["rows"][0], exact, strict=True))
    round_trip = median(ours, "timings", "encode") + median(ours, "timings", "sensitive")
    baseline = sum(median(theirs, stage) for stage in ("encrypt", "evaluate", "decrypt"))
    kind = "cents" if case.cents else "float64"
    print(f"\n{case.rows:,} rows, {case.plain + ENCRYPTED} columns, {ENCRYPTED} encrypted as {kind}", end="")
    print(f"{' within declared bounds' if case.declared else ''}; medians of {case.repeats}")
    print(f"  whole process           {median(ours, 'seconds'):8.3f} s, peak {median(ours, 'peak_mb'):.0f} MB")
    for stage in ours[0]["timings"]:
        print(f"    {stage:<22}{median(ours, 'timings', stage):8.3f} s")
    print(f"  encrypt..decrypt        {1e9 * median(ours, 'timings', 'sensitive') / case.values:8.0f} ns per value")
    print(f"  encode too              {1e9 * round_trip / case.values:8.0f} ns per value")
    up, down = median(ours, "plan", "bytes_sent"), median(ours, "plan", "bytes_received")
    print(f"  up, down                {up:,.0f} B ({up / case.values:.2f} B a value), {down:,.0f} B")
    print(f"  largest error           {error:.1e}")
    sent, received = median(theirs, "bytes_sent"), median(theirs, "bytes_received")
    print(f"  ts.ckks_vector          {baseline:8.3f} s ({1e9 * baseline / case.values:.0f} ns per value)", end="")
    print(f", {sent:,.0f} B up ({sent / case.values:.2f} B a value), {received:,.0f} B down")
    for stage in ("keys", "encrypt", "evaluate", "decrypt"):
        print(f"    {stage:<22}{median(theirs, stage):8.3f} s")
    print(f"  ratio                   {baseline / round_trip:.1f} x faster, {sent / up:.1f} x fewer bytes up")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="the small table only")
    quick = parser.parse_args().quick
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        key = folder / "key.json"
        cleave = str(Path(sys.executable).with_name("cleave"))
        subprocess.run([cleave, "key", "new", "--no-passphrase", "--key", str(key)], check=True, capture_output=True)
        for case in CASES[: 1 if quick else None]:
            report(case, folder, key)
        if not quick:
            groups.report(folder, key)


if __name__ == "__main__":
    main()
