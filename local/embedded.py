"""Both services in this process, imported when a query first needs them."""

from __future__ import annotations

from client.transport.base import Service, Transport
from client.transport.embedded import connect_embedded


def embedded_services() -> Transport:
    from functions.plain.app import app as plain  # noqa: PLC0415 - FastAPI and SEAL take 300 ms; `key show` does without
    from functions.sensitive.app import app as sensitive  # noqa: PLC0415

    return connect_embedded({Service.SENSITIVE: sensitive, Service.PLAIN: plain})
