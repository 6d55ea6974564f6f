"""Where a `cleave` command spends its time: `python -m benchmarks.steps put FILE ...`, the command's words as they are.

Every 4 ms the stack of each thread of this process is looked at. The time since the last look, by the clock and of
all processors, goes in equal parts to the steps that are under way, so that the steps add up to all of it. A step is
the innermost function of STEPS on a thread's stack. DuckDB's own threads count for the step that waits for them.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import Counter
from types import FrameType
from typing import NoReturn

_EVERY = 0.004  # seconds
STEPS = {
    ("stream.py", "survey"): "look at all rows of the file",
    ("by.py", "count_cells"): "count cells",
    ("slices.py", "next"): "read the file as Arrow",
    ("slices.py", "digest_of"): "digests of rows, for a put that is stopped",
    ("slices.py", "sort"): "sort rows by plain by columns",
    ("sums.py", "_check"): "check the measures' values",
    ("sums.py", "sums"): "add up by cell",
    ("sums.py", "rows"): "rows for scans, in a secret order",
    ("segment.py", "write_totals"): "encode and encrypt totals",
    ("columns.py", "read_columns"): "columns to bytes",
    ("sealed.py", "seal_column"): "seal",
    ("manifest.py", "described"): "digests of objects",
    ("table.py", "parquet_of"): "plain Parquet",
    ("folder_store.py", "write"): "write to the disk",
    ("putting.py", "_save"): "drafts",
    ("putting.py", "_commit"): "commit",
}
_REST = "start-up, and all else"
_WAITING = {
    ("threading.py", "wait"),
    ("threading.py", "join"),
    ("threading.py", "_wait_for_tstate_lock"),
    ("_base.py", "result"),
    ("thread.py", "_worker"),
    ("thread.py", "shutdown"),
}


def _step(frame: FrameType | None) -> str:
    while frame is not None:
        step = STEPS.get((os.path.basename(frame.f_code.co_filename), frame.f_code.co_name))
        if step is not None:
            return step
        frame = frame.f_back
    return _REST


class Sampler(threading.Thread):
    """Counts the seconds of each step, by the clock and of processors."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.clock: Counter[str] = Counter()
        self.processor: Counter[str] = Counter()
        self._ended = threading.Event()

    def run(self) -> None:
        clock, processor = 0.0, 0.0  # of a process: what came before the first look is its start
        started = time.perf_counter() - time.process_time()
        while not self._ended.wait(_EVERY):
            now, used = time.perf_counter() - started, time.process_time()
            working = [
                frame
                for thread, frame in sys._current_frames().items()
                if thread != self.ident
                and (os.path.basename(frame.f_code.co_filename), frame.f_code.co_name) not in _WAITING
            ]
            steps = [_step(frame) for frame in working] or [_REST]
            for step in steps:
                self.clock[step] += (now - clock) / len(steps)
                self.processor[step] += (used - processor) / len(steps)
            clock, processor = now, used

    def end(self) -> None:
        self._ended.set()
        self.join()

    def table(self) -> str:
        clock, processor = sum(self.clock.values()), sum(self.processor.values())
        lines = ["| step | by the clock, s | % | processor time, s | % |", "| --- | ---: | ---: | ---: | ---: |"]
        for step, used in self.processor.most_common():
            spent = self.clock[step]
            shares = f"{100 * spent / clock:.0f} | {used:.2f} | {100 * used / processor:.0f}"
            lines.append(f"| {step} | {spent:.2f} | {shares} |")
        lines.append(f"| all | {clock:.2f} | 100 | {processor:.2f} | 100 |")
        return "\n".join(lines)


def main() -> None:
    sampler = Sampler()
    sampler.start()
    from cleave.cli import process  # noqa: PLC0415 - imports are the command's start-up
    from cleave.local.main import main as cleave  # noqa: PLC0415 - as above

    leave = process.leave

    def ended(code: int) -> NoReturn:
        sampler.end()
        print(sampler.table())
        leave(code)

    process.leave = ended
    cleave()


if __name__ == "__main__":
    main()
