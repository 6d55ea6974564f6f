"""What a browser makes of the page: each mark where its figure says, in light and dark, without asking anyone."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import pytest

from cleave.report.charts import charts_of
from cleave.report.page import page
from tests.report.answers import CASES, about, answer, description, facts, key, table
from tests.report.chromium import Page

RECTANGLES = """[...document.querySelectorAll('#chart-%d .%s rect')].map(each => ({
  x: +each.getAttribute('x'), y: +each.getAttribute('y'),
  width: +each.getAttribute('width'), height: +each.getAttribute('height')}))"""
RULES = """[...document.querySelectorAll('#chart-%d .error line')].map(each =>
  ['x1', 'x2', 'y1', 'y2'].map(name => +each.getAttribute(name)))"""
PLACED = """[...document.querySelectorAll('#chart-%d .%s path')].map(each =>
  each.getAttribute('transform').match(/[-0-9.]+/g).map(Number))"""
COLOURS = """(() => {
  const of = (query, name) => getComputedStyle(document.querySelector(query))[name];
  return {page: of('html', 'backgroundColor'), ink: of('html', 'color'), muted: of('.made', 'color'),
    note: of('.note', 'color'), trust: of('.trust', 'color'), tick: of('#chart-1 text', 'fill'),
    bar: of('#chart-1 .bar rect', 'fill'), error: of('#chart-1 .error', 'stroke')};
})()"""
TOO_WIDE = """[document.documentElement, ...document.querySelectorAll('figure, .columns > div, .party, .tiles div')]
  .filter(each => each.scrollWidth > each.clientWidth + 1).map(each => each.className || each.tagName)"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("pages")
    for case, answered in CASES.items():
        (made / f"{case}.html").write_text(page(*answered), "utf-8")
    return made


def show(tab: Page, folder: Path, case: str, **look: Any) -> None:
    tab.look(**look)
    tab.open(folder / f"{case}.html")
    assert tab.complaints == []


def luminance(colour: str) -> float:
    parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """As WCAG 2 has it: 21 at most; text needs 4.5, a mark 3."""
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.sampled(len(CASES))
def test_it_asks_nobody_complains_of_nothing_and_fits(tab: Page, folder: Path, case: str) -> None:
    for width in (1180, 360):
        show(tab, folder, case, width=width)
        assert tab.value(TOO_WIDE) == [], width
    assert set(tab.requested) == {(folder / f"{case}.html").as_uri()}
    drawn = len(charts_of(CASES[case][0].result))
    assert tab.value("document.querySelectorAll('figure svg').length") == drawn


@pytest.mark.parametrize("case", ["few", "thirty groups", "200 groups", "nulls", "long names", "lines"])
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.slow
def test_pictures_are_kept(tab: Page, folder: Path, artefacts: Path, case: str, dark: bool) -> None:
    show(tab, folder, case, dark=dark)
    picture = artefacts / f"{case.replace(' ', '-')}-{'dark' if dark else 'light'}.png"
    tab.picture(picture)
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("case", ["200 groups", "few", "huge", "one group", "negative"])
@pytest.mark.sampled(5)
def test_upright_bars_are_as_high_as_their_figures_and_error_bars_end_at_the_bounds(
    tab: Page, folder: Path, case: str
) -> None:
    show(tab, folder, case)
    for place, chart in enumerate(charts_of(CASES[case][0].result)):
        assert chart.kind == "columns"
        bars = tab.value(RECTANGLES % (place, "bar"))
        assert len(bars) == len(chart.points)
        assert all(one["x"] + one["width"] < other["x"] for one, other in itertools.pairwise(bars))
        highest = max(range(len(bars)), key=lambda number: bars[number]["height"])
        unit = bars[highest]["height"] / abs(chart.points[highest].value)  # pixels
        (zero,) = {
            round(bar["y"] + (bar["height"] if point.value > 0 else 0), 3)
            for bar, point in zip(bars, chart.points, strict=True)
            if point.value
        }
        for bar, point in zip(bars, chart.points, strict=True):
            assert bar["height"] == pytest.approx(abs(point.value) * unit, abs=0.01)
        known = [point for point in chart.points if point.low is not None]
        rules = tab.value(RULES % place)
        lows, highs = (tab.value(PLACED % (place, f"error-{end}")) for end in ("low", "high"))
        assert len(rules) == len(lows) == len(highs) == len(known)
        for point, rule, low, high in zip(known, rules, lows, highs, strict=True):
            assert point.low is not None
            assert point.high is not None
            assert sorted(rule[2:]) == pytest.approx(
                sorted((zero - point.low * unit, zero - point.high * unit)), abs=0.01
            )
            assert (low[1], high[1]) == pytest.approx((zero - point.low * unit, zero - point.high * unit), abs=0.01)
            assert rule[0] == pytest.approx(low[0], abs=0.01)


