"""Answers and plans as text and JSON, where the values are unusual."""

from __future__ import annotations

import dataclasses
import datetime
import json
import math
from decimal import Decimal
from typing import Any

import pytest

from cleave.ask.describe import ColumnFate, Description, EncryptedColumn, Leakage, Parameters, Requests
from cleave.ask.plan import Considered
from cleave.ask.question import Answer, Usage
from cleave.ask.way import Cost, Lesson
from cleave.finish import ResultTable
from cleave.shown.answer import answer_json, answer_text, footer, terminal_text
from cleave.shown.plan import plan_json, plan_lines, plan_text
from cleave.sql.plan import Output

USAGE = Usage(
    profile="sum60-pack",
    key_id="0" * 32,
    rows=3,
    selected_rows=3,
    groups=1,
    lanes=1,
    blocks=1,
    chunks=1,
    sensitive_requests=1,
    requests=1,
    bytes_sent=999,
    bytes_received=1_234_567,
)


def answer(rows: list[list[Any]], bounds: list[list[float | None]], exact: list[list[bool | None]]) -> Answer:
    columns = [Output("group", "key"), Output("n\x1b", "plain"), Output("sum", "encrypted")]
    result = ResultTable(columns=columns, types=["VARCHAR", "BIGINT", "DOUBLE"], rows=rows, bounds=bounds, exact=exact)
    return Answer(result, {"total": "passed", "sentinel": "not needed"}, USAGE, {"plain": 0.5})


def test_the_footer_and_the_head() -> None:
    given = answer([[None, 3, 2.5]], [[None, None, 0.25]], [[None, None, False]])
    assert answer_text(given).splitlines() == [
        "group  n\\x1b         sum",
        "key    plain   encrypted",
        "-----  -----  ----------",
        "NULL       3  2.5 ± 3e-1",
    ]
    assert footer(given, 1.234) == ("1 check passed (total). 1 request, 999 bytes up, 1.23 MB down, 1.23 s.")
    stored = dataclasses.replace(USAGE, objects_read=21, bytes_read=30_000_000, requests=0)
    assert footer(dataclasses.replace(given, usage=stored), 1.234) == (
        "1 check passed (total). 21 objects read, 30 MB; no service used, 1.23 s."
    )
    asked = dataclasses.replace(stored, requests=2)
    assert footer(dataclasses.replace(given, usage=asked), 1.234).endswith(
        "21 objects read, 30 MB; 2 requests, 999 bytes up, 1.23 MB down, 1.23 s."
    )
    unsent = dataclasses.replace(given, checks={"total": "not needed"})
    assert footer(unsent, 1.234).startswith("Nothing was sent. ")
    columns = [*given.result.columns[:2], Output("sum", "local", "a subquery")]
    local = dataclasses.replace(given, usage=stored, result=dataclasses.replace(given.result, columns=columns))
    first = footer(local, 1.234).splitlines()[0]
    assert first == "local, over what was fetched and decrypted: a subquery"  # rows or totals


def undecided() -> Answer:
    plain = answer(
        [["a", 3, 2.512345], ["b", 4, 0.1]], [[None, None, 0.25], [None, None, 0.5]], [[None, None, False]] * 2
    )
    result = dataclasses.replace(
        plain.result,
        undecided=[[False, False, True], [False, False, False]],
        doubts=[(), ("HAVING", "LIMIT")],
        warnings=["HAVING: ..."],
    )
    return dataclasses.replace(plain, result=result)


def test_what_is_undecided_is_marked() -> None:
    assert answer_text(undecided()).splitlines()[:5] == [
        "group  n\\x1b                   sum  row",
        "key    plain             encrypted",
        "-----  -----  --------------------  ------------------------",
        "a          3  2.5 ± 3e-1 undecided",
        "b          4            0.1 ± 6e-1  undecided: HAVING, LIMIT",
    ]
    written = json.loads(answer_json(undecided()))
    assert written["undecided"] == {
        "cells": [[False, False, True], [False, False, False]],
        "rows": [[], ["HAVING", "LIMIT"]],
    }
    assert written["warnings"] == ["HAVING: ..."]


