"""The command `cleave`: the client, with both services at hand."""

from __future__ import annotations

from collections.abc import Callable

from client.cli import create_cli
from local.embedded import embedded_services


def main() -> None:
    create_cli(embedded_services, _serve)(prog_name="cleave")


def _serve(host: str, port: int, ready: Callable[[str], None], *, log: bool) -> None:
    from local.serve import serve  # noqa: PLC0415 - uvicorn and both services; no other command needs them

    serve(host, port, ready, log=log)
