"""`cleave key export`, `contributor` and `rotate`: keys for others, and another key for a stored table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cleave.ask.access import DEFAULT_IDENTITY, DEFAULT_KEY
from cleave.cli import console, passphrase
from cleave.cli.key import KeyPath, PassphraseFd
from cleave.cli.options import AwsProfile, Name, Region, Store, StoreOptions
from cleave.text.printable import printable
from cleave.text.quantities import counted


def export(
    ctx: typer.Context,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE", help="Where to write it.", show_default=False)
    ],
    table: Annotated[
        str | None,
        typer.Option(
            "--table",
            metavar="NAME",
            help="Invite the registered contributors to this stored table: its schema and by columns go with the key.",
            show_default=False,
        ),
    ] = None,
    store: Annotated[
        str | None,
        typer.Option("--store", metavar="PLACE[,PLACE]", envvar="CLEAVE_STORE", help="Where --table rests."),
    ] = None,
    key: KeyPath = DEFAULT_KEY,
    passphrase_fd: PassphraseFd = None,
    profile: AwsProfile = None,
    region: Region = None,
) -> None:
    """Write the public side of a key, which opens nothing: others seal rows to its owner with it.

    Prints its fingerprint, which contributors get over another channel than the file.
    """
    from cleave.ckks.key_file import open_key  # noqa: PLC0415 - cryptography takes 30 ms; `--help` does without
    from cleave.ckks.public_key import export_public, public_side  # noqa: PLC0415

    if table is None:
        secret, invitation = open_key(key, passphrase.current(passphrase_fd)), None
    else:
        if store is None:
            raise typer.BadParameter("--table goes with --store")
        from cleave.share.collect import newest_versions  # noqa: PLC0415
        from cleave.share.invitation import invite  # noqa: PLC0415

        with StoreOptions(store, key, passphrase_fd, profile, region).opened() as (_, tables, secret):
            manifest = tables.open(table).manifest
            invitation = invite(manifest, newest_versions(tables, manifest)).model_dump_json()
    exported = public_side(secret, invitation)
    export_public(secret, exported, output)
    if not ctx.obj.quiet:
        console.say(f"wrote {printable(str(output))}")
        console.say(f"fingerprint {exported.fingerprint}")


def copy(
    ctx: typer.Context,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE", help="Where to write it.", show_default=False)
    ],
    store: Store,
    key: KeyPath = DEFAULT_KEY,
    passphrase_fd: PassphraseFd = None,
    profile: AwsProfile = None,
    region: Region = None,
) -> None:
    """Copy a key file for another machine, with the newest versions of the tables in a store.

    The other machine then accepts no older version of these tables, even when it has never opened them.
    """
    from cleave.ckks.key_file import copy_key, describe_key  # noqa: PLC0415 - cryptography takes 30 ms

    given: bytes | None = None
    supplied = passphrase.current(passphrase_fd)
    if isinstance(supplied, bytes):
        given = supplied
    elif describe_key(key).wrapped:
        given = supplied()  # once, for opening and for wrapping
    with StoreOptions(store, key, None, profile, region).opened(given=given) as (_, tables, _):
        floors = tables.versions()
    copy_key(key, output, given, floors)
    if not ctx.obj.quiet:
        console.say(f"wrote {printable(str(output))}, with the versions of {counted(len(floors), 'table')}")


def contributor(
    ctx: typer.Context,
    output: Annotated[
        Path,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="Where to write it; ~/.config/cleave/contributor.pem if not named.",
            show_default=False,
        ),
    ] = DEFAULT_IDENTITY,
) -> None:
    """Make an identity to sign contributions to others' tables with. It opens nothing.

    Its public half, the file that ends in .pub, is what the owner of a table registers.
    """
    from cleave.store.identity import create_identity  # noqa: PLC0415

    made, public = create_identity(output.expanduser())
    console.out(f"contributor {made.public}")
    if not ctx.obj.quiet:
        console.say(f"send {printable(str(public))} to the owner of the table")


def rotate(
    ctx: typer.Context,
    name: Name,
    store: Store,
    new_key: Annotated[
        Path,
        typer.Option("--new-key", metavar="FILE", help="The key file that it moves to.", show_default=False),
    ],
    key: KeyPath = DEFAULT_KEY,
    passphrase_fd: PassphraseFd = None,
    new_passphrase_fd: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help=f"The new key's passphrase; else {passphrase.NEW_VARIABLE} or a prompt.",
            show_default=False,
        ),
    ] = None,
    profile: AwsProfile = None,
    region: Region = None,
) -> None:
    """Move a stored table to another key: all of it is sealed again.

    Until that is done queries use the old key. The same command continues a rotation that was stopped.
    """
    from cleave.ckks.key_file import describe_key, open_key  # noqa: PLC0415
    from cleave.maintain.rotate import rotate as put_under  # noqa: PLC0415
    from cleave.store.memory import Memory  # noqa: PLC0415
    from cleave.store.tables import Tables  # noqa: PLC0415

    describe_key(new_key)  # a missing one is told before anything is asked for
    with StoreOptions(store, key, passphrase_fd, profile, region).opened() as (stores, tables, _):
        other = open_key(new_key, passphrase.current_new(new_passphrase_fd))
        with console.progress(quiet=ctx.obj.quiet) as progress:
            opened = put_under(tables, Tables(stores, other, Memory()), name, progress)
    if not ctx.obj.quiet:
        console.say(f"{printable(name)}: version {opened.manifest.version}, under key {other.key_id}")
