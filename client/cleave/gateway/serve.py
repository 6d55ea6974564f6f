"""Starts the gateway: its workers first, while this process has one thread, then its two listeners."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import logging
import os
import signal
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import uvicorn
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from cleave.gateway.http import application
from cleave.gateway.mysql import Clients
from cleave.gateway.work import Setup
from cleave.gateway.workers import Limits, Workers
from cleave.share.users import read_users
from cleave.transport.addresses import in_url, is_loopback, listen, unavailable
from cleave_shared.errors import InputError
from cleave_shared.fork_server import ForkServer

_STOP_SECONDS: Final = 5


@dataclass(frozen=True, slots=True)
class Listening:
    """Addresses of the gateway. Port 0: any free one. `http_port` None: no HTTP."""

    host: str
    port: int
    http_port: int | None
    certificate: Path | None
    certificate_key: Path | None


def serve(
    setup: Setup,
    environment: Mapping[str, str],
    users: Path,
    where: Listening,
    limits: Limits,
    workers: int,
    ready: Callable[[str], None],
) -> None:
    """Answer until SIGINT or SIGTERM; call `ready` with each address once it is listened on.

    `environment`: of every worker. Places in it and in `setup` are whole paths, so that no worker seeks the key or the
    memory of versions where the first one did not.

    Raises InputError for an address that cannot be listened on, for another machine's access without TLS, and for an
    unreadable file of users.
    """
    read_users(users)
    if where.certificate is None and not is_loopback(where.host):
        raise InputError(
            f"{where.host} is not this machine alone, and there is no TLS",
            hint="--tls-cert FILE --tls-key FILE, or --host 127.0.0.1",
        )
    tls = _tls(where)
    logging.getLogger("mysql_mimic").setLevel(logging.CRITICAL + 1)  # it logs statements
    server = ForkServer(["cleave.gateway.work"], environment)
    server.start()
    try:
        asyncio.run(_serve(server, setup, users, where, limits, workers, tls, ready))
    finally:
        server.stop()


def _tls(where: Listening) -> ssl.SSLContext:
    """Context with the given certificate, or, on this machine alone, with one made for the process, as MySQL does."""
    if (where.certificate is None) != (where.certificate_key is None):
        raise InputError("TLS takes a certificate and its key", hint="--tls-cert FILE --tls-key FILE")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if where.certificate is None:
        with os.fdopen(os.memfd_create("certificate"), "wb", 0) as file:  # the key is on no disk
            file.write(_self_signed())
            context.load_cert_chain(f"/proc/self/fd/{file.fileno()}")
        return context
    try:
        context.load_cert_chain(where.certificate, where.certificate_key, password=_no_password)
    except (OSError, ssl.SSLError, ValueError):
        raise InputError(
            f"{where.certificate} and {where.certificate_key} are no certificate and its key",
            hint="PEM files, the key without a passphrase",
        ) from None
    return context


def _no_password() -> str:
    raise ValueError


def _self_signed() -> bytes:
    """A key and a certificate for localhost, as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=365))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, SHA256())
    )
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) + certificate.public_bytes(Encoding.PEM)


async def _serve(
    server: ForkServer,
    setup: Setup,
    users: Path,
    where: Listening,
    limits: Limits,
    count: int,
    tls: ssl.SSLContext,
    ready: Callable[[str], None],
) -> None:
    workers = Workers(server, setup, count, limits)
    ended = asyncio.Event()
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(each, ended.set)
    clients = Clients(workers, lambda: read_users(users), tls)
    listener = listen(where.host, where.port)
    listener.setblocking(False)
    async with contextlib.AsyncExitStack() as stack:
        stack.callback(workers.close)
        stack.push_async_callback(workers.record)
        stack.callback(listener.close)
        accepting = asyncio.create_task(clients.serve(listener))
        stack.callback(accepting.cancel)
        await asyncio.to_thread(workers.begin)
        if where.http_port is not None:
            await stack.enter_async_context(_http(workers, users, where))
        shown = in_url(where.host)
        ready(f"mysql://{shown}:{listener.getsockname()[1]}")
        if where.http_port is not None:
            ready(f"{'https' if where.certificate else 'http'}://{shown}:{where.http_port}")
        await workers.record_until(ended)
        for client in list(clients.clients.values()):
            client.kill()


@contextlib.asynccontextmanager
async def _http(workers: Workers, users: Path, where: Listening) -> Any:
    config = uvicorn.Config(
        application(workers, lambda: read_users(users)),
        host=where.host,
        port=where.http_port or 0,
        ssl_certfile=where.certificate,
        ssl_keyfile=where.certificate_key,
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        limit_concurrency=256,
        timeout_graceful_shutdown=_STOP_SECONDS,
    )
    server = _Server(config)
    serving = asyncio.create_task(server.serve())
    while not server.started and not serving.done():
        await asyncio.sleep(0.01)
    if not server.started:
        raise unavailable(where.host, where.http_port or 0, None)
    try:
        yield
    finally:
        server.should_exit = True
        await asyncio.wait({serving}, timeout=_STOP_SECONDS + 1)


class _Server(uvicorn.Server):
    """Leaves signals to the gateway."""

    @contextlib.contextmanager
    def capture_signals(self) -> Any:
        yield
