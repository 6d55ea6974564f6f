"""A total that a release withholds is no number: no figure that needs it is, in any output or expression."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import duckdb
import openpyxl
import pytest

from cleave.api.result import Result
from cleave.ask.question import Answer
from cleave.ask.session import Session
from cleave.cli.answer import Format, answer_bytes
from cleave.gateway.work import _warnings
from cleave.maintain.derive import derive_expression as derive
from cleave.report.charts import charts_of
from cleave.report.page import cells_of
from cleave.store import put as putting
from cleave.table.progress import Silent
from tests.store.contributing import copied_for_each
from tests.store.releasing import Releases, rows, truth

# ward A: every bill is there. Ward B: two of twelve, which would be few rows; ages are all there.
A, B = rows([("A", "f")] * 9), rows([("B", "f")] * 12, 9)
B = "".join(
    line if number < 2 else ",".join([*line.split(",")[:3], "", *line.split(",")[4:]])
    for number, line in enumerate(B.splitlines(keepends=True))
)
BOTH = "SELECT ward, {} AS figure FROM trial GROUP BY ward ORDER BY ward"


def released(world: Releases) -> None:
    world.put(A + B)
    world.release("carol", least=3)


world = copied_for_each(released, Releases)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "figure",
    [
        "SUM(bill)",
        "COUNT(bill)",
        "AVG(bill)",
        "VAR_POP(bill)",
        "STDDEV(bill)",
        "SUM(bill * 2)",
        "SUM(bill) + COUNT(*)",
        "AVG(bill) / AVG(age)",
        "COALESCE(SUM(bill), 0)",
        "SUM(bill) IS NULL",
        "CASE WHEN COUNT(bill) = 0 THEN 'none' ELSE 'some' END",
        "CAST(SUM(bill) AS VARCHAR)",
        "NULLIF(COUNT(bill), 0)",
        "GREATEST(COUNT(bill), 1)",
        "100 * SUM(bill) FILTER (WHERE sex = 'f')",
    ],
)
def test_a_figure_that_needs_a_withheld_total_is_hidden(world: Releases, figure: str) -> None:
    sql = BOTH.format(figure)
    answer = world.ask("carol", sql).result
    assert [row[0] for row in answer.rows] == ["A", "B"]
    assert answer.hidden == [[False, False], [False, True]]
    assert (answer.rows[1][1], answer.bounds[1][1], answer.exact[1][1]) == (None, None, None)
    ((_, known),) = truth(A, sql)
    assert answer.rows[0][1] == pytest.approx(known) if isinstance(known, float) else known == answer.rows[0][1]
    assert "bill is known over 1 of 2 parts" in answer.trust


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "figure",
    ["SUM(age)", "COUNT(*)", "COUNT(ward)", "AVG(age)", "SUM(bill) FILTER (WHERE ward = 'A')", "COUNT(*) + SUM(age)"],
)
def test_figures_without_one_are_as_before(world: Releases, figure: str) -> None:
    sql = BOTH.format(figure)
    answer = world.ask("carol", sql).result
    assert not any(map(any, answer.hidden))
    for row, right in zip(answer.rows, truth(A + B, sql), strict=True):
        assert row[1] == pytest.approx(right[1])


def test_sums_over_several_cells_are_hidden_where_one_is(world: Releases) -> None:
    sql = "SELECT ward, AVG(bill), SUM(bill), COUNT(*) FROM trial GROUP BY ROLLUP (ward) ORDER BY ward NULLS LAST"
    answer = world.ask("carol", sql).result
    assert answer.hidden == [[False] * 4, [False, True, True, False], [False, True, True, False]]
    assert [row[3] for row in answer.rows] == [9, 12, 21]
    whole = world.ask("carol", "SELECT AVG(bill), COUNT(bill) FROM trial").result
    assert whole.rows == [[None, None]]
    assert [whole.source(place) for place in range(2)] == ["hidden", "hidden"]


def test_decisions_on_a_withheld_total_are_marked(world: Releases) -> None:
    """It may be that the group belongs there, and where it belongs is not known."""
    answer = world.ask("carol", "SELECT ward FROM trial GROUP BY ward HAVING SUM(bill) > 1 ORDER BY ward").result
    assert answer.rows == [["A"], ["B"]]
    assert answer.doubts == [(), ("HAVING",)]
    ordered = world.ask("carol", "SELECT ward FROM trial GROUP BY ward ORDER BY COALESCE(SUM(bill), 0)").result
    assert all("ORDER BY" in each for each in ordered.doubts)


@pytest.mark.slow  # quick: the tests above
def test_a_column_that_was_derived_later_is_known_in_later_parts(tmp_path: Path, key_file: Path) -> None:
    world, more = Releases(tmp_path / "world", key_file), rows([("C", "f")] * 9, 30)
    world.put(A)
    world.release("carol")
    tables, _ = world.tables()
    derive(tables, world.name, "bill - age", "cost", Silent())
    with world.table(more) as table:
        putting.append(tables, table, world.name, Silent(), again=True)
    world.release()
    answer = world.ask("carol", BOTH.format("AVG(bill - age)")).result
    assert answer.hidden == [[False, True], [False, False]]
    assert answer.rows[1][1] == pytest.approx(truth(more, BOTH.format("AVG(bill - age)"))[0][1])
    (whole,) = world.ask("carol", "SELECT AVG(cost), COUNT(*) FROM trial").result.rows
    assert whole == [None, 18]


def outputs(answer: Answer, tmp_path: Path) -> dict[str, Any]:
    """What each output has in the place of the figure of ward B, and what it says of it."""
    content = {each: answer_bytes(answer, each) for each in Format}
    (tmp_path / "answer.parquet").write_bytes(content[Format.PARQUET])
    read = duckdb.execute("FROM read_parquet(?)", [str(tmp_path / "answer.parquet")]).fetchall()
    sheet = openpyxl.load_workbook(io.BytesIO(content[Format.XLSX])).active
    assert sheet is not None
    text = {each: content[each].decode() for each in (Format.TABLE, Format.CSV, Format.NDJSON, Format.MARKDOWN)}
    return {
        "csv": text[Format.CSV].splitlines()[2],
        "ndjson": json.loads(text[Format.NDJSON].splitlines()[1]),
        "parquet": read[1],
        "xlsx": [each.value for each in [*sheet.iter_rows()][2]],
        "table": text[Format.TABLE].splitlines()[-1].split(),
        "markdown": next(line for line in text[Format.MARKDOWN].splitlines() if line.startswith("| B")),
        "json": json.loads(content[Format.JSON]),
    }


def test_every_output_says_that_it_is_hidden(world: Releases, tmp_path: Path) -> None:
    answer = world.ask("carol", BOTH.format("SUM(bill)"))
    shown = outputs(answer, tmp_path)
    assert shown["csv"] == "B,,,figure"
    assert shown["ndjson"] == {"ward": "B", "figure": None, "figure_bound": None, "hidden": "figure"}
    assert shown["parquet"] == ("B", None, None, "figure")
    assert shown["xlsx"] == ["B", None, None, "figure"]
    assert shown["table"] == ["B", "hidden"]
    assert shown["markdown"] == "| B | hidden |"
    assert shown["json"]["rows"][1] == ["B", None]
    assert shown["json"]["hidden"] == [[False, False], [False, True]]
    assert "known over 1 of 2 parts" in shown["json"]["trust"]
    page = cells_of(answer.result)[1].cells[1]
    assert (page.value, page.trust) == ("hidden", "")
    assert any("1 hidden, not drawn." in chart.notes for chart in charts_of(answer.result))
    assert any("1 value hidden, because totals are withheld" in line for line in _warnings(answer))


def test_python_and_notebooks_say_that_it_is_hidden(world: Releases) -> None:
    with Session(world.source("carol")) as session:
        plan = session.plan(BOTH.format("SUM(bill)"))
        answer = Result(plan, 0.1, session.ask(plan))
    assert answer.hidden == [(False, False), (False, True)]
    assert answer.rows[1] == ("B", None)
    assert answer.sources == ("key", "encrypted")
    assert "hidden" in repr(answer)
    assert ">hidden<" in answer._repr_html_()
    assert "known over 1 of 2 parts" in answer.footer()
