"""Starts the gateway: first its workers, while this process has one thread, then its two listeners."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from cleave.front.admission import Admission, accept
from cleave.front.certificates import Certificate
from cleave.front.http import Server
from cleave.gateway.http import application, limited
from cleave.gateway.postgres import Clients
from cleave.gateway.work import Setup
from cleave.gateway.workers import Workers
from cleave.logins.users import read_users
from cleave.transport.addresses import in_url, is_loopback, listen
from cleave_shared.errors import InputError
from cleave_shared.fork_server import ForkServer
from cleave_shared.limits import GATEWAY_CONNECTIONS

_STOP_SECONDS: Final = 5


def serve(
    setup: Setup,
    environment: Mapping[str, str],
    users: Path,
    count: int,
    say: Callable[[str], None],
    *,
    host: str,
    port: int,
    http_port: int | None,
    certificate: Certificate,
    names: Sequence[str] = (),
) -> None:
    """Serve with `count` workers until SIGINT or SIGTERM; `say` gets the addresses. SIGHUP reloads the certificate;
    without one it ends the gateway.

    `environment`: of every worker. Paths in it and in `setup` are absolute, so that every worker finds the key and the
    versions seen. Port 0: any free one. `http_port` None: no HTTP. `names`: more host names of this machine, besides
    the certificate's.

    Raises InputError if listening fails, for access from other machines without TLS, and for an unreadable users file.
    """
    for name, user in read_users(users).users.items():
        if user.fault:
            say(f"warning: user {name!r} is refused: {user.fault}")
    if certificate.path is None and not is_loopback(host):
        raise InputError(
            f"{host} is not this machine alone, and there is no TLS",
            hint="--tls-cert FILE --tls-key FILE, or --host 127.0.0.1",
        )
    server = ForkServer(["cleave.gateway.work", "cleave.gateway.commands"], environment)

    async def run() -> None:
        workers, ended = Workers(server, setup, count), asyncio.Event()
        renew = partial(_renew, certificate, ended, say)
        for number, work in ((signal.SIGINT, ended.set), (signal.SIGTERM, ended.set), (signal.SIGHUP, renew)):
            asyncio.get_running_loop().add_signal_handler(number, work)
        admission = Admission(GATEWAY_CONNECTIONS)  # shared by both protocols
        clients = Clients(workers, lambda: read_users(users), certificate)
        listener, shown = listen(host, port), in_url(host)
        async with contextlib.AsyncExitStack() as stack:
            stack.callback(workers.close)
            stack.push_async_callback(workers.finish)
            stack.callback(listener.close)
            http = None if http_port is None else stack.enter_context(listen(host, http_port))
            accepting = asyncio.create_task(accept(listener, admission, clients.serve))
            stack.callback(accepting.cancel)
            await asyncio.to_thread(workers.begin)
            say(f"listening on postgresql://{shown}:{listener.getsockname()[1]}")
            if http is not None:
                hosts = frozenset(each.lower() for each in (host, *names))
                served = limited(
                    application(workers),
                    lambda: read_users(users),
                    lambda name: name in hosts or certificate.is_for(name),
                )
                tls = (lambda: certificate.context) if certificate.path else (lambda: None)
                await stack.enter_async_context(_served(Server(served, http, admission, context=tls, signals=False)))
                say(f"listening on {'https' if certificate.path else 'http'}://{shown}:{http_port}")
            await workers.record_until(ended)
            clients.end()

    server.start()
    try:
        asyncio.run(run())
    finally:
        server.stop()


def _renew(certificate: Certificate, ended: asyncio.Event, say: Callable[[str], None]) -> None:
    """Reload the certificate; without a certificate, end."""
    if certificate.path is None:
        ended.set()
        return
    try:
        certificate.renew()
    except InputError as error:
        say(f"warning: {error.message}; the certificate in use stays ({error.hint})")
    else:
        say(f"read {certificate.path} again")


@contextlib.asynccontextmanager
async def _served(server: Server) -> AsyncIterator[None]:
    serving = asyncio.create_task(server.serve())
    try:
        yield
    finally:
        server.should_exit = True
        await asyncio.wait({serving}, timeout=_STOP_SECONDS + 1)
