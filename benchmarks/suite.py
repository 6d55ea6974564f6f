"""`make bench`: what `cleave bench` measures, and TPC-H's Q1 at scale 0.1 over a file and over a stored table.

Prints Markdown for docs/performance.md, section "The suite". `--json` and `--html` write what `cleave bench` writes.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import duckdb

from benchmarks import store
from cleave.bench import page, results, suite, tables
from cleave.bench.profiler import profile
from cleave.bench.workloads import CLEAVE, Asked, Rows, Workload, surroundings, workloads

SCALE = "0.1"
Q1 = store.QUESTIONS[0].sql
_RELATIVE = 1e-9


def tpch(*, stored: bool) -> Workload:
    where = "over a stored table, from the totals of its cells" if stored else "over a Parquet file, ad hoc"
    told = f"TPC-H Q1 at scale {SCALE}, 600,572 rows, {where}"
    return Workload(f"TPC-H Q1 {'stored' if stored else 'ad hoc'}", told, partial(_prepare, stored=stored))


def _prepare(folder: Path, key: Path, *, stored: bool) -> Asked:
    file = folder / "lineitem.parquet"
    if not file.exists():
        program = str(Path(sys.executable).with_name("tpchgen-cli"))
        generate = [program, "parquet", "-s", SCALE, "--tables=lineitem", f"--output-dir={folder}"]
        subprocess.run(generate, check=True, capture_output=True)
    with duckdb.connect() as connection:
        connection.execute(f"CREATE VIEW lineitem AS FROM read_parquet('{file}')")
        columns = [(name, type_) for name, type_, *_ in connection.execute("DESCRIBE lineitem").fetchall()]
        wanted = connection.execute(Q1).fetchall()
    file.with_suffix(".schema.toml").write_text(store.schema(columns))
    is_right = partial(_same, wanted)
    if not stored:
        return Asked(("query", str(file), Q1, "--json"), is_right)
    place = ("--store", str(folder / "store"))
    put = ("--quiet", "put", str(file), "--table", "lineitem", *place, "--by", ",".join(store.BY))
    profile([*CLEAVE, *put], surroundings(folder, key))
    return Asked(("query", "lineitem", Q1, *place, "--json"), is_right)


def _same(wanted: Sequence[Sequence[Any]], rows: Rows) -> bool:
    return len(rows) == len(wanted) and all(
        _equal(theirs, ours)
        for row, known in zip(rows, wanted, strict=True)
        for ours, theirs in zip(row, known, strict=True)
    )


def _equal(theirs: Any, ours: Any) -> bool:
    """JSON has doubles for decimals."""
    if isinstance(theirs, Decimal | float):
        return abs(float(ours) - float(theirs)) <= _RELATIVE * abs(float(theirs))
    return bool(ours == theirs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=0.5, help="that accumulate in each run of what is short")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", type=Path, help="a file to write everything to")
    parser.add_argument("--html", type=Path, help="a file to write tables, plots and flame graphs to")
    given = parser.parse_args()
    effort = suite.Effort(given.seconds, given.runs)
    empty = results.begun(given.seconds, given.runs, effort.clock)
    print(f"{tables.machine_line(empty.machine)}.")

    def shown(part: results.Results) -> None:
        print(f"\n{tables.lines(tables.tables(part))}", flush=True)

    measured = suite.primitives(effort)
    shown(replace(empty, primitives=tuple(measured)))
    micro = suite.microbenchmarks(effort)
    shown(replace(empty, micro=tuple(micro)))
    of = [*workloads(), tpch(stored=False), tpch(stored=True)]
    watched = suite.whole_questions(of, given.runs, stacks=given.html is not None)
    questions = tuple(each.observed for each in watched)
    shown(replace(empty, workloads=questions))
    found = replace(empty, primitives=tuple(measured), micro=tuple(micro), workloads=questions)
    if given.json:
        given.json.write_text(results.as_json(found) + "\n")
    if given.html:
        given.html.write_text(page.page(found, {each.observed.name: each.stacks for each in watched}), "utf-8")


if __name__ == "__main__":
    main()
