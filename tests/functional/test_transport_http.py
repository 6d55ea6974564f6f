"""The HTTP transport against scripted servers: what it sends, what it repeats, and what it says of every failure."""

from __future__ import annotations

import datetime
import json
import socket
import ssl
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from cleave.transport import retry
from cleave.transport.base import Service, Transport
from cleave.transport.endpoint import execute_api_region, read_endpoints
from cleave.transport.http import connect_http
from cleave_shared import limits, wire
from cleave_shared.errors import InputError, ServiceError
from cleave_shared.requests import Lane, SumsRequest
from cleave_shared.wire import JSON_TYPE
from tests.functional.envelopes import COUNTS, COUNTS_FRAMES, MOMENTS, ROWS, TOTALS, TOTALS_FRAMES
from tests.functional.scripted import Reply, scripted

GOOD = Reply(body=TOTALS_FRAMES)


def patient(waits: list[float], attempts: int = 4) -> retry.Policy:
    """Retries that note how long they would have waited, and do not."""
    return retry.Policy(attempts, first=0.2, longest=0.5, sleep=lambda _, seconds: waits.append(seconds))


def client(base: str, waits: list[float] | None = None, timeout: float = 5.0) -> Transport:
    urls = read_endpoints(base, insecure_http=False)
    return connect_http(urls, policy=patient([] if waits is None else waits), timeout=httpx.Timeout(timeout))


def problem(status: int, content: object) -> Reply:
    return Reply(status, json.dumps(content).encode(), JSON_TYPE)


def page(status: int, text: str) -> Reply:
    return Reply(status, text.encode(), "text/html; charset=utf-8")


def test_both_services_are_asked_in_frames_and_bodies_are_counted() -> None:
    with scripted(GOOD, Reply(body=COUNTS_FRAMES)) as server:
        transport = client(server.url + "/prod/")
        assert transport.sensitive(MOMENTS) == TOTALS
        assert transport.plain(ROWS) == COUNTS
        transport.close()
    assert [asked.path for asked in server.asked] == ["/prod/v1/sensitive/moments", "/prod/v1/plain/aggregate"]
    assert wire.load(SumsRequest, server.asked[0].body, server.asked[0].headers["content-type"]) == MOMENTS
    assert "Authorization" not in server.asked[0].headers
    assert transport.sent == sum(len(asked.body) for asked in server.asked)
    assert transport.received == len(TOTALS_FRAMES) + len(COUNTS_FRAMES)


def test_each_service_may_have_an_endpoint_of_its_own() -> None:
    with scripted(GOOD) as one, scripted(Reply(body=COUNTS_FRAMES)) as other:
        transport = client(f"{one.url},{other.url}")
        transport.sensitive(MOMENTS)
        transport.plain(ROWS)
        transport.close()
    assert [len(server.asked) for server in (one, other)] == [1, 1]


