"""What the tests of the fork server have done in its children, which find it by its name: each imports this module."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import resource
import signal
import sys
import time
from typing import Any

from cleave_shared import exhaustion
from cleave_shared.children import _PR_SET_PDEATHSIG, Channel, limit_time
from cleave_shared.errors import WireError


def tell(channel: Channel, *arguments: object) -> None:
    channel.send([repr(each).encode() for each in (os.getpid(), os.getppid(), *arguments)])


def environment(channel: Channel) -> None:
    """The server's process, and each variable of this child."""
    channel.send([str(os.getppid()).encode(), *(f"{name}={value}".encode() for name, value in os.environ.items())])


def write_to_shared(channel: Channel, *arguments: Any) -> None:
    *files, text = arguments
    for each in files:
        os.write(each, text)
    channel.send([])


def say_whether_loaded(channel: Channel, *modules: str) -> None:
    channel.send([str(each in sys.modules).encode() for each in modules])


def outlive_the_server(channel: Channel) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, 0, 0, 0, 0)
    tell(channel)


def tell_and_sleep(channel: Channel) -> None:
    tell(channel)
    time.sleep(600)


def start_another_and_sleep(channel: Channel) -> None:
    if (pid := os.fork()) == 0:
        time.sleep(600)
    channel.send([str(each).encode() for each in (os.getpid(), pid)])
    time.sleep(600)


def tell_timer_and_end(channel: Channel) -> None:
    """By SIGALRM, after it has told the time that it was given."""
    channel.send([str(signal.getitimer(signal.ITIMER_REAL)[0]).encode()])
    limit_time(0.01)
    time.sleep(600)


def tell_limits(channel: Channel) -> None:
    """Seconds left by the clock; processor seconds and bytes of address space, soft limits both."""
    limits = (resource.getrlimit(each)[0] for each in (resource.RLIMIT_CPU, resource.RLIMIT_AS))
    channel.send([str(each).encode() for each in (signal.getitimer(signal.ITIMER_REAL)[0], *limits)])


def refuse(_: Channel) -> None:
    raise WireError("chunk 3 is none", hint="send one", code="media_type")


def end_by(_: Channel, number: int) -> None:
    os.kill(os.getpid(), number)


def descriptors(channel: Channel) -> None:
    links = []
    for each in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the listing's own
            links.append(os.readlink(f"/proc/self/fd/{each}").encode())
    channel.send(links)


def tell_spent(channel: Channel, size: int) -> None:
    """Whether this process counts as spent, before and after it had `size` bytes for a moment."""
    before = exhaustion.is_spent()
    mmap.mmap(-1, size).close()
    channel.send([b"%d%d" % (before, exhaustion.is_spent())])