@pytest.mark.parametrize("case", ["thirty groups", "long names"])
def test_lying_bars_are_as_long_as_their_figures(tab: Page, folder: Path, case: str) -> None:
    show(tab, folder, case)
    for place, chart in enumerate(charts_of(CASES[case][0].result)):
        bars = tab.value(RECTANGLES % (place, "bar"))
        unit = bars[0]["width"] / chart.points[0].value
        assert [bar["width"] for bar in bars] == pytest.approx([point.value * unit for point in chart.points], abs=0.01)
        known = [point for point in chart.points if point.low is not None and point.high is not None]
        ends = [sorted(rule[:2]) for rule in tab.value(RULES % place)]
        zero = bars[0]["x"]
        assert ends == [
            pytest.approx([zero + (point.low or 0) * unit, zero + (point.high or 0) * unit], abs=0.01)
            for point in known
        ]
        names = tab.value(f"[...document.querySelectorAll('#chart-{place} text')].map(each => each.textContent)")
        assert all(any(shown[:3] == name[:3] for shown in names) for name in chart.names)


@pytest.mark.parametrize(("case", "lines"), [("dates", 1), ("lines", 4)])
def test_dates_are_joined_by_a_line_evenly_in_time(tab: Page, folder: Path, case: str, lines: int) -> None:
    show(tab, folder, case)
    chart = charts_of(CASES[case][0].result)[0]
    paths = tab.value("[...document.querySelectorAll('#chart-0 .line path')].map(each => each.getAttribute('d'))")
    assert len(paths) == lines
    assert tab.value("document.querySelectorAll('#chart-0 .bar').length") == 0
    placed = [point for point in chart.points if point.series == 0]
    corners = [tuple(map(float, each.split(","))) for each in re.findall(r"[ML]?([\d.]+,[\d.]+)", paths[0])]
    assert len(corners) == len(placed) == 36
    (x0, y0), (x1, y1) = corners[0], max(corners, key=lambda corner: abs(corner[1] - corners[0][1]))
    other = placed[corners.index((x1, y1))]
    across, up = (x1 - x0) / (other.place - placed[0].place), (y1 - y0) / (other.value - placed[0].value)
    assert across > 0 > up
    for point, (x, y) in zip(placed, corners, strict=True):
        assert x == pytest.approx(x0 + (point.place - placed[0].place) * across, abs=0.1)
        assert y == pytest.approx(y0 + (point.value - placed[0].value) * up, abs=0.1)
    assert len(tab.value(RULES % 0)) == len(chart.points)
    colours = tab.value("[...document.querySelectorAll('#chart-0 .line')].map(each => getComputedStyle(each).stroke)")
    assert len(set(colours)) == lines


def test_null_and_infinite_figures_have_no_bar_and_undecided_ones_are_hollow(tab: Page, folder: Path) -> None:
    show(tab, folder, "nulls")
    counts = tab.value("['bar', 'open-bar'].map(name => document.querySelectorAll(`#chart-1 .${name} rect`).length)")
    assert counts == [1, 1]
    assert tab.value("document.querySelector('#chart-1 .open-bar').getAttribute('fill-opacity')") == "0.2"
    assert len(tab.value(RECTANGLES % (0, "bar"))) == 1


def test_charts_have_a_role_and_a_name(tab: Page, folder: Path) -> None:
    show(tab, folder, "few")
    tab.send("Accessibility.enable")
    nodes = tab.send("Accessibility.getFullAXTree")["nodes"]
    shown = [(node["role"]["value"], node.get("name", {}).get("value", "")) for node in nodes if not node["ignored"]]
    names = [name for role, name in shown if role == "figure"]
    assert names == ["COUNT(*) plain", "AVG(age) encrypted", "SUM(bill) encrypted"]
    pictures = [name for role, name in shown if role in ("image", "img")]
    assert [name.partition(":")[0] for name in pictures] == [
        f"Bar chart of {name} by ward" for name in ("COUNT(*)", "AVG(age)", "SUM(bill)")
    ]
    assert "SvgRoot" not in [role for role, _ in shown]


def test_all_digits_are_reached_by_the_keyboard_and_on_a_phone(tab: Page, folder: Path) -> None:
    show(tab, folder, "few", width=400)
    text = "document.querySelector('table.answer').innerText"
    assert "11250.50 exact" not in tab.value(text)
    tab.value("document.getElementById('digits').focus()")
    for kind in ("keyDown", "keyUp"):
        tab.send("Input.dispatchKeyEvent", type=kind, key=" ", code="Space", windowsVirtualKeyCode=32, text=" ")
    shown = tab.value(text)
    for digits in ("11250.50 exact", "9120.25 exact", "15800 exact", "2210.75 exact", "47 ± 5e0"):
        assert digits in shown.replace("\u00a0", " ")
    assert "11,250" not in shown
    tab.value("document.querySelector('label[for=digits]').click()")
    assert "11,250" in tab.value(text)
    assert tab.value(TOO_WIDE) == []


@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True])
def test_everything_can_be_seen_in_light_and_dark(tab: Page, folder: Path, dark: bool) -> None:
    show(tab, folder, "few", dark=dark)
    colours = tab.value(COLOURS)
    assert (luminance(colours["page"]) < 0.05) is dark
    for name in ("ink", "muted", "note", "trust", "tick"):
        assert contrast(colours[name], colours["page"]) >= 4.5, name
    for name in ("bar", "error"):
        assert contrast(colours[name], colours["page"]) >= 3, name


