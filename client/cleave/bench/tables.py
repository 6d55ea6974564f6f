"""What was found as tables, for a terminal, a page and a Markdown file alike."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence

from cleave.bench.machine import Machine
from cleave.bench.primitive import PRIMITIVES, Measured
from cleave.bench.profiler import COUNTERS, Ran
from cleave.bench.results import Results
from cleave.bench.workloads import Observed
from cleave.quantities import sized
from cleave_shared.dataclass import dataclass

NONE = "not available"


@dataclass(frozen=True, slots=True)
class Table:
    """The first column names a row; the others hold figures."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""

    def markdown(self) -> str:
        rule = ["---", *["---:"] * (len(self.headings) - 1)]
        lines = [f"| {' | '.join(cells)} |" for cells in (self.headings, rule, *self.rows)]
        return "\n".join([f"**{self.title}**", "", *lines, *(["", self.note] if self.note else [])])


def tables(results: Results) -> list[Table]:
    found = []
    if results.primitives:
        found.append(_primitives(results))
    if results.micro:
        found.append(_micro(results))
    if results.workloads:
        found += [_workloads(results.workloads), _counters(results.workloads)]
    return found


def machine_line(machine: Machine) -> str:
    return (
        f"{machine.processor}, {machine.cores} cores, {machine.memory_gb:g} GB, {machine.system}, "
        f"Python {machine.python}, Cleave {machine.cleave}, TenSEAL {machine.tenseal}; "
        f"load average before: {machine.load:.2f}"
    )


def told_seconds(seconds: float) -> str:
    """To three digits, in the unit that suits."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size or unit == "µs":
            scaled = seconds / size
            return f"{scaled:.{max(0, 2 - _whole_digits(scaled))}f} {unit}"
    raise AssertionError


def _whole_digits(value: float) -> int:
    """Digits before the point, less one."""
    return len(str(int(value))) - 1


def _primitives(results: Results) -> Table:
    measured = results.primitives
    families = list(dict.fromkeys((one.of, one.prime_bits) for one in measured))
    by = {(one.name, one.of): one for one in measured}
    rows = []
    for name in PRIMITIVES:
        if any(one.name == name for one in measured):
            rows.append((name, *(_cell(by.get((name, of))) for of, _ in families)))
    headings = tuple(f"{of} [{', '.join(map(str, bits[:-1]))}, {bits[-1]}*]" for of, bits in families)
    return Table(
        "Primitives",
        ("one operation", *headings),
        tuple(rows),
        f"{_how(results)} A star marks the special prime.",
    )


def _how(results: Results) -> str:
    clock = "" if results.clock == "wall" else f" by the {results.clock}'s clock"
    return (
        f"Medians of {results.runs} runs in each of which {results.seconds:g} s accumulate{clock}; "
        "± half of what lies between the least and the most of them."
    )


def _cell(measured: Measured | None) -> str:
    if measured is None:
        return "—"
    return f"{told_seconds(measured.seconds)} ± {50 * measured.spread:.0f}%"


def _micro(results: Results) -> Table:
    rows = tuple((one.measured.name, _cell(one.measured), one.told) for one in results.micro)
    return Table("Microbenchmarks", ("one run", "takes", "what it is"), rows, _how(results))


def _workloads(found: Sequence[Observed]) -> Table:
    headings = (
        *("workload", "wall", "user", "system", "CPU of the first process", "CPU / wall"),
        *("peak memory", "switches, voluntary", "involuntary", "sent", "received", "energy"),
    )
    rows = []
    for one in found:
        walls = [ran.seconds for ran in one.runs]
        seconds, joules = statistics.median(walls), [ran.joules for ran in one.runs if ran.joules is not None]
        rows.append(
            (
                one.name,
                f"{told_seconds(seconds)} ± {50 * (max(walls) - min(walls)) / seconds:.0f}%",
                told_seconds(_median(one, lambda ran: ran.user)),
                told_seconds(_median(one, lambda ran: ran.system)),
                told_seconds(_median(one, lambda ran: ran.own_user + ran.own_system)),
                f"{100 * _median(one, lambda ran: ran.processor / ran.seconds):.0f}%",
                f"{one.peak_mb:,.0f} MB" if one.peak_mb is not None else NONE,
                f"{_median(one, lambda ran: ran.voluntary):,.0f}",
                f"{_median(one, lambda ran: ran.involuntary):,.0f}",
                sized(one.bytes_sent),
                sized(one.bytes_received),
                f"{statistics.median(joules):,.1f} J" if len(joules) == len(one.runs) else NONE,
            )
        )
    runs = ", ".join(f"{one.name} {len(one.runs)}" for one in found)
    told = "; ".join(f"{one.name}: {one.told}" for one in found)
    note = (
        "Each a process of its own with its children, medians; peak memory of all of them at once, from one run more. "
        f"Runs: {runs}. {told}."
    )
    return Table("Workloads", headings, tuple(rows), note)


def _median(observed: Observed, of: Callable[[Ran], float]) -> float:
    return statistics.median(map(of, observed.runs))


def _counters(found: Sequence[Observed]) -> Table:
    there = [name for name in COUNTERS if any(one.counters.get(name) is not None for one in found)]
    missing = [name for name in COUNTERS if name not in there]
    rows = []
    for one in found:
        counted = [one.counters.get(name) for name in there]
        rows.append((one.name, *(f"{each:,.0f}" if each is not None else NONE for each in counted)))
    note = "By perf stat over all processes, one run; task-clock in ms."
    if missing:
        note += f" Of this machine {NONE}: {', '.join(missing)}."
    return Table("Counters", ("workload", *there), tuple(rows), note)


def lines(found: Iterator[Table] | Sequence[Table]) -> str:
    return "\n\n".join(table.markdown() for table in found)
