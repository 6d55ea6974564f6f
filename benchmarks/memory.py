"""A command, with the most memory that it and all its descendants had at once, by samples of /proc."""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_EVERY = 0.02  # seconds between two samples


@dataclass(frozen=True)
class Ran:
    output: bytes
    seconds: float
    peak_mb: float


def run(command: Sequence[str], environment: Mapping[str, str]) -> Ran:
    """Raises SystemExit where it fails."""
    with tempfile.TemporaryFile() as output:
        started = time.perf_counter()
        with subprocess.Popen(command, stdout=output, stderr=subprocess.PIPE, env=dict(environment)) as process:
            peak, ended = [0.0], threading.Event()

            def sample() -> None:
                while not ended.wait(_EVERY):
                    peak[0] = max(peak[0], tree_mb(process.pid))

            sampler = threading.Thread(target=sample)
            sampler.start()
            try:
                _, errors = process.communicate()
            finally:
                ended.set()
                sampler.join()
        seconds = time.perf_counter() - started
        if process.returncode:
            raise SystemExit(f"{command[0]} failed: {errors.decode(errors='replace')[-300:]}")
        output.seek(0)
        return Ran(output.read(), seconds, peak[0])


def tree_mb(process: int) -> float:
    """Memory in MB of 10^6 of a process and all its descendants, now."""
    return sum(map(_proportional_mb, _with_descendants(process)))


def _with_descendants(process: int) -> Iterator[int]:
    yield process
    with contextlib.suppress(OSError):
        for thread in Path(f"/proc/{process}/task").iterdir():
            for child in map(int, (thread / "children").read_text().split()):
                yield from _with_descendants(child)


def _proportional_mb(process: int) -> float:
    """Its share of memory in MB of 10^6: what several processes have counts once."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1.024e-3
    return 0.0
