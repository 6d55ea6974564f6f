"""What was found as tables, JSON and a page."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from cleave.bench import flame, tables
from cleave.bench.charts import charts
from cleave.bench.page import page
from cleave.bench.results import Results, as_json
from tests.bench.found import results
from tests.bench.test_flame import LINES
from tests.report.chromium import Page
from tests.report.conftest import browser, tab

__all__ = ["browser", "tab"]


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (1.2345, "1.23 s"),
        (12.345, "12.3 s"),
        (123.4, "123 s"),
        (0.0123, "12.3 ms"),
        (5.6e-6, "5.60 µs"),
        (9.9e-3, "9.90 ms"),
        (0.0, "0.00 µs"),
    ],
)
def test_seconds_have_three_digits(seconds: float, told: str) -> None:
    assert tables.told_seconds(seconds) == told


def test_tables_hold_medians_and_say_what_is_not_available() -> None:
    primitives, micro, workloads, counters = tables.tables(results())
    assert [row for row in primitives.rows if row[0] == "rescale"] == [("rescale", "1.20 ms ± 15%", "—")]
    assert micro.rows == (("aligned sum", "50.0 ms ± 0%", "64 chunks"),)
    (row,) = workloads.rows
    assert row[:6] == ("6,000 x 8 sum", "1.00 s ± 20%", "600 ms", "100 ms", "350 ms", "70%")
    assert row[6:] == ("181 MB", "120", "8", "197 kB", "132 kB", "not available")
    assert tables.tables(results(joules=7.25))[2].rows[0][-1] == "7.2 J"
    assert "clock" not in primitives.note
    assert "by the processor's clock" in tables.tables(results(clock="processor"))[0].note
    assert counters.headings == ("workload", "page-faults")
    assert counters.rows == (("6,000 x 8 sum", "35,428"),)
    assert "not available: task-clock, cycles, instructions" in counters.note
    for table in (primitives, micro, workloads, counters):
        lines = [line for line in table.markdown().splitlines() if line.startswith("|")]
        assert {line.count("|") for line in lines} == {len(table.headings) + 1}


def test_json_is_read_back_as_it_was() -> None:
    text = as_json(results())
    assert TypeAdapter(Results).validate_json(text) == results()
    assert json.loads(text)["workloads"][0]["counters"]["cycles"] is None


def test_the_page_opens_and_draws_everything(tab: Page, tmp_path: Path) -> None:
    made = results()
    stacks = {"6,000 x 8 sum": flame.folded([*LINES, "<script>alert(1)</script> 50"]), "another": None}
    path = tmp_path / "bench.html"
    path.write_text(page(made, stacks), "utf-8")
    tab.look()
    tab.open(path)
    assert tab.complaints == []
    assert [each for each in tab.requested if not each.startswith("file:")] == []
    assert tab.value("document.querySelectorAll('.drawing svg').length") == len(charts(made)) == 6
    assert tab.value("document.querySelectorAll('table').length") == 4
    first = tab.value("[...document.querySelectorAll('#chart-0 .bar rect')].map(each => each.width.baseVal.value)")
    bars = [each.seconds for each in made.primitives if each.of == "slots, N = 8192"]
    assert first == pytest.approx([first[0] * each / bars[0] for each in bars], rel=1e-3)
    widths = dict(
        tab.value(
            "[...document.querySelectorAll('.flame g')]"
            ".map(each => [each.textContent, each.children[1].width.baseVal.value])"
        )
    )
    assert len(widths) == 7
    assert max(widths.values()) == flame.WIDTH
    text = tab.value("document.querySelector('main').innerText")
    assert "Flame graph: not available" in text
    assert "A <b>processor</b>" in text
    assert tab.value("document.querySelectorAll('main script, main b').length") == 0


def test_the_page_is_closed() -> None:
    text = page(results(), {})
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy.startswith("default-src &#39;none&#39;") or policy.startswith("default-src 'none'")
    assert "<link" not in text
    assert "style=" not in text.split("<main>")[1].split("</main>")[0]
