"""Plots of what was measured, by the chart library of `--report`."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

from cleave.bench.primitive import Measured
from cleave.bench.profiler import Ran
from cleave.bench.results import Results
from cleave.bench.workloads import Observed
from cleave.report.charts import Chart, Point
from cleave_shared.dataclass import dataclass

_ENDS = "Bars are medians; error bars reach from the least to the most of the runs."


@dataclass(frozen=True, slots=True)
class Bar:
    name: str
    value: float
    least: float
    most: float


def charts(results: Results) -> list[Chart]:
    found = []
    for of in dict.fromkeys(each.of for each in results.primitives):
        bars = [_bar(each) for each in results.primitives if each.of == of]
        found.append(_chart(of, "operation", "ms", bars, "encrypted"))
    if results.micro:
        found.append(
            _chart("microbenchmarks", "one run", "ms", [_bar(each.measured) for each in results.micro], "plain")
        )
    for name, unit, of_run in _OF_RUNS:
        if results.workloads:
            found.append(
                _chart(name, "workload", unit, [_of_runs(each, of_run) for each in results.workloads], "local")
            )
    memory = [Bar(each.name, each.peak_mb, each.peak_mb, each.peak_mb) for each in results.workloads if each.peak_mb]
    return [*found, _chart("peak memory", "workload", "MB", memory, "local")] if memory else found


_OF_RUNS: tuple[tuple[str, str, Callable[[Ran], float]], ...] = (
    ("wall time", "s", lambda ran: ran.seconds),
    ("processor time, all processes", "s", lambda ran: ran.processor),
)


def _bar(measured: Measured) -> Bar:
    return Bar(measured.name, *(1e3 * each for each in (measured.seconds, measured.least, measured.most)))


def _of_runs(observed: Observed, of_run: Callable[[Ran], float]) -> Bar:
    values = [of_run(ran) for ran in observed.runs]
    return Bar(observed.name, statistics.median(values), min(values), max(values))


def _chart(name: str, by: str, unit: str, bars: Sequence[Bar], source: str) -> Chart:
    points = tuple(
        Point(
            place=float(place),
            series=0,
            value=bar.value,
            low=bar.least if bar.least < bar.most else None,
            high=bar.most if bar.least < bar.most else None,
            label=f"{bar.value:.3g}",
            title=f"{bar.name}: {bar.value:.4g} {unit}, {bar.least:.4g} to {bar.most:.4g}",
            undecided=False,
        )
        for place, bar in enumerate(bars)
    )
    told = "; ".join(f"{bar.name} {bar.value:.3g}" for bar in bars)
    names = tuple(bar.name for bar in bars)
    note = (_ENDS,) if any(point.low is not None for point in points) else ()
    return Chart("bars", name, by, source, unit, names, (), points, f"{name} in {unit}: {told}", note)
