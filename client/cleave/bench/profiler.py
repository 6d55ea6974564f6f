"""What a command takes, all of its processes together: time, processor, memory, switches, counters, energy."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from cleave.bench import supervisor
from cleave_shared.dataclass import dataclass

SAMPLED_SECONDS = 0.02
COUNTERS = (
    "task-clock",
    "cycles",
    "instructions",
    "cache-references",
    "cache-misses",
    "branches",
    "branch-misses",
    "page-faults",
    "context-switches",
    "cpu-migrations",
)
_MOST_SECONDS = 1800.0


class CommandFailedError(Exception):
    """What was to be measured ended with an error."""


@dataclass(frozen=True, slots=True)
class Ran:
    """One run. User and system seconds, context switches and joules are of all its processes; `own_...` of the first
    alone. `largest_mb` is the most memory of any one process; `peak_mb` that of all at once, where it was sampled.
    None: this machine does not tell, or it was not asked for.
    """

    seconds: float
    user: float
    system: float
    own_user: float
    own_system: float
    voluntary: int
    involuntary: int
    largest_mb: float
    peak_mb: float | None
    joules: float | None

    @property
    def processor(self) -> float:
        """Seconds of all processes, user and system."""
        return self.user + self.system


def profile(
    command: Sequence[str], environment: Mapping[str, str] | None = None, *, sampled: bool = False
) -> tuple[Ran, bytes]:
    """Run it once; what it took, and its stdout. `sampled`: its memory is looked at 50 times a second, which slows it.

    Raises CommandFailedError where it fails, or takes longer than half an hour.
    """
    read, write = os.pipe()
    words = [sys.executable, "-I", "-S", supervisor.__file__, str(write), str(SAMPLED_SECONDS if sampled else 0)]
    try:
        ran = subprocess.run(  # noqa: S603 - it is for what the caller names
            [*words, *command],
            stdout=subprocess.PIPE,
            env=dict(environment) if environment is not None else None,
            pass_fds=(write,),
            timeout=_MOST_SECONDS,
            check=False,
        )
        os.close(write)
        write = -1
        with os.fdopen(read, "rb") as file:
            read = -1
            found = json.loads(file.read() or b"{}")
    except subprocess.TimeoutExpired:
        raise CommandFailedError(f"{Path(command[0]).name} takes longer than {_MOST_SECONDS:.0f} s") from None
    finally:
        for end in (read, write):
            if end >= 0:
                os.close(end)
    if ran.returncode or found.pop("status", 1):
        raise CommandFailedError(f"{' '.join(map(str, command[:3]))} failed")
    return Ran(**found), ran.stdout


def counters(command: Sequence[str], environment: Mapping[str, str] | None = None) -> dict[str, float | None]:
    """Of `perf stat`, for all processes; None for each that this machine does not count. Raises CommandFailedError."""
    program = shutil.which("perf")
    if program is None:
        return dict.fromkeys(COUNTERS)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "counted"
        stat = [program, "stat", "-x", ",", "-o", str(file), "-e", ",".join(COUNTERS), "--"]
        try:
            profile([*stat, *command], environment)
        except CommandFailedError:
            if not file.exists() or "," not in file.read_text():  # perf may not: the kernel forbids it, or is another
                return dict.fromkeys(COUNTERS)
            raise
        return counted(file.read_text())


def counted(text: str) -> dict[str, float | None]:
    """What `perf stat -x ,` wrote: value, unit, event, ..."""
    found: dict[str, float | None] = dict.fromkeys(COUNTERS)
    for line in text.splitlines():
        value, _, event, *_ = [*line.split(","), "", "", ""]
        name = event.partition(":")[0]
        if name in found and not value.startswith("<"):
            found[name] = float(value)
    return found