def test_json_has_no_digit_beyond_the_bound() -> None:
    rounded = json.loads(answer_json(undecided()))
    assert (rounded["rows"][0], rounded["bounds"][0][2]) == (["a", 3, 2.5], 0.3)


def test_one_row_that_is_too_wide_is_shown_downwards() -> None:
    wide = answer([["x" * 120, 3, 2.5]], [[None, None, 0.25]], [[None, None, False]])
    assert answer_text(wide).splitlines()[:5] == [
        "column  from       " + " " * 115 + "value",
        "------  ---------  " + "-" * 120,
        "group   key        " + "x" * 120,
        "n\\x1b   plain      " + " " * 119 + "3",
        "sum     encrypted  " + " " * 110 + "2.5 ± 3e-1",
    ]
    two = answer([["x" * 120, 3, 2.5]] * 2, [[None, None, 0.25]] * 2, [[None, None, False]] * 2)
    assert answer_text(two).splitlines()[0].startswith("group ")


def long(rows: int) -> Answer:
    return answer(
        [[f"g{row}", row, 2.0] for row in range(rows)], [[None, None, 0.0]] * rows, [[None, None, True]] * rows
    )


def test_a_terminal_gets_as_much_as_it_shows_and_is_told_how_to_see_all() -> None:
    def shown(given: Answer, width: int) -> list[str]:
        return terminal_text(given, width, 40, "Do so.").splitlines()

    assert shown(long(40), 80) == answer_text(long(40)).splitlines()
    many = shown(long(41), 80)
    assert many[:43] == answer_text(long(41)).splitlines()[:43]
    assert many[43:] == ["Not shown: 1 of 41 rows. Do so."]
    narrow = shown(long(2), 14)
    assert narrow == [
        "group  n\\x1b",
        "key    plain",
        "-----  -----",
        "g0         0",
        "g1         1",
        "Not shown: 1 of 3 columns (sum). Do so.",
    ]
    assert shown(long(41), 1)[-1] == "Not shown: 1 of 41 rows and 2 of 3 columns (n\\x1b, sum). Do so."
    assert shown(long(1), 14)[0] == "column  from           value"
    assert shown(undecided(), 36)[:5] == [
        "group  row",
        "key",
        "-----  ------------------------",
        "a",
        "b      undecided: HAVING, LIMIT",
    ]
    assert shown(answer([], [], []), 80) == answer_text(answer([], [], [])).splitlines()


def test_no_rows() -> None:
    empty = answer([], [], [])
    assert answer_text(empty).splitlines()[2] == "-----  -----  ---------"
    assert json.loads(answer_json(empty))["rows"] == []


@pytest.mark.parametrize(
    ("value", "literal"),
    [
        (None, "null"),
        (True, "true"),
        (2**70, str(2**70)),
        (0.1, "0.1"),
        (1e300, "1e+300"),
        (math.nan, '"NaN"'),
        (-math.inf, '"-Infinity"'),
        (Decimal("12345678901234567890.10"), "12345678901234567890.10"),
        (datetime.date(2026, 1, 2), '"2026-01-02"'),
        ("é\x1b\u202e", '"\\u00e9\\u001b\\u202e"'),
        ([1, "a"], '[1, "a"]'),
    ],
)
def test_every_value_is_valid_json(value: Any, literal: str) -> None:
    text = answer_json(answer([["a", 1, value]], [[None, None, 0.0]], [[None, None, True]]))
    assert f'"rows": [["a", 1, {literal}]]' in text
    json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


