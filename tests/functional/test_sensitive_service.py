"""The sensitive service through ASGI: the simple call against DuckDB's answers, and what it refuses."""

from __future__ import annotations

import json
import statistics
from decimal import Decimal

import pytest

from cleave.ckks.simple import Question
from cleave_services.sensitive.app import app
from cleave_services.sensitive.simple import SimpleSensitiveResponse
from cleave_shared import wire
from cleave_shared.errors import CheckFailed, InputError
from tests.functional.gateway import call

DATA = {"age": [34, 61, None, 18, 47], "bill": [Decimal("12.50"), Decimal("99.99"), 7, 0, Decimal("-3.1")]}
FLOATS = {"w": [1.5, 2.25, -7.0, 1e-3]}


def ask(question: Question) -> dict:
    answer = call(app, "POST", "/v1/sensitive", json=question.body())
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize(
    ("operation", "age", "bill"),
    [
        ("sum", 160, Decimal("116.39")),
        ("mean", 40.0, Decimal("116.39") / 5),
        ("count", 4, 5),
        ("var", statistics.variance([34, 61, 18, 47]), statistics.variance([12.5, 99.99, 7, 0, -3.1])),
        ("stddev", statistics.stdev([34, 61, 18, 47]), statistics.stdev([12.5, 99.99, 7, 0, -3.1])),
        ("product", 34 * 61 * 18 * 47, 0),
    ],
)
def test_each_operation_is_answered(operation: str, age: float, bill: float | None) -> None:
    question = Question(DATA, operation)
    figures = question.decrypt(ask(question))
    for name, expected in (("age", age), ("bill", bill)):
        if expected is not None:
            assert float(figures[name].value) == pytest.approx(float(expected), rel=1e-9, abs=1e-9)
    assert figures["age"].exact or figures["age"].bound > 0


def test_an_answer_decrypted_again_is_the_same() -> None:
    question = Question(DATA, "sum")
    answer = ask(question)
    assert question.decrypt(answer) == question.decrypt(answer)


def test_frames_hold_what_json_holds() -> None:
    body = Question(DATA, "sum").body()
    plain = call(app, "POST", "/v1/sensitive", json=body).json()
    framed = call(app, "POST", "/v1/sensitive", json=body, headers={"accept": wire.FRAMES_TYPE})
    answer = wire.load(SimpleSensitiveResponse, framed.content, wire.FRAMES_TYPE)
    assert json.loads(wire.dump_json(answer)) == plain


def test_an_answer_to_another_question_is_refused() -> None:
    first, second = Question(FLOATS, "sum"), Question(FLOATS, "sum")
    with pytest.raises(CheckFailed):
        second.decrypt(ask(first))
    with pytest.raises(CheckFailed, match="another number of rows"):
        first.decrypt(ask(first) | {"rows": 3})
    with pytest.raises(CheckFailed):
        first.decrypt({"result": {}})


@pytest.mark.parametrize(
    "change",
    [
        {"operation": "median"},
        {"profile": "other"},
        {"rows": 1_000_001},
        {"rows": 0},
        {"group_by": [1, 1, 2, 2]},
        {"data": {"w": ["AAAA"]}},
        {"data": {"w": ["not base64!"]}},
        {"data": {}},
        {"secret_key": "x"},
    ],
    ids=str,
)
def test_bad_calls_are_4xx_and_quote_nothing(change: dict) -> None:
    answer = call(app, "POST", "/v1/sensitive", json=Question(FLOATS, "sum").body() | change)
    assert 400 <= answer.status_code < 500
    problem = json.loads(answer.text)
    assert problem.keys() == {"error", "hint", "code"}
    assert "AAAA" not in answer.text
    assert "not base64!" not in answer.text


@pytest.mark.parametrize(
    ("data", "operation"),
    [
        ({"x": [1, 2], "y": [1]}, "sum"),
        ({"x": []}, "sum"),
        ({"x": ["a"]}, "sum"),
        ({"x": [2**70]}, "sum"),
        ({"x": [1]}, "median"),
        ({"x": [float("nan")]}, "sum"),
    ],
)
def test_bad_columns_are_refused_before_anything_is_encrypted(data, operation) -> None:
    with pytest.raises(InputError):
        Question(data, operation)
