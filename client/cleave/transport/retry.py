"""Another attempt where one may help: throttling, a failing service, a broken connection; and fewer requests at once.

A `Gate` lets one service have fewer requests each time it says that these are too many.

Every request of Cleave is a pure question, so repeating one is harmless. Another 4xx is the caller's own fault and is
never repeated, nor is a 504: what took too long once would again. Delays grow exponentially with full jitter (AWS
Architecture Blog, "Exponential Backoff And Jitter"), or follow the service's Retry-After (RFC 9110 section 10.2.3). All
requests of a query share one budget of repetitions (as the AWS SDKs' retry quota).
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

from cleave.processes.deadline import Deadline
from cleave.transport.responses import Response
from cleave_shared.errors import ServiceError

_log = logging.getLogger("cleave.transport")
_PASSING = frozenset({429, 500, 502, 503})


class Interrupted(ServiceError):  # noqa: N818 - named for what happened
    """No answer arrived, and the next attempt may fare better."""

    retry_after: float | None = None


@dataclass(frozen=True, slots=True)
class Policy:
    """`attempts` in all; attempt i waits up to min(longest, first * 2^i) seconds before the next.

    `budget` repetitions for all requests of a query together, and one more for each answer.
    """

    attempts: int
    first: float = 0.2
    longest: float = 5.0
    budget: int = 20
    sleep: Callable[[Deadline, float], None] = Deadline.sleep


ONCE = Policy(attempts=1)
REMOTE = Policy(attempts=5)


class Budget:
    """Repetitions that a query has left. Thread-safe."""

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
    """The first answer that is not worth repeating, else the last one. Raises the last Interrupted.

    A wait that would outlast the deadline is not begun: the last outcome is returned or raised at once.
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
        wait = random.uniform(0, ceiling)  # noqa: S311 - spreads load, guards nothing
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
    """Seconds that a Retry-After header asks to wait: a number of them, or a date. None where it is neither."""
    if not value or len(value) > 100:
        return None
    if value.strip().isascii() and value.strip().isdecimal():
        return float(value)
    import email.utils  # noqa: PLC0415 - 5 ms, for a rare header

    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


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
            if turn.set_running_or_notify_cancel():  # else the waiting thread has given up
                self._inside += 1
                turn.set_result(None)
