"""What the tests of the fork server have done in its children, which find it by its name."""

from __future__ import annotations

import contextlib
import os
import time

from cleave_shared.children import Channel
from cleave_shared.errors import WireError


def tell(channel: Channel, *arguments: object) -> None:
    channel.send([repr(each).encode() for each in (os.getpid(), os.getppid(), *arguments)])


def tell_and_sleep(channel: Channel) -> None:
    tell(channel)
    time.sleep(600)


def refuse(_: Channel) -> None:
    raise WireError("chunk 3 is none", hint="send one", status=415)


def end_by(_: Channel, number: int) -> None:
    os.kill(os.getpid(), number)


def descriptors(channel: Channel) -> None:
    links = []
    for each in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the listing's own
            links.append(os.readlink(f"/proc/self/fd/{each}").encode())
    channel.send(links)
