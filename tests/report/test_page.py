"""The page as text: complete, escaped, closed by its policy, and without what the answer does not show."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from functools import cache
from html.parser import HTMLParser
from typing import Any

import pytest

from cleave.cli.answer import Format, answer_bytes
from cleave.report.page import brief, cells_of, page
from tests.report.answers import CASES, HOSTILE, about, answer, certain, description, facts, key, table

VOID = {"meta", "br", "img", "link", "input"}


class Reader(HTMLParser):
    """Elements with their attributes, and the text of each kind of element; fails on tags that do not match."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self.open: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
            self.texts.setdefault(tag, []).append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open:
            self.texts[self.open[-1]][-1] += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


@cache
def made(case: str) -> str:
    return page(*CASES[case])


def test_stages_add_up_to_the_time_that_is_said() -> None:
    given = next(each for each in CASES.values() if "ask" in each[0].timings)
    spent = [given[0].timings[name] for name in ("split", "encode", "ask", "finish")]
    assert f"{given[1].seconds - sum(spent):.3f}" in Reader(page(*given)).texts["td"]


def sources(policy: str, kind: str) -> set[str]:
    (found,) = [part for part in policy.split("; ") if part.startswith(f"{kind} ")]
    return set(found.split()[1:])


@pytest.mark.parametrize("case", CASES)
def test_the_policy_admits_the_pages_own_scripts_and_style_and_nothing_else(case: str) -> None:
    reader = Reader(made(case))
    (policy,) = [each["content"] for each in reader.all("meta") if each.get("http-equiv")]
    assert policy is not None
    kinds = [attributes.get("type") for attributes in reader.all("script")]
    scripts = [text for text, kind in zip(reader.texts.get("script", []), kinds, strict=True) if kind is None]

    def hashes(texts: list[str]) -> set[str]:
        return {f"'sha256-{base64.b64encode(hashlib.sha256(each.encode()).digest()).decode()}'" for each in texts}

    assert sources(policy, "default-src") == {"'none'"}
    assert sources(policy, "script-src") == (hashes(scripts) or {"'none'"})
    assert sources(policy, "style-src") == hashes(reader.texts["style"])
    assert sources(policy, "base-uri") == sources(policy, "form-action") == {"'none'"}
    assert {part.split()[0] for part in policy.split("; ")} == {
        "default-src",
        "script-src",
        "style-src",
        "base-uri",
        "form-action",
    }


@pytest.mark.parametrize("case", CASES)
def test_nothing_in_it_leads_elsewhere(case: str) -> None:
    reader = Reader(made(case))
    assert not {"link", "img", "iframe", "object", "embed", "form", "base", "svg"} & {tag for tag, _ in reader.elements}
    for tag, attributes in reader.elements:
        assert not {"src", "action", "srcset", "style"} & attributes.keys(), tag
        assert tag == "a" or "href" not in attributes, tag
        assert not [name for name in attributes if name.startswith("on")], tag
    (link,) = reader.all("a")
    assert link["download"] == "answer.csv"
    assert (link["href"] or "").startswith("data:text/csv;charset=utf-8;base64,")
    style = "".join(reader.texts["style"])
    assert not re.search(r"url\(|@import|expression", style)


def test_the_library_is_only_there_where_something_is_drawn() -> None:
    assert len(made("total")) < 20_000
    assert 250_000 < len(made("few")) < 320_000


def test_hostile_texts_are_texts() -> None:
    text = made("long names")
    assert HOSTILE not in text
    assert "<img" not in text
    assert "\u202e" not in text
    assert "\u2028" not in text
    reader = Reader(text)
    assert [each.get("type") for each in reader.all("script")] == ["application/json", None, None]
    shown = HOSTILE.replace("\u2028", "\\u2028").replace("\u202e", "\\u202e")
    assert reader.texts["h1"] == [shown]
    assert reader.texts["title"] == [f"{shown}: a Cleave report"]
    (chart,) = json.loads(reader.texts["script"][0])
    assert chart["names"][-1] == shown
    assert not set("<>&\u2028\u2029") & set(reader.texts["script"][0])


def test_a_template_in_a_name_is_not_rendered() -> None:
    result = table((("{{ 7 * 7 }}{% raw %}", "encrypted", "DOUBLE"),), [[(1.0, 0.0, True)]])
    assert "{{ 7 * 7 }}{% raw %}" in page(answer(result), facts("SELECT '{{ 7 * 7 }}'"), description())


