"""What is begun before anything is imported for a command, since it takes as long as all of that."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from cleave.ask.access import STORE_VARIABLE
from cleave.cli.named import named

if TYPE_CHECKING:
    from cleave.cli.asked import Asked
    from cleave.sql.beside import Planner

_PLANNED = ("plan", "query")


def planner_for(words: Sequence[str]) -> Planner | None:
    """A process that plans the question these words ask of files; None where there is none, or no processor for it."""
    if named(words) not in _PLANNED or "--help" in words or STORE_VARIABLE in os.environ:
        return None
    if any(word.startswith("--store") for word in words):
        return None
    if not has_idle_processor():
        return None
    from cleave.sql.beside import Planner  # noqa: PLC0415 - what other commands do without

    try:
        return Planner()
    except OSError:  # no memory, too many processes: it is planned here
        return None


def has_idle_processor() -> bool:
    """Whether a second process would run beside this one; else it would only take its imports a second time."""
    processors = len(os.sched_getaffinity(0))
    return processors > 1 and os.getloadavg()[0] < processors


def begin(planner: Planner, asked: Asked, *, cloud_only: bool) -> None:
    """Have the question planned, if it is one over files. Raises QueryRefused for an operation that there is not."""
    if asked.table is not None and not isinstance(asked.table, str):
        sql = asked.question(asked.table)
        others = {each.name: each.schema for each in asked.others}
        planner.begin(sql, asked.table.schema, asked.table.name, cloud_only=cloud_only, others=others)
