"""Signatures and Lambda invocations: verified with botocore itself, refused clearly where credentials are not fit."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.response import StreamingBody
from botocore.session import Session
from botocore.stub import ANY, Stubber

from cleave.transport import retry
from cleave.transport.aws import open_session, sigv4_signer
from cleave.transport.base import EnvelopeTransport, Service, Transport
from cleave.transport.connect import Target, connect
from cleave.transport.endpoint import read_endpoints
from cleave.transport.http import connect_http
from cleave.transport.lambda_ import Functions, read_functions
from cleave.transport.proxy_event import proxy_event
from cleave_services.plain.app import handler as plain_handler
from cleave_shared import wire
from cleave_shared.errors import InputError, ServiceError
from cleave_shared.wire import FRAMES_TYPE
from tests.functional.envelopes import COUNTS, COUNTS_FRAMES, MOMENTS, ROWS, TOTALS, TOTALS_FRAMES
from tests.functional.scripted import Asked, Reply, scripted

ACCESS, SECRET, TOKEN = "AKIDEXAMPLE", "wJalr-canary-secret", "canary-session-token"


@pytest.fixture(autouse=True)
def aws(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """An AWS environment of the tests' own: static credentials, no files, no metadata service."""
    for name in ("AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_SESSION_TOKEN", TOKEN)
    return monkeypatch


def no_embedded() -> Transport:
    raise AssertionError("a remote service was asked for")


def signed_client(url: str, region: str | None = "eu-west-1", attempts: int = 1) -> EnvelopeTransport:
    session = open_session(None, region)
    urls = read_endpoints(url, insecure_http=False)
    signers = {service: sigv4_signer(session, url) for service, url in urls.items()}
    return connect_http(urls, signers, retry.Policy(attempts, first=0))


def verify(asked: Asked, url: str, region: str) -> None:
    """Recompute the signature from what arrived."""
    headers = {name.lower(): value for name, value in asked.headers.items()}
    scheme, fields = headers["authorization"].split(" ", maxsplit=1)
    assert scheme == "AWS4-HMAC-SHA256"
    parts = dict(field.strip().split("=", maxsplit=1) for field in fields.split(","))
    assert parts["Credential"] == f"{ACCESS}/{headers['x-amz-date'][:8]}/{region}/execute-api/aws4_request"
    names = parts["SignedHeaders"].split(";")
    assert {"host", "content-type", "x-amz-date", "x-amz-security-token"} <= set(names)
    arrived = AWSRequest("POST", url + asked.path, headers={name: headers[name] for name in names}, data=asked.body)
    arrived.context["timestamp"] = headers["x-amz-date"]
    auth = SigV4Auth(Credentials(ACCESS, SECRET, TOKEN), "execute-api", region)
    signature = auth.signature(auth.string_to_sign(arrived, auth.canonical_request(arrived)), arrived)
    assert parts["Signature"] == signature


def test_every_attempt_carries_a_valid_signature() -> None:
    with scripted(Reply(503), Reply(body=TOTALS_FRAMES), Reply(body=COUNTS_FRAMES)) as server:
        transport = signed_client(server.url + "/prod", attempts=2)
        assert transport.sensitive(MOMENTS) == TOTALS
        assert transport.plain(ROWS) == COUNTS
        transport.close()
    assert len(server.asked) == 3
    for asked in server.asked:
        verify(asked, server.url, "eu-west-1")


def test_a_changed_body_breaks_the_signature() -> None:
    with scripted(Reply(body=TOTALS_FRAMES)) as server:
        transport = signed_client(server.url)
        transport.sensitive(MOMENTS)
        transport.close()
    asked = server.asked[0]
    with pytest.raises(AssertionError):
        verify(Asked(asked.path, asked.headers, asked.body + b"x"), server.url, "eu-west-1")


@pytest.mark.parametrize(
    ("target", "signed"),
    [({"sign": True, "region": "eu-west-1"}, True), ({"region": "eu-west-1"}, True), ({}, False)],
)
def test_what_is_not_on_aws_is_signed_only_if_asked_for(target: Mapping[str, Any], signed: bool) -> None:
    with scripted(Reply(body=COUNTS_FRAMES)) as server:
        transport = connect(Target(endpoint=server.url, **target), no_embedded)
        transport.plain(ROWS)
        transport.close()
    assert ("Authorization" in server.asked[0].headers) is signed


