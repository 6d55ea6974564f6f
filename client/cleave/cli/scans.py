"""`cleave scan ...`: rows that services add up without their being fetched."""

from __future__ import annotations

import typer

from cleave.cli import console
from cleave.cli.options import Name, StoreOptions, with_options
from cleave.text.printable import printable
from cleave.text.quantities import sized


def scan_commands() -> typer.Typer:
    commands = typer.Typer(
        help="Keep the rows of a stored table as ciphertexts too, for scans.",
        rich_markup_mode=None,
        no_args_is_help=True,
    )
    commands.command()(with_options(add))
    commands.command()(with_options(drop))
    return commands


def add(
    ctx: typer.Context,
    name: Name,
    at: StoreOptions,
) -> None:
    """Encrypt the rows for scans, as `cleave put --scan` does: services then add up rows by any plain column."""
    from cleave.maintain.scans import add_scan  # noqa: PLC0415

    with (
        at.opened() as (_, tables, _),
        console.progress(quiet=ctx.obj.quiet) as progress,
    ):
        opened = add_scan(tables, name, progress)
        tables.sweep(opened)
    _say(ctx, name, opened.manifest.bytes)


def drop(
    ctx: typer.Context,
    name: Name,
    at: StoreOptions,
) -> None:
    """Delete the rows for scans; the table keeps everything else."""
    from cleave.maintain.scans import drop_scan  # noqa: PLC0415

    with at.opened() as (_, tables, _):
        opened = drop_scan(tables, name)
        tables.sweep(opened)
    _say(ctx, name, opened.manifest.bytes)


def _say(ctx: typer.Context, name: str, size: int) -> None:
    if not ctx.obj.quiet:
        console.say(f"{printable(name)}: {sized(size)} stored")