def test_lines_of_the_question_stay_lines() -> None:
    assert Reader(made("few")).texts["code"] == ["SELECT ward, AVG(age), SUM(bill)\nFROM patients\nGROUP BY ward"]


def test_every_figure_of_the_answer_stands_in_its_table_with_its_bound() -> None:
    reader = Reader(made("few"))
    spans = reader.texts["span"]
    assert [each for each in spans if each in ("47", "52", "38", "20")] == ["47", "52", "38", "20"]
    assert [each for each in spans if re.fullmatch(r"± \de0", each)] == ["± 5e0", "± 7e0", "± 2e0", "± 8e0"]
    titles = [each["title"] for each in reader.all("span") if "title" in each]
    assert titles == ["11250.50 exact", "9120.25 exact", "15800 exact", "2210.75 exact"]
    assert [each for each in spans if re.fullmatch(r"[\d,]{5,}", each)] == ["11,250", "9,120", "15,800", "2,211"]


def test_the_csv_is_the_one_that_query_writes() -> None:
    (link,) = Reader(made("few")).all("a")
    text = base64.b64decode((link["href"] or "").partition(",")[2]).decode()
    assert text.encode() == answer_bytes(CASES["few"][0], Format.CSV)
    assert text.splitlines()[1].endswith(",11250.50,0.0")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (999_999, "999,999"),
        (1_234_567, "1,234,567"),
        (Decimal("2097012.40"), "2,097,012"),
        (999_999_999_999.5, "1e12"),
        (123_456_789_012, "123,456,789,012"),
        (1_234_567_890_123, "1.235e12"),
        (0.0000012345, "0.000001234"),
        (10**38, "1e38"),
        (63.28125, "63.28"),
        (Decimal("11250.50"), "11,250"),
        (-1.23456e-9, "-1.235e-9"),
        (0.5, "0.5"),
        (0, "0"),
        (Fraction(1, 3), "0.3333"),
        (math.inf, "Infinity"),
        (True, "true"),
        (None, "NULL"),
    ],
)
def test_a_figure_has_four_digits_or_all_before_the_point(value: Any, shown: str) -> None:
    assert brief(value) == shown


def test_a_bound_is_shown_where_it_reaches_a_digit_that_is_shown() -> None:
    result = table((("x", "encrypted", "DOUBLE"),), [[about(12.3456, bound)] for bound in (1e-9, 0.004, 0.006)])
    shown = [(row.cells[0].value, row.cells[0].trust) for row in cells_of(result)]
    assert shown == [("12.35", ""), ("12.35", ""), ("12.346", "± 7e-3")]


def test_months_are_months() -> None:
    def keys(*values: str) -> list[str]:
        rows = [[key(value), certain(1)] for value in values]
        result = table((("m", "key", "TIMESTAMP"), ("x", "plain", "BIGINT")), rows)
        return [row.cells[0].value for row in cells_of(result)]

    assert keys("2026-01-01 00:00:00", "2026-02-01 00:00:00") == ["2026-01", "2026-02"]
    assert keys("2026-01-01", "2026-02-02") == ["2026-01-01", "2026-02-02"]
    assert keys("2026-01-01") == ["2026-01-01"]


def test_what_left_this_machine_is_one_sentence_before_the_answer() -> None:
    text = made("few")
    assert text.index('id="seen"') < text.index('id="answer"')
    statements = [attributes for attributes in Reader(text).all("p") if attributes.get("class") == "statement"]
    assert len(statements) == 1
    assert (
        "To answer this query, column ward of patients left this machine in the clear and columns age, bill of "
        "patients left this machine encrypted; no other column and no key did." in text
    )
    assert "Nothing was sent to answer this query" in made("local")


def test_a_page_has_the_title_and_author_it_is_given() -> None:
    text = page(CASES["few"][0], replace(facts(), title="Stays <2026>", author="Ann & Bo"), description())
    assert "<h1>Stays &lt;2026&gt;</h1>" in text
    assert "Ann &amp; Bo, <time>" in text


