"""`cleave user ...`: who may query the gateway, and what."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from cleave.ask.config import config_folder, make_config_folder
from cleave.ask.opening import column_names
from cleave.cli import console, passphrase
from cleave.cli.options import argument, flag
from cleave.files import expanded, require_target
from cleave_shared.errors import InputError

if TYPE_CHECKING:
    from cleave.cli.group import Settings
    from cleave.logins.users import User

UsersFile = Annotated[Path | None, flag("--users FILE", "File of users. Default: ~/.config/cleave/users.toml.")]
UserName = Annotated[str, argument("NAME", "The user.")]


def users_file(given: Path | None) -> Path:
    """The given users file, or the default one."""
    return expanded(given or config_folder() / "users.toml")


def add(
    ctx: typer.Context,
    name: UserName,
    users: UsersFile = None,
    tables: Annotated[str | None, flag("--tables NAME,...", "Tables the user may query. Default: all.")] = None,
    columns: Annotated[
        str | None, flag("--columns TABLE.COLUMN,...", "Columns the user may query of these tables. Default: all.")
    ] = None,
    min_group: Annotated[
        int | None,
        flag(
            "--min-group N",
            "Leave out groups of fewer than N people, or rows without an entity. Default, and least: 3.",
        ),
    ] = None,
    rows: Annotated[bool, flag("--rows", "Let the user read rows; without it, totals of groups.")] = False,
    token: Annotated[bool, flag("--token", "Print a bearer token for HTTP instead of a password.")] = False,
    password_fd: Annotated[int | None, flag("--password-fd N", "Read the password from this file descriptor.")] = None,
) -> None:
    """Add a user of the gateway, or change one.

    A user that exists keeps all rights; any of --tables, --columns, --min-group and --rows replaces all of them.
    --columns without --tables means the tables that it names.

    Examples:
      cleave user add alice --tables visits --min-group 10
      cleave user add alice --columns visits.ward,visits.bill --min-group 10
      cleave user add notebook --rows --token
    """
    from cleave.logins.users import User, user_in, write_user  # noqa: PLC0415 - pydantic, cryptography
    from cleave.table.privacy import LEAST  # noqa: PLC0415 - DuckDB

    path, settings = users_file(users), cast("Settings", ctx.obj)
    named, listed = column_names(columns) or (), column_names(tables)
    allowed = None if listed is None else tuple(listed)
    if named and allowed is None:
        allowed = tuple(dict.fromkeys(each.partition(".")[0] for each in named))
    if min_group is not None and min_group < LEAST:
        raise InputError(
            f"--min-group {min_group}: groups of users without --rows are of at least {LEAST} people (rule G4)",
            hint=f"leave it out for {LEAST}; of two people, each could subtract itself",
            name="--min-group",
        )
    given = rows or any(each is not None for each in (tables, columns, min_group))
    before = None if given else user_in(path, name)
    rights = before or User(tables=allowed, columns=tuple(named), min_group=min_group or 0, rows=rows)
    if rights.fault:
        raise InputError(f"user {name!r}: {rights.fault}")
    make_config_folder(path)
    require_target(path, overwrite=True)
    password = None if token else passphrase.chosen(password_fd, "password")
    bearer = write_user(
        path,
        name,
        password,
        tables=rights.tables,
        columns=rights.columns,
        min_group=rights.min_group,
        rows=rights.rows,
        token=token,
    )
    if bearer is not None:
        console.out(bearer)
        settings.say("the token is not shown again")
    settings.say(f"{name} may connect to the gateway")
    if before is not None:
        settings.say(f"the rights are as before: {_described(before)}")


def ls(users: UsersFile = None) -> None:
    """List the users of the gateway and what each may query.

    Examples:
      cleave user ls
      cleave user ls --users team.toml
    """
    from cleave.logins.users import read_users  # noqa: PLC0415 - pydantic, cryptography

    for name, user in read_users(users_file(users)).users.items():
        console.out(f"{name}: {_described(user)}")


def _described(user: User) -> str:
    tables = "all tables" if user.tables is None else ", ".join(user.tables) or "no table"
    columns = f"; of these the columns {', '.join(user.columns)}" if user.columns else ""
    if user.fault:
        return f"{tables}{columns}; refused: {user.fault}"
    return f"{tables}{columns}; {'rows' if user.rows else f'sums only; groups of {user.least} or more'}"


def remove(ctx: typer.Context, name: UserName, users: UsersFile = None) -> None:
    """Remove a user of the gateway.

    Open connections stay open.

    Examples:
      cleave user remove alice
      cleave user remove alice --users team.toml
    """
    from cleave.logins.users import delete_user  # noqa: PLC0415 - pydantic, cryptography

    delete_user(users_file(users), name)
    settings: Settings = ctx.obj
    settings.say(f"{name} is removed")
