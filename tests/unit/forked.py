"""What the tests of the fork server have done in its children, which find it by its name."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import time
from typing import ClassVar

from pydantic import BaseModel

from cleave_shared.children import Channel, limit_time
from cleave_shared.errors import WireError


class WhatItMay(BaseModel):
    NAMES: ClassVar = ("RLIMIT_NPROC", "RLIMIT_FSIZE", "RLIMIT_CORE")
    limits: dict[str, tuple[int, int]]


def tell(channel: Channel, *arguments: object) -> None:
    channel.send([repr(each).encode() for each in (os.getpid(), os.getppid(), *arguments)])


def environment(channel: Channel) -> None:
    """The server's process, and each variable of this child."""
    channel.send([str(os.getppid()).encode(), *(f"{name}={value}".encode() for name, value in os.environ.items())])


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
    raise WireError("chunk 3 is none", hint="send one", status=415)


def end_by(_: Channel, number: int) -> None:
    os.kill(os.getpid(), number)


def descriptors(channel: Channel) -> None:
    links = []
    for each in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the listing's own
            links.append(os.readlink(f"/proc/self/fd/{each}").encode())
    channel.send(links)


def tell_of_duckdb(channel: Channel) -> None:
    """How many are opened that nothing was asked of, and how many threads the process has that opened them."""
    from cleave_services.plain import database  # noqa: PLC0415 - DuckDB takes every other child 80 ms

    threads = len(os.listdir(f"/proc/{os.getppid()}/task"))
    channel.send([str(each).encode() for each in (len(database._unused), threads)])


def leave_a_table(channel: Channel) -> None:
    """What tables there are before and after, and that a question between is answered."""
    from cleave_services.plain import database  # noqa: PLC0415 - as above

    tables = "SELECT table_name FROM duckdb_tables() ORDER BY 1"
    with database.Database() as opened:
        before = opened.fetch(tables, "test")
        opened.load_nothing(3)
        opened.run("CREATE TABLE kept AS FROM rows", "test")
        found = opened.fetch("SELECT count(*) FROM kept", "test")[0][0]
        channel.send([str(each).encode() for each in (before, found, opened.fetch(tables, "test"))])


def reach_out(channel: Channel, path: str) -> None:
    from cleave_services.plain import database  # noqa: PLC0415 - as above

    with database.Database() as opened:
        opened.load_nothing(1)
        told = []
        for statement in (
            f"FROM read_text('{path}')",
            "ATTACH '/tmp/other.db'",
            "SET enable_external_access = true",
            "SET threads = 1",
        ):
            try:
                opened.run(statement, "test")
            except WireError:
                told.append(b"refused")
        channel.send(told)


def answer_with_what_it_may(_: object) -> WhatItMay:
    """As a question that has taken over its process, with DuckDB's threads at work."""
    from cleave_services.plain import database  # noqa: PLC0415 - as above

    with database.Database() as opened:
        opened.load_nothing(1)
        return WhatItMay(limits={name: resource.getrlimit(getattr(resource, name)) for name in WhatItMay.NAMES})
