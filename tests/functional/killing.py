"""Every process of a daemon is killed once, and the daemon is asked again."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from tests.functional.processes import HANGS, descendants, have_ended

_MOMENTS = 0.3  # seconds from a question to a kill, at most


def kill_each(
    pid: int,
    ask: Callable[[], object],
    truth: object,
    seed: int,
    errors: type[Exception] | tuple[type[Exception], ...],
    *,
    at_work: bool = True,
) -> int:
    """Kill each process under `pid` once, between questions or, if `at_work`, also during one. Return their number.

    A question that was under way is answered by `truth` or fails with one of `errors`; the next is answered.
    """
    draw = random.Random(seed)
    assert ask() == truth  # by now every process is there
    count = 0
    while count < len(family := descendants(pid)):
        victim = family[count]
        if not at_work or draw.random() < 0.5:
            _kill(victim)
        else:
            with ThreadPoolExecutor(1) as pool:
                asking = pool.submit(ask)
                time.sleep(draw.random() * _MOMENTS)
                _kill(victim)
                with contextlib.suppress(errors):
                    assert asking.result(HANGS) == truth, (seed, count)
        assert have_ended(victim)
        assert ask() == truth, (seed, count)
        count += 1
    return count


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # a child that answered its one question has ended
        os.kill(pid, signal.SIGKILL)
