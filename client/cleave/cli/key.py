"""`cleave key ...`: make, show and rewrap the secret key."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cleave.ask.access import DEFAULT_KEY, KEY_VARIABLE
from cleave.cli import console, passphrase
from cleave.text.printable import printable
from cleave_shared.errors import KeyFileError

if TYPE_CHECKING:
    from cleave.ckks.key_file import KeyInfo


def _expanded(path: Path) -> Path:
    try:
        return path.expanduser()
    except RuntimeError:
        raise KeyFileError(f"{path}: this account has no home directory", hint="name the file with --key") from None


KeyPath = Annotated[
    Path,
    typer.Option(
        "--key",
        metavar="FILE",
        envvar=KEY_VARIABLE,
        callback=_expanded,
        help="The key file of stored tables; ~/.config/cleave/key.json if not named.",
        show_default=False,
    ),
]
PassphraseFd = Annotated[
    int | None,
    typer.Option(
        "--passphrase-fd",
        metavar="N",
        help=f"Read the passphrase from this file descriptor; else {passphrase.VARIABLE} or a prompt.",
    ),
]
NoPassphrase = Annotated[bool, typer.Option("--no-passphrase", help="Store the key unwrapped: the file is the key.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def key_commands(*others: Callable[..., None]) -> typer.Typer:
    commands = typer.Typer(
        help="Make, show, copy, export, rewrap and rotate the key.", rich_markup_mode=None, no_args_is_help=True
    )
    commands.command()(new)
    commands.command()(show)
    commands.command("passphrase")(rewrap)
    for command in others:
        commands.command()(command)
    return commands


def new(
    ctx: typer.Context,
    key: KeyPath = DEFAULT_KEY,
    passphrase_fd: PassphraseFd = None,
    no_passphrase: NoPassphrase = False,
) -> None:
    """Make a key for stored tables; questions over files need none.

    Its file can be read by its owner only. An existing file is never overwritten.
    """
    from cleave.ckks.key_file import create_key  # noqa: PLC0415 - cryptography takes 30 ms; `--help` does without

    if key.exists():  # told before a passphrase is thought of
        raise KeyFileError(f"{key}: is there already", hint="name another file with --key, or move this one away")
    info = create_key(key, None if no_passphrase else passphrase.chosen(passphrase_fd))
    console.out(_described(info))
    if not ctx.obj.quiet:
        console.say("Keep a copy of this file: without it no stored table can be read.")


def show(key: KeyPath = DEFAULT_KEY, as_json: Json = False) -> None:
    """Show what a key file tells without its passphrase."""
    from cleave.ckks.key_file import describe_key  # noqa: PLC0415

    info = describe_key(key)
    if as_json:
        facts = {"path": str(info.path), "key_id": info.key_id}
        console.out(json.dumps(facts | {"created": info.created, "wrapped": info.wrapped}))
    else:
        console.out(_described(info))


def rewrap(
    ctx: typer.Context,
    key: KeyPath = DEFAULT_KEY,
    passphrase_fd: PassphraseFd = None,
    new_passphrase_fd: Annotated[
        int | None,
        typer.Option(metavar="N", help=f"The same for the new passphrase; else {passphrase.NEW_VARIABLE} or a prompt."),
    ] = None,
    no_passphrase: NoPassphrase = False,
) -> None:
    """Change, set or remove a key's passphrase."""
    from cleave.ckks.key_file import change_passphrase, describe_key  # noqa: PLC0415

    wrapped = describe_key(key).wrapped
    old = passphrase.current(passphrase_fd)
    if wrapped and not isinstance(old, bytes):
        old = old()  # the old one is asked for before the new one
    change_passphrase(
        key, old, None if no_passphrase else passphrase.chosen(new_passphrase_fd, passphrase.NEW_VARIABLE)
    )
    if not ctx.obj.quiet:
        console.say("the passphrase was removed" if no_passphrase else "the passphrase was changed")


def _described(info: KeyInfo) -> str:
    path = printable(str(info.path))
    return (
        f"key id      {printable(info.key_id)}\n"
        f"file        {path}\n"
        f"created     {printable(info.created)}\n"
        f"passphrase  {'yes' if info.wrapped else 'no: whoever reads the file has the key'}"
    )
