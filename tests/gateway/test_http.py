"""`POST /v1/query`: the same answers, the same limits."""

from __future__ import annotations

import httpx
import pyarrow as pa
import pytest

from tests.functional.processes import HANGS
from tests.gateway.conftest import Gateway
from tests.gateway.test_answers import CLOCKS, TIMES

SQL = "SELECT ward, COUNT(*) AS n, SUM(bill) AS s FROM visits GROUP BY ward ORDER BY ward"


def post(gateway: Gateway, body: object, user: str | None = "owner", **headers: str) -> httpx.Response:
    if user:
        headers["authorization"] = f"Bearer {gateway.tokens.get(user, user)}"
    return httpx.post(f"{gateway.http}/v1/query", json=body, headers=headers, timeout=HANGS)


def test_an_answer_is_json_or_arrow(gateway: Gateway) -> None:
    truth = gateway.truth.sql(SQL)
    answer = post(gateway, {"sql": SQL}).json()
    assert [(each["name"], each["type"]) for each in answer["columns"]] == list(
        zip(truth.columns, map(str, truth.types), strict=True)
    )
    assert answer["rows"] == [[None if each is None else str(each) for each in row] for row in truth.fetchall()]
    streamed = post(gateway, {"sql": SQL, "format": "arrow"})
    assert streamed.headers["content-type"] == "application/vnd.apache.arrow.stream"
    assert pa.ipc.open_stream(streamed.content).read_all() == gateway.truth.sql(SQL).to_arrow_table()
    for sql in ("SELECT 1 AS a, 'x' AS b, NULL AS c", "SELECT 1 AS a, 2 AS a", "SELECT 1 WHERE FALSE"):  # no table
        streamed = post(gateway, {"sql": sql, "format": "arrow"})
        table = pa.ipc.open_stream(streamed.content).read_all()
        assert [tuple(row.values()) for row in table.to_pylist()] == gateway.truth.execute(sql).fetchall()


def test_parameters_are_bound(gateway: Gateway) -> None:
    sql = "SELECT COUNT(*) AS n FROM visits WHERE name = ? AND id < ?"
    for text in ("' OR 1=1 -- ", "O'Hara \\ \"\U0001f6001"):
        truth = gateway.truth.execute(sql, [text, 50]).fetchall()
        assert post(gateway, {"sql": sql, "parameters": [text, 50]}).json()["rows"] == [[str(truth[0][0])]]


@pytest.mark.parametrize("condition", CLOCKS)
def test_times_are_parameters(gateway: Gateway, condition: str) -> None:
    sql = f"SELECT COUNT(*) AS n FROM visits WHERE {condition}"
    for time in TIMES:
        truth = gateway.truth.execute(sql, [time]).fetchall()
        assert post(gateway, {"sql": sql, "parameters": [time.isoformat()]}).json()["rows"] == [[str(truth[0][0])]]


def test_only_users_may_ask(gateway: Gateway) -> None:
    for user in (None, "short", "x" * 43, "é" * 20):
        headers = {} if user is None else {"authorization": f"Bearer {user}".encode()}
        said = httpx.post(f"{gateway.http}/v1/query", json={"sql": "SELECT 1"}, headers=headers, timeout=HANGS)
        assert said.status_code == 401
        assert said.headers["www-authenticate"] == "Bearer"
    assert post(gateway, {"sql": "SELECT COUNT(*) FROM wards"}, "wards_only").json()["rows"] == [["3"]]
    refused = post(gateway, {"sql": "SELECT COUNT(*) FROM visits"}, "wards_only")
    assert refused.status_code == 400
    assert "there is no table" in refused.json()["detail"]


def test_bodies_that_are_wrong(gateway: Gateway) -> None:
    for body in ({}, [], {"sql": 1}, {"sql": ""}, {"sql": "SELECT 1", "more": 1}, {"sql": "SELECT 1", "format": "x"}):
        assert post(gateway, body).status_code == 422
    assert post(gateway, {"sql": "DELETE FROM visits"}).status_code == 400
    large = httpx.post(
        f"{gateway.http}/v1/query",
        content=b"x" * (5 << 20),
        headers={"authorization": f"Bearer {gateway.tokens['owner']}"},
        timeout=HANGS,
    )
    assert large.status_code == 413
    assert httpx.get(f"{gateway.http}/health").json() == {"status": "ok"}
    described = httpx.get(f"{gateway.http}/openapi.json").json()
    assert set(described["paths"]) == {"/v1/query", "/health"}
    query = described["paths"]["/v1/query"]["post"]
    kinds = {status: [*each["content"]] for status, each in query["responses"].items()}
    assert kinds.pop("200") == ["application/json", "application/vnd.apache.arrow.stream"]
    assert set(kinds) == {"400", "401", "408", "413", "421", "422", "431", "503"}
    for status, kind in kinds.items():
        assert kind == [large.headers["content-type"]]
        schema = query["responses"][status]["content"][kind[0]]["schema"]
        assert schema == {"$ref": "#/components/schemas/Problem"}
    assert query["security"] == [{"HTTPBearer": []}]
