"""The page of survival curves: what it says, and where a browser draws curves, bands and numbers at risk."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd
import pytest

import cleave
from cleave.models.survival import Survival
from cleave.report.charts import MOST_LINES
from cleave.report.curve import chart_of, survival_page
from cleave.report.page import PageFacts
from cleave_shared.errors import InputError
from tests.cli.runner import Cli
from tests.report.answers import HOSTILE
from tests.report.chromium import Page

KINDS = {"days": "encrypted", "died": "encrypted", "arm": "plain"}
ROWS = [(5, 1, "a"), (15, 0, "a"), (25, 1, "a"), (25, 1, "a"), (12, 1, "b"), (18, 0, "b"), (31, 0, "b"), (31, 1, "b")]
FACTS = PageFacts("cleave survival trial", "trial", datetime(2026, 1, 2, tzinfo=UTC), 0.1)


def found(rows: list[tuple[int, int, str]] = ROWS, by: str | None = "arm") -> Survival:
    frame = pd.DataFrame(rows, columns=list(KINDS))
    return cleave.survival(frame, "days", "died", by, 10, schema=KINDS)


def test_a_page_holds_the_steps_the_notes_and_the_numbers_at_risk() -> None:
    survival = found()
    text = survival_page(survival, FACTS)
    chart = chart_of(survival)
    assert (chart.kind, chart.series, chart.ticks) == ("curve", ("a", "b"), (0, 10, 20, 30, 40))
    assert chart.at_risk == ((4, 4, 3, 2, 0), (4, 4, 4, 2, 2))
    assert [(point.place, point.value) for point in chart.points if point.series == 0] == [
        (10, 0.75),
        (20, 0.75),
        (30, 0),
    ]
    assert chart.points[2].low is None  # nobody survives: no interval
    assert "a: median 30" in chart.notes[0]
    assert "Log-rank: chi-square" in chart.notes[-1]
    for note in survival.notes:
        assert note in text
    assert "Nothing was sent to answer this query" in text


def test_names_are_escaped_and_curves_have_colours() -> None:
    hostile = found([(day, died, f"{HOSTILE}{arm}") for day, died, arm in ROWS])
    assert HOSTILE not in survival_page(hostile, FACTS)
    many = found([(day, 1, f"{arm}") for day in (1, 2) for arm in range(MOST_LINES + 1)])
    with pytest.raises(InputError, match="at most 8 curves"):
        survival_page(many, FACTS)


def test_the_command_writes_a_page_once(cli: Cli, tmp_path: Path) -> None:
    file, page = tmp_path / "trial.csv", tmp_path / "out.html"
    pd.DataFrame(ROWS, columns=list(KINDS)).to_csv(file, index=False)
    schema = [
        f'[columns.{name}]\nkind = "{kind}"\ntype = "{"VARCHAR" if name == "arm" else "BIGINT"}"\n'
        for name, kind in KINDS.items()
    ]
    file.with_suffix(".schema.toml").write_text("".join(schema))
    words = ("survival", file, "--time", "days", "--event", "died", "--by", "arm", "--width", 10, "--report", page)
    assert f"wrote {page}" in cli.run(*words).stderr
    assert "cleave survival trial --time days --event died --by arm --width 10" in page.read_text()
    assert "exists" in cli.fails(3, *words)
    assert cli.run(*words, "--force").exit_code == 0


def points(path: str) -> list[tuple[float, float]]:
    """The corners of a path of M, H and V."""
    x, y, corners = 0.0, 0.0, []
    for letter, first, second in re.findall(r"([MHV])([-0-9.]+)(?:,([-0-9.]+))?", path):
        x, y = (
            (float(first), float(second))
            if letter == "M"
            else (float(first), y)
            if letter == "H"
            else (x, float(first))
        )
        corners.append((x, y))
    return corners


@pytest.mark.parametrize("by", ["arm", None])
def test_curves_fall_at_step_ends_inside_their_bands(tab: Page, tmp_path: Path, by: str | None) -> None:
    survival = found(by=by)
    (tmp_path / "page.html").write_text(survival_page(survival, FACTS), "utf-8")
    tab.open(tmp_path / "page.html")
    assert tab.complaints == []
    of = "[...document.querySelectorAll('#chart-0 %s')].map(each => each.getAttribute('d'))"
    curves, bands = (list(map(points, tab.value(of % name))) for name in (".curve", ".band"))
    assert len(curves) == len(bands) == len(survival.curves)
    last = max(step.time for each in survival.curves for step in each.steps)
    (left, top), *_ = curves[0]
    right = max(x for corners in curves for x, _ in corners)
    zero = None
    for each, corners, band in zip(survival.curves, curves, bands, strict=True):
        assert [x for x, _ in corners[2::2]] == pytest.approx(
            [left + (right - left) * step.time / last for step in each.steps], abs=0.01
        )
        heights = [y for _, y in corners[2::2]]
        if zero is None:
            first = next(step for step in each.steps if step.survival.value < 1)
            zero = top + (heights[each.steps.index(first)] - top) / (1 - first.survival.value)
        unit = zero - top
        assert heights == pytest.approx([zero - unit * step.survival.value for step in each.steps], abs=0.01)
        known = [step for step in each.steps if step.high.exists]
        ends = {round(zero - unit * limit, 1) for step in known for limit in (step.low.value, step.high.value)}
        assert ends <= {round(y, 1) for _, y in band}
    texts = tab.value("[...document.querySelectorAll('#chart-0 .at-risk text')].map(each => each.textContent)")
    counts = [str(each.at_risk(tick)) for each in survival.curves for tick in chart_of(survival).ticks]
    assert [text for text in texts if text.isdigit()] == counts
