"""Another attempt where one may help: throttling, a failing service, a broken connection.

Every request of Cleave is a pure question, so repeating one is harmless. Another 4xx is the caller's own fault and is
never repeated. Delays grow exponentially with full jitter (AWS Architecture Blog, "Exponential Backoff And Jitter").
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from cleave.transport.responses import Response
from cleave_shared.errors import ServiceError


class Interrupted(ServiceError):  # noqa: N818 - named for what happened
    """No answer arrived, and the next attempt may fare better."""


@dataclass(frozen=True, slots=True)
class Policy:
    """`attempts` in all; attempt i waits up to min(longest, first * 2^i) seconds before the next."""

    attempts: int
    first: float = 0.2
    longest: float = 5.0
    sleep: Callable[[float], None] = time.sleep


ONCE = Policy(attempts=1)
REMOTE = Policy(attempts=5)


def worth_repeating(status: int) -> bool:
    return status == 429 or status >= 500


def call(attempt: Callable[[], Response], policy: Policy) -> Response:
    """The first answer that is not worth repeating, else the last one. Raises the last Interrupted."""
    for number in range(policy.attempts - 1):
        try:
            answer = attempt()
        except Interrupted:
            pass
        else:
            if not worth_repeating(answer.status):
                return answer
        ceiling = min(policy.longest, policy.first * 2**number)
        policy.sleep(random.uniform(0, ceiling))  # noqa: S311 - spreads load, guards nothing
    return attempt()
