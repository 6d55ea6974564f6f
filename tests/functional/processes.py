"""What processes there are, by /proc."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path


def descendants(pid: int) -> list[int]:
    """Of what lives, by every process's parent: not every kernel lists a process's children."""
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # gone since
            state, parent = stat.read_text().rpartition(") ")[2].split()[:2]
            if state != "Z":
                parents[int(stat.parent.name)] = int(parent)
    found = [pid]
    for each in found:
        found += [child for child, parent in parents.items() if parent == each]
    return found[1:]


def is_alive(pid: int) -> bool:
    """A zombie that nobody has reaped yet counts as dead."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except OSError:
        return False


def end_within(pids: list[int], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while any(map(is_alive, pids)) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not any(map(is_alive, pids))