def test_a_host_of_api_gateway_is_always_signed_for_its_own_region() -> None:
    url = "https://abc.execute-api.ap-south-1.amazonaws.com/prod/v1/plain/aggregate"
    headers = sigv4_signer(open_session(None, None), url)(url, b"body", {"content-type": FRAMES_TYPE})
    assert "/ap-south-1/execute-api/aws4_request" in headers["Authorization"]
    assert urlsplit(url).hostname not in headers.values()  # the host is signed as it is sent, not set twice


def write(path: str, text: str, aws: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        aws.delenv(name, raising=False)
    Path(path).write_text(text)


def test_credentials_that_cannot_sign(aws: pytest.MonkeyPatch, tmp_path: Path) -> None:
    config = str(tmp_path / "config")
    cases = {
        "no AWS credentials were found": ("", None, "us-east-1"),
        "no AWS profile of that name": ("", "absent", "us-east-1"),
        "incomplete": ("[profile half]\naws_access_key_id = AKID\n", "half", "us-east-1"),
        "cannot be read": ("[profile\n", None, "us-east-1"),
        "have expired or cannot be fetched": (
            "[profile p]\ncredential_process = sh -c 'echo canary-secret >&2; exit 1'\n",
            "p",
            "us-east-1",
        ),
        "the AWS region is not known": (
            "[profile q]\naws_access_key_id = AKID\naws_secret_access_key = canary-secret\n",
            "q",
            None,
        ),
    }
    for message, (text, profile, region) in cases.items():
        write(config, text, aws)
        with pytest.raises(ServiceError, match=message) as caught:
            connect(Target(endpoint="http://127.0.0.1:1", profile=profile, region=region, sign=True), no_embedded)
        assert caught.value.hint
        assert "canary" not in f"{caught.value.message}{caught.value.hint}"
    with pytest.raises(ServiceError, match="region is not known"):
        connect(Target(functions="a,b", profile="q"), no_embedded)


def test_a_profile_brings_credentials_and_region(aws: pytest.MonkeyPatch, tmp_path: Path) -> None:
    text = f"[profile x]\naws_access_key_id = {ACCESS}\naws_secret_access_key = {SECRET}\nregion = sa-east-1\n"
    write(str(tmp_path / "config"), text + f"aws_session_token = {TOKEN}\n", aws)
    with scripted(Reply(body=COUNTS_FRAMES)) as server:
        transport = connect(Target(endpoint=server.url, profile="x"), no_embedded)
        transport.plain(ROWS)
        transport.close()
    verify(server.asked[0], server.url, "sa-east-1")


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (Target(endpoint="https://a", functions="a,b"), "exclude each other"),
        (Target(profile="x"), "about a remote service"),
        (Target(sign=True), "about a remote service"),
        (Target(functions="only-one"), "SENSITIVE,PLAIN"),
        (Target(functions="a,,b"), "SENSITIVE,PLAIN"),
    ],
)
def test_options_that_make_no_sense(target: Target, message: str) -> None:
    with pytest.raises(InputError, match=message):
        connect(target, no_embedded)


# --- Lambda


def payload(content: object) -> dict[str, Any]:
    text = content if isinstance(content, bytes) else json.dumps(content).encode()
    return {"StatusCode": 200, "Payload": StreamingBody(io.BytesIO(text), len(text))}


def proxied(status: int, body: bytes, content_type: str = FRAMES_TYPE) -> dict[str, Any]:
    return payload(
        {
            "statusCode": status,
            "headers": {"content-type": content_type},
            "body": base64.b64encode(body).decode(),
            "isBase64Encoded": True,
        }
    )


def lambda_client() -> Any:
    return Session().create_client("lambda", region_name="eu-west-1")


def transport_over(client: Any, attempts: int = 4) -> EnvelopeTransport:
    policy = retry.Policy(attempts, first=0)
    return EnvelopeTransport(Functions(client, read_functions("sensitive-one, arn:aws:lambda:x:1:function:p")), policy)


def test_each_function_is_invoked_by_its_name() -> None:
    client = lambda_client()
    with Stubber(client) as stub:
        stub.add_response("invoke", proxied(200, TOTALS_FRAMES), {"FunctionName": "sensitive-one", "Payload": ANY})
        stub.add_response(
            "invoke",
            proxied(200, COUNTS_FRAMES),
            {"FunctionName": "arn:aws:lambda:x:1:function:p", "Payload": ANY},
        )
        transport = transport_over(client)
        assert transport.sensitive(MOMENTS) == TOTALS
        assert transport.plain(ROWS) == COUNTS
        stub.assert_no_pending_responses()
    transport.close()


