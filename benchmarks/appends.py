"""`make bench-appends`: a table that grew by many small appends beside the same rows put at once, in one run."""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa

import cleave
from benchmarks.tables import figure, machine, markdown
from cleave.ckks.key_file import create_key
from cleave.local.embedded import prepare_embedded

_ROWS = 1_000  # of an append
_ROUNDS = 15
_SCHEMA = """
[columns.ward]
kind = "plain"
type = "VARCHAR"
[columns.age]
kind = "encrypted"
type = "BIGINT"
lower = 0
upper = 127
[columns.bill]
kind = "encrypted"
type = "BIGINT"
lower = 0
upper = 1000000
[columns.name]
kind = "sealed"
type = "VARCHAR"
"""


def _rows(rng: np.random.Generator) -> pa.Table:
    return pa.table(
        {
            "ward": np.array(list("ABCDEFGH"))[rng.integers(0, 8, _ROWS)],
            "age": rng.integers(0, 120, _ROWS),
            "bill": rng.integers(0, 10**6, _ROWS),
            "name": [f"p{number}" for number in rng.integers(0, 10**9, _ROWS)],
        }
    )


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--appends", type=int, default=1_000)
    appends = parser.parse_args().appends
    rng = np.random.default_rng(1)
    prepare_embedded()  # as the Python interface does, while there is one thread
    with tempfile.TemporaryDirectory() as root:
        create_key(Path(root) / "key.json", None)
        (Path(root) / "schema.toml").write_text(_SCHEMA)
        place = {"store": f"{root}/store", "key": f"{root}/key.json", "progress": False}
        schema = {"schema": f"{root}/schema.toml"}
        parts = [_rows(rng) for _ in range(appends)]
        cleave.put(parts[0], "grown", by=["ward"], **schema, **place)
        grown = [_seconds(lambda each=each: cleave.append(each, "grown", **place)) for each in parts[1:]]  # type: ignore[misc]
        once = _seconds(lambda: cleave.put(pa.concat_tables(parts), "once", by=["ward"], **schema, **place))
        middle, most = figure(statistics.median(grown)), figure(max(grown))
        told = f"{len(grown):,} appends of {_ROWS:,} rows: median {middle} s, most {most} s"
        print(f"{machine()}\n\n{told}; one put of all rows: {figure(once)} s\n")

        def totals(name: str) -> object:
            sql = f"SELECT ward, COUNT(*), SUM(bill), AVG(age) FROM {name} GROUP BY ward ORDER BY ward"
            return cleave.query(name, sql, **place).rows

        def rows(name: str) -> object:
            return cleave.query(name, f"SELECT MEDIAN(bill), COUNT(DISTINCT name) FROM {name}", **place).rows

        assert totals("grown") == totals("once")
        assert rows("grown") == rows("once")
        works: dict[str, Callable[[str], object]] = {
            "open": lambda name: cleave.show(name, **place),
            "query from totals": totals,
            "query from rows": rows,
            "append": lambda name: cleave.append(_rows(rng), name, **place),
        }
        lines = []
        for what, work in works.items():
            found: dict[str, list[float]] = {"grown": [], "once": []}
            for turn in range(_ROUNDS):
                for name in ("grown", "once") if turn % 2 else ("once", "grown"):
                    found[name].append(_seconds(lambda name=name: work(name)))  # type: ignore[misc]  # noqa: B023 - now
            one, other = (statistics.median(found[name]) for name in ("grown", "once"))
            lines.append([what, figure(one), figure(other), figure(one / other)])
        segments = {each.name: each.segments for each in cleave.ls(**place)}
        print(markdown(["", f"{segments['grown']} segments, s", f"{segments['once']} segments, s", "ratio"], lines))


if __name__ == "__main__":
    main()
