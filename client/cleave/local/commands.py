"""`cleave serve` and `cleave gateway`: commands that run servers, and need both client and services."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, cast

import typer

from cleave.ask.config import environment, usual
from cleave.ask.opening import analyst_file, key_file, require_key, require_reader_alone
from cleave.ask.options import Answering
from cleave.cli import console
from cleave.cli.options import flag
from cleave.cli.users import UsersFile, users_file
from cleave.files import expanded
from cleave.text.quantities import size_of
from cleave_shared.errors import InputError, extra

if TYPE_CHECKING:
    from cleave.ask.options import Asking

_FIXED_MEMORY: Final = 3 << 30  # bytes of address space for everything else in a worker


def serve(
    ctx: typer.Context,
    host: Annotated[str, flag("--host ADDRESS", "Address to listen on. Default: 127.0.0.1.")] = "127.0.0.1",
    port: Annotated[
        int, flag("--port N", "Port to listen on; 0: any free one. Default: 8000.", min=0, max=65535)
    ] = 8000,
    allow_host: Annotated[
        list[str] | None, flag("--allow-host NAME", "Accept requests sent to this host name. Repeatable.")
    ] = None,
    cors: Annotated[
        list[str] | None, flag("--cors ORIGIN", "Web origin whose pages may read answers. Repeatable.")
    ] = None,
    store: Annotated[
        list[Path] | None, flag("--store FOLDER", "Folder of stored tables that the services may read. Repeatable.")
    ] = None,
) -> None:
    """Run both services on this machine over HTTP.

    CLEAVE_STORE_URLS names the buckets that the services may read.

    Examples:
      cleave serve
      cleave serve --port 9000 --store tables
    """
    with extra("serve", "services over HTTP"):
        from cleave.local import serve as server  # noqa: PLC0415 - uvicorn, FastAPI, both services
    stores = [f"{Path(os.path.realpath(expanded(each))).as_uri()}/" for each in store or ()]
    from cleave.transport.addresses import is_loopback  # noqa: PLC0415

    def ready(url: str) -> None:
        console.say(f"listening on {url}")
        if not is_loopback(host.lower()):
            console.say(
                "warning: anyone who reaches this address can send requests; there is no authentication and no TLS"
            )

    more = {"names": allow_host or (), "origins": cors or (), "stores": stores}
    server.serve(host, port, ready, log=not ctx.obj.quiet, **more)


def gateway(
    ctx: typer.Context,
    answering: Answering,
    users: UsersFile = None,
    tables: Annotated[
        str | None, flag("--tables NAME,...", "Serve these stored tables only. Default: all of the key's.")
    ] = None,
    host: Annotated[str, flag("--host ADDRESS", "Address to listen on. Default: 127.0.0.1.")] = "127.0.0.1",
    port: Annotated[
        int, flag("--port N", "Port for PostgreSQL's protocol; 0: any free one. Default: 5432.", min=0, max=65535)
    ] = 5432,
    http_port: Annotated[
        int | None, flag("--http-port N", "Also answer POST /v1/query on this port.", min=1, max=65535)
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        flag("--allow-host NAME", "Accept HTTP requests sent to this host name, too. Repeatable.", advanced=True),
    ] = None,
    tls_cert: Annotated[
        Path | None, flag("--tls-cert FILE", "Certificate; needed to accept connections from other machines.")
    ] = None,
    tls_key: Annotated[Path | None, flag("--tls-key FILE", "Key of the certificate.")] = None,
    workers: Annotated[
        int, flag("--workers N", "Queries answered at once. Default: 4.", advanced=True, min=1, max=64)
    ] = 4,
    most_rows: Annotated[
        int, flag("--most-rows N", "Rows of the largest answer. Default: 1000000.", advanced=True, min=1)
    ] = 1_000_000,
) -> None:
    """Serve stored tables over PostgreSQL's protocol and HTTP.

    For Metabase, Grafana, Excel and every language. Add users with `cleave user add`.

    Examples:
      cleave gateway --store tables
      cleave gateway --store s3://bucket/prefix --host 0.0.0.0 --tls-cert cert.pem --tls-key key.pem
    """
    from cleave.objects.locate import absolute  # noqa: PLC0415 - as above
    from cleave.table.duck import quarter_of_memory  # noqa: PLC0415 - as above

    store = answering["store"] or usual("store")
    if store is None:
        raise InputError("there is no store", hint="name it with --store, in CLEAVE_STORE, or by `cleave config store`")
    key, reader, info = None, None, None
    analyst = analyst_file(cast("Asking", answering))
    if answering["reader"]:
        require_reader_alone(answering)
        reader = expanded(answering["reader"]).absolute()
        info = require_key(reader, answering)
    elif analyst is None:
        key = key_file(answering["key"]).absolute()
        info = require_key(key, answering)
    if key is None and tables is None:
        raise InputError("a store does not show which tables are open to others", hint="name them with --tables")
    if analyst is not None and answering["others"]:
        raise InputError("--with cannot be combined with an analyst's identity: releases hold only totals")
    given = answering["passphrase"]
    asking = {name: value for name, value in answering.items() if name not in ("progress", "say", "others")}
    asking |= {"store": absolute(str(store)), "key": key, "reader": reader}
    asking |= {"analyst": analyst and analyst.absolute()}
    if not info or not info.wrapped:
        asking["passphrase"] = None
    elif callable(given):  # for processes without a terminal
        asking["passphrase"] = None if info.kms else given()
    served = None if tables is None else frozenset(each.strip().lower() for each in tables.split(",") if each.strip())
    memory = size_of(answering["memory"]) if answering["memory"] else quarter_of_memory() // workers
    seconds = answering["timeout"] or 60.0
    with extra("gateway", "connections of BI tools"):
        from cleave.front.certificates import Certificate  # noqa: PLC0415
        from cleave.gateway.serve import serve  # noqa: PLC0415 - uvicorn
        from cleave.gateway.work import Setup  # noqa: PLC0415

    asking |= {"memory": memory, "timeout": seconds}
    setup = Setup(
        *(asking, tuple(answering["others"] or ()), served, ctx.obj.embedded, ctx.obj.prepare),
        seconds=seconds,
        memory=memory + _FIXED_MEMORY,
        rows=most_rows,
    )
    serve(
        *(setup, environment(), users_file(users).absolute(), workers, console.say),
        host=host,
        port=port,
        http_port=http_port,
        certificate=Certificate(tls_cert, tls_key),
        names=allow_host or (),
    )
