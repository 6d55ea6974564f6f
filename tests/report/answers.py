"""Answers of every look, made by hand: bounds that can be seen, and texts that would rather be markup."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from cleave.ask.describe import ColumnFate, Description, Leakage, Parameters, Requests
from cleave.ask.question import Answer, Usage
from cleave.finish import ResultTable
from cleave.report.page import PageFacts
from cleave.sql.plan import FigureSource, Output

Cell = tuple[Any, float | None, bool | None]
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>&amp;\"'`{{7*7}}\u2028\u202e"


def certain(value: Any) -> Cell:
    return value, 0.0, True


def about(value: Any, bound: float | None) -> Cell:
    return value, bound, False


def key(value: Any) -> Cell:
    return value, None, None


def table(
    columns: Sequence[tuple[str, FigureSource, str]], rows: Sequence[Sequence[Cell]], **marks: Any
) -> ResultTable:
    return ResultTable(
        columns=[Output(name, source) for name, source, _ in columns],
        types=[type_ for _, _, type_ in columns],
        rows=[[value for value, _, _ in row] for row in rows],
        bounds=[[bound for _, bound, _ in row] for row in rows],
        exact=[[exact for _, _, exact in row] for row in rows],
        **marks,
    )


def answer(result: ResultTable, *, min_group: int | None = None, asked: bool = True) -> Answer:
    hides = min_group is not None
    if not asked:
        usage = Usage(None, None, 6_000, None, None, *[0] * 7)
        return Answer(result, {"plain groups": "not needed"}, usage, {"local": 0.2})
    usage = Usage(
        profile="sum60-pack",
        key_id="8f2a-31c0-77de",
        rows=None if hides else 6_000,
        selected_rows=None if hides else 5_912,
        groups=None if hides else len(result.rows),
        lanes=2,
        blocks=3,
        chunks=3,
        sensitive_requests=1,
        requests=2,
        bytes_sent=401_213,
        bytes_received=131_422,
        min_group=min_group,
        suppressed_groups=3 if hides else None,
    )
    checks = {"plain groups": "passed", "redundant sum": "passed", "noise": "passed", "range": "not needed"}
    timings = {"split": 0.021, "encode": 0.034, "ask": 0.41, "plain": 0.06, "sensitive": 0.402, "finish": 0.018}
    return Answer(result, checks, usage, timings)


def facts(
    sql: str = "SELECT ward, AVG(age), SUM(bill)\nFROM patients\nGROUP BY ward", table: str = "patients"
) -> PageFacts:
    return PageFacts(sql, table, datetime(2026, 11, 21, 16, 30, tzinfo=UTC), 0.61)


def description(name: str = "ward") -> Description:
    return Description(
        table="patients",
        rows=6_000,
        selected_rows=5_912,
        groups=5,
        local=(),
        hint="",
        columns=(
            ColumnFate("id", "local", "BIGINT", "not read, stays here", "none", 0),
            ColumnFate(name, "plain", "VARCHAR", "sent in the clear", "plain", 12_400),
            ColumnFate("age", "encrypted", "BIGINT", "encrypted", "sensitive", 180_224),
            ColumnFate("bill", "encrypted", "DECIMAL(12,2)", "encrypted", "sensitive", 180_224),
        ),
        encrypted=(),
        profile=Parameters("sum60-pack", 8_192, 218, 128, 100, 2, 0),
        plain=Requests(1, 12_400),
        sensitive=Requests(1, 360_448, 131_072),
        leakage=Leakage(
            (f"the plain columns the query reads, with names and values: {name}", "the number of rows: 6000"),
            ("the number of ciphertexts: 3, in 3 blocks that are added up", "not which rows form a group"),
        ),
    )


NUMBERS: tuple[tuple[str, FigureSource, str], ...] = (
    ("ward", "key", "VARCHAR"),
    ("COUNT(*)", "plain", "BIGINT"),
    ("AVG(age)", "encrypted", "DOUBLE"),
    ("SUM(bill)", "encrypted", "DECIMAL(38,2)"),
)


def _groups(count: int) -> ResultTable:
    rows = [
        [
            key(f"ward {place + 1}"),
            certain(100 + place * 37 % 61),
            about(40.0 + 12 * math.sin(place / 9) + place * 7 % 5, 2.5),
            certain(Decimal(12_345 + place * 7919 % 4_999) / 4),
        ]
        for place in range(count)
    ]
    return table(NUMBERS, rows)


def _few() -> ResultTable:
    figures = [
        (61, 47.25, 4.0, "11250.50"),
        (48, 51.5, 6.0, "9120.25"),
        (80, 38.0, 2.0, "15800"),
        (12, 20.0, 8.0, "2210.75"),
    ]
    names = ("A", "B", "intensive", None)
    return table(
        NUMBERS,
        [
            [key(name), certain(count), about(mean, bound), certain(Decimal(bill))]
            for name, (count, mean, bound, bill) in zip(names, figures, strict=True)
        ],
    )


def _negative() -> ResultTable:
    values = (-12.5, 8.25, -3.0, 0.0, 15.75)
    return table(
        (("sign", "key", "VARCHAR"), ("AVG(change)", "encrypted", "DOUBLE")),
        [[key(f"g{place}"), about(value, 1.5)] for place, value in enumerate(values)],
    )


def _nulls() -> ResultTable:
    rows = [
        [key("a"), certain(None), about(5.0, 0.5), certain(None)],
        [key(None), about(3.0, None), certain(None), certain(None)],
        [key("c"), about(math.inf, None), about(7.0, 1.0), certain(None)],
    ]
    names = (
        ("k", "key", "VARCHAR"),
        ("x", "encrypted", "DOUBLE"),
        ("y", "encrypted", "DOUBLE"),
        ("z", "encrypted", "DOUBLE"),
    )
    return table(names, rows, undecided=[[False] * 4, [False] * 4, [False, False, True, False]])


def _huge() -> ResultTable:
    rows = [
        [key("least"), certain(-(10**38)), about(1.7e308, 1e300), about(2e-300, 1e-310), about(1_234_567.0, 30_000.0)],
        [key("most"), certain(10**38), about(-1.7e308, 1e300), about(4e-300, 1e-310), about(9_876_543.0, 90_000.0)],
    ]
    names = (
        ("k", "key", "VARCHAR"),
        ("hugeint", "encrypted", "HUGEINT"),
        ("doubles", "encrypted", "DOUBLE"),
        ("tiny", "encrypted", "DOUBLE"),
        ("millions", "encrypted", "DOUBLE"),
    )
    return table(names, rows)


def _long() -> ResultTable:
    names = (
        "Department of Cardiology and Thoracic Surgery, third floor, east wing (temporary)",
        "Kinderkrankenhauswiederaufbaugesellschaftsverwaltungsgebäude",
        "心臓血管外科センター・東棟・三階・臨時",
        "short",
        HOSTILE,
    )
    return table(
        (("department", "key", "VARCHAR"), (f"SUM(bill) / COUNT(*) {HOSTILE}", "encrypted", "DOUBLE")),
        [[key(name), about(100.0 + 20 * place, 9.0)] for place, name in enumerate(names)],
    )


def _dates(series: int) -> ResultTable:
    rows = []
    for place in range(36):
        day = date(2024, 1, 1) + timedelta(days=30 * place)
        for line in range(series):
            mean = 50 + 10 * math.sin(place / 5 + line) + 6 * line
            rows.append(
                [key(str(day)), *([key("ABCDEFGH"[line])] if series > 1 else []), about(mean, 1.5), certain(place)]
            )
    names: list[tuple[str, FigureSource, str]] = [
        ("month", "key", "DATE"),
        ("AVG(age)", "encrypted", "DOUBLE"),
        ("n", "plain", "BIGINT"),
    ]
    if series > 1:
        names.insert(1, ("ward", "key", "VARCHAR"))
    return table(names, rows)


def _undecided() -> ResultTable:
    return table(
        NUMBERS[:1] + NUMBERS[2:3],
        [[key("A"), about(50.0, 4.0)], [key("B"), about(49.0, 4.0)], [key("C"), about(12.0, 1.0)]],
        undecided=[[False, False], [False, True], [False, False]],
        doubts=[(), ("HAVING",), ()],
        warnings=["HAVING: the bounds do not decide whether 1 row is in the answer"],
    )


def _total() -> ResultTable:
    return table(
        (("AVG(age)", "encrypted", "DOUBLE"), ("COUNT(*)", "plain", "BIGINT"), ("MEDIAN(age)", "local", "DOUBLE")),
        [[about(50.3125, 2e-9), certain(6_000), certain(49.0)]],
    )


def _whole() -> ResultTable:
    """As a window or a subquery gives it: no column is a key."""
    why = "a window function is no sum over rows"
    result = table(
        (("ward", "local", "VARCHAR"), ("best", "local", "BOOLEAN"), ("rank", "local", "BIGINT")),
        [[certain("A"), certain(True), certain(1)], [certain("B"), certain(False), certain(2)]],
    )
    return replace(result, columns=[replace(column, reason=why) for column in result.columns])


EMPTY = table(NUMBERS, [])
CASES: dict[str, tuple[Answer, PageFacts, Description | None]] = {
    "few": (answer(_few()), facts(), description()),
    "one group": (answer(_groups(1)), facts(), description()),
    "thirty groups": (answer(_groups(30)), facts(), description()),
    "200 groups": (answer(_groups(200)), facts(), description()),
    "900 groups": (answer(_groups(900)), facts(), description()),
    "negative": (answer(_negative()), facts(), description()),
    "nulls": (answer(_nulls()), facts(), description()),
    "huge": (answer(_huge()), facts(), description()),
    "long names": (answer(_long()), facts(f"SELECT '{HOSTILE}'", HOSTILE), description(HOSTILE)),
    "dates": (answer(_dates(1)), facts(), description()),
    "lines": (answer(_dates(4)), facts(), description()),
    "undecided": (answer(_undecided()), facts(), description()),
    "suppressed": (answer(_few(), min_group=20), facts(), description()),
    "total": (answer(_total()), facts("SELECT AVG(age), COUNT(*), MEDIAN(age) FROM patients"), description()),
    "empty": (answer(EMPTY), facts(), description()),
    "local": (answer(_whole(), asked=False), facts(), None),
}
