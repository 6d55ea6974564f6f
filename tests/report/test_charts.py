"""What charts an answer has, before anything is drawn."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from cleave.report.charts import MOST_CHARTS, MOST_DRAWN, MOST_LINES, Chart, charts_of
from cleave.sql.plan import FigureSource
from tests.report.answers import CASES, HOSTILE, Cell, about, certain, key, table


def charts(case: str) -> dict[str, Chart]:
    return {chart.name: chart for chart in charts_of(CASES[case][0].result)}


def of_values(*cells: Cell, type_: str = "DOUBLE", source: FigureSource = "encrypted") -> Chart:
    rows = [[key(place), cell] for place, cell in enumerate(cells)]
    (chart,) = charts_of(table((("k", "key", "BIGINT"), ("x", source, type_)), rows))
    return chart


@pytest.mark.parametrize(
    ("case", "kinds"),
    [
        ("few", ["columns"] * 3),
        ("one group", ["columns"] * 3),
        ("thirty groups", ["bars"] * 3),
        ("200 groups", ["columns"] * 3),
        ("long names", ["bars"]),
        ("dates", ["line"] * 2),
        ("lines", ["line"] * 2),
        ("total", []),
        ("empty", []),
        ("local", ["columns"]),
    ],
)
def test_each_numeric_output_of_a_grouped_question_has_a_chart_of_its_kind(case: str, kinds: list[str]) -> None:
    assert [chart.kind for chart in charts(case).values()] == kinds


@pytest.mark.parametrize("type_", ["VARCHAR", "BOOLEAN", "DATE", "INTERVAL", "INTEGER[]", "UUID"])
def test_what_is_no_number_has_no_chart(type_: str) -> None:
    assert charts_of(table((("k", "key", "BIGINT"), ("x", "encrypted", type_)), [[key(1), certain("2")]])) == []


def test_points_are_the_published_figures_and_no_digit_more() -> None:
    (point,) = of_values(about(50.123456, 0.01)).points
    # 50.12 ± 0.02 is what the table shows: the bound grew by what rounding took
    assert (point.value, point.low, point.high) == (50.12, pytest.approx(50.1), pytest.approx(50.14))
    assert point.title == "0: 50.12 ± 2e-2"


def test_only_a_known_bound_above_zero_has_an_error_bar() -> None:
    chart = of_values(about(1.0, 0.5), certain(2.0), about(3.0, None), about(4.0, math.inf), about(5.0, 0.0))
    assert [point.low for point in chart.points] == [0.5, None, None, None, None]
    assert chart.notes == ("Error bars reach as far as the exact value may be.", "2 without a known bound.")


@pytest.mark.parametrize(
    ("values", "unit", "scaled"),
    [
        ((999_999, -3), "", [999_999, -3]),
        ((1_000_000, 250_000), "millions", [1.0, 0.25]),
        ((-(10**9), 5), "billions", [-1.0, 5e-9]),
        ((10**38, 1), "× 10³⁶", [100.0, 1e-36]),
        ((Decimal("1e-3"), 0), "", [0.001, 0.0]),
        ((Decimal("1e-4"), 0), "× 10⁻⁶", [100.0, 0.0]),
        ((Decimal("9.9999e11"), 0), "billions", [999.99, 0.0]),
        ((0, 0), "", [0.0, 0.0]),
    ],
)
def test_huge_and_tiny_figures_are_drawn_in_a_power_of_ten(
    values: tuple[int | Decimal, ...], unit: str, scaled: list[float]
) -> None:
    chart = of_values(*map(certain, values), type_="DECIMAL(38,4)")
    assert chart.unit == unit
    assert [point.value for point in chart.points] == pytest.approx(scaled, rel=1e-12)


def test_figures_at_the_end_of_doubles_stay_finite() -> None:
    for chart in charts("huge").values():
        for point in chart.points:
            assert all(abs(end) < 2_000 for end in (point.value, point.low, point.high) if end is not None)
            assert abs(point.value) > 0.9


def test_what_cannot_be_drawn_is_told() -> None:
    x, y = charts("nulls").values()  # z is NULL everywhere
    assert [point.place for point in x.points] == [1.0]
    assert x.notes == ("1 without a known bound.", "1 NULL, not drawn.", "1 infinite or not a number, not drawn.")
    assert y.notes == (
        "Error bars reach as far as the exact value may be.",
        "1 NULL, not drawn.",
        "1 undecided, drawn hollow.",
    )


def test_an_undecided_row_is_as_hollow_as_an_undecided_cell() -> None:
    (chart,) = charts("undecided").values()
    assert [point.undecided for point in chart.points] == [False, True, False]


def test_bounds_too_small_to_see_are_told() -> None:
    assert of_values(about(5.0, 1e-9)).notes == (
        "Error bars reach as far as the exact value may be, here less than a pixel.",
    )


def test_many_groups_are_cut_and_told() -> None:
    for chart in charts("900 groups").values():
        assert len(chart.points) == len(chart.names) == MOST_DRAWN
        assert chart.notes[-1] == f"500 more not drawn: these are the first {MOST_DRAWN}."


def test_many_outputs_have_a_limited_number_of_charts() -> None:
    names: list[tuple[str, FigureSource, str]] = [
        (f"x{place}", "encrypted", "BIGINT") for place in range(MOST_CHARTS + 5)
    ]
    rows = [[key(1), *(certain(place) for place in range(len(names)))]]
    assert len(charts_of(table([("k", "key", "BIGINT"), *names], rows))) == MOST_CHARTS


def test_a_line_is_placed_by_time_in_utc() -> None:
    names: list[tuple[str, FigureSource, str]] = [
        ("t", "key", "TIMESTAMP WITH TIME ZONE"),
        ("x", "encrypted", "BIGINT"),
    ]
    (chart,) = charts_of(table(names, [[key("2024-02-29 13:00:00+01"), certain(1)], [key(None), certain(2)]]))
    assert [point.place for point in chart.points] == [datetime(2024, 2, 29, 12, tzinfo=UTC).timestamp() * 1000]
    assert chart.notes[-1] == "1 without a time, not drawn."


@pytest.mark.parametrize(
    "times",
    [("infinity", "2024-01-01"), ("290000-01-01", "2024-01-01"), ("0044-03-15 (BC)", "2024-01-01"), (None, None)],
)
def test_times_that_no_axis_has_become_names(times: tuple[str | None, ...]) -> None:
    rows = [[key(time), certain(1)] for time in times]
    (chart,) = charts_of(table((("t", "key", "DATE"), ("x", "encrypted", "BIGINT")), rows))
    assert chart.kind == "columns"
    assert chart.names == tuple(time or "NULL" for time in times)


def test_other_keys_of_a_line_are_its_series() -> None:
    chart = charts("lines")["AVG(age)"]
    assert chart.series == ("A", "B", "C", "D")
    assert chart.by == "month, ward"
    assert {point.series for point in chart.points} == {0, 1, 2, 3}


@pytest.mark.parametrize("series", [MOST_LINES, MOST_LINES + 1])
def test_more_lines_than_colours_are_bars(series: int) -> None:
    rows = [[key("2024-01-01"), key(place), certain(1)] for place in range(series)]
    (chart,) = charts_of(table((("t", "key", "DATE"), ("k", "key", "BIGINT"), ("x", "plain", "BIGINT")), rows))
    assert (chart.kind == "line") is (series <= MOST_LINES)


def test_two_values_at_one_time_are_no_line() -> None:
    """A second key that is not selected: a line would go up and down where it should be two."""
    rows = [[key("2024-01-01"), certain(1)], [key("2024-01-01"), certain(9)]]
    (chart,) = charts_of(table((("t", "key", "DATE"), ("x", "plain", "BIGINT")), rows))
    assert chart.kind == "columns"


def test_rows_answered_here_as_a_whole_are_named_by_what_is_no_number() -> None:
    (chart,) = charts("local").values()
    assert (chart.name, chart.by, chart.source) == ("rank", "ward, best", "local")
    assert chart.names == ("A \N{MIDDLE DOT} true", "B \N{MIDDLE DOT} false")


def test_rows_that_names_do_not_tell_apart_have_no_chart() -> None:
    names: list[tuple[str, FigureSource, str]] = [("k", "local", "VARCHAR"), ("x", "local", "BIGINT")]
    assert charts_of(table(names, [[certain("a"), certain(1)], [certain("a"), certain(2)]])) == []


def test_names_are_made_printable() -> None:
    (chart,) = charts("long names").values()
    for text in (chart.name, *chart.names, *(point.title for point in chart.points), chart.summary):
        assert text.isprintable()
    assert HOSTILE not in chart.names
