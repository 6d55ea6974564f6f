"""Checks are judged when every answer is in, not one by one.

A query that ended with the first answer that fails a check would tell the service which answer that was. A service that
may choose what it answers learns a bit of what a ciphertext holds from each such end: counting requests until a query
gave up read sentinel bits 20 times of 20. So a failure is held back, and everything is asked, sent and received as if
there were none. A session then makes another key; a stored table whose sums fail a check should be rotated.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from cleave_shared.errors import CheckFailed


class Verdict:
    """The first failed check of a query. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failure: CheckFailed | None = None

    @contextlib.contextmanager
    def holding(self) -> Iterator[None]:
        """Keep a CheckFailed of the block for `settle`; another error passes."""
        try:
            yield
        except CheckFailed as failure:
            with self._lock:
                self._failure = self._failure or failure

    def settle(self) -> None:
        """Raise what was held back: when all is in, and before any error that ended the asking, which it outranks."""
        if self._failure is not None:
            raise self._failure
