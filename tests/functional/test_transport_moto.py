"""`--lambda` against moto's Lambda: functions are looked up by name or ARN there, our handlers answer."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from boto3.session import Session
from botocore.awsrequest import AWSRequest
from moto import mock_aws
from moto.awslambda_simple.models import LambdaSimpleBackend
from moto.core.models import botocore_stubber

from cleave.ckks.secret_key import SecretKey
from cleave.deadline import Deadline
from cleave.sql.planner import plan_query
from cleave.table.schema import load_schema, schema_path
from cleave.table.stream import open_table
from cleave.transport.base import Transport
from cleave.transport.connect import Target, connect
from cleave.transport.http import Sender
from cleave.transport.responses import Response
from cleave_services.plain.app import handler as plain
from cleave_services.sensitive.app import handler as sensitive
from cleave_shared.errors import ServiceError
from tests.answering import run_query
from tests.property.tables import Draw, oracle, write
from tests.property.test_oracle import Silent

REGION = "eu-west-1"


def no_embedded() -> Transport:
    raise AssertionError("Lambda was asked for")


@pytest.fixture
def functions(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """ARNs of both functions in moto, by name."""
    for name, value in (("AWS_ACCESS_KEY_ID", "testing"), ("AWS_SECRET_ACCESS_KEY", "testing")):
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    handlers = {"cleave-sensitive": sensitive, "cleave-plain": plain}

    def invoke(
        self: Any, function_name: str, qualifier: Any, body: Any, headers: Any, response_headers: Any
    ) -> bytes | None:
        name = function_name.rsplit(":", 1)[-1]
        if name not in handlers:
            return None
        return json.dumps(handlers[name](json.loads(body), SimpleNamespace(aws_request_id="moto"))).encode()

    def post(
        self: Sender, label: str, url: str, body: bytes, headers: Mapping[str, str], deadline: Deadline
    ) -> tuple[Response, Mapping[str, str]]:
        """moto stands in for botocore's own requests; ours is handed to it as one of those."""
        request = AWSRequest("POST", url, headers=dict(headers), data=body).prepare()
        reply = botocore_stubber("before-send.lambda.Invoke", request)
        got = {name.lower(): str(value) for name, value in reply.headers.items()}
        return Response(reply.status_code, got.get("content-type", ""), reply.content), got

    monkeypatch.setattr(Sender, "post", post)
    monkeypatch.setattr(LambdaSimpleBackend, "invoke", invoke)
    aws = mock_aws(config={"lambda": {"use_docker": False}})
    aws.start(reset=False)  # nor is anything removed: the S3 of other tests is in this process too
    try:
        session = Session()
        policy = {"Version": "2012-10-17", "Statement": []}
        people = session.client("iam")
        role = people.create_role(RoleName="r", AssumeRolePolicyDocument=json.dumps(policy))
        code = io.BytesIO()
        zipfile.ZipFile(code, "w").close()
        client = session.client("lambda")
        arns = {}
        for name in handlers:
            made = client.create_function(
                FunctionName=name,
                Runtime="python3.13",
                Role=role["Role"]["Arn"],
                Handler="app.handler",
                Code={"ZipFile": code.getvalue()},
            )
            arns[name] = made["FunctionArn"]
        yield arns
        for name in handlers:
            client.delete_function(FunctionName=name)
        people.delete_role(RoleName="r")
    finally:
        aws.stop(remove_data=False)


@pytest.mark.parametrize("by", ["name", pytest.param("ARN", marks=pytest.mark.slow)])
def test_a_query_through_both_functions(functions: dict[str, str], key: SecretKey, tmp_path: Path, by: str) -> None:
    path = write(tmp_path, Draw(3, 400, 5, 0.1, "offset", 20, None, True))
    sql = 'SELECT g, COUNT(*), SUM(i), AVG(f), STDDEV(d) FROM "table" GROUP BY g ORDER BY g'
    named = list(functions) if by == "name" else list(functions.values())
    schema = load_schema(schema_path(path))
    transport = connect(Target(functions=",".join(named), region=REGION), no_embedded)
    with oracle(path) as unsplit, open_table(path, schema) as table:
        answer = run_query(table, plan_query(sql, schema, table.name), key, transport, Silent())
        expected = unsplit.execute(sql).fetchall()
    assert len(answer.result.rows) == len(expected) > 1
    for row, bounds, truth in zip(answer.result.rows, answer.result.bounds, expected, strict=True):
        for value, bound, true in zip(row, bounds, truth, strict=True):
            if isinstance(true, float):
                assert abs(float(value) - true) <= float(bound or 0) + 1e-9 * abs(true)
            else:
                assert value == true
    transport.close()


def test_a_function_that_is_not_there(functions: dict[str, str], key: SecretKey, tmp_path: Path) -> None:
    path = write(tmp_path, Draw(3, 7, 1, 0.0, "unit", 7, None, False))
    schema = load_schema(schema_path(path))
    transport = connect(Target(functions="cleave-sensitive,nobody", region=REGION), no_embedded)
    with open_table(path, schema) as table, pytest.raises(ServiceError) as caught:
        run_query(
            table, plan_query('SELECT g, SUM(i) FROM "table" GROUP BY g', schema, table.name), key, transport, Silent()
        )
    assert caught.value.hint
    transport.close()
