"""Signatures and Lambda invocations: verified with botocore itself, refused clearly where credentials are not fit."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from cleave.transport import retry
from cleave.transport.aws import open_session, region_of, sigv4_signer
from cleave.transport.base import Service, Transport
from cleave.transport.connect import Target, connect
from cleave.transport.endpoint import read_endpoints
from cleave.transport.http import Sender, connect_http
from cleave.transport.lambda_ import Functions, proxy_event, read_functions
from cleave_shared import wire
from cleave_shared.errors import InputError, ServiceError
from cleave_shared.wire import FRAMES_TYPE
from tests.functional.envelopes import COUNTS, COUNTS_FRAMES, MOMENTS, ROWS, TOTALS, TOTALS_FRAMES
from tests.functional.scripted import Asked, Reply, scripted
from tests.security.ways import Record, recorded

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


def signed_client(url: str, region: str | None = "eu-west-1", attempts: int = 1) -> Transport:
    session = open_session(None, region)
    urls = read_endpoints(url, insecure_http=False)
    signers = {service: sigv4_signer(session, url) for service, url in urls.items()}
    return connect_http(urls, signers, retry.Policy(attempts, first=0))


def verify(asked: Asked, url: str, region: str, name: str = "execute-api") -> None:
    """Recompute the signature from what arrived."""
    headers = {name.lower(): value for name, value in asked.headers.items()}
    scheme, fields = headers["authorization"].split(" ", maxsplit=1)
    assert scheme == "AWS4-HMAC-SHA256"
    parts = dict(field.strip().split("=", maxsplit=1) for field in fields.split(","))
    assert parts["Credential"] == f"{ACCESS}/{headers['x-amz-date'][:8]}/{region}/{name}/aws4_request"
    names = parts["SignedHeaders"].split(";")
    assert {"host", "content-type", "x-amz-date", "x-amz-security-token"} <= set(names)
    arrived = AWSRequest("POST", url + asked.path, headers={name: headers[name] for name in names}, data=asked.body)
    arrived.context["timestamp"] = headers["x-amz-date"]
    auth = SigV4Auth(Credentials(ACCESS, SECRET, TOKEN), name, region)
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


def proxied(status: int, body: bytes, content_type: str = FRAMES_TYPE, **headers: str) -> Reply:
    """What Lambda's Invoke answers for a function that gave an HTTP answer."""
    return reply(
        {
            "statusCode": status,
            "headers": {"content-type": content_type, **headers},
            "body": base64.b64encode(body).decode(),
            "isBase64Encoded": True,
        }
    )


def reply(content: object, **headers: str) -> Reply:
    text = content if isinstance(content, bytes) else json.dumps(content).encode()
    return Reply(body=text, content_type="application/json", headers={"x-amzn-requestid": "r-4711", **headers})


def refusal(code: str, status: int) -> Reply:
    body = b'{"Message": "canary text of the service"}'
    return Reply(status, body, "application/json", headers={"x-amzn-ErrorType": f"{code}:http://internal/"})


def functions_at(url: str, attempts: int = 4) -> Transport:
    names = read_functions("sensitive-one, arn:aws:lambda:x:1:function:p")
    signer = sigv4_signer(open_session(None, "eu-west-1"), url, "lambda")
    return Transport(Functions(Sender(local=True), url, signer, names), retry.Policy(attempts, first=0))


def test_each_function_is_invoked_by_its_name_and_signed_for() -> None:
    with scripted(proxied(200, TOTALS_FRAMES), proxied(200, COUNTS_FRAMES)) as server:
        transport = functions_at(server.url)
        assert transport.sensitive(MOMENTS) == TOTALS
        assert transport.plain(ROWS) == COUNTS
        transport.close()
    paths = [asked.path for asked in server.asked]
    assert paths[0] == "/2015-03-31/functions/sensitive-one/invocations"
    assert paths[1] == "/2015-03-31/functions/arn%3Aaws%3Alambda%3Ax%3A1%3Afunction%3Ap/invocations"
    for asked in server.asked:
        verify(asked, server.url, "eu-west-1", "lambda")


def test_the_event_reaches_a_real_handler() -> None:
    record = Record()
    transport = recorded("lambda", record, "")()
    answer = transport.plain(ROWS)
    assert answer.counts == [7]
    assert answer.label == ROWS.label
    assert record.exchanges[0].answer.content_type == FRAMES_TYPE


def test_the_event_is_what_a_rest_api_sends() -> None:
    event = proxy_event(Service.SENSITIVE.value, b"\x00\xff", FRAMES_TYPE)
    assert event["path"] == event["resource"] == "/v1/sensitive/moments"
    assert base64.b64decode(event["body"]) == b"\x00\xff"
    assert event["isBase64Encoded"] is True


