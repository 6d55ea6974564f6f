"""Survival of the groups of a table: Kaplan-Meier curves on time steps, restricted means and the log-rank test."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flint import fmpq

from cleave.aggregates.balls import nearest, rational
from cleave.finish import ResultTable
from cleave.models.certified import Certified, given_level, given_number
from cleave.models.curves import Curve, LogRank, curve_of, log_rank, number
from cleave.models.steps import MOST_DIGITS, Width, counted
from cleave.models.sums import Asked, ModelSums
from cleave.sql.plan import Output
from cleave.text import figures, quantities
from cleave.text.printable import printable
from cleave.text.tabular import Heading, html_table, table
from cleave_shared.errors import UsageError, extra

if TYPE_CHECKING:
    import pandas as pd

_COUNTS = ("at_risk", "events", "censored")
_FIGURES = ("survival", "error", "low", "high")


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class Survival(Asked):
    """Kaplan-Meier curves, one per group. Every figure is a value with its bound, and counts are exact.

    Times are ends of steps: who leaves within a step is at risk through the whole of it, and events come first.
    `level` is that of the confidence intervals, `until` the end of the restricted mean. `test` is the log-rank test,
    None without groups to compare. `left_out` counts rows that lack a time, event or group. `merged`: steps were
    merged until each has `min_group` people with the event, or none, and as many without it, or none; so in each group.
    """

    time: str
    event: str
    by: str | None
    width: int | float | None
    level: float
    until: int | float
    n: int
    events: int
    left_out: int
    curves: tuple[Curve, ...]
    test: LogRank | None
    merged: bool

    @property
    def notes(self) -> tuple[str, ...]:
        """Say how the curves were made, in sentences."""
        event, end = self.event, figures.plain(self.until)
        notes = [f"Each time is the end of a step; {event} comes before leaving without it in the same step."]
        if self.merged:
            notes.append(
                f"Steps are merged so that in each, and in each group, at least {self.min_group} {self.people} have "
                f"{event}, or none, and at least {self.min_group} leave without it, or none."
            )
        if self.left_out:
            rows = quantities.counted(self.left_out, "row")
            notes.append(f"{rows} without a time, event or group left out.")
        if self.released:
            notes.append("Only released parts of the table are counted; smaller ones may exist.")
        notes.append(f"Intervals of {100 * self.level:g}% follow Greenwood, on the logarithm. Means go up to {end}.")
        if self.scanned:
            notes.append("Added up by a scan, which is checked against faults, not against a service that lies.")
        return tuple(notes)

    def table(self) -> ResultTable:
        """Return the steps of all curves as the answer of a query, with bounds."""
        names = [*([self.by] if self.by else []), "time", *_COUNTS, *_FIGURES]
        keys = 2 if self.by else 1
        rows, bounds, exact = [], [], []
        for curve in self.curves:
            for step in curve.steps:
                found = [getattr(step, name) for name in _FIGURES]
                counts = [getattr(step, name) for name in _COUNTS]
                rows.append([*([curve.group] if self.by else []), step.time, *counts, *map(_value, found)])
                bounds.append([*[None] * keys, *[0.0] * 3, *(one.bound if one.exists else None for one in found)])
                exact.append([*[None] * keys, *[True] * 3, *(one.bound == 0 if one.exists else None for one in found)])
        group = ["VARCHAR"] if self.by else []
        columns = [Output(name, "key" if place < keys else "local") for place, name in enumerate(names)]
        return ResultTable(columns, [*group, "DOUBLE", *["BIGINT"] * 3, *["DOUBLE"] * 4], rows, bounds, exact)

    def df(self) -> pd.DataFrame:
        """Return the steps of all curves as a pandas DataFrame. Raises InputError if pandas is not installed."""
        with extra("pandas", "data frames"):
            import pandas as pd  # noqa: PLC0415
        steps = self.table()
        return pd.DataFrame(steps.rows, columns=[column.name for column in steps.columns])

    def summary(self) -> str:
        """Return the curves and the test as text. Figures have at most six digits, and none beyond their bounds."""
        groups = table(*self._groups())
        steps = table(*self._steps())
        return "\n".join([printable(self._title()), "", groups, "", *self._test(), steps, "", *self._printed()])

    def _title(self) -> str:
        by = f" by {self.by}" if self.by else ""
        return f"time without {self.event}, from {self.time}{by}"

    def _groups(self) -> tuple[list[Heading], list[list[str]]]:
        names = ["n", "events", *(["expected"] if self.test else []), "median", "mean", "std error"]
        headings = [*([Heading(self.by)] if self.by else []), *(Heading(name, justify="right") for name in names)]
        rows = []
        for place, curve in enumerate(self.curves):
            expected = [self.test.expected[place].short] if self.test else []
            median = "not reached" if curve.median is None else figures.plain(curve.median)
            rows.append(
                [
                    *([figures.plain(curve.group)] if self.by else []),
                    *(f"{curve.n:,}", f"{curve.events:,}", *expected, median, curve.mean.short, curve.mean_error.short),
                ]
            )
        return headings, rows

    def _steps(self) -> tuple[list[Heading], list[list[str]]]:
        names = ["time", "at risk", "events", "censored", "survival", "std error", f"{100 * self.level:g}% low", "high"]
        headings = [*([Heading(self.by)] if self.by else []), *(Heading(name, justify="right") for name in names)]
        rows = [
            [
                *([figures.plain(each.group)] if self.by else []),
                figures.plain(step.time),
                *(f"{getattr(step, name):,}" for name in _COUNTS),
                *(getattr(step, name).short for name in _FIGURES),
            ]
            for each in self.curves
            for step in each.steps
        ]
        return headings, rows

    def _test(self) -> list[str]:
        if self.test is None:
            return []
        degrees = "1 degree" if self.test.df == 1 else f"{self.test.df} degrees"
        return [f"log-rank: chi-square {self.test.chi_square.short} on {degrees} of freedom, p {self.test.p.short}", ""]

    def _printed(self) -> list[str]:
        return [printable(note) for note in self.notes]

    def __repr__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        shown = [html_table(*self._groups()), *(f"<p>{html.escape(line)}</p>" for line in self._test() if line)]
        notes = "<br>".join(map(html.escape, self._printed()))
        title = html.escape(printable(self._title()))
        return f"<p>{title}</p>{''.join(shown)}{html_table(*self._steps())}<p><small>{notes}</small></p>"

    def json(self) -> str:
        """Return all figures with their bounds, and what each party saw, as JSON. A figure that does not exist is
        null.
        """
        names = ("time", "event", "by", "width", "level", "until", "n", "events", "left_out", "merged", "min_group")
        facts: dict[str, Any] = {name: getattr(self, name) for name in names}
        facts["curves"] = [
            {
                "group": each.group
                if each.group is None or isinstance(each.group, bool | int | str)
                else str(each.group),
                **{name: getattr(each, name) for name in ("n", "events", "median")},
                "mean": each.mean.pair,
                "mean_error": each.mean_error.pair,
                "steps": [
                    {
                        "time": step.time,
                        **{name: getattr(step, name) for name in _COUNTS},
                        **{name: getattr(step, name).pair for name in _FIGURES},
                    }
                    for step in each.steps
                ],
            }
            for each in self.curves
        ]
        facts["log_rank"] = self.test and {
            "chi_square": self.test.chi_square.pair,
            "df": self.test.df,
            "p": self.test.p.pair,
            "expected": [each.pair for each in self.test.expected],
        }
        facts["notes"] = self.notes
        return json.dumps(facts | self._asked_facts(), indent=2)


def survive(
    sums: ModelSums,
    time: str,
    event: str,
    by: str | None = None,
    width: Width | None = None,
    until: Width | None = None,
    level: float = 0.95,
) -> Survival:
    """Estimate the survival curves of the table of `sums`.

    Raises InputError, UsageError for columns or options that do not fit, QueryRefused where too few people leave.
    """
    schema = sums.schema
    columns = [schema.column(name) for name in (time, event, *([by] if by else []))]
    if len({each.name for each in columns}) < len(columns):
        raise UsageError("time, event and group are different columns")
    chosen, end = given_level(level), None if until is None else _until(until)
    found = counted(sums, columns[0], columns[1], columns[2] if by else None, width)
    last = min(leaving[-1].end for leaving in found.groups.values())
    end = last if end is None else end
    curves = tuple(curve_of(group, leaving, chosen, end) for group, leaving in found.groups.items())
    _require_known(curves, end, by)
    return Survival(
        time=columns[0].name,
        event=columns[1].name,
        by=columns[2].name if by else None,
        width=None if found.width is None else number(rational(found.width)),
        level=nearest(chosen),
        until=number(end),
        n=sum(each.n for each in curves),
        events=sum(each.events for each in curves),
        left_out=found.left_out,
        curves=curves,
        test=log_rank(list(found.groups.values())) if by else None,
        merged=found.merged,
        **sums.asked(),
    )


def _require_known(curves: Sequence[Curve], until: fmpq, by: str | None) -> None:
    """Raises UsageError if a curve is unknown before `until`."""
    if any(until > rational(each.steps[-1].time) and each.steps[-1].survival.value for each in curves):
        raise UsageError(
            f"--until is after the last step of {f'a group of {by!r}' if by else 'the curve'}",
            hint="leave it out: the mean then goes up to the last step that all groups have",
            name="--until",
        )


def _until(until: Width) -> fmpq:
    try:
        found = given_number(until, MOST_DIGITS)
    except ValueError:
        found = None
    if found is None or found <= 0:
        raise UsageError(f"the end of the mean is a number above 0, at most 1e{MOST_DIGITS}", name="--until")
    return rational(found)


def _value(number: Certified) -> float | None:
    return number.value if number.exists else None
