"""How far DuckDB is with a file, told while it reads."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from cleave.table.progress import Progress
from cleave_shared import duckdb

_SECONDS = 0.2  # between two looks


@contextmanager
def shown(progress: Progress | None, connection: duckdb.DuckDBPyConnection, name: str) -> Iterator[None]:
    """One stage of `progress`, in percent, while the block runs a statement; none that ends before the first look."""
    if progress is None:
        yield
        return
    connection.execute("SET enable_progress_bar = true")
    connection.execute("SET enable_progress_bar_print = false")
    done = threading.Event()

    def watch() -> None:
        told, advance = 0, None
        while not done.wait(_SECONDS):
            percent = int(connection.query_progress())
            if advance is None:
                advance = progress.stage(name, 100)
            if percent > told:
                advance(percent - told)
                told = percent
        if advance is not None:
            advance(100 - told)

    watcher = threading.Thread(target=watch, name="progress", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