def test_throttling_is_tried_again_and_then_told() -> None:
    slow_down = refusal("TooManyRequestsException", 429)
    with scripted(slow_down, slow_down, proxied(200, COUNTS_FRAMES)) as server:
        transport = functions_at(server.url)
        assert transport.plain(ROWS) == COUNTS
        transport.close()
    with scripted(slow_down) as server:
        transport = functions_at(server.url, attempts=2)
        with pytest.raises(ServiceError, match="TooManyRequestsException") as caught:
            transport.plain(ROWS)
        transport.close()
    assert len(server.asked) == 2
    assert caught.value.status == 429
    assert "concurrency" in str(caught.value.hint)


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
    with scripted(refusal(code, status)) as server:
        transport = functions_at(server.url)
        with pytest.raises(ServiceError, match=f"{code}$") as caught:
            transport.sensitive(MOMENTS)
        transport.close()
    assert len(server.asked) == 1
    assert hint in str(caught.value.hint)
    assert "canary" not in caught.value.message


FAILED = {"x-amz-function-error": "Unhandled"}
DEEP = b'{"statusCode": 200, "body": ' + b"[" * 400_000


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (reply({"errorType": "Runtime.ExitError", "errorMessage": "canary"}, **FAILED), "ExitError"),
        (reply(b"<html>", **FAILED), "failed"),
        (reply(DEEP, **FAILED), "failed"),
        (reply({"answer": 42}), "no HTTP answer"),
        (reply(b"null"), "no HTTP answer"),
        (reply(b"not json"), "no HTTP answer"),
        (reply(DEEP), "no HTTP answer"),
        (reply(b'{"statusCode": 1e999, "body": ""}'), "no HTTP answer"),
        (reply(b'{"statusCode": NaN, "body": ""}'), "no HTTP answer"),
        (reply(b'{"statusCode": true, "body": ""}'), "no HTTP answer"),
        (reply(b'{"statusCode": 99999999, "body": ""}'), "no HTTP answer"),
        (reply(b'{"statusCode": 200, "headers": [1], "body": ""}'), "no HTTP answer"),
        (reply(b'{"statusCode": 200, "headers": {}, "body": {"a": 1}}'), "no HTTP answer"),
        (reply(b'{"statusCode": 200, "headers": {}, "body": "\xc3"}'), "no HTTP answer"),
        (reply(b'{"statusCode": 200, "headers": {"content-type": 1e999}, "body": "x"}'), "content type"),
        (proxied(200, b'{"version": 1e999}', "application/json"), "wire version"),
        (proxied(200, b"[" * 400_000, "application/json"), "not JSON"),
        (proxied(422, b'{"error": "rows: wrong", "hint": "count them"}', "application/json"), "422: rows: wrong"),
    ],
    ids=range(18),
)
def test_functions_that_fail_are_errors_with_a_hint(answer: Reply, message: str) -> None:
    with scripted(answer) as server:
        transport = functions_at(server.url)
        with pytest.raises(ServiceError, match=message) as caught:
            transport.sensitive(MOMENTS)
        transport.close()
    assert len(server.asked) == 1
    assert "canary" not in caught.value.message
    assert caught.value.message.endswith("[request id r-4711]")
    assert caught.value.hint


def test_the_whole_way_to_a_function(aws: pytest.MonkeyPatch) -> None:
    """As over `sam local start-lambda`: botocore's own variable names the endpoint."""
    with scripted(Reply(503), proxied(200, COUNTS_FRAMES)) as server:
        aws.setenv("AWS_ENDPOINT_URL_LAMBDA", server.url + "/")
        transport = connect(Target(functions="one,other", region="eu-west-1"), no_embedded)
        assert transport.plain(ROWS) == COUNTS
        transport.close()
    assert [asked.path for asked in server.asked] == ["/2015-03-31/functions/other/invocations"] * 2
    assert json.loads(server.asked[0].body) == proxy_event(Service.PLAIN.value, wire.dump_frames(ROWS), FRAMES_TYPE)
    verify(server.asked[0], server.url, "eu-west-1", "lambda")


@pytest.mark.parametrize("variable", ["AWS_REGION", "AWS_DEFAULT_REGION"])
def test_the_region_from_the_environment(variable: str, aws: pytest.MonkeyPatch) -> None:
    aws.setenv(variable, "ap-south-1")
    with scripted(proxied(200, COUNTS_FRAMES)) as server:
        aws.setenv("AWS_ENDPOINT_URL_LAMBDA", server.url)
        transport = connect(Target(functions="one,other"), no_embedded)
        assert transport.plain(ROWS) == COUNTS
        transport.close()
    verify(server.asked[0], server.url, "ap-south-1", "lambda")
    aws.setenv("AWS_REGION", "sa-east-1")
    assert region_of(open_session(None, "eu-west-1")) == "eu-west-1"
    # boto3 does not read AWS_REGION, so it is last
    assert region_of(open_session(None, None)) == ("sa-east-1" if variable == "AWS_REGION" else "ap-south-1")
    assert region_of(open_session(None, None), "https://a.execute-api.us-east-2.amazonaws.com/x") == "us-east-2"


def test_an_endpoint_of_lambda_that_cannot_be_reached() -> None:
    transport = functions_at("http://127.0.0.1:1", attempts=2)
    with pytest.raises(ServiceError, match=r"the function behind the plain service at 127\.0\.0\.1:1 refuses"):
        transport.plain(ROWS)
    transport.close()


def test_a_region_that_is_none() -> None:
    with pytest.raises(ServiceError, match=r"--region cannot be used \(InvalidRegionError\)"):
        connect(Target(functions="one,other", region="eu west"), no_embedded)
