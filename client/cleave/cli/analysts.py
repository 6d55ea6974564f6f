"""`cleave analyst` and `cleave release`: identities of analysts, and totals that an owner releases to them."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import cleave
from cleave.ask.config import config_folder, make_config_folder
from cleave.ask.opening import open_limited, opened
from cleave.ask.options import Place, Releasing
from cleave.cli import console
from cleave.cli.options import Json, Name, argument, flag
from cleave.files import expanded
from cleave.text.printable import printable
from cleave.text.quantities import counted
from cleave.text.tabular import Heading
from cleave.text.tabular import table as text_table
from cleave_shared.errors import KeyFileError, UsageError

if TYPE_CHECKING:
    from cleave.releases.kind import ReleaseFacts


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
    from cleave.ckks.public_key import public_side  # noqa: PLC0415 - --help does not need it
    from cleave.store.identity import create_identity  # noqa: PLC0415

    path = expanded(output or config_folder() / "analyst.pem")
    make_config_folder(path, KeyFileError)
    identity, public = create_identity(path, analyst=True)
    console.out(f"fingerprint {public_side(identity).fingerprint}")
    ctx.obj.say(f"send {public} to the owner of the table")


def accept(
    ctx: typer.Context,
    name: Name,
    number: Annotated[int, flag("--release N", "The release that the store has, as the error says.")],
    analyst: Annotated[Path, flag("--analyst FILE", "Identity file of the analyst.")],
    place: Place,
    fingerprint: Annotated[
        str | None, flag("--fingerprint SHA256:...", "Fingerprint of the table's owner, if it is another key now.")
    ] = None,
) -> None:
    """As an analyst, accept a release of a table that its owner restored or stored again.

    This machine refuses releases if it saw a newer one, or another one of that number. Run this only if the owner says
    that the release is right.

    Examples:
      cleave analyst accept stays --release 1 --analyst carol.pem --store s3://bucket/prefix
      cleave analyst accept stays --release 4 --analyst carol.pem --store tables
    """
    from cleave.ask.released import ReleaseSource  # noqa: PLC0415 - as above
    from cleave.store.identity import read_identity  # noqa: PLC0415

    if place["key"]:
        said = "--key cannot be combined with --analyst: releases are sealed to the analyst's identity"
        raise UsageError(said, name="--key")
    identity = read_identity(expanded(analyst))
    with closing(open_limited(place)) as stores:
        ReleaseSource(name, stores, identity, fingerprint, accepts=number).open()
    ctx.obj.say(f"{name}: release {number} is accepted on this machine")


def new(ctx: typer.Context, name: Name, options: Releasing) -> None:
    """Release totals of a stored table to analysts.

    Each row is released once, when its cell has new rows of at least N people (rows, if the schema names no entity);
    until then it waits. Earlier analysts stay. With a new analyst in --to no more rows are released: the new analyst
    gets what was released before.

    With --epsilon E the totals are noisy: one person changes what analysts can conclude by at most a factor of e^E,
    whatever they know. Numbers are drawn once; questions about them cost nothing. docs/noise.md explains the choices.

    Examples:
      cleave release new visits --to carol.pem.pub=SHA256:gwzC...,dave.pem.pub=SHA256:9fUt... --min-cell 10 --store s3://bucket/prefix
      cleave release new visits --store tables
      cleave release new visits --dry-run --page visits.md --store tables
      cleave release new visits --page visits.md --store tables
      cleave release new visits --epsilon 1 --most-rows 8 --clamp bill=0..5000 --dry-run --store tables
      cleave release new visits --epsilon 1 --most-rows 8 --clamp bill=0..5000 --store tables
    """
    done = cleave.release(name, **options)
    if not isinstance(done, str):
        _say(ctx, done)
    elif options["page"] is None:
        console.out(done.rstrip("\n"))
    else:
        ctx.obj.say(f"nothing is released; {options['page']} says what would be")


def ls(name: Name, place: Place, as_json: Json = False) -> None:
    """List the analysts of a table, and its newest release.

    Examples:
      cleave release ls visits --store s3://bucket/prefix
      cleave release ls visits --store tables --json
    """
    from cleave.releases.releases import newest_of  # noqa: PLC0415 - as above
    from cleave.share.addressed import public_of  # noqa: PLC0415 - as above
    from cleave.table.privacy import epsilon_text  # noqa: PLC0415 - DuckDB; --help does not need it

    with opened(place) as tables:
        table = tables.open(name)
        kind, spent = newest_of(tables, table), epsilon_text(tables.spent(table))
    release = kind.newest if kind else None
    analysts = release.analysts if release else ()
    rows = [[each.name, public_of(each).fingerprint, each.added] for each in analysts]
    if as_json:
        facts: dict[str, Any] = {}
        if kind and release:
            facts = {"release": release.number, "at": release.at, **kind.figures}
        if spent != "0":
            facts["spent"] = spent
        facts["analysts"] = [dict(zip(("name", "fingerprint", "added"), row, strict=True)) for row in rows]
        console.out(json.dumps(facts))
        return
    if not kind or not release or not rows:
        console.out("no analysts")
    else:
        console.out(text_table([Heading("analyst"), Heading("fingerprint"), Heading("added")], rows))
        console.out(f"release {release.number} of {release.at}: {kind.described}")
    if spent != "0":
        console.out(f"noisy releases have spent epsilon {spent}")


def revoke(
    ctx: typer.Context,
    name: Name,
    analyst: Annotated[str, argument("ANALYST", "Name or fingerprint of the analyst.")],
    place: Place,
) -> None:
    """Seal what was released again, under a new key, without one analyst.

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
    if not done.made:
        ctx.obj.say(f"{done.table}: nothing new to release, so none is made; the newest is:")
    ctx.obj.say(f"{done.table}: release {done.number} for {names}, in {done.place}: {counted(done.cells, 'cell')}")
    for line in done.lines():
        ctx.obj.say(line)
    ctx.obj.say("send the fingerprint to the analysts over another channel than the store")
    console.out(f"fingerprint {done.fingerprint}")
