"""`cleave contributor ...`: who may add rows to a stored table, and collecting them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

import cleave
from cleave.ask.opening import opened
from cleave.ask.options import Place
from cleave.cli import console
from cleave.cli.options import Json, Name, argument, flag
from cleave.text.quantities import counted

if TYPE_CHECKING:
    from cleave.maintain.facts import StoredTable

Who = Annotated[str, argument("CONTRIBUTOR", "Name of the contributor.")]


def add(
    ctx: typer.Context,
    name: Name,
    contributor: Who,
    place: Place,
    contributor_key: Annotated[
        str,
        flag(
            "--contributor-key FILE=SHA256:...",
            "Public half of the contributor's identity, a .pub file, with its fingerprint when it is used first.",
        ),
    ],
) -> None:
    """Register a contributor, whose rows you then collect.

    Export the public key after that, with `cleave key export --table`.

    Examples:
      cleave contributor add stays west --contributor-key west.pub=SHA256:gwzC... --store s3://bucket
      cleave contributor add stays "clinic north" --contributor-key north.pub=SHA256:9fUt... --store tables
    """
    folder = cleave.add_contributor(name, contributor, contributor_key, **place)
    ctx.obj.say(f"{contributor} may contribute to {name}: it writes to {folder}/ alone")


def ls(name: Name, place: Place, as_json: Json = False) -> None:
    """List contributors, and rows that are not collected yet.

    Examples:
      cleave contributor ls stays --store s3://bucket
      cleave contributor ls stays --store tables --json
    """
    from cleave.contributions.collect import news  # noqa: PLC0415
    from cleave.maintain.show import contributors_text, rows_of  # noqa: PLC0415 - --help does not need it

    with opened(place) as tables:
        manifest = tables.open(name).manifest
        waiting = {each.name: len(news(tables, manifest, each).added) for each in manifest.contributors}
    if as_json:
        facts = [
            {"name": each.name, "key": each.key, "added": each.added, "version": each.version}
            | {"rows": rows_of(manifest, each.name), "waiting": waiting[each.name]}
            for each in manifest.contributors
        ]
        console.out(json.dumps(facts))
        return
    console.out(contributors_text(manifest, waiting) if manifest.contributors else "no contributors")


def collect(
    ctx: typer.Context,
    name: Name,
    place: Place,
    contributors: Annotated[
        list[str] | None, argument("[CONTRIBUTOR]...", "Whose rows to collect. Default: those of all.")
    ] = None,
) -> None:
    """Add the rows that contributors put, and remove those they replaced.

    Every value is checked and sealed again. A refused contributor does not stop the others.

    Examples:
      cleave contributor collect stays --store s3://bucket
      cleave contributor collect stays west north --store tables
    """
    _say_version(ctx, name, cleave.collect(name, *(contributors or ()), **place))


def clear(ctx: typer.Context, name: Name, place: Place) -> None:
    """Delete parts that no key or registration collects any more.

    `cleave contributor collect` names them. They were put with a public file from before the contributor was removed,
    the key rotated or a table dropped.

    Examples:
      cleave contributor clear stays --store s3://bucket
      cleave contributor clear stays --store tables
    """
    ctx.obj.say(f"{name}: {counted(cleave.clear_contributions(name, **place), 'part')} deleted")


def remove(ctx: typer.Context, name: Name, contributor: Who, place: Place) -> None:
    """Remove a contributor and its rows from a table.

    Examples:
      cleave contributor remove stays west --store s3://bucket
      cleave contributor remove stays "clinic north" --store tables
    """
    _say_version(ctx, name, cleave.remove_contributor(name, contributor, **place))


def _say_version(ctx: typer.Context, name: str, stored: StoredTable) -> None:
    ctx.obj.say(f"{name}: version {stored.version}, {counted(stored.rows, 'row')}")
