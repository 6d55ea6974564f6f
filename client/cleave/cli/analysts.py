"""`cleave analyst` and `cleave release`: identities of analysts, and totals that an owner releases to them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import cleave
from cleave.ask.config import config_folder
from cleave.ask.opening import opened
from cleave.ask.options import Place, Releasing
from cleave.cli import console
from cleave.cli.options import Json, Name, argument, flag
from cleave.files import expanded
from cleave.text.printable import printable
from cleave.text.quantities import counted
from cleave.text.tabular import Heading
from cleave.text.tabular import table as text_table

if TYPE_CHECKING:
    from cleave.share.releases import ReleaseFacts


def new_analyst(
    ctx: typer.Context,
    output: Annotated[
        Path | None, flag("-o, --output FILE", "Where to write it. Default: ~/.config/cleave/analyst.pem.")
    ] = None,
) -> None:
    """Create an identity to query totals that owners release to it.

    Only you can read its file. Send the public half, the file that ends in .pub, to the owner of a table, and the
    printed fingerprint over another channel.

    Examples:
      cleave analyst new
      cleave analyst new -o carol.pem
    """
    from cleave.ckks.public_key import public_side  # noqa: PLC0415 - what --help does without
    from cleave.store.identity import create_identity  # noqa: PLC0415

    identity, public = create_identity(expanded(output or config_folder() / "analyst.pem"), analyst=True)
    console.out(f"fingerprint {public_side(identity).fingerprint}")
    ctx.obj.say(f"send {public} to the owner of the table")


def new(ctx: typer.Context, name: Name, options: Releasing) -> None:
    """Release totals of a stored table to analysts.

    Earlier analysts stay. Cells of fewer than N rows are left out. Cells that changed by fewer than N rows keep their
    last value. Once rows of the table were deleted, rows that are added later are not released.

    Examples:
      cleave release new visits --to carol.pub=SHA256:gwzC...,dave.pub=SHA256:9fUt... --min-cell 10 --store s3://bucket/prefix
      cleave release new visits --store tables
    """
    _say(ctx, cleave.release(name, **options))


def ls(name: Name, place: Place, as_json: Json = False) -> None:
    """List the analysts of a table, and its newest release.

    Examples:
      cleave release ls visits --store s3://bucket/prefix
      cleave release ls visits --store tables --json
    """
    from cleave.share.release import public_of  # noqa: PLC0415 - as above

    with opened(place) as tables:
        release = tables.open(name).manifest.release
    analysts = release.analysts if release else ()
    rows = [[each.name, public_of(each).fingerprint, each.added] for each in analysts]
    if as_json:
        facts = {"release": release.number, "at": release.at, "min_cell": release.least} if release else {}
        facts["analysts"] = [dict(zip(("name", "fingerprint", "added"), row, strict=True)) for row in rows]
        console.out(json.dumps(facts))
    elif not release or not rows:
        console.out("no analysts")
    else:
        console.out(text_table([Heading("analyst"), Heading("fingerprint"), Heading("added")], rows))
        console.out(f"release {release.number} of {release.at}: cells of at least {counted(release.least, 'row')}")


def revoke(
    ctx: typer.Context,
    name: Name,
    analyst: Annotated[str, argument("ANALYST", "Name or fingerprint of the analyst.")],
    place: Place,
) -> None:
    """Make a new release, under a new key, without one analyst.

    Copies that the analyst has stay readable.

    Examples:
      cleave release revoke visits carol --store s3://bucket/prefix
      cleave release revoke visits carol --store tables
    """
    done = cleave.revoke(name, analyst, **place)
    ctx.obj.say(
        f"{printable(analyst)} gets no further release of {name}; releases that they have copied, or that a bucket "
        "keeps old versions of, stay readable to them"
    )
    if done is not None:
        _say(ctx, done)


def _say(ctx: typer.Context, done: ReleaseFacts) -> None:
    names = ", ".join(done.analysts) or "no one"
    ctx.obj.say(f"{done.table}: release {done.number} for {names}, in {done.place}: {counted(done.cells, 'cell')}")
    if done.hidden:
        ctx.obj.say(f"left out: {counted(done.hidden, 'cell')} of fewer than {done.min_cell} rows")
    if done.closed:
        ctx.obj.say(
            "left out: rows added since the last release, because rows were deleted since the first one: they may be "
            "the same, and differences would show them"
        )
    if done.older:
        ctx.obj.say(f"unchanged since an earlier release, or changed by too few rows: {counted(done.older, 'cell')}")
    if done.left_out:
        ctx.obj.say(
            f"left out: {', '.join(done.left_out)}: their totals would be as many as the rows of a cell; a larger "
            "--min-cell at the first release has room for them"
        )
    ctx.obj.say("send the fingerprint to the analysts over another channel than the store")
    console.out(f"fingerprint {done.fingerprint}")
