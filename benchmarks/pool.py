"""`make bench-pool`: a question with and without encryptions made ahead, as pairs in one run, as Markdown.

1,000,000 rows x 4 encrypted float64 columns, by 20 groups and over all: what `cleave query` takes as a whole process,
from encrypting to the checked totals, and in processor time of all its processes; then what the steps take of one
processor. Before each warm run the pool is filled, which is timed by itself. Nothing is asserted.
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
from collections.abc import Callable
from pathlib import Path

import numpy as np

from cleave.ckks.cipher import Cipher
from cleave.ckks.key_file import create_key, open_key
from cleave.ckks.pool import TOGETHER, Pool, folder_of
from cleave_shared import seal

GROUPS = 20
COLUMNS = 4
CHUNKS = 32  # of the steps


def write_table(folder: Path, rows: int) -> Path:
    random = np.random.default_rng(rows)
    values = random.normal(100.0, 20.0, (rows, COLUMNS))
    keys = random.integers(0, GROUPS, (rows, 1))
    names = ["g", *(f"e{i}" for i in range(COLUMNS))]
    path = folder / f"rows{rows}.csv"
    formats = ["%d"] + ["%.17g"] * COLUMNS
    np.savetxt(path, np.hstack([keys, values]), formats, delimiter=",", header=",".join(names), comments="")
    schema = ["[csv]", 'delimiter = ","', 'quote = "\\""', 'encoding = "utf-8"', "header = true", 'decimal = "."']
    for name in names:
        kind, type_ = ("plain", "BIGINT") if name == "g" else ("encrypted", "DOUBLE")
        schema += [f"[columns.{name}]", f'kind = "{kind}"', f'type = "{type_}"', 'reason = "benchmark"']
        schema += ["nullable = false"]
    path.with_suffix(".schema.toml").write_text("\n".join(schema) + "\n")
    return path


class Runs:
    """`cleave` with one pool and one key, and what its processes took."""

    def __init__(self, folder: Path) -> None:
        self.pool = folder / "pool"
        self.key = folder / "key.json"
        create_key(self.key, None)

    def __call__(self, *words: str, warm: bool = True) -> tuple[bytes, float, float]:
        """Its output, seconds, and seconds of processors."""
        command = [str(Path(sys.executable).with_name("cleave")), *words, "--key", str(self.key)]
        environment = os.environ | {"CLEAVE_POOL": str(self.pool) if warm else "off"}
        started = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment)
        assert process.stdout is not None
        output = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        if status:
            raise SystemExit(f"cleave {words[0]} failed with status {status}")
        return output, time.perf_counter() - started, usage.ru_utime + usage.ru_stime


def figures(values: list[float], digits: int = 2) -> str:
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f}-{max(values):.{digits}f})"


def pairs(runs: Runs, table: Path, rows: int, count: int, *, grouped: bool) -> None:
    """`grouped`: by a plain column, so that the plain half is asked as well, beside the other."""
    sums = ", ".join(f"SUM(e{i})" for i in range(COLUMNS))
    question = f"SELECT g, {sums} FROM {table.stem} GROUP BY g" if grouped else f"SELECT {sums} FROM {table.stem}"
    asked_by = f"by {GROUPS} groups of a plain column" if grouped else "all rows, no plain half"
    words = ("query", str(table), question, "--json")
    values = rows * COLUMNS
    kinds = {"cold": False, "warm": True}
    wall: dict[str, list[float]] = {kind: [] for kind in kinds}
    asked: dict[str, list[float]] = {kind: [] for kind in kinds}
    used: dict[str, list[float]] = {kind: [] for kind in kinds}
    filled: list[float] = []
    ahead = chunks = 0
    runs(*words, warm=False)  # the table's pages, and what is compiled
    for _ in range(count):
        filled.append(runs("warm", "--values", str(values))[1])
        answers = []
        for kind, warm in kinds.items():
            output, seconds, cpu = runs(*words, warm=warm)
            answer = json.loads(output)
            wall[kind].append(seconds)
            used[kind].append(cpu)
            asked[kind].append(answer["timings"]["sensitive"])
            answers.append(answer)
        ahead, chunks = answers[1]["plan"]["chunks_made_ahead"], answers[1]["plan"]["chunks"]
    print(f"\n{rows:,} rows x {COLUMNS}, {asked_by}; {count} pairs, {ahead} of {chunks} ciphertexts made ahead\n")
    print("| | cold | warm | warm / cold |\n|---|---|---|---|")
    for name, found, scale, digits in (
        ("encrypt to checked totals, s", asked, 1.0, 3),
        ("the same, ns per value", asked, 1e9 / values, 0),
        ("whole command, s", wall, 1.0, 2),
        ("processor time of all processes, s", used, 1.0, 2),
    ):
        cold, warmed = ([each * scale for each in found[kind]] for kind in kinds)
        ratios = [each / other for each, other in zip(warmed, cold, strict=True)]
        print(f"| {name} | {figures(cold, digits)} | {figures(warmed, digits)} | {figures(ratios)} |")
    print(f"\n`cleave warm` before each: {figures(filled)} s")


def steps(runs: Runs) -> None:
    """Processor time of each step, ns per coefficient."""
    key = open_key(runs.key, None)
    cipher, ring = Cipher(key), seal.ring(key.profile.name)
    os.environ["CLEAVE_POOL"] = str(runs.pool)
    folder = folder_of(key.key_id)
    assert folder is not None
    message = np.random.default_rng(1).integers(-(2**57), 2**57, (CHUNKS, ring.degree))
    evaluator = seal.SealEvaluator(ring)

    def summed() -> None:
        total, *others = map(evaluator.load, sent)
        for each in others:
            total = evaluator.add(total, each)

    def fill() -> None:
        for _ in range(CHUNKS // TOGETHER):
            Pool(folder, key).add("coefficients", cipher.fresh("coefficients", TOGETHER))

    sent = cipher.encrypt_to_add(message)
    result = [sent[0]]
    zero = cipher.fresh("coefficients", 1)[0]
    residues = ring.residues(message)
    table: list[tuple[str, str, Callable[[], object], Callable[[], object], int]] = [
        ("cold, in transformed form (until this release)", "client", lambda: cipher.encrypt(message), int, CHUNKS),
        ("cold, in coefficient form", "client", lambda: cipher.encrypt_to_add(message), int, CHUNKS),
        ("of it: zero encrypted and saved by SEAL", "client", lambda: cipher.fresh("coefficients", 8), int, 8),
        (
            "of it, and all there is warm: the message added",
            "client",
            lambda: [ring.seeded(zero, each, ntt_form=False) for each in residues],
            int,
            CHUNKS,
        ),
        ("warm: claimed, read, opened", "client", lambda: Pool(folder, key).take("coefficients", CHUNKS), fill, CHUNKS),
        ("loaded (the seed expanded) and added", "service", summed, int, CHUNKS),
        ("a result decrypted and read out", "client", lambda: cipher.decrypt(result), int, 1),
    ]
    print("\n| step | where | ns per coefficient |\n|---|---|---|")
    for name, where, work, setup, count in table:
        found = []
        for _ in range(7):
            setup()
            started = time.process_time()
            work()
            found.append((time.process_time() - started) * 1e9 / (count * ring.degree))
        print(f"| {name} | {where} | {figures(found, 1)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--rows", type=int, default=1_000_000)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        runs = Runs(folder)
        table = write_table(folder, asked.rows)
        for grouped in (True, False):
            pairs(runs, table, asked.rows, asked.pairs, grouped=grouped)
        steps(runs)
    print(f"\n{len(os.sched_getaffinity(0))} processors; load {os.getloadavg()[0]:.1f} at the end.")


if __name__ == "__main__":
    main()