def test_tables_say_what_their_cells_head() -> None:
    reader = Reader(made("few"))
    assert all(each.get("scope") in ("col", "row") for each in reader.all("th"))
    assert len(reader.all("caption")) == len(reader.all("table"))
    assert all(each.get("aria-label") for each in reader.all("div") if each.get("role") == "img")


def test_undecided_figures_and_rows_are_marked_and_explained() -> None:
    reader = Reader(made("undecided"))
    assert reader.texts["strong"] == ["undecided"] * 3  # the warning, the cell, the row
    assert any("do not decide" in each for each in reader.texts["p"])


def test_suppressed_groups_leave_no_trace_but_their_number() -> None:
    """Nor does what could give their sizes away: the rows of the table, those selected, the bytes of a column."""
    text = made("suppressed")
    assert "3 groups of fewer than 20 rows not shown (rule P2)." in text
    for hidden in ("6,000", "6000", "5,912", "12.4 kB</td>", "Rows selected", '<th scope="row">Groups'):
        assert hidden not in text.replace("the number of rows: 6000", ""), hidden  # made by hand; see tests/cli


def test_a_page_does_not_say_that_no_group_was_suppressed() -> None:
    answered, about, described = CASES["suppressed"]
    none = replace(answered, usage=replace(answered.usage, suppressed_groups=0, withheld_groups=0))
    text = page(none, about, described)
    assert "not shown" not in text
    assert "<aside" not in text


def test_a_page_says_what_a_threshold_cannot_hide_where_no_group_is_left_out() -> None:
    answered, about, described = CASES["suppressed"]
    more = {"suppressed_groups": 0, "withheld_groups": 0, "hidden_figures": 2, "printing": ("MIN",)}
    text = page(replace(answered, usage=replace(answered.usage, **more)), about, described)
    assert "2 figures hidden" in text
    assert "or have none, or lack the same figures (rule A1)." in text
    assert "Warning: MIN shows values of single rows (rule A2)." in text


def test_all_digits_are_in_the_text_and_not_only_in_a_title() -> None:
    reader = Reader(made("few"))
    titles = [each["title"] for each in reader.all("span") if "title" in each]
    kinds = zip([each.get("class") for each in reader.all("span")], reader.texts["span"], strict=True)
    assert [text for kind, text in kinds if kind == "full"] == titles != []
    (switch,) = reader.all("input")
    assert (switch["type"], switch["id"]) == ("checkbox", "digits")
    assert [each["for"] for each in reader.all("label")] == ["digits"]
    answered, about, described = CASES["few"]
    whole = replace(answered, result=table((("n", "plain", "BIGINT"),), [[certain(7)]]))
    assert Reader(page(whole, about, described)).all("input") == []


def test_a_page_without_anything_sent_says_so() -> None:
    text = made("local")
    assert "nothing: no request was sent to them" in text
    assert "nothing was sent, and no key was needed" in text
    assert "a window function is no sum over rows. Nothing of it was sent." in text
    for unused in ("Key id", "Profile", "Rows selected", "None"):
        assert unused not in text


def test_columns_that_stayed_unread_are_counted_and_not_named() -> None:
    text = made("few")
    assert "1 other stayed unread" in text
    assert ">id<" not in text


def test_a_page_over_a_stored_table_names_its_stores_and_what_was_read() -> None:
    result = table(
        [("ward", "key", "VARCHAR"), ("MEDIAN(age)", "local", "DOUBLE")], [[("A", None, None), (3.5, None, None)]]
    )
    result.columns[1] = replace(result.columns[1], reason="values cannot be compared")
    asked = answer(result)
    usage = replace(asked.usage, requests=0, bytes_sent=0, bytes_received=0, chunks=0, objects_read=21, bytes_read=4200)
    plan = replace(description(), places=("s3://a/<b>", "s3://plain"))
    text = page(replace(asked, usage=usage), facts(), plan)
    told = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", text))
    assert "The sensitive store s3://a/&lt;b&gt;" in told
    assert "The plain store s3://plain" in told
    assert "21 objects read of the stores, 4.2 kB" in told
    assert "values cannot be compared. Rows were fetched and decrypted here for it." in told
    assert "Key id 8f2a-31c0-77de" in told
    for word in (
        "plain service",
        "sensitive service will",
        "Nothing of it was sent",
        "no key was needed",
        "of payload",
    ):
        assert word not in told.partition("Checks, sizes")[0], word
