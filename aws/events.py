"""Make REST API events for both functions, valid and invalid, with the status that each must have.

The table is invented and the key is not kept. The sensitive service gets a fresh encryption of TABLE.
"""

from __future__ import annotations

import base64
import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from cleave.ckks.cipher import Cipher
from cleave.ckks.secret_key import SecretKey
from cleave.transport.lambda_ import proxy_event
from cleave_shared import wire
from cleave_shared.chunks import joined, split
from cleave_shared.requests import Lane, PlainRequest, SumsRequest, SumsResponse

MOMENTS, OPERATE_ENCRYPTED = "/v1/sensitive/moments", "/v1/sensitive"
AGGREGATE, OPERATE = "/v1/plain/aggregate", "/v1/plain"
TABLE = {"A": [61, 47, 33], "B": [80, 19], "C": [54]}  # ages by ward, rows in this order
GUARD = 20  # low bits of a total that hold the noise: 13.37 sqrt(10.5 * 16 chunks) < 2^8
HOST = "abcdefghij.execute-api.eu-central-1.amazonaws.com"
_CONTEXT: dict[str, Any] = {
    "resourceId": "abc123",
    "extendedRequestId": "AAAAAAAAAAAAAAA=",
    "requestTime": "01/Jan/2025:00:00:00 +0000",
    "accountId": "123456789012",
    "domainPrefix": "abcdefghij",
    "requestTimeEpoch": 1735689600000,
    "requestId": "00000000-0000-4000-8000-000000000000",
    "identity": {
        "accountId": "123456789012",
        "caller": "AIDAEXAMPLE",
        "sourceIp": "192.0.2.1",
        "userAgent": "cleave",
        "userArn": "arn:aws:iam::123456789012:user/owner",
        "user": "AIDAEXAMPLE",
    },
    "domainName": HOST,
    "apiId": "abcdefghij",
}


@dataclass(frozen=True, slots=True)
class Event:
    status: int  # of the answer
    event: dict[str, Any]


def make_events(key: SecretKey) -> dict[str, Event]:
    """Return the events by name. `decrypt_totals` decrypts the sums with the same key."""
    moments = moments_request(key)
    sensitive = wire.dump_frames(moments)
    plain = wire.dump_frames(plain_request(sum(map(len, TABLE.values()))))
    noise, nothing = (
        replace(moments, lanes=[Lane(objects=[joined([file])], stop=1)]) for file in (b"no ciphertext", b"")
    )
    version = wire.dump_json(replace(nothing, version=wire.VERSION + 1))
    simple = {"data": {"ward": ["A", "A", "B"], "age": [61, 47, 80]}, "operation": "mean", "group_by": "ward"}
    reading = wire.dump_json(PlainRequest(rows=[1], where="(SELECT count(*) FROM read_csv('/etc/passwd')) > 0"))
    return {
        "sensitive-moments": Event(200, rest_event(MOMENTS, sensitive, wire.FRAMES_TYPE)),
        "sensitive-operation": Event(200, rest_event(OPERATE_ENCRYPTED, simple_sum(moments), wire.JSON_TYPE)),
        "sensitive-truncated": Event(422, rest_event(MOMENTS, sensitive[:1000], wire.FRAMES_TYPE)),
        "sensitive-not-a-ciphertext": Event(422, rest_event(MOMENTS, wire.dump_frames(noise), wire.FRAMES_TYPE)),
        "sensitive-wrong-version": Event(422, rest_event(MOMENTS, version, wire.JSON_TYPE)),
        "sensitive-wrong-type": Event(415, rest_event(MOMENTS, b"<table/>", "application/xml")),
        "plain-aggregate": Event(200, rest_event(AGGREGATE, plain, wire.FRAMES_TYPE)),
        "plain-operation": Event(200, rest_event(OPERATE, json.dumps(simple).encode(), wire.JSON_TYPE)),
        "plain-reads-a-file": Event(422, rest_event(AGGREGATE, reading, wire.JSON_TYPE)),
        "plain-not-json": Event(422, rest_event(OPERATE, b'{"data": {"age": [61', wire.JSON_TYPE)),
        "plain-unknown-route": Event(404, rest_event("/v1/plain/nowhere", b"{}", wire.JSON_TYPE)),
    }


