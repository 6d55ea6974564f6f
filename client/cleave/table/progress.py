"""How work under way reports how far it is, DuckDB's with a file among it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import duckdb


class Progress(Protocol):
    def stage(self, name: str, total: int, unit: str = "") -> Callable[[int], None]:
        """Start a stage, beside those under way; what it returns advances it."""
        ...


class Silent:
    """Progress that is not shown."""

    def stage(self, name: str, total: int, unit: str = "") -> Callable[[int], None]:  # noqa: ARG002 - shows nothing
        return lambda _: None


Bars = Callable[[], AbstractContextManager[Progress]]  # opens a display for one piece of work


def no_bars() -> AbstractContextManager[Progress]:
    return contextlib.nullcontext(Silent())


_SECONDS = 0.2  # between two looks


@contextmanager
def watched(look: Callable[[], object], wait: Callable[[], float]) -> Iterator[None]:
    """Call `look` in a thread again and again while the block runs, `wait()` seconds apart."""
    done = threading.Event()

    def watch() -> None:
        while not done.wait(wait()):
            look()

    watcher = threading.Thread(target=watch, name="watch", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


@contextmanager
def shown(progress: Progress | None, connection: duckdb.DuckDBPyConnection, name: str) -> Iterator[None]:
    """One stage of `progress`, in percent, while the block runs a statement; none that ends before the first look."""
    if progress is None:
        yield
        return
    connection.execute("SET enable_progress_bar = true")
    connection.execute("SET enable_progress_bar_print = false")
    told, advance = 0, None

    def look() -> None:
        nonlocal told, advance
        percent = int(connection.query_progress())
        advance = advance or progress.stage(name, 100)
        if percent > told:
            advance(percent - told)
            told = percent

    try:
        with watched(look, lambda: _SECONDS):
            yield
    finally:
        if advance is not None:
            advance(100 - told)
