"""`cleave scan ...`: rows that services add up without their being fetched."""

from __future__ import annotations

import typer

from cleave.ask.access import DEFAULT_KEY
from cleave.cli import console
from cleave.cli.key import KeyPath, PassphraseFd
from cleave.cli.options import AwsProfile, Region
from cleave.cli.place import Name, Store, opened_tables
from cleave.printable import printable
from cleave.quantities import sized


def scan_commands() -> typer.Typer:
    commands = typer.Typer(
        help="Keep the rows of a stored table as ciphertexts too, for scans.",
        rich_markup_mode=None,
        no_args_is_help=True,
    )
    commands.command()(add)
    commands.command()(drop)
    return commands


def add(
    ctx: typer.Context,
    name: Name,
    store: Store,
    key: KeyPath = DEFAULT_KEY,
    passphrase_fd: PassphraseFd = None,
    profile: AwsProfile = None,
    region: Region = None,
) -> None:
    """Encrypt the rows for scans, as `cleave put --scan` does: services then add up rows by any plain column."""
    from cleave.store.scans import add_scan  # noqa: PLC0415

    with (
        opened_tables(store, key, passphrase_fd, profile, region) as (stores, tables, _),
        console.progress(quiet=ctx.obj.quiet) as progress,
    ):
        opened = add_scan(tables, stores, name, progress)
        tables.sweep(opened)
    _say(ctx, name, opened.manifest.bytes)


def drop(
    ctx: typer.Context,
    name: Name,
    store: Store,
    key: KeyPath = DEFAULT_KEY,
    passphrase_fd: PassphraseFd = None,
    profile: AwsProfile = None,
    region: Region = None,
) -> None:
    """Delete the rows for scans; the table keeps everything else."""
    from cleave.store.scans import drop_scan  # noqa: PLC0415

    with opened_tables(store, key, passphrase_fd, profile, region) as (_, tables, _):
        opened = drop_scan(tables, name)
        tables.sweep(opened)
    _say(ctx, name, opened.manifest.bytes)


def _say(ctx: typer.Context, name: str, size: int) -> None:
    if not ctx.obj.quiet:
        console.say(f"{printable(name)}: {sized(size)} stored")
