"""The page of a noisy release: what it would publish and spend, and how wide its intervals would be.

It follows from the arguments and the schema: no row is read for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from cleave.disclosure.noise import Statistic, half_width, variance
from cleave.releases.noisy_plan import NoisyPlan
from cleave.text.quantities import counted

_MOST_VALUES = 12  # that are listed of a column


def plan_lines(plan: NoisyPlan) -> Iterator[str]:
    reading = plan.reading
    yield ""
    yield "## Cells"
    yield ""
    if reading.by:
        yield f"{counted(plan.cells, 'cell')}, all released, also empty ones. Rows with other values count nowhere."
    else:
        yield "1 cell of all rows: no column has declared values."
    yield ""
    for name, values in zip(reading.by, reading.values, strict=True):
        texts = ["NULL" if each is None else each for each in values]
        more = f", and {len(texts) - _MOST_VALUES:,} more" if len(texts) > _MOST_VALUES else ""
        yield f"- {name}: {', '.join(texts[:_MOST_VALUES])}{more}"
    if plan.left_out:
        yield f"- not in the cells, without declared values: {', '.join(plan.left_out)}"
    yield ""
    yield "## Numbers of each cell"
    yield ""
    yield "| number | values | one person changes all cells by at most | epsilon | 95% of the noise is within |"
    yield "|---|---|---|---|---|"
    for statistic in plan.statistics:
        decimals, what = _values(plan, statistic)
        far = _text(Decimal(statistic.sensitivity).scaleb(-decimals))
        within = Decimal(int(half_width(variance(statistic.scale) ** 0.5))).scaleb(-decimals)
        yield f"| {statistic.name} | {what} | {far} | {float(statistic.epsilon):.4g} | ± {_text(within)} |"
    yield ""
    yield "A group of several cells has the noise of all of them: of four cells, twice as much as of one."
    yield ""
    yield "## What the analysts will see"
    yield ""
    yield "These numbers with noise, the scale of the noise, names and types of columns, clamps and declared values."
    yield f"Which of the columns may be NULL, by the schema: {_nullable(plan)}."
    yield "Nothing else without noise. Questions about the release spend nothing more."


def _nullable(plan: NoisyPlan) -> str:
    reading = plan.reading
    by = [name for name, values in zip(reading.by, reading.values, strict=True) if None in values]
    return ", ".join([*by, *(each.name for each in reading.clamps if each.nullable)]) or "none"


def _values(plan: NoisyPlan, statistic: Statistic) -> tuple[int, str]:
    """Decimals of a statistic's unit, and what is counted or added up."""
    if statistic.measure is None:
        return 0, "rows"
    clamp = plan.reading.clamps[statistic.measure]
    if statistic.part == "count":
        return 0, f"values of {clamp.name}"
    low, high = (_text(Decimal(end).scaleb(-clamp.decimals)) for end in (clamp.low, clamp.high))
    return clamp.decimals * (2 if statistic.part == "square" else 1), f"{clamp.name} within {low}..{high}"


def _text(value: Decimal) -> str:
    return f"{value:,f}"
