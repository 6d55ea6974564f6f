"""A store whose every call ends: with its question's deadline, and by itself after CALL_SECONDS at the latest.

The time-outs of botocore are of single waits, so a store that sends a byte now and then holds a reader for ever; a
folder on a network file system that went away has no time-out at all. A call that is late is left to a daemon thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from cleave.objects.storage import Storage, StoreError
from cleave.processes.deadline import Deadline, OutOfTime

CALL_SECONDS = 900.0  # 100 MB at 1 Mbit/s


class Bounded:
    """See Storage, each method of which is that of `inside`."""

    def __init__(self, inside: Storage, seconds: float = CALL_SECONDS) -> None:
        self.location = inside.location
        self.inside = inside
        self._seconds = seconds
        self._deadline: Deadline | None = None

    def limit(self, deadline: Deadline | None) -> None:
        """From now on calls end with `deadline` too, with its error; None: no longer."""
        self._deadline = deadline

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.inside, name)
        return partial(self._call, found) if callable(found) else found

    def close(self) -> None:
        self.inside.close()

    def _call(self, method: Callable[..., Any], *given: Any, **named: Any) -> Any:
        def work() -> Any:
            found = method(*given, **named)
            return list(found) if isinstance(found, Iterator) else found  # a listing ends here as well

        deadline = self._deadline
        if deadline is None:
            return self._timed(work)
        deadline.check()
        return deadline.call(work if deadline.left() <= self._seconds else lambda: self._timed(work))

    def _timed(self, work: Callable[[], object]) -> object:
        try:
            return Deadline(self._seconds).call(work)
        except OutOfTime:
            raise StoreError(
                f"{self.location}: the store did not answer within {self._seconds:g} seconds",
                hint="check the network, or the mount",
            ) from None
