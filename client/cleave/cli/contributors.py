"""`cleave contributor ...`: who may add rows to a stored table, and taking them in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cleave.ask.access import LONGEST_TIMEOUT
from cleave.cli import console
from cleave.cli.console import Heading
from cleave.cli.group import Settings
from cleave.cli.key import Json
from cleave.cli.options import Name, StoreOptions, Timeout, with_options
from cleave.text.printable import printable
from cleave.text.quantities import counted

if TYPE_CHECKING:
    from cleave.store.manifest import Manifest

Who = Annotated[str, typer.Argument(metavar="CONTRIBUTOR", help="What the contributor is called.", show_default=False)]


def contributor_commands() -> typer.Typer:
    commands = typer.Typer(
        help="Let others add rows to a stored table, and take them in.", rich_markup_mode=None, no_args_is_help=True
    )
    for command in (add, ls, collect, remove):
        commands.command()(with_options(command))
    return commands


def add(
    ctx: typer.Context,
    name: Name,
    contributor: Who,
    at: StoreOptions,
    contributor_key: Annotated[
        Path,
        typer.Option(
            "--contributor-key",
            metavar="FILE",
            help="The public half of the contributor's identity, which it sent: the file that ends in .pub.",
            show_default=False,
        ),
    ],
) -> None:
    """Register a contributor, whose signed rows can then be collected. Export the public key after that."""
    from cleave.store.contribution import folder_of  # noqa: PLC0415
    from cleave.store.contributors import register  # noqa: PLC0415
    from cleave.store.identity import read_contributor_key  # noqa: PLC0415

    public = read_contributor_key(contributor_key)
    with at.opened() as (_, tables, _):
        opened = register(tables, name, contributor, public)
        tables.sweep(opened)
    if not ctx.obj.quiet:
        folder = folder_of(opened.manifest.table_id, public)
        console.say(f"{printable(contributor)} may contribute to {printable(name)}: it writes to {folder}/ alone")


def ls(
    name: Name,
    at: StoreOptions,
    as_json: Json = False,
) -> None:
    """List the contributors of a table, and what of theirs waits to be taken in."""
    from cleave.share.collect import news  # noqa: PLC0415

    with at.opened() as (_, tables, _):
        manifest = tables.open(name).manifest
        waiting = {each.name: len(news(tables, manifest, each).added) for each in manifest.contributors}
    if as_json:
        facts = [
            {"name": each.name, "key": each.key, "added": each.added, "version": each.version}
            | {"rows": _rows(manifest, each.name), "waiting": waiting[each.name]}
            for each in manifest.contributors
        ]
        console.out(json.dumps(facts))
        return
    console.out(contributors_table(manifest, waiting) if manifest.contributors else "no contributors")


def collect(
    ctx: typer.Context,
    name: Name,
    at: StoreOptions,
    contributors: Annotated[
        list[str] | None,
        typer.Argument(metavar="[CONTRIBUTOR]...", help="Whose rows; all contributors' if none is named."),
    ] = None,
    timeout: Timeout = float(LONGEST_TIMEOUT),
) -> None:
    """Add what contributors have put to the table, and remove what they replaced.

    Every value is checked and sealed again. A contributor that is refused stops no other.
    """
    settings: Settings = ctx.obj
    from cleave.share.collect import collect as take  # noqa: PLC0415

    with (
        at.opened(timeout) as (_, tables, _),
        console.progress(quiet=settings.quiet) as progress,
    ):
        opened, found = take(tables, name, progress, contributors or ())
        tables.sweep(opened)
    if not settings.quiet:
        for each in found:
            who = printable(each.contributor.name)
            console.say(f"{who}: {counted(len(each.added), 'part')} taken in, {len(each.gone)} taken out")
        manifest = opened.manifest
        console.say(f"{printable(name)}: version {manifest.version}, {counted(manifest.rows, 'row')}")


def remove(
    ctx: typer.Context,
    name: Name,
    contributor: Who,
    at: StoreOptions,
    keep_rows: Annotated[bool, typer.Option("--keep-rows", help="Leave the rows that were taken in.")] = False,
) -> None:
    """Take nothing more of a contributor's, and its rows out of the table."""
    from cleave.store.contributors import remove as take_out  # noqa: PLC0415

    with at.opened() as (_, tables, _):
        opened = take_out(tables, name, contributor, keep_rows=keep_rows)
        tables.sweep(opened)
    if not ctx.obj.quiet:
        console.say(f"{printable(name)}: version {opened.manifest.version}, {counted(opened.manifest.rows, 'row')}")


def contributors_table(manifest: Manifest, waiting: dict[str, int] | None = None) -> str:
    headings = [Heading("contributor"), Heading("key"), Heading("added"), Heading("rows", justify="right")]
    rows = [
        [each.name, f"{each.key[:16]}...", each.added, f"{_rows(manifest, each.name):,}"]
        for each in manifest.contributors
    ]
    if waiting is not None:
        headings.append(Heading("parts waiting", justify="right"))
        rows = [[*row, f"{waiting[row[0]]:,}"] for row in rows]
    return console.table(headings, rows)


def _rows(manifest: Manifest, name: str) -> int:
    return sum(each.rows for each in manifest.segments if each.contributor == name)
