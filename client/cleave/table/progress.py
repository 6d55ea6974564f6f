"""Progress bars of running work, including DuckDB's own progress over a file. rich draws them."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib.util import find_spec
from typing import TYPE_CHECKING, Protocol

from cleave.text.printable import printable

if TYPE_CHECKING:
    import duckdb
    from rich.progress import Progress as Drawn
    from rich.progress import Task, TaskID


class Progress(Protocol):
    def stage(self, name: str, total: int, unit: str = "") -> Callable[[int], None]:
        """Start a stage beside the running ones. Call the returned function with the amount of new progress."""
        ...


class Silent:
    """Progress that is not shown."""

    def stage(self, name: str, total: int, unit: str = "") -> Callable[[int], None]:  # noqa: ARG002 - shows nothing
        return lambda _: None


Bars = Callable[[], AbstractContextManager[Progress]]  # opens the display for one piece of work


def no_bars() -> AbstractContextManager[Progress]:
    return contextlib.nullcontext(Silent())


_SECONDS = 0.2  # between two checks


@contextmanager
def watched(look: Callable[[], object], wait: Callable[[], float]) -> Iterator[None]:
    """Call `look` repeatedly in a thread while the block runs, with a pause of `wait()` seconds."""
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
    """Show DuckDB's progress on the block's statement as a stage of `progress`, in percent. Very short statements show
    nothing, and neither does a notebook's kernel without ipywidgets.
    """
    if progress is None or type(progress) is Silent:
        yield
        return
    from cleave.table.duck import set_progress  # noqa: PLC0415 - DuckDB: commands that show no progress import this too

    if not set_progress(connection, is_on=True):
        yield
        return
    reported, advance = 0, None

    def look() -> None:
        nonlocal reported, advance
        percent = int(connection.query_progress())
        advance = advance or progress.stage(name, 100)
        if percent > reported:
            advance(percent - reported)
            reported = percent

    try:
        with watched(look, lambda: _SECONDS):
            yield
    finally:
        if advance is not None:
            advance(100 - reported)


_PATIENCE = 0.5  # seconds: shorter work leaves no trace in a notebook's cell


def bars(wanted: bool | Bars | None) -> Bars:
    """Return a function that opens a progress display. `wanted` None: show bars in a notebook or at a prompt only."""
    if callable(wanted):
        return wanted

    def shown() -> AbstractContextManager[Progress]:
        if wanted or (wanted is None and _is_watched()):
            return BarProgress(_PATIENCE)
        return nullcontext(Silent())

    return shown


def _is_watched() -> bool:
    if "ipykernel.zmqshell" in sys.modules:
        return find_spec("ipywidgets") is not None  # rich draws with it
    return hasattr(sys, "ps1") and sys.stderr.isatty()


class _Stage:
    def __init__(self, name: str, total: int, unit: str) -> None:
        self.name, self.total, self.unit = name, total, unit
        self.done = 0
        self.task: TaskID | None = None


class BarProgress:
    """Bars on stderr, one per stage, shown after `patience` seconds. Any thread may advance them."""

    def __init__(self, patience: float = 0.0) -> None:
        self._due = time.monotonic() + patience
        self._lock = threading.Lock()
        self._drawn: Drawn | None = None
        self._stopped = False
        self._stages: list[_Stage] = []

    def stage(self, name: str, total: int, unit: str = "") -> Callable[[int], None]:
        stage = _Stage(name, total, unit)

        def advance(amount: int) -> None:
            with self._lock:
                stage.done += amount
                self._draw()

        self._stages.append(stage)
        advance(0)
        return advance

    def _draw(self) -> None:
        if self._stopped or time.monotonic() < self._due:
            return
        if self._drawn is None:
            self._drawn = _rich()
            self._drawn.start()
        for stage in self._stages:
            if stage.task is None:
                stage.task = self._drawn.add_task(printable(stage.name), total=stage.total, unit=stage.unit)
            self._drawn.update(stage.task, completed=stage.done)
        self._drawn.refresh()

    def stop(self) -> None:
        """Hide all bars for good. It may be called twice, and by any thread."""
        with self._lock:
            self._stopped = True
            if self._drawn is not None:
                self._drawn.stop()

    def __enter__(self) -> BarProgress:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def _rich() -> Drawn:
    from rich.console import Console  # noqa: PLC0415 - 40 ms that silent runs do not need
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    class Rate(TextColumn):
        """How many units of a stage are done, and how many per second."""

        def render(self, task: Task) -> Text:
            unit = task.fields.get("unit")
            if not unit:
                return Text()
            speed = f", {task.speed:,.0f}/s" if task.speed else ""
            return Text(f"{task.completed:,.0f} {unit}{speed}")

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        Rate(""),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        auto_refresh=False,  # its thread could hold locks while another thread forks
        redirect_stdout=False,
        redirect_stderr=False,
    )
