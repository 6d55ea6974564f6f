"""Both services in this process. Import this only where they are needed: FastAPI and SEAL take 200 ms."""

from __future__ import annotations

from cleave.transport.base import Service, Transport
from cleave.transport.embedded import connect_embedded
from cleave_services.plain.app import app as plain
from cleave_services.plain.contained import prepare
from cleave_services.sensitive.app import app as sensitive


def embedded_services() -> Transport:
    prepare()
    return connect_embedded({Service.SENSITIVE: sensitive, Service.PLAIN: plain})