@pytest.mark.slow
def test_charts_change_with_the_scheme_without_being_drawn_again(tab: Page, folder: Path) -> None:
    show(tab, folder, "few")
    tab.value("window.drawn = document.querySelector('#chart-1 svg')")
    light = tab.value(COLOURS)
    tab.look(dark=True)
    assert tab.value("window.drawn === document.querySelector('#chart-1 svg')")
    assert tab.value(COLOURS)["bar"] != light["bar"]


@pytest.mark.slow
def test_paper_is_white_and_long_tables_are_printed_whole(tab: Page, folder: Path, artefacts: Path) -> None:
    show(tab, folder, "200 groups", dark=True, media="print")
    assert luminance(tab.value("getComputedStyle(document.documentElement).backgroundColor")) == pytest.approx(1)
    assert tab.value("(each => each.scrollHeight <= each.clientHeight + 1)(document.querySelector('.tall'))")
    tab.pdf(artefacts / "200-groups.pdf")
    assert len(re.findall(rb"/Type\s*/Page\b", (artefacts / "200-groups.pdf").read_bytes())) > 3


@pytest.mark.slow
def test_charts_are_drawn_anew_for_another_width(tab: Page, folder: Path) -> None:
    show(tab, folder, "few")
    wide = tab.value("document.querySelector('#chart-0 svg').getAttribute('width')")
    tab.look(width=400)
    tab.browser.wait(lambda: tab.value("document.querySelector('#chart-0 svg').getAttribute('width')") != wide)
    assert len(tab.value(RECTANGLES % (0, "bar"))) == 4


def test_hostile_names_run_nothing(tab: Page, folder: Path) -> None:
    show(tab, folder, "long names")
    assert tab.value("document.scripts.length") == 3
    assert tab.value("document.images.length") == 0
    assert tab.value("document.querySelectorAll('main script, main img').length") == 0


@pytest.mark.parametrize(
    ("attack", "told"),
    [
        ("<script>window.ran = 1</script>", "script-src"),
        ("<img src='http://cleave.example/pixel' onerror='window.ran = 1'>", "img-src"),
        ("<link rel=stylesheet href='http://cleave.example/style'>", "style-src"),
        ("<style>main { display: none }</style>", "style-src"),
        ("<iframe src='http://cleave.example/'></iframe>", "frame-src"),
        ("<p style='position: fixed'>", "style-src"),
        ("<script src='http://cleave.example/script'></script>", "script-src"),
        ("<object data='http://cleave.example/'></object>", "object-src"),
    ],
)
def test_what_gets_in_all_the_same_is_stopped_by_the_policy(
    tab: Page, folder: Path, tmp_path: Path, attack: str, told: str
) -> None:
    """Escaping is the first wall; this is the second, and shows that the tests above would see a breach of it."""
    broken = tmp_path / "broken.html"
    broken.write_text((folder / "few.html").read_text("utf-8").replace("</header>", f"{attack}</header>"), "utf-8")
    tab.look()
    tab.open(broken)
    assert any("Content Security Policy" in each and (told in each or "default-src" in each) for each in tab.complaints)
    assert tab.value("window.ran") is None
    assert tab.value("getComputedStyle(document.querySelector('main')).display") == "block"
    loaded = tab.value("performance.getEntriesByType('resource').filter(each => each.transferSize > 0).length")
    assert loaded == 0


@pytest.mark.slow
def test_no_script_can_ask_anyone(tab: Page, folder: Path) -> None:
    show(tab, folder, "few")
    failed = "fetch('http://127.0.0.1:9/').then(() => 'asked', error => error.message)"
    assert tab.value(failed) == "Failed to fetch"
    assert any("connect-src" in each or "default-src" in each for each in tab.complaints)


@pytest.mark.slow
def test_without_scripts_the_table_is_there_and_says_so(tab: Page, folder: Path) -> None:
    tab.send("Emulation.setScriptExecutionDisabled", value=True)
    tab.open(folder / "few.html", scripts=False)
    text = tab.value("document.querySelector('main').innerText")
    assert "11,250" in text
    assert "Charts are drawn by a script" in text


@pytest.mark.slow
def test_error_bars_are_seen_at_any_number_of_groups(tab: Page, tmp_path: Path) -> None:
    """400 bars, the most there are: their error bars' ends do not run into each other."""
    rows = [[key(place), about(100.0 + place % 7, 20.0)] for place in range(400)]
    made = answer(table((("k", "key", "BIGINT"), ("x", "encrypted", "DOUBLE")), rows))
    (tmp_path / "many.html").write_text(page(made, facts(), description()), "utf-8")
    show(tab, tmp_path, "many")
    bars = tab.value(RECTANGLES % (0, "bar"))
    assert len(bars) == 400
    assert min(bar["width"] for bar in bars) > 1