def moments_request(key: SecretKey) -> SumsRequest:
    """Return a request with one chunk of one lane, the ages of each ward together. Its sentinels are all zero."""
    chunk = np.zeros((1, key.profile.degree), np.int64)
    ages = [age for ward in TABLE.values() for age in ward]
    chunk[0, : len(ages)] = np.array(ages) << GUARD
    return SumsRequest(
        profile=key.profile.name,
        key_id=key.key_id,
        lanes=[Lane(objects=[joined(Cipher(key).encrypt(chunk))], stop=1)],
    )


def simple_sum(moments: SumsRequest) -> bytes:
    """Return a request for the total of all ages, in the simple form."""
    chunks = [chunk for each in moments.objects if isinstance(each, bytes) for chunk in split(each)]
    asked = {
        "data": {"age": [base64.b64encode(chunk).decode("ascii") for chunk in chunks]},
        "operation": "sum",
        "profile": moments.profile,
        "rows": sum(map(len, TABLE.values())),
    }
    return json.dumps(asked).encode()


def plain_request(rows: int) -> PlainRequest:
    wards = [ward for ward, ages in TABLE.items() for _ in ages]
    with tempfile.TemporaryDirectory() as folder, duckdb.connect() as connection:
        path = Path(folder, "plain.parquet")
        relation = connection.sql("SELECT unnest($wards) AS ward", params={"wards": wards})
        relation.write_parquet(str(path))
        table = path.read_bytes()
    return PlainRequest(objects=[table], rows=[rows], columns=["ward"], keys=["ward"], aggregates=["count(ward)"])


def decrypt_totals(key: SecretKey, reply: Mapping[str, Any]) -> dict[str, int]:
    """Return the total of each ward from the function's reply to the event "sensitive-moments"."""
    if reply.get("statusCode") != 200:
        raise SystemExit(f"error: the function answered {reply.get('statusCode')}: {reply.get('body')}")
    body = base64.b64decode(reply["body"])
    answer = wire.load(SumsResponse, body, wire.FRAMES_TYPE)
    (sums,) = Cipher(key).decrypt(answer.totals[0])
    totals, start = {}, 0
    for ward, ages in TABLE.items():
        totals[ward] = round(int(sums[start : start + len(ages)].sum()) / (1 << GUARD))
        start += len(ages)
    return totals


def rest_event(path: str, body: bytes, content_type: str, stage: str = "api") -> dict[str, Any]:
    """Return the event that a REST API with IAM authorisation makes of a caller's POST."""
    headers = {
        "Host": HOST,
        "User-Agent": "cleave",
        "X-Amz-Date": "20250101T000000Z",
        "X-Forwarded-For": "192.0.2.1",
        "X-Forwarded-Port": "443",
        "X-Forwarded-Proto": "https",
    }
    event = proxy_event(path, body, content_type)
    event["headers"] |= headers
    event["multiValueHeaders"] |= {name: [value] for name, value in headers.items()}
    event["requestContext"] |= {"path": f"/{stage}{path}", "stage": stage, **_CONTEXT}
    return event


def http_event(path: str, body: bytes, content_type: str, stage: str = "$default") -> dict[str, Any]:
    """Return an HTTP API event (payload 2.0). Its path starts with the stage, unless that is $default."""
    binary = content_type != wire.JSON_TYPE
    prefix = "" if stage == "$default" else f"/{stage}"
    return {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": prefix + path,
        "rawQueryString": "",
        "headers": {"accept": "*/*", "content-type": content_type, "host": "abc123.execute-api.amazonaws.com"},
        "requestContext": {
            "accountId": "123456789012",
            "apiId": "abc123",
            "domainName": "abc123.execute-api.amazonaws.com",
            "http": {
                "method": "POST",
                "path": prefix + path,
                "protocol": "HTTP/1.1",
                "sourceIp": "203.0.113.7",
                "userAgent": "curl/8.5.0",
            },
            "requestId": "JKJaXmPLvHcESHA=",
            "routeKey": "$default",
            "stage": stage,
            "timeEpoch": 1773124478000,
        },
        "body": base64.b64encode(body).decode() if binary else body.decode(),
        "isBase64Encoded": binary,
    }
