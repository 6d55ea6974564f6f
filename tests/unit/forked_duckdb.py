"""What the tests of the plain engine have done in children of its fork server, which find it by its name."""

from __future__ import annotations

import os
import resource
from dataclasses import dataclass
from typing import ClassVar

from cleave_services.plain import database
from cleave_shared.children import Channel
from cleave_shared.errors import WireError
from cleave_shared.messages import Message


@dataclass(frozen=True, kw_only=True)
class WhatItMay(Message):
    NAMES: ClassVar = ("RLIMIT_NPROC", "RLIMIT_FSIZE", "RLIMIT_CORE")
    limits: dict[str, tuple[int, int]]


def tell_of_duckdb(channel: Channel) -> None:
    """How many are opened that nothing was asked of, and how many threads the process has that opened them."""
    threads = len(os.listdir(f"/proc/{os.getppid()}/task"))
    channel.send([str(each).encode() for each in (len(database._unused), threads)])


def leave_a_table(channel: Channel) -> None:
    """What tables there are before and after, and that a question between is answered."""
    tables = "SELECT table_name FROM duckdb_tables() ORDER BY 1"
    with database.Database() as opened:
        before = opened.fetch(tables, "test")
        opened.load_nothing(3)
        opened.run("CREATE TABLE kept AS FROM rows", "test")
        found = opened.fetch("SELECT count(*) FROM kept", "test")[0][0]
        channel.send([str(each).encode() for each in (before, found, opened.fetch(tables, "test"))])


def reach_out(channel: Channel, path: str) -> None:
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
    with database.Database() as opened:
        opened.load_nothing(1)
        return WhatItMay(limits={name: resource.getrlimit(getattr(resource, name)) for name in WhatItMay.NAMES})
