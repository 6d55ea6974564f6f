"""The plain service as it is called: through ASGI and through the Lambda handler."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import httpx
import pytest

from aws.events import http_event, rest_event
from cleave_services.plain.app import app, handler
from cleave_shared import limits, wire
from cleave_shared.requests import PlainRequest, PlainResponse
from tests.functional.gateway import CANARY, CONTEXT, call

AGGREGATE = "/v1/plain/aggregate"
HASH = "0123456789abcdef" * 2


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("table") / "table.parquet"
    with duckdb.connect() as connection:
        connection.execute(
            f"COPY (SELECT * FROM (VALUES ('A', 61, '{CANARY}'), ('B', 47, 'x'), ('A', 33, 'y'), ('B', NULL, 'z')) "
            f"AS t(ward, age, note)) TO '{path}' (FORMAT parquet)"
        )
    return path.read_bytes()


def request(table: bytes | None, **asked: Any) -> PlainRequest:
    return PlainRequest(label=HASH, objects=[] if table is None else [table], rows=[4], **asked)


QUESTION: dict[str, Any] = {
    "where": "age IS DISTINCT FROM 61",
    "keys": ["ward"],
    "aggregates": ["count(*)", "avg(age)", "max(age) > 40"],
}


def check_answer(answer: PlainResponse) -> None:
    assert (answer.label, answer.rows) == (HASH, 4)
    assert answer.counts == [2, 1]
    assert [(column.type, column.values) for column in (*answer.keys, *answer.aggregates)] == [
        ("VARCHAR", ["B", "A"]),
        ("BIGINT", ["2", "1"]),
        ("DOUBLE", ["47.0", "33.0"]),
        ("BOOLEAN", ["true", "false"]),
    ]
    assert set(answer.timings) == {"read", "load", "group", "select"}


@pytest.mark.parametrize("kind", [wire.JSON_TYPE, wire.FRAMES_TYPE])
def test_aggregate_through_asgi(table: bytes, kind: str) -> None:
    asked = request(table, **QUESTION)
    body = wire.dump_json(asked) if kind == wire.JSON_TYPE else wire.dump_frames(asked)
    response = call(app, "POST", AGGREGATE, content=body, headers={"content-type": kind})
    assert (response.status_code, response.headers["content-type"]) == (200, kind)
    check_answer(wire.load(PlainResponse, response.content, kind))


@pytest.mark.parametrize("event", [rest_event, http_event])
@pytest.mark.parametrize("kind", [wire.JSON_TYPE, wire.FRAMES_TYPE])
def test_aggregate_through_lambda(table: bytes, event: Any, kind: str) -> None:
    asked = request(table, **QUESTION)
    body = wire.dump_json(asked) if kind == wire.JSON_TYPE else wire.dump_frames(asked)
    answered = handler(event(AGGREGATE, body, kind), CONTEXT)
    assert (answered["statusCode"], answered["isBase64Encoded"]) == (200, kind == wire.FRAMES_TYPE)
    got = base64.b64decode(answered["body"]) if answered["isBase64Encoded"] else answered["body"].encode()
    check_answer(wire.load(PlainResponse, got, kind))


@pytest.mark.parametrize(
    ("change", "status", "error"),
    [
        ({"version": 1}, 422, "wire version is not 3"),
        ({"label": "short"}, 422, "label: "),
        ({"rows": [-1]}, 422, "rows.0: "),
        ({"rows": ["4"]}, 422, "rows.0: "),
        ({"rows": []}, 422, "rows: "),
        ({"rows": [2, 2]}, 422, "body: rows: 2 numbers for 1 objects"),
        ({"rows": [limits.MAX_JOB_ROWS + 1]}, 422, "rows.0: "),
        ({"rows": [5]}, 422, "object 0: 4 rows, the envelope says 5"),
        ({"objects": ["?"]}, 422, "objects.0.inline: is not base64"),
        ({"objects": [""]}, 422, "object 0: "),
        ({"objects": [base64.b64encode(CANARY.encode()).decode()]}, 422, "object 0: "),
        ({"objects": []}, 422, "where: a name, a type or"),
        ({"result": "https://bucket/results/canary"}, 422, "result: only where the path has a set"),
        ({"where": ""}, 422, "where: "),
        ({"where": "x" * (limits.MAX_SQL_CHARS + 1)}, 422, "where: "),
        ({"where": "\ud800"}, 422, "the body holds half a surrogate pair"),
        ({"where": "1) OR (1 = 1"}, 422, "where: not one SQL expression"),
        ({"where": "EXISTS (SELECT 1)"}, 422, "where: subquery is not allowed"),
        ({"where": "CAST(note AS INTEGER) = 1"}, 422, "where or keys: a value of 'note' does not fit its type"),
        ({"keys": ["ward", "ward; SELECT 1"]}, 422, "keys[1]: not one SQL expression"),
        ({"keys": ["1"] * (limits.MAX_EXPRESSIONS + 1)}, 422, "keys: "),
        ({"aggregates": ["getenv('HOME')"]}, 422, "aggregates[0]: calls a function"),
        ({"aggregates": ["sum(note)"]}, 422, "aggregates[0]: a name, a type or"),
        ({"aggregates": [7]}, 422, "aggregates.0: "),
        ({"secret_key": CANARY}, 422, "secret_key: Extra inputs are not permitted"),
    ],
)
def test_bad_requests_are_refused(
    table: bytes, lines: list[str], change: dict[str, Any], status: int, error: str
) -> None:
    """The same answer through ASGI and Lambda; no value in it nor in the log."""
    body = json.dumps(json.loads(wire.dump_json(request(table, **QUESTION))) | change).encode()
    response = call(app, "POST", AGGREGATE, content=body, headers={"content-type": wire.JSON_TYPE})
    assert response.status_code == status
    assert response.json()["error"].startswith(error)
    logged = list(lines)
    answered = handler(rest_event(AGGREGATE, body, wire.JSON_TYPE), CONTEXT)
    assert (answered["statusCode"], answered["body"]) == (status, response.text)
    for text in (response.text, str(logged)):
        assert "canary" not in text
        assert "ward" not in text


def test_the_log_has_numbers_only(table: bytes, lines: list[str]) -> None:
    call(app, "POST", AGGREGATE, json=json.loads(wire.dump_json(request(table, keys=["note"], where="age > 40"))))
    (line,) = [json.loads(text) for text in lines if text.startswith("{")]
    assert (line["rows"], line["groups"], line["status"], line["route"]) == (4, 2, 200, AGGREGATE)
    assert set(line["timings"]) == {"read", "load", "group", "select"}
    for word in (CANARY, "note", "age", "ward"):
        assert word not in str(lines)


def test_a_query_out_of_time_is_stopped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(limits, "PLAIN_SECONDS", 0.5)  # enough for a busy machine to get as far as the aggregate
    path = tmp_path / "long.parquet"
    with duckdb.connect() as connection:
        connection.execute(f"COPY (SELECT i FROM range(1000000) AS t(i)) TO '{path}' (FORMAT parquet)")
    long = "sum(list_sum(list_transform(range(3000 + i % 7), lambda x: x * i)))"
    asked = {
        "rows": [1_000_000],
        "objects": [base64.b64encode(path.read_bytes()).decode()],
        "aggregates": [long],
    }
    response = call(app, "POST", AGGREGATE, json=asked)
    assert response.status_code == 422
    assert response.json()["error"] == "stopped after 0.5 s"


def run_in_lambda(memory: int, events: list[dict[str, Any]], **env: str) -> tuple[list[dict[str, Any]], str]:
    """Call the handler in a process of its own that takes itself for a function of `memory` MB without numpy."""
    code = (
        "import sys, json; sys.modules['numpy'] = sys.modules['pandas'] = None\n"
        "from cleave_services.plain.app import handler\n"
        "json.dump([handler(event, None) for event in json.load(sys.stdin)], sys.stdout)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps(events),
        env=os.environ | {"AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(memory)} | env,
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return json.loads(done.stdout), done.stderr


def test_lambda_needs_no_numpy_says_one_line_and_outlives_a_large_query(table: bytes, tmp_path: Path) -> None:
    """memory_limit does not see these strings: without a bound of its own the process would be killed."""
    large = request(table, aggregates=["sum(len(repeat(note || age, 200000000)))"])
    events = [
        rest_event(AGGREGATE, wire.dump_json(each), wire.JSON_TYPE) for each in (large, request(table, **QUESTION))
    ]
    (refused, answered), err = run_in_lambda(1024, events, HOME=str(tmp_path))
    assert refused["statusCode"] == 413
    assert json.loads(refused["body"])["error"] == "needs more memory than the service has"
    check_answer(wire.load(PlainResponse, answered["body"].encode(), wire.JSON_TYPE))
    assert [json.loads(line)["status"] for line in err.splitlines()] == [413, 200]
    assert not list(tmp_path.iterdir())


def test_openapi_describes_both_calls() -> None:
    document = call(app, "GET", "/openapi.json").json()
    tables = {"/v1/plain/tables/{set}/aggregate"}
    assert set(document["paths"]) == {"/v1/health", "/v1/plain", AGGREGATE, *tables}
    simple = document["paths"]["/v1/plain"]["post"]["requestBody"]["content"][wire.JSON_TYPE]["schema"]
    examples = document["components"]["schemas"][simple["$ref"].rsplit("/", 1)[1]]["examples"]
    assert examples
    for example in examples:
        assert operate(**example).status_code == 200


# --- the simple call ------------------------------------------------------------------------------------------------


def operate(**asked: Any) -> httpx.Response:
    return call(app, "POST", "/v1/plain", content=json.dumps(asked), headers={"content-type": wire.JSON_TYPE})


X = [3, 1, None, 2.5, -4]


@pytest.mark.parametrize(
    ("operation", "sql"),
    [
        ("sum", "sum"),
        ("product", "product"),
        ("mean", "avg"),
        ("count", "count"),
        ("var", "variance"),
        ("stddev", "stddev"),
    ],
)
def test_simple_operations_are_duckdbs(operation: str, sql: str) -> None:
    with duckdb.connect() as connection:
        expected = connection.execute(f"SELECT {sql}(x) FROM (SELECT unnest(?::DOUBLE[]) AS x)", [X]).fetchone()
    answer = operate(data={"x": X, "name": ["a", "b", "c", "d", None]}, operation=operation).json()
    assert answer == {"operation": operation, "rows": 5, "groups": None, "result": {"x": (expected or ())[0]}}


def test_simple_groups_are_columns_in_order_of_first_appearance() -> None:
    data = {
        "ward": ["B", "A", "B", None],
        "sick": [True, True, False, None],
        "age": [47, 61, 33, 20],
        "bill": [1.5] * 4,
    }
    assert operate(data=data, operation="sum", group_by="ward").json() == {
        "operation": "sum",
        "rows": 4,
        "groups": {"ward": ["B", "A", None]},
        "result": {"age": [80, 61, 20], "bill": [3.0, 1.5, 1.5]},
    }
    two = operate(data=data, operation="mean", group_by=["sick", "age"]).json()
    assert two["groups"] == {"sick": [True, True, False, None], "age": [47, 61, 33, 20]}
    assert two["result"] == {"bill": [1.5] * 4}


@pytest.mark.parametrize(
    ("values", "operation", "expected"),
    [
        ([], "sum", None),
        ([], "count", 0),
        ([None, None], "sum", None),
        ([None, None], "count", 0),
        ([7], "var", None),
        ([1, 2], "sum", 3),
        ([1, 2.0], "sum", 3.0),
        ([2**53 - 1], "sum", 2**53 - 1),
        ([2**53 - 1, 1], "sum", "9007199254740992"),
        ([2**62, 2**62, 2**62], "sum", str(3 * 2**62)),
        ([-(2**63), -(2**63)], "sum", str(-(2**64))),
        ([2**100, 1], "sum", str(2**100 + 1)),
        ([-(2**127) + 1], "sum", str(-(2**127) + 1)),
        ([1e308, 1e308], "sum", "inf"),
        ([0.1, 0.2], "sum", 0.1 + 0.2),
        ([5e-324], "sum", 5e-324),
    ],
)
def test_simple_results_are_safe_in_json(values: list[Any], operation: str, expected: Any) -> None:
    response = operate(data={"x": values}, operation=operation)
    (got,) = response.json()["result"].values()
    assert (type(got), got) == (type(expected), expected)
    assert "NaN" not in response.text
    assert "Infinity" not in response.text


def test_simple_names_and_texts_are_never_sql() -> None:
    odd = ['"', "'; DROP TABLE rows", "", "a\0b", "é\U0001f600", "rowid", "rows", "c0"]
    data: dict[str, list[Any]] = {name: [index, index] for index, name in enumerate(odd)} | {"key": [odd[1], odd[3]]}
    answer = operate(data=data, operation="sum", group_by="key").json()
    assert answer["groups"] == {"key": [odd[1], odd[3]]}
    assert answer["result"] == {name: [index, index] for index, name in enumerate(odd)}


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        ({}, "data: Field required; operation: Field required"),
        ({"data": {}, "operation": "sum"}, "data: "),
        ({"data": [], "operation": "sum"}, "data: "),
        ({"data": {"x": 1}, "operation": "sum"}, "data.x: must be a list of values"),
        ({"data": {"x": [1]}, "operation": "median"}, "operation: "),
        ({"data": {"x": [1]}, "operation": "sum", "sql": CANARY}, "sql: Extra inputs"),
        ({"data": {"x": [1], "y": [1, 2]}, "operation": "sum"}, "body: data: columns have 1 to 2 rows"),
        (
            {"data": {"x": [1, None, CANARY]}, "operation": "sum"},
            "data.x: row 3 is a string, an earlier row is a number",
        ),
        (
            {"data": {"x": [None, True, 1]}, "operation": "sum"},
            "data.x: row 3 is a number, an earlier row is a boolean",
        ),
        ({"data": {"x": [1, [CANARY]]}, "operation": "sum"}, "data.x: row 2 is neither number"),
        ({"data": {"x": [{}]}, "operation": "sum"}, "data.x: row 1 is neither number"),
        ({"data": {"x": [1, float("nan")]}, "operation": "sum"}, "data.x: row 2 is not a finite number"),
        ({"data": {"x": [float("-inf")]}, "operation": "sum"}, "data.x: row 1 is not a finite number"),
        ({"data": {"x": [2**127]}, "operation": "sum"}, "data.x: row 1 is an integer of more than 127 bits"),
        ({"data": {"x": [CANARY]}, "operation": "sum"}, "body: data: there is no numeric column"),
        ({"data": {"x": [1]}, "operation": "sum", "group_by": "x"}, "body: data: there is no numeric column"),
        ({"data": {"x": [1]}, "operation": "sum", "group_by": "y"}, "body: group_by: must name columns"),
        ({"data": {"x": [1], "y": [1]}, "operation": "sum", "group_by": ["y", "y"]}, "body: group_by: "),
        ({"data": {"x": [1]}, "operation": "sum", "group_by": 1}, "group_by"),
        ({"data": {"x": [2**126] * 3}, "operation": "sum"}, "aggregates: a result is too large for its type"),
    ],
)
def test_wrong_simple_requests_are_refused(lines: list[str], asked: dict[str, Any], error: str) -> None:
    response = operate(**asked)
    assert response.status_code == 422
    assert response.json()["error"].startswith(error)
    assert "canary" not in response.text + str(lines)


def test_simple_through_lambda() -> None:
    body = b'{"data": {"age": [61, 47, 33]}, "operation": "sum"}'
    answered = handler(rest_event("/v1/plain", body, wire.JSON_TYPE), CONTEXT)
    assert json.loads(answered["body"]) == {"operation": "sum", "rows": 3, "groups": None, "result": {"age": 141}}
