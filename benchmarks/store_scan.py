"""`make bench-scan`: a scan of lineitem beside DuckDB and PostgreSQL, in one run.

Ship date, return flag and line status are plain here and no `by` columns, so Q1's sums of quantity, price, discount and
tax go over all rows: the plain service groups them, the sensitive one adds up positions, both in this process.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from contextlib import ExitStack
from pathlib import Path

from benchmarks import store
from cleave.local.embedded import prepare_embedded

_QUESTION = store.Question(
    "Q1's sums by a scan, 4 measures, 4 groups",
    "SELECT l_returnflag, l_linestatus, sum(l_quantity) AS q, sum(l_extendedprice) AS p, sum(l_discount) AS d, "
    "sum(l_tax) AS t, avg(l_quantity) AS aq, avg(l_extendedprice) AS ap, count(*) AS n FROM lineitem "
    "WHERE l_shipdate <= DATE '1998-09-02' GROUP BY l_returnflag, l_linestatus ORDER BY l_returnflag, l_linestatus",
    "encrypted",
    cloud_only=True,  # else so few bytes of rows are fetched
)
_REPEATS = 5


class ScanBench(store.Bench):
    by = "l_suppkey"
    options = ("--scan",)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--scales", default="0.1,1", help="TPC-H scale factors")
    given = parser.parse_args()
    # of this process alone: what the other benchmark seals or derives is plain here, or left out
    store.KINDS.update({name: "plain" for name, kind in store.KINDS.items() if kind == "sealed"})
    store.DERIVED.clear()
    prepare_embedded()  # as the Python interface does, while there is one thread
    for scale in given.scales.split(","):
        with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
            os.chmod(folder, 0o711)  # noqa: S103 - PostgreSQL runs as another user; nothing in there is anybody's
            bench = ScanBench(Path(folder), scale, stack)
            print(f"lineitem, scale {scale}: {bench.rows:,} rows")
            bench.put()
            bench.ask(_QUESTION, _REPEATS)


if __name__ == "__main__":
    main()
