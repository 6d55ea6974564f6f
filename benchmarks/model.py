"""`make bench-model`: processor time of file queries and scans, predicted from their parts, beside what they take.

Ciphertexts: the primitives of `make bench`, times their number by the plan. Rows and groups: parts of the product
(benchmarks.lab.parts), each timed alone on the few tables of CALIBRATION and linear in its counts. No whole query is
timed for a prediction, and no size that is predicted is among the calibration's. After CryptOracle (arXiv 2510.03565).
"""

from __future__ import annotations

import math
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.lab.coefficients import coefficients
from benchmarks.lab.parts import TERMS, Made, Parts, cut_of, of_file, of_scan
from benchmarks.suite import Effort
from benchmarks.tables import figure, machine, markdown
from benchmarks.thesis.measured import usage
from cleave.ask.session import Session
from cleave.ckks.columns import Columns
from cleave.ckks.job import LEAST_TO_ADD
from cleave.ckks.key_file import create_key
from cleave.ckks.packing import plan_packing
from cleave.local.embedded import prepare_embedded
from cleave.store.lanes import SCAN_ROWS
from cleave.sums.scan import lanes_of_totals
from cleave.sums.scanned import addends_of
from cleave_services.sensitive.workers import processors
from cleave_shared import limits
from cleave_shared.moments import SENTINELS
from cleave_shared.params import DEFAULT_PROFILE

PUBLISHED = "-7.0% to +8.4%"
SECONDS = 0.4  # of each measurement, at least
CALIBRATION = ((1, 1, 1), (200_000, 1, 1), (200_000, 8, 1), (200_000, 1, 5_000))  # rows, columns, groups
SCAN_CALIBRATION = (*CALIBRATION[:3], (200_000, 1, 50))
FILES: tuple[tuple[int, int, int, bool, str], ...] = (  # and whether columns are real, and the aggregate
    (10_000, 1, 1, True, "SUM"),
    (30_000, 8, 10, True, "SUM"),
    (100_000, 4, 1_000, True, "SUM"),
    (300_000, 2, 10_000, True, "SUM"),
    (300_000, 8, 1, True, "VAR_POP"),
    (1_000_000, 1, 10_000, False, "SUM"),
    (1_000_000, 4, 10, True, "SUM"),
    (1_000_000, 8, 100, False, "SUM"),
    (3_000_000, 2, 100, True, "SUM"),
)
SCANS = ((10_000, 1, 1), (100_000, 8, 10), (300_000, 2, 100), (1_000_000, 4, 10), (3_000_000, 1, 4))
EVENTS = ("instructions:u", "cycles:u", "cache-misses:u")

Counts = Mapping[str, float]  # of terms, or of primitives


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    shape: Sequence[int]  # rows, columns, groups, lanes, ciphertexts
    predicted: float  # seconds
    measured: float

    @property
    def error(self) -> float:
        return self.predicted / self.measured - 1

    @property
    def cells(self) -> list[str]:
        times = (f"{1e3 * each:,.0f}" for each in (self.predicted, self.measured))
        return [self.name, *(f"{each:,}" for each in self.shape), *times, f"{self.error:+.1%}"]


def processor() -> float:
    """Seconds of this process and all its children."""
    return usage()["cpu_all"]


def taken(work: Callable[[], object], seconds: float = SECONDS, clock: Callable[[], float] = processor) -> float:
    """Processor seconds of a call, the mean of several, for /proc tells hundredths only. The first is not counted."""
    work()
    calls, started = 0, clock()
    while True:
        work()
        calls += 1
        spent = clock() - started
        if spent >= seconds and calls > 1:
            return spent / calls


def terms(rows: int, columns: int, groups: int, encoded: int, chunks: int, results: int = 0) -> Counts:
    """`encoded`: encrypted columns, of which a variance has two."""
    return {
        "once": 1,
        "rows": rows,
        "values": rows * columns,
        "encoded": rows * encoded,
        "chunks": chunks,
        "results": results,
        "groups": groups,
        "figures": groups * columns,
    }


def linear(samples: Sequence[tuple[Counts, Mapping[str, float]]]) -> dict[str, dict[str, float]]:
    """Seconds of each part for one of each of its TERMS, from (counts, seconds by part) of the calibration's tables."""
    found = {}
    for part in dict.fromkeys(name for _, seconds in samples for name in seconds):
        mine = [(counts, seconds[part]) for counts, seconds in samples if part in seconds]
        matrix = np.array([[counts[term] for term in TERMS[part]] for counts, _ in mine], float)
        scale = matrix.max(axis=0)
        solved, *_ = np.linalg.lstsq(matrix / scale, np.array([each for _, each in mine]), rcond=None)
        found[part] = dict(zip(TERMS[part], np.maximum(solved, 0) / scale, strict=True))
    return found


