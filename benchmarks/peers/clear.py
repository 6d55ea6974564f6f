"""Sums of columns in the clear: FILE ROWS COLUMNS polars, its frame already in memory. Prints JSON."""

from __future__ import annotations

import json
import sys
import time

import numpy as np
import polars


def main() -> None:
    rows, columns = map(int, sys.argv[2:4])
    values = np.fromfile(sys.argv[1]).reshape(columns, rows)
    frame = polars.DataFrame({f"e{number}": column for number, column in enumerate(values)})
    frame.sum()  # threads are started
    started, before = time.perf_counter(), time.process_time()
    (sums,) = frame.sum().rows()
    seconds, cpu = time.perf_counter() - started, time.process_time() - before
    print(json.dumps({"seconds": seconds, "cpu": cpu, "up": 8 * rows * columns, "sums": sums}))


if __name__ == "__main__":
    main()
