"""The page that reviews a schema, as text: complete, escaped, closed by its policy, true, and without cells."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

import cleave
from cleave.propose.propose import propose
from cleave.report.review import CONSEQUENCES
from cleave.table.schema import CsvDialect, Kind, Schema, column_text, dump_schema, schema_head, unfit
from tests.report.answers import HOSTILE
from tests.report.reviews import COLUMNS, HOSTILE_NAMES, ROWS, page_of, proposal, write_hostile, write_rows
from tests.report.test_page import Reader, sources


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_rows(tmp_path_factory.mktemp("review") / "stays.csv")


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_hostile(tmp_path_factory.mktemp("review") / "hostile.csv")


@cache
def made(path: Path, *, values: bool = False) -> str:
    return page_of(path, values=values)


def test_nothing_in_it_leads_elsewhere(table: Path, hostile: Path) -> None:
    for path in (table, hostile):
        reader = Reader(made(path, values=True))
        (policy,) = [each["content"] for each in reader.all("meta") if each.get("http-equiv")]
        assert policy is not None
        assert sources(policy, "default-src") == {"'none'"}
        assert len(sources(policy, "script-src")) == len(sources(policy, "style-src")) == 1
        assert not {"a", "link", "img", "iframe", "object", "embed", "form", "base", "svg"} & {
            tag for tag, _ in reader.elements
        }
        for tag, attributes in reader.elements:
            assert not {"src", "href", "action", "srcset", "style"} & attributes.keys(), tag
            assert not [name for name in attributes if name.startswith("on")], tag


def test_hostile_names_and_cells_are_texts(hostile: Path) -> None:
    text = made(hostile, values=True)
    for markup in (HOSTILE, "<img", "\u202e", "\u2066", "\u2028", "<!--"):
        assert markup not in text
    reader = Reader(text)
    assert [each.get("type") for each in reader.all("script")] == ["application/json", None]
    assert not set("<>&\u2028\u2029") & set(reader.texts["script"][0])
    data = json.loads(reader.texts["script"][0])
    assert len(data["columns"]) == len(reader.all("select")) == len(HOSTILE_NAMES)
    names = [each["aria-label"] for each in reader.all("select")]
    assert f"Kind of {HOSTILE}".replace("\u2028", "\\u2028").replace("\u202e", "\\u202e") in names


def test_cells_are_in_it_only_where_they_are_asked_for(table: Path) -> None:
    cells = ("P0001", "2025-01-02", "51.1234567", "Recovering well", "10:00:00")
    without, with_values = made(table), made(table, values=True)
    for cell in cells:
        assert cell not in without, cell
        assert cell in with_values, cell
    assert "holds values" not in without
    assert with_values.index("This page holds values of the file.") < with_values.index("Who will see what")


def test_each_column_has_its_counts_and_reason(table: Path) -> None:
    notes = Reader(made(table)).texts["p"]
    filled = ROWS - sum(not COLUMNS["weight"](row) for row in range(ROWS))
    assert filled < ROWS
    assert any(re.search(rf"\b{ROWS - filled} NULL; 10\.0 characters on average, 10 at most", each) for each in notes)
    for column in propose(table).columns:
        assert column.reason in notes


def test_each_choice_is_what_an_option_settles(table: Path) -> None:
    schema, examined = proposal(table)
    for kind in Kind:
        able = [each.name for each in schema.columns if not unfit(kind, each.type)]
        assert able == [name for name, each in examined.items() if kind in each.choices]
        settled = propose(table, dict.fromkeys(able, kind))
        assert [examined[name].choices[kind] for name in able] == [settled.column(name) for name in able]


def test_choices_do_not_depend_on_what_options_settled(table: Path) -> None:
    _, examined = proposal(table)
    for_page: dict[str, object] = {}
    propose(table, {"ward": Kind.PLAIN}, accept=True, examined=for_page, choosing=True)  # type: ignore[arg-type]
    assert for_page == examined


def test_its_parts_are_the_schema(table: Path) -> None:
    schema = propose(table, table="other")
    parts = [schema_head(schema), *map(column_text, schema.columns)]
    whole = dump_schema(schema)
    assert whole.startswith("\n".join(parts))
    assert whole.removeprefix("\n".join(parts)).startswith("\n[privacy]\n")


# Aggregate -> whether sums of its column are enough.
AGGREGATES = {
    "COUNT(x)": True,
    "SUM(x)": True,
    "AVG(x)": True,
    "STDDEV(x)": True,
    "MIN(x)": False,
    "MAX(x)": False,
    "MEDIAN(x)": False,
    "MODE(x)": False,
    "ANY_VALUE(x)": False,
    "COUNT(DISTINCT x)": False,
}
ALWAYS = (
    "SELECT x AS v FROM t",
    "SELECT SUM(x) OVER () AS v FROM t",
    "SELECT SUM(a.x) AS v FROM t a JOIN t b ON a.x = b.x",
    "SELECT STRING_AGG(y, ',') AS v FROM t",
)
SELECTED = {
    "SELECT COUNT(*) AS v FROM t WHERE x > 1": "COUNT(*)",
    "SELECT COUNT(*) AS v FROM t GROUP BY x": "COUNT(*)",
    "SELECT MAX(y) AS v FROM t WHERE x > 1": "more than sums",
    "SELECT MODE(y) AS v FROM t GROUP BY x": "more than sums",
}


@pytest.mark.parametrize("kind", [Kind.ENCRYPTED, Kind.PLAIN, Kind.SEALED, Kind.LOCAL])
@pytest.mark.sampled(4)
def test_what_becomes_local_is_true(tmp_path: Path, kind: Kind) -> None:
    """By the planner, for a file: what the page names is answered here, and what it does not name is not."""
    path = tmp_path / "t.csv"
    path.write_text("x,y\n" + "".join(f"{row % 3},{row % 2}\n" for row in range(40)))
    x, y = propose(path).columns
    columns = (replace(x, kind=kind, unsure=False), replace(y, kind=Kind.PLAIN, unsure=False))
    target = tmp_path / "t.schema.toml"
    target.write_text(dump_schema(Schema(columns, CsvDialect())))
    own, _, selecting = CONSEQUENCES[kind].local.partition("; where WHERE or GROUP BY reads it, ")

    def is_local(sql: str) -> bool:
        return "local" in cleave.query(path, sql, schema=target).sources

    for aggregate, sums_are_enough in AGGREGATES.items():
        named = "every aggregate" in own or ("more than sums" in own and not sums_are_enough)
        assert is_local(f"SELECT {aggregate} AS v FROM t") is named, aggregate
    for sql, name in SELECTED.items():
        assert is_local(sql) is (name in selecting), sql
    assert not is_local("SELECT SUM(y) AS v FROM t WHERE x > 1")
    for sql in ALWAYS:
        assert is_local(sql), sql