def predicted(
    parts: Mapping[str, Mapping[str, float]], counts: Counts, primitives: Mapping[str, float], operations: Counts
) -> float:
    """Seconds: parts by their counts, and primitives by the number of operations."""
    rows = sum(each * counts[term] for part in parts.values() for term, each in part.items())
    return rows + sum(primitives[name] * number for name, number in operations.items())


def of_ciphertexts(chunks: int, results: int) -> Counts:
    """Operations of a file query: the client encrypts, the service adds."""
    count = Counter({"carry": chunks, "load, seeded": chunks, "add": chunks - results})
    fresh = ("encrypt to be added",) if chunks >= LEAST_TO_ADD else ("encode", "encrypt, seeded", "save, seeded")
    count.update(dict.fromkeys(fresh, chunks))
    count["save"] = results
    return count


def of_masks(chunks: int, lanes: int, groups: int, results: int, processes: int) -> Counts:
    """Operations of a scan in which each chunk has rows of all groups; one mask more is the check's.

    Each of the processes saves its sums, and adds them to the previous one's.
    """
    masks, products, merged = chunks * (groups + 1), chunks * lanes * (groups + 1), (processes - 1) * results
    count = Counter({"mask rows": masks, "mask encode": masks, "load to be masked": chunks * lanes})
    count.update({"mask and add": products, "save a masked sum": processes * results + merged})
    count["load a masked sum"] = 2 * merged
    return count


def calibrated(folder: Path, tables: Sequence[tuple[int, int, int]], of: Callable[[Made, ExitStack], Parts]) -> Any:
    samples = []
    for rows, columns, groups in tables:
        with ExitStack() as stack:
            made = Made(folder, rows, columns, groups, real=of is of_file)
            chunks = columns * math.ceil(rows / (DEFAULT_PROFILE.degree - SENTINELS))  # a lane for each column
            seconds = {name: taken(work) for name, work in of(made, stack).items()}
            results = columns * (1 + groups * math.ceil(rows / groups / SCAN_ROWS))
            samples.append((terms(rows, columns, groups, columns, chunks, results), seconds))
    return linear(samples)


def files(folder: Path, primitives: Mapping[str, float]) -> Iterator[Case]:
    parts = calibrated(folder, CALIBRATION, of_file)
    for rows, columns, groups, real, form in FILES:
        made = Made(folder, rows, columns, groups, real=real, form=form)
        cut = cut_of(made)
        sizes = np.bincount(np.arange(rows) % groups)
        packing = plan_packing(Columns(cut.domains, cut.encrypted).types, sizes, DEFAULT_PROFILE)
        results = sum(len(each.runs) for each in packing.ranges(limits.REQUESTS_UNDER_WAY))
        counts = terms(rows, columns, groups, len(packing.columns), packing.chunks)
        mine = {name: each for name, each in parts.items() if name != "workers"}
        if packing.chunks >= LEAST_TO_ADD:  # what it takes to start them; what they encrypt are primitives
            mine["workers"] = {"once": parts["workers"]["once"]}
        seconds = predicted(mine, counts, primitives, of_ciphertexts(packing.chunks, results))

        def ask(made: Made = made) -> None:
            with made.session() as session:
                session.ask(session.plan(made.sql))

        yield Case(f"file, {form}", (rows, columns, groups, packing.lanes, packing.chunks), seconds, taken(ask))


