"""What a pipeline takes: of this process, of its children that have ended and of those that have not."""

from __future__ import annotations

import contextlib
import os
import resource
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

_TICKS = os.sysconf("SC_CLK_TCK")


def _children(process: int) -> Iterator[Path]:
    """Of those alive, and theirs, their places in /proc."""
    with contextlib.suppress(OSError):  # it has ended meanwhile
        for thread in Path(f"/proc/{process}/task").iterdir():
            for child in map(int, (thread / "children").read_text().split()):
                yield Path(f"/proc/{child}")
                yield from _children(child)


def _status(place: Path, name: str) -> int:
    (line,) = (line for line in (place / "status").read_text().splitlines() if line.startswith(f"{name}:"))
    return int(line.split()[1])


def usage() -> dict[str, float]:
    """Of this process and all its children; of those alive /proc tells CPU time in hundredths of a second."""
    own, ended = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    cpu_parent = own.ru_utime + own.ru_stime
    cpu, voluntary, involuntary = 0, 0, 0
    for child in _children(os.getpid()):
        with contextlib.suppress(OSError):
            cpu += sum(map(int, (child / "stat").read_text().rpartition(")")[2].split()[11:15]))
            for thread in (child / "task").iterdir():
                voluntary += _status(thread, "voluntary_ctxt_switches")
                involuntary += _status(thread, "nonvoluntary_ctxt_switches")
    return {
        "wall": time.perf_counter(),
        "cpu_parent": cpu_parent,
        "cpu_all": cpu_parent + ended.ru_utime + ended.ru_stime + cpu / _TICKS,
        "voluntary": own.ru_nvcsw + ended.ru_nvcsw + voluntary,
        "involuntary": own.ru_nivcsw + ended.ru_nivcsw + involuntary,
    }


def peak_mb() -> float:
    """Of this process and the largest of its children together, in MB of 10^6."""
    own, ended = (resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    alive = [0]
    for child in _children(os.getpid()):
        with contextlib.suppress(OSError, ValueError):
            alive.append(_status(child, "VmHWM"))
    return (own + max(ended, *alive)) * 1.024e-3


def measured(pipeline: Callable[[], dict[str, float]], factor: float = 1.0) -> dict[str, Any]:
    """The figures of one run, `factor` times what it took, and the sums it found."""
    before = usage()
    sums = pipeline()
    after = usage()
    return {
        **{name: factor * (after[name] - before[name]) for name in before},
        "peak": peak_mb(),
        "sums": sums,
    }