EXPIRED = {"message": "The security token included in the request is expired"}
SKEWED = {"message": "Signature expired: 20260101T000000Z is now earlier than 20260101T001000Z"}
WRONG_REGION = {"message": "Credential should be scoped to a valid region, not 'us-east-1'. "}
MISMATCH = {
    "message": "The request signature we calculated does not match the signature you provided. " + "canonical " * 200
}
FAILURES = {
    # name: replies, attempts, in the message, in the hint
    "our own 422": ([problem(422, {"error": "rows: too many", "hint": "send fewer"})], 1, "rows: too many", "fewer"),
    "403 of API Gateway": ([problem(403, {"message": "Forbidden"})], 1, "403: Forbidden", "policy"),
    "unsigned or no such path": ([problem(403, {"message": "Missing Authentication Token"})], 1, "403", "not signed"),
    "expired session": ([problem(403, EXPIRED)], 1, "is expired", "log in again"),
    "wrong clock": ([problem(403, SKEWED)], 1, "is now earlier", "clock"),
    "wrong region": ([problem(403, WRONG_REGION)], 1, "valid region", "--region"),
    "wrong secret": ([problem(403, MISMATCH)], 1, "does not match", "secret access key"),
    "404": ([problem(404, {"error": "Not Found"})], 1, "404", "base URL"),
    "413 of a proxy": ([page(413, "<html><head><title>413 Too Large</title>")], 1, "413 Too Large", "less than"),
    "415": ([problem(415, {"error": "content type"})], 1, "415", "same release"),
    "429 for ever": ([problem(429, {"message": "Too Many Requests"})], 4, "Too Many Requests", "throttling"),
    "500 of ours": ([problem(500, {"error": "internal error: KeyError"})], 4, "internal error: KeyError", "log"),
    "502 of API Gateway": ([problem(502, {"message": "Internal server error"})], 4, "502", "6 MB"),
    "503 without a body": ([Reply(503)], 4, "answered 503", "later"),
    "504": ([problem(504, {"message": "Endpoint request timed out"})], 1, "timed out", "29 s"),
    "redirect": ([Reply(307, headers={"location": "https://elsewhere.invalid/"})], 1, "redirects", "final URL"),
    "a page": ([page(200, "<!doctype html><title>Welcome \x1b[31m</title>")], 1, "'Welcome [31m'", "log"),
    "200 with an error": ([problem(200, {"message": "Internal Server Error"})], 1, "200 with an error", "6 MB"),
    "200 with Lambda's error": ([problem(200, {"errorMessage": "out", "errorType": "X"})], 1, "with an error", "log"),
    "not JSON": ([Reply(body=b"what?", content_type=JSON_TYPE)], 1, "not JSON", "truncated"),
    "plain text": ([Reply(body=b"hello", content_type="text/plain")], 1, "content type", "Cleave service"),
    "frames cut short": ([Reply(body=TOTALS_FRAMES[:-3])], 2, "its digest says", "truncated"),
    "frames of few bytes": ([Reply(body=TOTALS_FRAMES[:50])], 1, "not a Cleave frame", "truncated"),
    "answer to another request": ([Reply(body=wire.dump_frames(TOTALS))], 1, "name this request", "mixes answers up"),
    "answer in JSON": ([Reply(body=wire.dump_json(TOTALS), content_type=JSON_TYPE)], 1, "name this", "mixes answers"),
    "another envelope": ([Reply(body=COUNTS_FRAMES)], 1, "cannot be read", "Cleave service"),
    "another version": ([problem(200, {"version": 1})], 1, "wire version is not 3", "upgrade the service"),
    "answer cut short": ([Reply(body=TOTALS_FRAMES, missing=5)], 4, "cut the connection", "log"),
    "connection cut": ([Reply(cut=True)], 4, "cut the connection", "log"),
}


@pytest.mark.parametrize("name", FAILURES)
def test_every_failure_is_one_clear_error(name: str) -> None:
    replies, attempts, message, hint = FAILURES[name]
    with scripted(*replies) as server:
        transport = client(server.url)
        with pytest.raises(ServiceError) as caught:
            transport.sensitive(MOMENTS)
        transport.close()
    assert message in caught.value.message
    assert hint in (caught.value.hint or "")
    assert "sensitive service" in caught.value.message
    assert caught.value.message.isprintable()
    assert len(caught.value.message) < 450
    assert len(server.asked) == attempts
    assert len({asked.body for asked in server.asked}) == 1


@pytest.mark.parametrize(
    "before", [[Reply(503)], [problem(429, {}), Reply(502)], [Reply(cut=True), Reply(body=b"x", missing=9), Reply(500)]]
)
def test_what_passes_is_tried_again_after_growing_waits(before: list[Reply]) -> None:
    waits: list[float] = []
    with scripted(*before, GOOD) as server:
        transport = client(server.url, waits)
        assert transport.sensitive(MOMENTS) == TOTALS
        transport.close()
    assert len(server.asked) == len(before) + 1
    assert len(waits) == len(before)
    assert all(0 <= wait <= ceiling for wait, ceiling in zip(waits, (0.2, 0.4, 0.5), strict=False))
    assert transport.sent == (len(before) + 1) * len(wire.dump_frames(MOMENTS))


def test_the_error_after_a_retry_is_told_and_not_repeated() -> None:
    with scripted(Reply(503), problem(403, {"message": "Forbidden"})) as server:
        transport = client(server.url)
        with pytest.raises(ServiceError, match="403"):
            transport.sensitive(MOMENTS)
        transport.close()
    assert len(server.asked) == 2


def test_an_oversize_request_is_never_sent() -> None:
    big = replace(MOMENTS, lanes=[Lane(objects=[bytes(limits.MAX_BODY_BYTES)], stop=1)])
    with scripted(GOOD) as server:
        transport = client(server.url)
        with pytest.raises(ServiceError, match="at most 4,400,000 fit"):
            transport.sensitive(big)
        transport.close()
    assert server.asked == []
    assert transport.sent == 0


