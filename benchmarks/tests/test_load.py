"""The load benchmark: a short run of every phase, and that it sees wrong answers, errors and an unfair server."""

from __future__ import annotations

import time
from decimal import Decimal
from pathlib import Path

import pytest

import cleave
from benchmarks.load import (
    COPIES,
    HEAD,
    QUESTIONS,
    SAMPLE,
    Growth,
    Load,
    Oracle,
    Place,
    Reply,
    Rows,
    phases,
    place,
    wrong_answers,
)

FILE, STORED = QUESTIONS[0], QUESTIONS[1]


def test_a_short_run_of_every_phase() -> None:
    loads = phases(users=2, seconds=1.0, copies=1, pause=0.5)
    assert [each.name for each in loads] == ["steady", "restarts", "lambda"]
    for load in loads:
        assert load.wrong == 0
        assert load.answered
        assert all(len(row) == len(HEAD) for row in load.rows())
    steady, restarts, emulated = loads
    assert not steady.errors
    assert not emulated.errors
    assert all("refuses connections" in error or "Interrupted" in error for error in restarts.errors)
    assert "memory of the server" in steady.report()
    assert int(restarts.notes[0].split()[1].rstrip(",")) >= 1


@pytest.fixture
def growth(tmp_path: Path) -> Growth:
    return Growth(Place(tmp_path))  # appends nothing before it is going on


def reply(rows: Rows, question=FILE, error: str | None = None, user: int = 0, seconds: float = 1.0) -> Reply:  # type: ignore[no-untyped-def]
    return Reply(user, question, time.time(), time.time() + seconds, rows, error)


def test_a_wrong_answer_is_counted(growth: Growth) -> None:
    oracle = Oracle(SAMPLE / "patients.csv")
    right = oracle.answer(FILE, 1)
    assert len(right) == 6
    off = [(*right[0][:2], right[0][2] + Decimal("0.01"), right[0][3]), *right[1:]]
    assert wrong_answers([reply(right), reply([], error="refused")], oracle, growth) == 0
    assert wrong_answers([reply(off), reply(right), reply(right[1:])], oracle, growth) == 2


def test_an_answer_of_a_version_that_was_not_there_is_wrong(growth: Growth) -> None:
    oracle = Oracle(SAMPLE / "patients.csv")
    first, next_ = oracle.answer(STORED, COPIES), oracle.answer(STORED, COPIES + 1)
    assert first != next_
    assert wrong_answers([reply(first, STORED)], oracle, growth) == 0
    assert wrong_answers([reply(next_, STORED)], oracle, growth) == 1


def test_questions_over_the_stored_table_ask_both_services() -> None:
    asked = {}
    with place() as where:
        for each in QUESTIONS:
            if each.stored:
                answer = cleave.query(
                    None, each.sql, store=where.store, key=where.key, cloud_only=each.cloud_only, progress=False
                )
                asked[each.name] = (answer.usage.sensitive_requests, answer.usage.requests)
    assert asked == {"stored, totals": (1, 1), "stored, plain columns": (0, 1), "stored, rows": (0, 0)}


def test_fairness_and_errors() -> None:
    replies = (reply([], user=0), reply([], user=1, seconds=3.0), reply([], user=1, error="refused"))
    load = Load("steady", 2, 10.0, replies, 0)
    assert load.fairness == pytest.approx(3.0, rel=1e-3)
    assert load.errors == {"refused": 1}
    assert load.rows()[0][1:4] == ["2", "1", "0"]
    assert Load("steady", 3, 10.0, replies, 0).fairness == float("inf")