DESCRIPTION = Description(
    table="t\x1b",
    rows=3,
    selected_rows=2,
    groups=1,
    local=(),
    hint="",
    columns=(ColumnFate("age", "encrypted", "BIGINT", "encrypted", "sensitive", 1234),),
    encrypted=(EncryptedColumn('"age"', "BIGINT", "sum", exact=False, log2_scale=-3, bytes=1234, bound=math.inf),),
    profile=Parameters("p", 8192, 60, 128, 59, 1, 0),
    plain=Requests(0, 0),
    sensitive=Requests(1, 66_000, 131_000),
    leakage=Leakage(("nothing: it gets no request",), (Lesson("many words", "few words of many"), "sizes")),
)


def test_a_plan_as_json_keeps_its_shape_and_a_bound_without_end() -> None:
    plan = json.loads(plan_json(DESCRIPTION))
    assert plan["encrypted"][0]["bound"] == "Infinity"
    assert plan["requests"]["sensitive"] == {"count": 1, "bytes_up": 66_000, "bytes_down": 131_000}
    assert plan["leakage"] == {
        "plain service": ["nothing: it gets no request"],
        "sensitive service": ["many words", "sizes"],
    }
    assert plan["columns"][0]["destination"] == "sensitive"


def test_a_plan_as_text() -> None:
    text = plan_text(DESCRIPTION)
    assert text.startswith("t\\x1b: 3 rows, 2 selected, 1 group. Nothing has been sent.")
    assert "What the plain service will see\n  - nothing: it gets no request\n" in text
    assert "sensitive service  1 request, 66 kB up, about 131 kB down" in text


def test_a_plan_in_short() -> None:
    assert plan_lines(dataclasses.replace(DESCRIPTION, dollars=1.55e-5)).splitlines() == [
        "leaves    encrypted: age",
        "to        the sensitive service",
        "how much  1 request, 66 kB up, about 131 kB of sums down; $1.6e-05 at list price with both services on "
        "Lambda, without the functions' time",
        "learned   plain service      nothing: it gets no request",
        "          sensitive service  few words of many",
        "                             sizes",
        "way       sums of ciphertexts that are made for this query",
        "in short  No value of age leaves this machine unencrypted; no column is sent in the clear.",
    ]


def test_a_stored_plan_in_short() -> None:
    way = Considered("rows", Cost(131_000, 1, 0.0), True, "totals do not answer it")
    stored = dataclasses.replace(DESCRIPTION, places=("s3://a/b", "pla\x1bce"), ways=(way,))
    lines = plan_lines(stored).splitlines()
    assert len(lines) == 8
    assert lines[0].startswith("leaves    no value of the table: its rows were stored before; requests leave")
    assert lines[1].startswith("to        s3://a/b and pla\\x1bce: ")
    assert lines[2] == "how much  reads 0 objects, 0 bytes plain and 1 object, 131 kB sensitive"
    assert lines[3] == "learned   plain store      nothing: it gets no request"
    assert lines[6] == "way       rows: totals do not answer it"
    whole = dataclasses.replace(DESCRIPTION, profile=None, columns=(), sensitive=Requests(0, 0))
    assert plan_lines(whole).splitlines()[-1] == "in short  Nothing leaves this machine."


def test_a_plan_over_a_stored_table_as_text() -> None:
    fetched = Output("m", "local", "values cannot be compared under encryption")
    stored = dataclasses.replace(DESCRIPTION, places=("s3://a/b", "pla\x1bce"), local=(fetched,))
    text = plan_text(stored)
    assert text.startswith(
        "t\\x1b: 3 rows, 2 selected, 1 group, stored at s3://a/b and pla\\x1bce. No row has been read."
    )
    assert "Answered on this machine (local), over what is fetched\n" in text
    assert "  of the sensitive store  1 object, 131 kB\n" in text
    assert "What the plain store will see\n" in text
    assert "sent" not in text
    assert "service" not in text
    same = dataclasses.replace(DESCRIPTION, places=("here", "here"))
    assert "stored at here. " in plan_text(same)
