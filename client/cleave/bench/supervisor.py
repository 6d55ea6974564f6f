"""Runs one command and tells what it and all its descendants took; a program of its own, of the standard library alone.

So what the asking process is has no part in it: a command that is started by a large process would begin with that
process's memory in its account. Descendants that outlive their parents come to this process, and are waited for.

    supervisor.py FD INTERVAL COMMAND...     writes one JSON object to FD; INTERVAL 0: memory is not sampled
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
ORPHANS_SECONDS = 5.0  # for what is left when the command has ended; then it is killed
RAPL = Path("/sys/class/powercap")

_prctl = ctypes.CDLL(None, use_errno=True).prctl


def die_with_parent() -> None:
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def main() -> None:
    target, interval, command = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]
    die_with_parent()
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    peak, energy = 0, joules_so_far()
    started = time.perf_counter()
    process = subprocess.Popen(command, preexec_fn=die_with_parent)  # noqa: PLW1509, S603 - no thread here; it is told what
    ended = select.poll()
    descriptor = os.pidfd_open(process.pid)
    ended.register(descriptor, select.POLLIN)
    while not ended.poll(interval * 1000 if interval else None):
        peak = max(peak, sum(map(pss_kb, tree(process.pid))))
    seconds = time.perf_counter() - started
    os.close(descriptor)
    own_user, own_system = own_seconds(process.pid)
    status = process.wait()
    reap_orphans()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    after = joules_so_far()
    found = {
        "status": status,
        "seconds": seconds,
        "user": used.ru_utime,
        "system": used.ru_stime,
        "own_user": own_user,
        "own_system": own_system,
        "voluntary": used.ru_nvcsw,
        "involuntary": used.ru_nivcsw,
        "largest_mb": used.ru_maxrss / 1024,
        "peak_mb": max(peak, used.ru_maxrss) / 1024 if interval else None,  # a peak may fall between two samples
        "joules": energy_between(energy, after),
    }
    os.write(target, json.dumps(found).encode())


def own_seconds(pid: int) -> tuple[float, float]:
    """User and system time of the ended, not yet reaped process alone; to a hundredth of a second."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks = os.sysconf("SC_CLK_TCK")
    return int(fields[11]) / ticks, int(fields[12]) / ticks


def reap_orphans() -> None:
    deadline = time.monotonic() + ORPHANS_SECONDS
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, _ = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                if time.monotonic() > deadline:
                    for child in children_of(os.getpid()):
                        with contextlib.suppress(ProcessLookupError):
                            os.kill(child, signal.SIGKILL)
                time.sleep(0.002)


def tree(pid: int) -> Iterator[int]:
    yield pid
    for child in children_of(pid):
        yield from tree(child)


def children_of(pid: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError):
                found += map(int, Path(f"/proc/{pid}/task/{task}/children").read_text().split())
    return found


def pss_kb(pid: int) -> int:
    """Its memory, with an equal share of what several processes have in common."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
    return 0


def joules_so_far(folder: Path = RAPL) -> dict[str, tuple[int, int]]:
    """By package: its counter in microjoules, and where that begins anew. Empty where none can be read."""
    found = {}
    for zone in sorted(folder.glob("intel-rapl:?")) if folder.is_dir() else ():
        with contextlib.suppress(OSError, ValueError):
            counter, wraps = (int((zone / name).read_text()) for name in ("energy_uj", "max_energy_range_uj"))
            found[zone.name] = counter, wraps
    return found


def energy_between(before: dict[str, tuple[int, int]], after: dict[str, tuple[int, int]]) -> float | None:
    """Joules of the whole machine meanwhile, None where it does not tell."""
    if not before or before.keys() != after.keys():
        return None
    return sum((after[zone][0] - start) % (wraps + 1) for zone, (start, wraps) in before.items()) / 1e6


if __name__ == "__main__":
    main()
