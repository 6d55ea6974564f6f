"""How many requests one service is sent at once: fewer each time it says that these are too many."""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import Future

from cleave.processes.deadline import Deadline

WIDEST = 8  # more than the pipeline has under way for either half


class Gate:
    """Thread-safe. A turn is taken with `enter` and given back with `leave`; waiting ones are let in in their order.

    Multiplicative decrease on 429, additive increase on answers (AIMD, RFC 5681 section 3.1). What several requests
    that were under way together say halves the width once.
    """

    def __init__(self, deadline: Deadline) -> None:
        self._deadline = deadline
        self._lock = threading.Lock()
        self._waiting: deque[Future[None]] = deque()
        self._inside = 0
        self._age = 0  # number of the last halving
        self.width = float(WIDEST)

    def enter(self) -> int:
        """Wait for a turn; gives what `throttled` wants to know. Raises as Deadline.check does."""
        self._deadline.check()
        turn: Future[None] = Future()
        with self._lock:
            self._waiting.append(turn)
            self._admit()
        self._deadline.result(turn)
        return self._age

    def leave(self) -> None:
        with self._lock:
            self._inside -= 1
            self._admit()

    def answered(self) -> None:
        with self._lock:
            self.width = min(WIDEST, self.width + 1 / self.width)

    def throttled(self, age: int) -> None:
        """The request that entered at `age` came back with 429."""
        with self._lock:
            if age == self._age:
                self._age += 1
                self.width = max(1.0, min(self.width, self._inside) / 2)

    def _admit(self) -> None:
        while self._waiting and self._inside < int(self.width):
            turn = self._waiting.popleft()
            if turn.set_running_or_notify_cancel():  # else whoever waited has given up
                self._inside += 1
                turn.set_result(None)
