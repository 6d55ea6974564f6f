"""The command `cleave`: the client, with both services at hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from cleave.cli.app import create_cli

if TYPE_CHECKING:
    from cleave.transport.base import Transport


def main() -> None:
    create_cli(_embedded, _serve)(prog_name="cleave")


def _embedded() -> Transport:
    from cleave.local.embedded import embedded_services  # noqa: PLC0415 - both services; most commands need neither

    return embedded_services()


def _serve(
    host: str,
    port: int,
    ready: Callable[[str], None],
    *,
    log: bool,
    names: Sequence[str] = (),
    origins: Sequence[str] = (),
) -> None:
    from cleave.local.serve import serve  # noqa: PLC0415 - uvicorn, too

    serve(host, port, ready, log=log, names=names, origins=origins)
