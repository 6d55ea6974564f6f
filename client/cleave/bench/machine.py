"""What figures were measured on: without it they mean nothing to anybody else."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from pathlib import Path

from cleave_shared.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Machine:
    """`load` is the system's load average of the minute before, to be near 0 for figures that are told."""

    processor: str
    cores: int
    memory_gb: float
    system: str
    python: str
    cleave: str
    tenseal: str
    load: float


def this_machine() -> Machine:
    return Machine(
        processor=_processor(),
        cores=len(os.sched_getaffinity(0)),
        memory_gb=round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        system=f"{platform.system()} {platform.release().split('-')[0]} {platform.machine()}",
        python=platform.python_version(),
        cleave=version("cleave"),
        tenseal=version("tenseal"),
        load=round(os.getloadavg()[0], 2),
    )


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return " ".join(line.partition(":")[2].split())
    return platform.machine()
