"""The page of a noisy release: what it would publish and spend, and how wide its intervals would be.

It follows from the arguments and the schema: no row is read for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from cleave.disclosure.noise import Statistic, half_width, variance
from cleave.releases.noisy_draft import NoisyDraft, require_budget
from cleave.releases.page import markdown, recipients
from cleave.table.privacy import epsilon_text
from cleave.text.quantities import counted

_MOST_VALUES = 12  # that are listed of a column


def noisy_page_of(draft: NoisyDraft) -> str:
    """Markdown, whose lines no name or value can break. Raises InputError where the budget does not allow it."""
    require_budget(draft)
    return markdown(_lines(draft))


def _lines(draft: NoisyDraft) -> Iterator[str]:
    manifest, noise, reading = draft.opened.manifest, draft.noise, draft.reading
    budget = "no budget is set" if draft.budget is None else f"budget {epsilon_text(draft.budget)}"
    yield f"# Noisy release {draft.number} of table {manifest.table}"
    yield ""
    yield f"- table: id {manifest.table_id}, version {manifest.version}"
    yield f"- SHA-256 of all choices: {draft.request}"
    if draft.is_void:
        yield "- the table has exact releases: with them the promise of this release is void"
    if lost := draft.lost:
        yield f"- analysts lose what the newest release shows: {', '.join(lost)}"
    yield recipients(draft.analysts)
    yield f"- people: rows with equal {', '.join(reading.entity)} are about one person"
    yield f"- of each person: at most {counted(noise.most_rows, 'row')}, drawn at random"
    spent = f"spent before: {epsilon_text(draft.spent)}; {budget}"
    yield f"- epsilon: {epsilon_text(noise.epsilon)}, spent when the release is made ({spent})"
    yield ""
    yield "## Cells"
    yield ""
    if reading.by:
        yield f"{counted(draft.cells, 'cell')}, all released, also empty ones. Rows with other values count nowhere."
    else:
        yield "1 cell of all rows: no column has declared values."
    yield ""
    for name, values in zip(reading.by, reading.values, strict=True):
        texts = ["NULL" if each is None else each for each in values]
        more = f", and {len(texts) - _MOST_VALUES:,} more" if len(texts) > _MOST_VALUES else ""
        yield f"- {name}: {', '.join(texts[:_MOST_VALUES])}{more}"
    if draft.left_out:
        yield f"- not in the cells, without declared values: {', '.join(draft.left_out)}"
    yield ""
    yield "## Numbers of each cell"
    yield ""
    yield "| number | values | one person changes all cells by at most | epsilon | 95% of the noise is within |"
    yield "|---|---|---|---|---|"
    for statistic in draft.statistics:
        decimals, what = _values(draft, statistic)
        most = _text(Decimal(statistic.sensitivity).scaleb(-decimals))
        within = Decimal(int(half_width(variance(statistic.scale) ** 0.5))).scaleb(-decimals)
        yield f"| {statistic.name} | {what} | {most} | {float(statistic.epsilon):.4g} | ± {_text(within)} |"
    yield ""
    yield "A group of several cells has the noise of all of them: of four cells, twice as much as of one."
    yield ""
    yield "## What the analysts will see"
    yield ""
    yield "These numbers with noise, the scale of the noise, names and types of columns, clamps and declared values."
    yield f"Which of the columns may be NULL, by the schema: {_nullable(draft)}."
    yield "Nothing else without noise. Questions about the release spend nothing more."


def _nullable(draft: NoisyDraft) -> str:
    reading = draft.reading
    by = [name for name, values in zip(reading.by, reading.values, strict=True) if None in values]
    return ", ".join([*by, *(each.name for each in reading.clamps if each.nullable)]) or "none"


def _values(draft: NoisyDraft, statistic: Statistic) -> tuple[int, str]:
    """Decimals of a statistic's unit, and what is counted or added up."""
    if statistic.measure is None:
        return 0, "rows"
    clamp = draft.reading.clamps[statistic.measure]
    if statistic.part == "count":
        return 0, f"values of {clamp.name}"
    low, high = (_text(Decimal(end).scaleb(-clamp.decimals)) for end in (clamp.low, clamp.high))
    return clamp.decimals * (2 if statistic.part == "square" else 1), f"{clamp.name} within {low}..{high}"


def _text(value: Decimal) -> str:
    return f"{value:,f}"