def test_an_endless_answer_is_not_read_to_its_end() -> None:
    with scripted(Reply(body=bytes(13_000_000))) as server:
        transport = client(server.url)
        with pytest.raises(ServiceError, match="more than any answer has"):
            transport.sensitive(MOMENTS)
        transport.close()
    assert len(server.asked) == 1


def test_a_service_too_slow_is_not_asked_again() -> None:
    with scripted(Reply(stall=5)) as server:
        transport = client(server.url, timeout=0.1)
        with pytest.raises(ServiceError, match="did not answer in time"):
            transport.sensitive(MOMENTS)
        transport.close()
    assert len(server.asked) == 1


def test_an_address_where_nobody_listens_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    waits: list[float] = []
    transport = client(f"http://127.0.0.1:{port}", waits)
    with pytest.raises(ServiceError, match=f"127.0.0.1:{port} refuses connections") as caught:
        transport.plain(ROWS)
    transport.close()
    assert "cleave serve" in str(caught.value.hint)
    assert len(waits) == 3


@pytest.mark.parametrize(
    ("code", "message", "attempts"),
    [(socket.EAI_NONAME, "no host has the name", 1), (socket.EAI_AGAIN, "cannot be looked up now", 4)],
)
def test_names_that_do_not_resolve(code: int, message: str, attempts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    lookups = []

    def fail(*args: object, **rest: object) -> None:
        lookups.append(args)
        raise socket.gaierror(code, "the resolver's words")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    transport = client("https://cleave.example")
    with pytest.raises(ServiceError, match=message) as caught:
        transport.plain(ROWS)
    transport.close()
    assert "cleave.example" in caught.value.message
    assert len(lookups) == attempts


def test_tls_to_a_port_that_speaks_none() -> None:
    with scripted(GOOD) as server:
        transport = client(server.url.replace("http:", "https:"))
        with pytest.raises(ServiceError, match="no TLS with the plain service"):
            transport.plain(ROWS)
        transport.close()


def test_a_certificate_nobody_vouches_for(tmp_path: Path) -> None:
    waits: list[float] = []
    with scripted(GOOD, tls=self_signed(tmp_path)) as server:
        transport = client(server.url.replace("http:", "https:"), waits)
        with pytest.raises(ServiceError, match="no certificate to trust: self-signed"):
            transport.plain(ROWS)
        transport.close()
    assert server.asked == []
    assert waits == []


def self_signed(folder: Path) -> ssl.SSLContext:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + datetime.timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    file = folder / "server.pem"
    file.write_bytes(
        certificate.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    return context


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not an http or https URL"),
        ("127.0.0.1:8000", "not an http or https URL"),
        ("ftp://host/", "not an http or https URL"),
        ("https://", "not an http or https URL"),
        ("http://[::1", "not a URL"),
        ("http://127.0.0.1:99999", "not a URL"),
        ("https://user:word@host", "user name"),
        ("https://host/?a=b", "query"),
        ("https://host/#top", "fragment"),
        ("http://host.example", "plain http"),
        ("http://127.0.0.1,http://10.0.0.1", "plain http"),
        ("https://a,https://b,https://c", "one URL, or two"),
    ],
)
def test_endpoints_that_are_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read_endpoints(text, insecure_http=False)
    assert "word" not in f"{caught.value.message} {caught.value.hint}"


@pytest.mark.parametrize("base", ["http://localhost:1", "http://[::1]:1/", "http://127.1.2.3", "https://host/stage/"])
def test_endpoints_that_are_taken(base: str) -> None:
    urls = read_endpoints(base, insecure_http=False)
    assert urls[Service.PLAIN] == base.rstrip("/")


def test_plain_http_to_another_machine_has_to_be_asked_for() -> None:
    assert read_endpoints("http://10.0.0.1", insecure_http=True)


@pytest.mark.parametrize(
    ("url", "region"),
    [
        ("https://abc123.execute-api.eu-west-1.amazonaws.com/prod", "eu-west-1"),
        ("https://abc.execute-api.cn-north-1.amazonaws.com.cn/x", "cn-north-1"),
        ("https://abc.execute-api.eu-west-1.amazonaws.com.evil.example/", None),
        ("https://example.org/execute-api.eu-west-1.amazonaws.com", None),
    ],
)
def test_the_region_in_a_host_name(url: str, region: str | None) -> None:
    assert execute_api_region(url) == region