def test_the_event_reaches_a_real_handler() -> None:
    class Invoked:
        def invoke(self, FunctionName: str, Payload: bytes) -> dict[str, Any]:  # noqa: N803, ARG002 - botocore's names
            return payload(plain_handler(json.loads(Payload), SimpleNamespace(aws_request_id="r-1")))

    answer = transport_over(Invoked()).plain(ROWS)
    assert answer.counts == [7]
    assert answer.schema_hash == ROWS.schema_hash


def test_the_event_is_what_a_rest_api_sends() -> None:
    event = proxy_event(Service.SENSITIVE.value, b"\x00\xff", FRAMES_TYPE)
    assert event["path"] == event["resource"] == "/v1/sensitive/moments"
    assert base64.b64decode(event["body"]) == b"\x00\xff"
    assert event["isBase64Encoded"] is True


def test_throttling_is_tried_again_and_then_told() -> None:
    client = lambda_client()
    with Stubber(client) as stub:
        for _ in range(2):
            stub.add_client_error("invoke", "TooManyRequestsException", "slow down", http_status_code=429)
        stub.add_response("invoke", proxied(200, COUNTS_FRAMES))
        assert transport_over(client).plain(ROWS) == COUNTS
        for _ in range(2):
            stub.add_client_error("invoke", "TooManyRequestsException", "slow down", http_status_code=429)
        with pytest.raises(ServiceError, match="TooManyRequestsException") as caught:
            transport_over(client, attempts=2).plain(ROWS)
        stub.assert_no_pending_responses()
    assert caught.value.status == 429
    assert "concurrency" in str(caught.value.hint)
    client.close()


@pytest.mark.parametrize(
    ("code", "status", "hint"),
    [
        ("ResourceNotFoundException", 404, "--region"),
        ("AccessDeniedException", 403, "lambda:InvokeFunction"),
        ("ExpiredTokenException", 403, "log in again"),
        ("UnrecognizedClientException", 403, "--profile"),
        ("InvalidSignatureException", 403, "clock"),
        ("RequestTooLargeException", 413, "fewer columns"),
    ],
)
def test_refusals_are_told_once(code: str, status: int, hint: str) -> None:
    client = lambda_client()
    with Stubber(client) as stub:
        stub.add_client_error("invoke", code, "canary text of the service", http_status_code=status)
        with pytest.raises(ServiceError, match=code) as caught:
            transport_over(client).sensitive(MOMENTS)
        stub.assert_no_pending_responses()
    assert hint in str(caught.value.hint)
    assert "canary" not in caught.value.message
    client.close()


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (
            payload({"errorType": "Runtime.ExitError", "errorMessage": "canary"}) | {"FunctionError": "Unhandled"},
            "ExitError",
        ),
        (payload(b"<html>") | {"FunctionError": "Unhandled"}, "failed"),
        (payload({"answer": 42}), "no HTTP answer"),
        (payload(b"null"), "no HTTP answer"),
        (payload(b"not json"), "no HTTP answer"),
        (proxied(422, b'{"error": "rows: wrong", "hint": "count them"}', "application/json"), "422: rows: wrong"),
    ],
)
def test_functions_that_fail(reply: dict[str, Any], message: str) -> None:
    client = lambda_client()
    with Stubber(client) as stub:
        stub.add_response("invoke", reply)
        with pytest.raises(ServiceError, match=message) as caught:
            transport_over(client).sensitive(MOMENTS)
    assert "canary" not in caught.value.message
    assert caught.value.hint
    client.close()


def test_the_whole_way_to_a_function(aws: pytest.MonkeyPatch) -> None:
    reply = proxied(200, COUNTS_FRAMES)["Payload"].read()
    with scripted(Reply(503), Reply(body=reply, content_type="application/json")) as server:
        aws.setenv("AWS_ENDPOINT_URL_LAMBDA", server.url)
        transport = connect(Target(functions="one,other", region="eu-west-1"), no_embedded)
        assert transport.plain(ROWS) == COUNTS
        transport.close()
    assert [asked.path for asked in server.asked] == ["/2015-03-31/functions/other/invocations"] * 2
    assert json.loads(server.asked[0].body) == proxy_event(Service.PLAIN.value, wire.dump_frames(ROWS), FRAMES_TYPE)


def test_an_endpoint_of_lambda_that_cannot_be_reached() -> None:
    client = Session().create_client("lambda", region_name="eu-west-1", endpoint_url="http://127.0.0.1:1")
    client.meta.config.retries = {"total_max_attempts": 1}
    with pytest.raises(ServiceError, match="Lambda cannot be reached"):
        transport_over(client, attempts=2).plain(ROWS)
    client.close()
