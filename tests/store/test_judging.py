"""The judge of a campaign finds each fault that it is there to find, in a small history that is right without it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from tests.store.judging import Judge, Row, few_in, rows_of, totals_of

FIRST = {each.name: each for each in [Row("ada", "A", "f", 1, 1250), Row("bo", "A", "f", 2, 9900)]}
CYD, DI, ED = Row("cyd", "A", "f", 3, 500), Row("di", "B", "m", 1, 700), Row("ed", "B", "m", 1, 800)
AFTER = [  # the rows after each change
    FIRST,
    FIRST | {"cyd": CYD},
    FIRST | {"cyd": CYD, "di": DI},
    {"bo": FIRST["bo"], "cyd": CYD},
]
History = tuple[list[dict[str, Any]], list[dict[str, Any]]]


def call(user: str, what: str, start: float, end: float, **facts: Any) -> dict[str, Any]:
    given = {"code": 0, "message": "", "answer": None}
    return {"user": user, "what": what, "start": start, "end": end, **given, **facts}


def record(number: int, user: str, what: str, rows: int) -> dict[str, Any]:
    return {"number": number, "user": user, "what": what, "rows": rows}


def part(*rows: Row) -> dict[str, Any]:
    groups, cents = [each.group for each in rows], [each.cents for each in rows]
    figures = {"grp": [2, len(rows), sum(groups), 0], "bill": [2, len(rows), sum(cents), 0]}
    return {"key": ["A", "f"], "rows": len(rows), **figures}


def history() -> History:
    calls = [
        call("one", "append", 1, 3, rows=[CYD.dump()]),
        call("one", "append", 3.1, 3.2, rows=[]),  # the same again
        call("two", "append", 2, 5, rows=[DI.dump()]),
        call("two", "append", 8.5, 9, rows=[ED.dump()], code="moved"),
        call("gone", "delete", 6, 8, group=1, answer={"rows": 2}),
        call("gone", "delete", 9, 10, group=1, answer={"rows": 0}),
        call("alter", "alter", 1, 9, code=6),
        call("asks", "query", 0, 0.5, of="totals", answer=totals_of(AFTER[0])),
        call("asks", "query", 2.5, 4, of="rows", answer=rows_of(AFTER[2])),
        call("asks", "query", 7, 9, of="totals", answer=totals_of(AFTER[3])),
        call("asks", "verify", 7, 9, answer=[]),
        call("release", "release", 3.5, 4),
        call("release", "read release", 4, 4.1, answer=[part(*FIRST.values(), CYD)]),
        call("release", "read release", 12, 13, answer=[part(*FIRST.values(), CYD)]),
    ]
    log = [
        record(1, "first", "put", 2),
        record(2, "one", "append", 1),
        record(3, "release", "release", 0),
        record(4, "two", "append", 1),
        record(5, "one", "merge", 0),
        record(6, "gone", "delete", -2),
    ]
    return calls, log


def test_a_history_that_is_right() -> None:
    judged = Judge(FIRST, *history()).judge()
    assert judged.states[1] == AFTER[0]
    assert judged.states[-1] == AFTER[3]
    assert [len(rows) for _, rows in judged.parts] == [3]
    assert few_in(judged.parts, 3) is None


def lost(calls: Any, log: Any) -> None:
    del log[1]
    for number, each in enumerate(log, 1):
        each["number"] = number


def doubled(calls: Any, log: Any) -> None:
    log.append(record(7, "one", "append", 1))


def made_by_who_was_told_otherwise(calls: Any, log: Any) -> None:
    calls[0]["code"] = 6


def appended_in_conflict(calls: Any, log: Any) -> None:
    calls[3]["code"] = 6


def damaged(calls: Any, log: Any) -> None:
    calls[6]["code"] = 7


def counted_otherwise(calls: Any, log: Any) -> None:
    log[5]["rows"] = -1


def told_otherwise(calls: Any, log: Any) -> None:
    calls[4]["answer"] = {"rows": 1}


def deleted_nothing_beside_rows(calls: Any, log: Any) -> None:
    calls[5] |= {"start": 5.5, "end": 5.9}


def an_old_answer(calls: Any, log: Any) -> None:
    calls[9] |= {"start": 8.1, "answer": totals_of(AFTER[2])}


def an_answer_before_its_time(calls: Any, log: Any) -> None:
    calls[8] |= {"end": 1.9, "start": 1.8}


def a_row_twice(calls: Any, log: Any) -> None:
    calls[8]["answer"] = [*calls[8]["answer"], calls[8]["answer"][-1]]


def a_mixture(calls: Any, log: Any) -> None:
    calls[8]["answer"] = rows_of({**FIRST, "di": DI})


def out_of_order(calls: Any, log: Any) -> None:
    calls[2] |= {"start": 0.1, "end": 0.9}


def damage_found(calls: Any, log: Any) -> None:
    calls[10]["answer"] = ["segment 1"]


def a_part_of_others(calls: Any, log: Any) -> None:
    calls[12]["answer"] = [part(*FIRST.values())]


def a_part_that_changed(calls: Any, log: Any) -> None:
    calls[13]["answer"] = [part(FIRST["bo"], CYD)]


def a_row_in_two_parts(calls: Any, log: Any) -> None:
    calls[13]["answer"] = [*calls[13]["answer"], part(CYD)]


@pytest.mark.parametrize(
    "fault",
    [
        lost,
        doubled,
        made_by_who_was_told_otherwise,
        appended_in_conflict,
        damaged,
        counted_otherwise,
        told_otherwise,
        deleted_nothing_beside_rows,
        an_old_answer,
        an_answer_before_its_time,
        a_row_twice,
        a_mixture,
        out_of_order,
        damage_found,
        a_part_of_others,
        a_part_that_changed,
        a_row_in_two_parts,
    ],
)
def test_each_fault_is_found(fault: Callable[[Any, Any], None]) -> None:
    calls, log = copy.deepcopy(history())
    fault(calls, log)
    with pytest.raises(AssertionError):
        Judge(FIRST, calls, log).judge()


def test_few_people_are_found() -> None:
    """Who is in one part and not in another that is else the same follows from both."""
    three, more = frozenset({*FIRST.values(), CYD}), frozenset({*FIRST.values(), CYD, DI})
    assert few_in([(("A", "f"), three)], 3) is None
    assert few_in([(("A", "f"), three), (("A", "f"), more)], 3) is not None
