"""The two ways into a service: ASGI, and events as API Gateway sends them."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import httpx
from fastapi import FastAPI

CANARY = "canary-4711-secret"  # stands for a cell value: must never be seen in an error or a log


def call(app: FastAPI, method: str, path: str, **sent: Any) -> httpx.Response:
    async def send() -> httpx.Response:
        transport = httpx.ASGITransport(app)  # lets exceptions through: none may reach it
        async with httpx.AsyncClient(transport=transport, base_url="http://service") as client:
            return await client.request(method, path, **sent)

    return asyncio.run(send())


CONTEXT = SimpleNamespace(aws_request_id="5ca1ab1e-0000-4000-8000-c0ffeec0ffee")
