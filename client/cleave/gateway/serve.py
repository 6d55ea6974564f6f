"""Starts the gateway: its workers first, while this process has one thread, then its two listeners."""

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
from cleave.share.users import read_users
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
    """Answer with `count` workers until SIGINT or SIGTERM, and `say` where. SIGHUP has the certificate read again, or
    ends it as well where there is none.

    `environment`: of every worker. Places in it and in `setup` are whole paths, so that no worker seeks the key or the
    versions seen where the first one did not. Port 0: any free one. `http_port` None: no HTTP. `names`: further names
    of this machine that Host may hold, besides those of the certificate.

    Raises InputError for an address that cannot be listened on, for another machine's access without TLS, and for an
    unreadable file of users.
    """
    every = read_users(users).users
    old = [name for name, user in every.items() if user.is_old]
    if old:
        say(f"warning: set again with `cleave user add`, since 1.0 set them: passwords of {', '.join(old)}")
    for name, user in every.items():
        if user.fault:
            say(f"warning: user {name!r} is refused: {user.fault}")
    if certificate.path is None and not is_loopback(host):
        raise InputError(
            f"{host} is not this machine alone, and there is no TLS",
            hint="--tls-cert FILE --tls-key FILE, or --host 127.0.0.1",
        )
    server = ForkServer(["cleave.gateway.work"], environment)

    async def run() -> None:
        workers, ended = Workers(server, setup, count), asyncio.Event()
        renew = partial(_renew, certificate, ended, say)
        for number, work in ((signal.SIGINT, ended.set), (signal.SIGTERM, ended.set), (signal.SIGHUP, renew)):
            asyncio.get_running_loop().add_signal_handler(number, work)
        admission = Admission(GATEWAY_CONNECTIONS)  # of both protocols
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
    """Read the certificate again; without one, end."""
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
