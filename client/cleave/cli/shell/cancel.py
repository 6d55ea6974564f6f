"""Work in a thread beside the one that hears Ctrl-C, so that Ctrl-C always gives the prompt back.

A question waits for services, for DuckDB and for children that encrypt; each is told to end. What cannot be told, like
a computation of numpy's, ends by itself: the next question waits for that.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import TYPE_CHECKING, TypeVar

from cleave.cli import console
from cleave.session import Bars

if TYPE_CHECKING:
    from cleave.pipeline import Progress

T = TypeVar("T")

# From Ctrl-C to the prompt.
PATIENCE = 0.8
_AGAIN = 0.05  # told again so often: what has not begun to wait cannot be told yet


class Cancelled(Exception):  # noqa: N818 - named for what happened
    """Ctrl-C, while something was under way."""


class ClearedBars:
    """Progress bars that `stop` takes from the screen, whatever still advances them."""

    def __init__(self, bars: Bars) -> None:
        self._bars = bars
        self._shown: Progress | None = None

    @contextlib.contextmanager
    def __call__(self) -> Iterator[Progress]:
        with self._bars() as self._shown:
            yield self._shown

    def stop(self) -> None:
        if isinstance(self._shown, console.BarProgress):
            self._shown.stop()


class Cancellable:
    """Runs one thing at a time; `stop` tells it to end, from another thread, and may be called at any moment."""

    def __init__(self, stop: Callable[[], None]) -> None:
        self._stop = stop
        self._thread: threading.Thread | None = None

    def run(self, work: Callable[[], T]) -> T:
        """`work`'s result or error. Raises Cancelled, within PATIENCE, once this thread is interrupted."""
        self._join()
        outcome: Future[T] = Future()
        self._thread = threading.Thread(target=_run, args=(work, outcome), daemon=True)
        try:
            self._thread.start()
            return outcome.result()
        except KeyboardInterrupt:
            self.end()
            raise Cancelled from None

    def end(self) -> bool:
        """Tell what is under way to end; whether it did within PATIENCE."""
        thread, until = self._thread, time.monotonic() + PATIENCE
        while thread is not None and thread.is_alive() and time.monotonic() < until:
            self._stop()
            thread.join(_AGAIN)
        return thread is None or not thread.is_alive()

    def _join(self) -> None:
        """Wait for what was told to end. Raises Cancelled where that is interrupted as well."""
        try:
            if self._thread is not None and self._thread.is_alive():
                console.say("waiting for what was cancelled to end")
            while self._thread is not None and self._thread.is_alive():
                self._stop()
                self._thread.join(_AGAIN)
        except KeyboardInterrupt:
            raise Cancelled from None


def _run(work: Callable[[], T], outcome: Future[T]) -> None:
    try:
        result = work()
    except BaseException as error:  # noqa: BLE001 - whoever waits gets it
        outcome.set_exception(error)
    else:
        outcome.set_result(result)