def scans(folder: Path, primitives: Mapping[str, float]) -> Iterator[Case]:
    parts = calibrated(folder, SCAN_CALIBRATION, of_scan)
    for rows, columns, groups in SCANS:
        made = Made(folder, rows, columns, groups, real=False)
        with made.stored() as session:
            (way,) = session.plan(made.sql, cloud_only=True).ways
            stored: Any = session.source.site().stored  # type: ignore[attr-defined]
            lanes, capacity = sorted(lanes_of_totals(stored, way.needs)), stored.row_lanes.capacity  # type: ignore[attr-defined]
            placed = [placed_rows(each.rows, groups, capacity) for each in stored.manifest.segments]
            calls = [each for rows_ in placed for each in addends_of(rows_, groups, lanes, SCAN_ROWS)]
            measured = taken(partial(asked_again, session, made.sql))
        alone = processors() if len(calls) == 1 else 1  # several calls at once have a process each
        operations: Counter[str] = Counter()
        for each in calls:
            chunks = len(each.chunks)
            processes = max(1, min(alone, chunks // limits.SCAN_CHUNKS_OF_A_PROCESS))
            operations.update(of_masks(chunks, len(each.lanes), len(each.groups), each.results, processes))
        chunks = len(lanes) * sum(map(len, placed))
        counts = terms(
            rows,
            columns,
            groups,
            columns,
            sum(len(each.chunks) * len(each.lanes) for each in calls),
            sum(each.results for each in calls),
        )
        seconds = predicted(parts, counts, primitives, operations)
        yield Case("scan, SUM", (rows, columns, groups, len(lanes), chunks), seconds, measured)


def placed_rows(rows: int, groups: int, capacity: int) -> Any:
    """Group numbers, from 1, by chunk and position; 0 where there is no row."""
    numbers = np.zeros(math.ceil(rows / capacity) * capacity, np.int32)
    numbers[:rows] = np.arange(rows) % groups + 1
    return numbers.reshape(-1, capacity)


def asked_again(session: Session, sql: str) -> None:
    session.ask(session.plan(sql, cloud_only=True))


def events_of(work: Callable[[], object]) -> dict[str, float] | None:
    """What `perf stat` counts for one call, about; None where perf is missing or counts nothing."""
    program = shutil.which("perf")
    if program is None:
        return None
    attached = [program, "stat", "-x", ",", "-e", ",".join(EVENTS), "-p", str(os.getpid()), "--", "sleep", "0.3"]
    with subprocess.Popen(attached, stderr=subprocess.PIPE, text=True) as process:
        calls = 0
        while process.poll() is None:
            work()
            calls += 1
        return counted(process.stderr.read() if process.stderr else "", calls)


def counted(lines: str, calls: int) -> dict[str, float] | None:
    """From the output of `perf stat -x ,`: value, unit, event. None if one of EVENTS has no number."""
    found = {}
    for line in lines.splitlines():
        value, _, event, *_ = *line.split(","), "", ""
        if event in EVENTS and value.isdigit():
            found[event] = int(value) / calls
    return found if found.keys() == {*EVENTS} else None


def bandwidth() -> float:
    """Bytes a second that one core reads from memory: the best of several passes over 256 MB."""
    numbers = np.ones(1 << 25, np.uint64)
    return numbers.nbytes / min(taken(numbers.max, 0.05, time.process_time) for _ in range(3))


def primitives_here() -> tuple[dict[str, float], str]:
    """Seconds of each primitive that is counted, and all as a table."""
    names = {*of_ciphertexts(1, 1), *of_ciphertexts(LEAST_TO_ADD, 1), *of_masks(1, 1, 1, 1, 2)}
    family, effort = coefficients(DEFAULT_PROFILE), Effort(SECONDS / 3, 3, "processor")
    mine = [each for each in family.primitives if each.name in names]
    seconds = {each.name: effort.spent(family, each).seconds for each in mine}
    events = {each.name: events_of(partial(each.work, each.setup())) for each in mine}
    if any(each is None for each in events.values()):
        rows = [[name, figure(1e6 * each)] for name, each in seconds.items()]
        return seconds, markdown(["primitive", "us"], rows) + "\n\n`perf stat` counts no events on this machine."
    rows = [[name, figure(1e6 * seconds[name]), *map(figure, (each or {}).values())] for name, each in events.items()]
    return seconds, markdown(["primitive", "us", *EVENTS], rows)


def main() -> None:
    prepare_embedded()
    print(f"{machine()}; processor time\n")
    seconds, table = primitives_here()
    print(table, "Energy: not measurable here.\n")
    moved, read = 3 * 2 * 8 * DEFAULT_PROFILE.degree, bandwidth()
    print(f"An added ciphertext: {2 * DEFAULT_PROFILE.degree:,} additions modulo q, {moved:,} bytes read and written,")
    print(f"{1e6 * seconds['add']:.1f} us. A core reads {read / 1e9:.0f} GB/s from memory.\n")
    with tempfile.TemporaryDirectory() as name:
        create_key(Path(name, "key.json"), None)
        cases = [*files(Path(name), seconds), *scans(Path(name), seconds)]
    head = ["query", "rows", "columns", "groups", "lanes", "ciphertexts", "predicted, ms", "measured, ms", "error"]
    print(markdown(head, [each.cells for each in cases]))
    print(f"\n{summary([each.error for each in cases])}")


def summary(errors: Sequence[float]) -> str:
    mean = statistics.geometric_mean([1 + each for each in errors]) - 1
    return (
        f"Errors from {min(errors):+.1%} to {max(errors):+.1%}, geometric mean {mean:+.1%}. "
        f"CryptOracle published geometric means of {PUBLISHED}, for OpenFHE's own workloads."
    )


if __name__ == "__main__":
    main()
