"""`make bench-thesis`: the table of the thesis this service grew from, taken anew, with Cleave beside it.

6,000 rows of 8 columns, 4 of them sensitive; the operation is addition: the sum of every column. Value by value in
CKKS, BGV and BFV over all columns in one process; the thesis's framework as built here (framework.py); Cleave. All but
Cleave take a fraction of the rows, scaled up (keys, made before the clock starts, are not). CPU time is told of the
process with its children, and of the process alone. Every sum is compared with the exact one.
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
from pathlib import Path
from typing import Any

from benchmarks.tables import figure, machine, markdown, spread
from benchmarks.thesis import table
from benchmarks.thesis.cleave_case import QUESTION

AIM = 1_000
ONE_BY_ONE, FRAMEWORK = 60, 250  # rows of the fractions
PUBLISHED = {"ckks": 335.9, "bgv": 313.4, "bfv": 301.9, "framework": 18.68}  # seconds
NAMES = {
    "ckks": "CKKS, value by value, all columns",
    "bgv": "BGV, value by value, all columns",
    "bfv": "BFV, value by value, all columns",
    "framework": "split, CKKS value by value, worker processes",
    "session": "Cleave, a question in an open session",
    "query": "Cleave, `cleave.query`: reads file and key too",
    "command": "Cleave, `cleave query`, start of Python and all",
}
OURS = ("session", "query", "command")
Run = dict[str, Any]


def lines_of(python: Path | str, module: str, *arguments: object) -> list[Run]:
    command = [str(python), "-m", f"benchmarks.thesis.{module}", *map(str, arguments)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2])
    return [json.loads(line) for line in done.stdout.splitlines()]


def command(path: Path, key: Path) -> Run:
    """`cleave query` as a whole process; its memory is that of the largest process."""
    started = time.perf_counter()
    program = Path(sys.executable).with_name("cleave")
    process = subprocess.Popen(
        [program, "--quiet", "query", path, QUESTION, "--key", key, "--json"], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    answer = json.loads(process.stdout.read())
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit("cleave query failed")
    return {
        "wall": time.perf_counter() - started,
        "cpu_parent": None,
        "cpu_all": usage.ru_utime + usage.ru_stime,
        "voluntary": usage.ru_nvcsw,
        "involuntary": usage.ru_nivcsw,
        "peak": usage.ru_maxrss * 1.024e-3,
        "sums": dict(zip(table.COLUMNS, map(float, answer["rows"][0]), strict=True)),
    }


def check(case: str, run: Run, path: Path, rows: int) -> Run:
    exact = {name: sum(values) for name, values in table.read(path, rows).items()}
    worst = max(abs(run["sums"][name] - exact[name]) for name in exact)
    if not worst < 1e-3:
        raise SystemExit(f"{NAMES[case]}: a sum is wrong by {worst:.1e}")
    return run


def run_all(path: Path, key: Path, bgv: Path | None, runs: dict[str, list[Run]]) -> None:
    for scheme, python in (("ckks", sys.executable), ("bgv", bgv), ("bfv", sys.executable)):
        if python is not None:
            (run,) = lines_of(python, "by_value", scheme, path, ONE_BY_ONE)
            runs[scheme].append(check(scheme, run, path, ONE_BY_ONE))
    (run,) = lines_of(sys.executable, "framework", path, FRAMEWORK)
    runs["framework"].append(check("framework", run, path, FRAMEWORK))
    for how in ("session", "query"):
        _, *warm = lines_of(sys.executable, "cleave_case", path, key, 4, how)  # the first imports what it needs
        runs[how] += [check(how, run, path, table.ROWS) for run in warm]
    runs["command"].append(check("command", command(path, key), path, table.ROWS))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3, help="of all cases, in turn")
    parser.add_argument("--bgv", type=Path, help="a Python that has seal-python")
    options = parser.parse_args()
    runs: dict[str, list[Run]] = {case: [] for case in NAMES}
    with tempfile.TemporaryDirectory() as name:
        path, key = Path(name) / "wide.csv", Path(name) / "key.json"
        table.write(path)
        program = str(Path(sys.executable).with_name("cleave"))
        subprocess.run([program, "key", "new", "--no-passphrase", "--key", key], check=True, capture_output=True)
        command(path, key)  # warms the disk cache
        for _ in range(options.rounds):
            run_all(path, key, options.bgv, runs)
    print(f"{machine()}; medians of {options.rounds} rounds (least-most)")
    print(f"Value by value from {ONE_BY_ONE} of {table.ROWS:,} rows, the framework from {FRAMEWORK}, scaled up\n")
    print(_table(runs))
    print("\nHow many times faster than the framework as built here:\n")
    times = {case: _median(runs["framework"], "cpu_all") / _median(runs[case], "cpu_all") for case in OURS}
    clock = {case: _median(runs["framework"], "wall") / _median(runs[case], "wall") for case in OURS}
    rows = [[NAMES[case], f"{times[case]:,.0f}", f"{clock[case]:,.0f}"] for case in OURS]
    print(markdown(["", "CPU time, x", "by the clock, x"], rows))
    print(
        f"\nThe aim is {AIM:,} x over the whole pipeline: {'met' if times['query'] >= AIM else 'missed'} in CPU time,",
        end=" ",
    )
    print(f"{'met' if clock['query'] >= AIM else 'missed'} by the clock (`cleave.query`).")


def _median(runs: list[Run], name: str) -> float:
    return statistics.median(run[name] for run in runs)


def _table(runs: dict[str, list[Run]]) -> str:
    rows = []
    for case, taken in runs.items():
        if not taken:
            rows.append([NAMES[case], "not available", *[""] * 6, figure(PUBLISHED[case])])
            continue
        parent = [run["cpu_parent"] for run in taken if run["cpu_parent"] is not None]
        rows.append(
            [
                NAMES[case],
                spread([run["cpu_all"] for run in taken]),
                figure(statistics.median(parent)) if parent else "",
                f"{100 * statistics.median(run['cpu_all'] / run['wall'] for run in taken):.0f}",
                spread([run["wall"] for run in taken]),
                f"{_median(taken, 'peak'):.0f}",
                f"{_median(taken, 'voluntary'):,.0f}",
                f"{_median(taken, 'involuntary'):,.0f}",
                f"{PUBLISHED[case]:g}" if case in PUBLISHED else "",
            ]
        )
    head = ["", "CPU s, with children", "CPU s, parent only", "CPU %", "by the clock, s", "peak MB"]
    return markdown([*head, "switches, voluntary", "involuntary", "published s"], rows)


if __name__ == "__main__":
    main()
