"""Repeats requests after throttling, service failures and broken connections, and reduces the number of requests at
once.

A `Gate` allows a service fewer requests each time it answers that there are too many.

Every request of Cleave only asks, so repeating it is harmless. Other 4xx answers are the caller's fault and never
repeated. A 504 is not repeated either: what was too slow would be too slow again. Delays grow exponentially with full
jitter (AWS Architecture Blog, "Exponential Backoff And Jitter"), or follow the service's Retry-After (RFC 9110 section
10.2.3). All requests of a query share one budget of repetitions (like the AWS SDKs' retry quota).
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass

from cleave.deadline import Deadline
from cleave.transport.responses import Response
from cleave_shared.errors import ServiceError

_log = logging.getLogger("cleave.transport")
_PASSING = frozenset({429, 500, 502, 503})


class Interrupted(ServiceError):  # noqa: N818 - named for what happened
    """No answer arrived. Another attempt may help."""

    retry_after: float | None = None


@dataclass(frozen=True, slots=True)
class Policy:
    """Up to `attempts` per request. After attempt i the wait is up to min(longest, first * 2^i) seconds.

    `budget`: repetitions for all requests of a query together; each answer adds one.
    """

    attempts: int
    first: float = 0.2
    longest: float = 5.0
    budget: int = 20
    sleep: Callable[[Deadline, float], None] = Deadline.sleep


ONCE = Policy(attempts=1)
REMOTE = Policy(attempts=5)


class Budget:
    """Remaining repetitions of a query. Thread-safe."""

    def __init__(self, most: int) -> None:
        self._most = self._left = most
        self._lock = threading.Lock()

    def take(self) -> bool:
        with self._lock:
            self._left -= 1
            return self._left >= 0

    def earn(self) -> None:
        with self._lock:
            self._left = min(self._most, max(0, self._left) + 1)


def worth_repeating(status: int) -> bool:
    return status in _PASSING


def call(attempt: Callable[[], Response], policy: Policy, budget: Budget, deadline: Deadline) -> Response:
    """The first answer that need not be repeated, else the last one. Raises the last Interrupted.

    If a wait would exceed the deadline, the last outcome is returned or raised at once.
    """
    for number in range(policy.attempts):
        answer: Response | Interrupted
        try:
            answer = attempt()
        except Interrupted as error:
            answer = error
        else:
            if not worth_repeating(answer.status):
                budget.earn()
                return answer
        ceiling = min(policy.longest, policy.first * 2**number)
        wait = random.uniform(0, ceiling)  # noqa: S311 - spreads load; no security depends on it
        wait = max(wait, answer.retry_after or 0.0)
        if number + 1 < policy.attempts and wait < deadline.left() and budget.take():
            _log.info("waits %.3f s for attempt %d", wait, number + 2)
            policy.sleep(deadline, wait)
            continue
        if isinstance(answer, Interrupted):
            raise answer
        return answer
    raise AssertionError("a policy allows one attempt at least")


def retry_after(value: str | None) -> float | None:
    """Seconds from a Retry-After header, which has a number or a date; None for anything else."""
    if not value or len(value) > 100:
        return None
    if value.strip().isascii() and value.strip().isdecimal():
        return float(value)
    import email.utils  # noqa: PLC0415 - 5 ms, for a rare header

    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


WIDEST = 8  # more than the pipeline sends to either service at once


class Gate:
    """Limits the requests to one service at once. Take a turn with `enter` and return it with `leave`; turns are first
    come, first served. Thread-safe.

    The width is halved on 429 and grows slowly on answers (AIMD, RFC 5681 section 3.1). Several 429 to requests that
    ran at once halve it only once.
    """

    def __init__(self, deadline: Deadline) -> None:
        self._deadline = deadline
        self._lock = threading.Lock()
        self._waiting: deque[Future[None]] = deque()
        self._inside = 0
        self._age = 0  # number of halvings so far
        self.width = float(WIDEST)

    def enter(self) -> int:
        """Wait for a turn. Pass the result to `throttled`. Raises as Deadline.check does."""
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
        """The request that entered at `age` was answered with 429."""
        with self._lock:
            if age == self._age:
                self._age += 1
                self.width = max(1.0, min(self.width, self._inside) / 2)

    def _admit(self) -> None:
        while self._waiting and self._inside < int(self.width):
            turn = self._waiting.popleft()
            if turn.set_running_or_notify_cancel():  # otherwise the waiting thread has given up
                self._inside += 1
                turn.set_result(None)
