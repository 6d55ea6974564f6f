"""The page of survival curves: the curve of each group with its band, numbers at risk, and the table of its steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cleave.ask.describe import Leakage, Requests
from cleave.ask.question import COUNTS, Answer
from cleave.report.charts import MOST_LINES, Chart, Point
from cleave.report.page import page
from cleave.text import figures
from cleave.text.printable import printable
from cleave_shared.errors import InputError

if TYPE_CHECKING:
    from cleave.ask.describe import Description
    from cleave.ask.question import Usage
    from cleave.models.curves import Curve
    from cleave.models.survival import Survival
    from cleave.report.page import PageFacts

_MOST_TICKS = 6
_SUMMED = (*COUNTS, "objects_read", "bytes_read")
_HIDDEN = ("rows", "selected_rows", "groups", "suppressed_groups", "withheld_groups", "hidden_figures")


def survival_page(found: Survival, facts: PageFacts) -> str:
    """Return the page, which must be written as UTF-8. Raises InputError for more groups than there are colours."""
    if len(found.curves) > MOST_LINES:
        raise InputError(
            f"a page draws at most {MOST_LINES} curves", hint="use a coarser column, or --json for the figures"
        )
    table = replace(found.table(), note=" ".join(found.notes))
    answer = Answer(table, dict(found.checks), _usage(found.usage), {})
    return page(answer, facts, _seen(found.seen), [chart_of(found)])


def chart_of(found: Survival) -> Chart:
    names = tuple(printable(figures.plain(each.group)) for each in found.curves) if found.by else ()
    points = tuple(
        Point(
            place=float(step.time),
            series=series,
            value=step.survival.value,
            low=step.low.value if step.low.exists else None,
            high=step.high.value if step.high.exists else None,
            label=step.survival.short,
            title=f"{f'{names[series]}, ' if names else ''}{figures.plain(step.time)}: {step.survival.short}",
            undecided=False,
        )
        for series, each in enumerate(found.curves)
        for step in each.steps
    )
    ticks = _ticks(max(point.place for point in points))
    title = f"without {found.event}"
    by = f"{found.time}{f', {found.by}' if found.by else ''}"
    return Chart(
        kind="curve",
        name=printable(title),
        by=printable(by),
        source="local",
        unit="",
        names=(),
        series=names,
        points=points,
        summary=printable(_summary(found, title)),
        notes=tuple(map(printable, [*_medians(found.curves, names), *_test(found)])),
        ticks=tuple(ticks),
        at_risk=tuple(tuple(each.at_risk(tick) for tick in ticks) for each in found.curves),
    )


def _summary(found: Survival, title: str) -> str:
    """A description for people who cannot see the chart. The table has every figure."""
    ends = ", ".join(
        f"{f'{figures.plain(each.group)} ' if found.by else ''}{each.steps[-1].survival.short}" for each in found.curves
    )
    return f"Survival curves of the share {title}, by {found.time}; at the end: {ends}. The table has all figures."


def _medians(curves: Sequence[Curve], names: Sequence[str]) -> list[str]:
    notes = []
    for place, each in enumerate(curves):
        median = "not reached" if each.median is None else figures.plain(each.median)
        name = f"{names[place]}: " if names else ""
        notes.append(f"{name}median {median}, mean {each.mean.short}, standard error {each.mean_error.short}.")
    return notes


def _test(found: Survival) -> list[str]:
    test = found.test
    if test is None:
        return []
    return [f"Log-rank: chi-square {test.chi_square.short}, degrees of freedom {test.df}, p {test.p.short}."]


def _ticks(last: float) -> list[float]:
    """Round times from 0 to `last`, evenly apart."""
    for power in range(-9, 16):
        for digit in (1, 2, 3, 5):
            step = digit * 10.0**power
            if last / step <= _MOST_TICKS:
                return [round(place * step, 9) for place in range(int(last / step + 1e-9) + 1)]
    return [0.0]


def _usage(usages: Sequence[Usage]) -> Usage:
    """What all statements cost together. Counts of groups are left out: the page has its own."""
    last = usages[-1]
    facts: dict[str, Any] = dict.fromkeys(_HIDDEN)
    for name in _SUMMED:
        if getattr(last, name) is not None:
            facts[name] = sum(getattr(each, name) or 0 for each in usages)
    return replace(last, **facts)


def _seen(seen: Sequence[Description]) -> Description:
    """What each party saw of all statements."""
    lessons = (
        tuple(dict.fromkeys(lesson for each in seen for lesson in getattr(each.leakage, party)))
        for party in ("plain", "sensitive")
    )
    plain, sensitive = (
        Requests(
            sum(getattr(each, party).count for each in seen),
            sum(getattr(each, party).bytes_up for each in seen),
            sum(getattr(each, party).bytes_down or 0 for each in seen) or None,
        )
        for party in ("plain", "sensitive")
    )
    return replace(seen[-1], leakage=Leakage(*lessons), plain=plain, sensitive=sensitive)
