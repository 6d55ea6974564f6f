"""What processes there are, by /proc."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path

from cleave_shared.fork_server import ForkServer

HANGS = 120.0  # seconds after which what takes a moment is taken to hang


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


def server_of(server: ForkServer) -> int:
    """The process of a fork server; 0 if none was started."""
    return server._process.pid if server._process else 0


def _state(pid: int) -> str:
    """As proc(5) has it in `stat`; a process that is gone is a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
    except OSError:
        return "Z"


def is_alive(pid: int) -> bool:
    """A zombie that nobody has reaped yet counts as dead."""
    return _state(pid) != "Z"


def is_running(pid: int) -> bool:
    """On a processor, or ready for one: not waiting for anything."""
    return _state(pid) == "R"


def have_ended(*pids: int) -> bool:
    """Wait until none is alive; a guard against hanging ends the wait, on a machine of any speed."""
    return met(lambda: not any(map(is_alive, pids)))


def are_reaped(*pids: int) -> bool:
    """Wait until not even a zombie is left."""
    return met(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))


def met(condition: Callable[[], object]) -> bool:
    """Wait until it holds, for `HANGS` at most."""
    deadline, pause = time.monotonic() + HANGS, 0.005
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(pause)
        pause = min(1.3 * pause, 0.1)  # to look through /proc takes 5 ms of a processor
    return True
