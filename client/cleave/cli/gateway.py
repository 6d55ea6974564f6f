"""`cleave gateway` and the users that it lets in."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cleave.ask.config import config_folder
from cleave.ask.options import Answering
from cleave.cli import console, passphrase
from cleave.cli.options import argument, flag
from cleave_shared.errors import InputError

if TYPE_CHECKING:
    from cleave.cli.group import Settings

DEFAULT_USERS = config_folder() / "users.toml"
UsersFile = Annotated[Path, flag("--users FILE", "File of users. Default: ~/.config/cleave/users.toml.")]
UserName = Annotated[str, argument("NAME", "The user.")]


def gateway(
    ctx: typer.Context,
    answering: Answering,
    users: UsersFile = DEFAULT_USERS,
    tables: Annotated[
        str | None, flag("--tables NAME,...", "Serve these stored tables only. Default: all of the key's.")
    ] = None,
    host: Annotated[str, flag("--host ADDRESS", "Address to listen on. Default: 127.0.0.1.")] = "127.0.0.1",
    port: Annotated[
        int, flag("--port N", "Port for MySQL's protocol; 0: any free one. Default: 3306.", min=0, max=65535)
    ] = 3306,
    http_port: Annotated[
        int | None, flag("--http-port N", "Also answer POST /v1/query on this port.", min=1, max=65535)
    ] = None,
    tls_cert: Annotated[Path | None, flag("--tls-cert FILE", "Certificate, needed beyond this machine.")] = None,
    tls_key: Annotated[Path | None, flag("--tls-key FILE", "Key of the certificate.")] = None,
    workers: Annotated[
        int, flag("--workers N", "Questions answered at once. Default: 4.", advanced=True, min=1, max=64)
    ] = 4,
    most_rows: Annotated[
        int, flag("--most-rows N", "Rows of the largest answer. Default: 1000000.", advanced=True, min=1)
    ] = 1_000_000,
) -> None:
    """Serve stored tables to tools that speak MySQL's protocol, such as Metabase, Grafana, Excel and every language.

    Users are made with `cleave user add`.

    Examples:
      cleave gateway --store tables
      cleave gateway --store s3://bucket/prefix --host 0.0.0.0 --tls-cert cert.pem --tls-key key.pem
    """
    from cleave.ask.config import usual  # noqa: PLC0415 - what --help does without
    from cleave.ask.opening import key_file  # noqa: PLC0415 - as above
    from cleave.ckks.key_file import describe_key  # noqa: PLC0415 - as above

    settings: Settings = ctx.obj
    if answering["store"] is None and usual("store") is None:
        raise InputError("there is no store", hint="name it with --store, in CLEAVE_STORE, or by `cleave config store`")
    info = describe_key(key_file(answering["key"]))
    given = answering["passphrase"]
    asking = {name: value for name, value in answering.items() if name not in ("progress", "say", "others")}
    asking["passphrase"] = (given() if callable(given) else given) if info.wrapped else None
    served = None if tables is None else frozenset(each.strip().lower() for each in tables.split(",") if each.strip())
    settings.gateway(
        asking,
        tuple(answering["others"] or ()),
        served,
        users=users.expanduser(),
        listening=(host, port, http_port, tls_cert, tls_key),
        workers=workers,
        rows=most_rows,
        seconds=answering["timeout"] or 60.0,
        ready=lambda url: console.say(f"listening on {url}"),
    )


def add_user(
    ctx: typer.Context,
    name: UserName,
    users: UsersFile = DEFAULT_USERS,
    tables: Annotated[str | None, flag("--tables NAME,...", "Tables the user may ask. Default: all.")] = None,
    min_group: Annotated[int, flag("--min-group N", "Leave out groups of fewer rows.", min=0)] = 0,
    rows: Annotated[bool, flag("--rows", "Let the user read rows; without it, sums only.")] = False,
    token: Annotated[bool, flag("--token", "Print a bearer token for HTTP, in place of a password.")] = False,
    password_fd: Annotated[int | None, flag("--password-fd N", "Read the password from this file descriptor.")] = None,
) -> None:
    """Add a user of the gateway, or change what there is of one.

    Examples:
      cleave user add alice --tables visits --min-group 10
      cleave user add notebook --rows --token
    """
    from cleave.share.users import write_user  # noqa: PLC0415 - pydantic, cryptography

    password = None if token else passphrase.chosen(password_fd, "CLEAVE_PASSWORD")
    allowed = None if tables is None else [each.strip() for each in tables.split(",") if each.strip()]
    made = write_user(users.expanduser(), name, password, tables=allowed, min_group=min_group, rows=rows, token=token)
    settings: Settings = ctx.obj
    if made is not None:
        console.out(made)
        settings.say("the token is not shown again")
    settings.say(f"{name} may connect to the gateway")


def list_users(users: UsersFile = DEFAULT_USERS) -> None:
    """List the users of the gateway and what each may ask.

    Examples:
      cleave user ls
      cleave user ls --users team.toml
    """
    from cleave.share.users import read_users  # noqa: PLC0415 - pydantic, cryptography

    for name, user in read_users(users.expanduser()).users.items():
        tables = "all tables" if user.tables is None else ", ".join(user.tables) or "no table"
        groups = f"; groups of {user.min_group} rows or more" if user.min_group else ""
        console.out(f"{name}: {tables}; {'rows' if user.rows else 'sums only'}{groups}")


def remove_user(ctx: typer.Context, name: UserName, users: UsersFile = DEFAULT_USERS) -> None:
    """Remove a user of the gateway. Connections that are open stay so until they end.

    Examples:
      cleave user remove alice
      cleave user remove alice --users team.toml
    """
    from cleave.share.users import delete_user  # noqa: PLC0415 - pydantic, cryptography

    delete_user(users.expanduser(), name)
    settings: Settings = ctx.obj
    settings.say(f"{name} is removed")
