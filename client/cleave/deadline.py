"""A query's deadline. Every wait ends when the deadline passes, when the query fails, or when it is stopped.

Local work uses up time too, but is not interrupted. Only waits are: for a service, for another thread, for encryption,
and before a repeated request.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from typing import TypeVar

from cleave_shared.errors import Code, ServiceError

T = TypeVar("T")


class OutOfTime(ServiceError):  # noqa: N818 - named for what happened
    """The query took longer than its limit."""

    code: Code = "timeout"
    is_public = True


class Stopped(ServiceError):  # noqa: N818 - named for what happened
    """The query was stopped, usually by Ctrl-C."""

    code: Code = "stopped"


_QUERY = "the query was not answered", "the services' logs show what they were doing"


class Deadline:
    """`seconds` from now, less those already `spent`. Thread-safe. A query's threads wait with `result` and `sleep`
    only.
    """

    def __init__(self, seconds: float, words: tuple[str, str] = _QUERY, spent: float = 0.0) -> None:
        """`words` for its error: what did not happen in time, and where to look."""
        self.seconds = seconds
        self._words = words
        self._end = time.monotonic() + seconds - spent
        self._lock = threading.Lock()
        self._waits: set[Future[None]] = set()
        self._reason: Exception | None = None

    def left(self) -> float:
        """Remaining seconds, never negative; 0 after `stop`."""
        return 0.0 if self._reason is not None else max(0.0, self._end - time.monotonic())

    def spent(self) -> float:
        return self.seconds + time.monotonic() - self._end

    def check(self) -> None:
        """Raise if nothing more may be sent: the reason given to `stop`, or OutOfTime."""
        if self._reason is not None:
            raise self._reason
        if not self.left():
            self.stop(self._over())
            self.check()

    def stop(self, reason: Exception | None = None) -> None:
        """End every wait, current and future, with `reason`. Only the first reason counts."""
        with self._lock:
            self._reason = self._reason or reason or Stopped("the query was stopped")
            waits, self._waits = self._waits, set()
        for wait in waits:
            wait.cancel()

    def result(self, future: Future[T]) -> T:
        """Wait for `future` and return its result or raise its error. If the wait is interrupted, the future is
        cancelled. Raises as `check` does.
        """
        self._watch(future)
        try:
            return future.result(self.left())
        except TimeoutError:
            if future.done():  # the future's own error, or a result at the last moment
                return future.result()
            self.stop(self._over())
            future.cancel()
        except CancelledError:
            pass
        finally:
            self._unwatch(future)
        self.check()
        raise Stopped("the query was stopped")  # its event loop was closed

    def call(self, work: Callable[[], T], patience: float = 0) -> T:
        """Run `work` in a daemon thread and return its result or raise its error. If the wait is interrupted, the
        thread runs on.

        For blocking work without a deadline: a service in this process, a program that fetches credentials. Work that
        checks this deadline gets `patience` seconds to end, because Python may abort at exit while DuckDB runs.
        """
        outcome: Future[T] = Future()

        def run() -> None:
            result, error = None, None
            try:
                result = work()
            except BaseException as failure:  # noqa: BLE001 - raised where the result is awaited
                error = failure
            if not outcome.set_running_or_notify_cancel():  # after `work`: a running future could not be cancelled
                return
            if error is not None:
                outcome.set_exception(error)
            else:
                outcome.set_result(result)  # type: ignore[arg-type]  # None only where T is

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        try:
            return self.result(outcome)
        finally:
            if patience:
                if not outcome.done():  # Ctrl-C
                    self.stop()
                thread.join(patience)

    def sleep(self, seconds: float) -> None:
        """Wait. Raises as `check` does, at once if stopped."""
        wait: Future[None] = Future()
        self._watch(wait)
        try:
            wait.result(min(seconds, self.left()))
        except (TimeoutError, CancelledError):
            self.check()
        finally:
            self._unwatch(wait)

    def _watch(self, future: Future[T]) -> None:
        with self._lock:
            self._waits.add(future)  # type: ignore[arg-type]  # it is only ever cancelled
            late = self._reason is not None
        if late:
            future.cancel()

    def _unwatch(self, future: Future[T]) -> None:
        with self._lock:
            self._waits.discard(future)

    def _over(self) -> OutOfTime:
        what, where = self._words
        return OutOfTime(
            f"{what} within the {self.seconds:g} seconds it was given",
            hint=f"give it more with --timeout SECONDS; {where}",
        )
