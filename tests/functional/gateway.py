"""The two ways into a service: ASGI, and events as API Gateway sends them."""

from __future__ import annotations

import asyncio
import base64
from types import SimpleNamespace
from typing import Any

import httpx
from fastapi import FastAPI

from cleave_shared import wire

CANARY = "canary-4711-secret"  # stands for a cell value: must never be seen in an error or a log


def call(app: FastAPI, method: str, path: str, **sent: Any) -> httpx.Response:
    async def send() -> httpx.Response:
        transport = httpx.ASGITransport(app)  # lets exceptions through: none may reach it
        async with httpx.AsyncClient(transport=transport, base_url="http://service") as client:
            return await client.request(method, path, **sent)

    return asyncio.run(send())


def http_event(path: str, body: bytes, content_type: str, stage: str = "$default") -> dict[str, Any]:
    """An HTTP API (payload 2.0) event: the stage, unless it is $default, stands in the path."""
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


CONTEXT = SimpleNamespace(aws_request_id="5ca1ab1e-0000-4000-8000-c0ffeec0ffee")
