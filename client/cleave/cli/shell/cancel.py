"""Work in a thread beside the one that gets Ctrl-C, so that Ctrl-C always gives the prompt back.

A question waits for services, for DuckDB and for children that encrypt; each is stopped. What cannot be stopped, like a
computation of numpy's, ends by itself: the next question waits for that.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from typing import TYPE_CHECKING, TypeVar

from cleave.ask.bars import BarProgress
from cleave.cli import console
from cleave.table.progress import Bars

if TYPE_CHECKING:
    from cleave.table.progress import Progress

T = TypeVar("T")

# Seconds from Ctrl-C to the prompt, at most.
PATIENCE = 0.5
_AGAIN = 0.05  # told again after so long: what has not begun to wait cannot be told yet
# A signal that the kernel hands to another thread does not end a wait of this one.
_LOOK = 0.1


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
        if isinstance(self._shown, BarProgress):
            self._shown.stop()


class Cancellable:
    """Runs one thing at a time; `stop` ends it, from another thread, and may be called at any moment."""

    def __init__(self, stop: Callable[[], None]) -> None:
        self._stop = stop
        self._thread: threading.Thread | None = None
        self._teller: threading.Thread | None = None
        self._turn = threading.Lock()  # what is told to end is not yet what comes next

    def run(self, work: Callable[[], T]) -> T:
        """`work`'s result or error. Raises Cancelled, within PATIENCE, once this thread is interrupted."""
        self._join()
        outcome: Future[T] = Future()
        try:
            with self._turn:
                self._thread = threading.Thread(target=_run, args=(work, outcome), daemon=True)
                self._thread.start()
            while not outcome.done():
                wait([outcome], _LOOK)
            return outcome.result()
        except KeyboardInterrupt:
            self.end()
            raise Cancelled from None

    def end(self) -> bool:
        """Stop what is running. Returns whether it ended within PATIENCE."""
        thread = self._thread
        if thread is None or not thread.is_alive():
            return True
        self._tell(thread)
        thread.join(PATIENCE)
        return not thread.is_alive()

    def _join(self) -> None:
        """Wait for what was stopped. Raises Cancelled where that is interrupted as well."""
        thread = self._thread
        if thread is None or not thread.is_alive():
            return
        console.say("waiting for what was cancelled to end")
        try:
            self._tell(thread)
            while thread.is_alive():
                thread.join(_LOOK)
        except KeyboardInterrupt:
            raise Cancelled from None

    def _tell(self, thread: threading.Thread) -> None:
        """Stop it from a thread of its own: that takes its time where processors are short."""
        if self._teller is None or not self._teller.is_alive():
            self._teller = threading.Thread(target=self._telling, args=[thread], daemon=True)
            self._teller.start()

    def _telling(self, thread: threading.Thread) -> None:
        while thread.is_alive():
            with self._turn:
                if thread.is_alive():
                    self._stop()
            thread.join(_AGAIN)


def _run(work: Callable[[], T], outcome: Future[T]) -> None:
    try:
        result = work()
    except BaseException as error:  # noqa: BLE001 - whoever waits gets it
        outcome.set_exception(error)
    else:
        outcome.set_result(result)
