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
    from cleave.releases.noising import NoisyReleaseFacts
    from cleave.releases.releases import ReleaseFacts


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
    from cleave.share.addressed import public_of  # noqa: PLC0415 - as above
    from cleave.table.privacy import epsilon_text  # noqa: PLC0415 - DuckDB; --help does not need it

    with opened(place) as tables:
        table = tables.open(name)
        release, spent = table.manifest.release, tables.spent(table)
    analysts = release.analysts if release else ()
    rows = [[each.name, public_of(each).fingerprint, each.added] for each in analysts]
    noisy = (
        {"epsilon": epsilon_text(release.epsilon), "spent": epsilon_text(spent)} if release and release.epsilon else {}
    )
    if as_json:
        facts: dict[str, Any] = {}
        if release:
            facts = {"release": release.number, "at": release.at, **noisy}
        if release and not noisy:
            facts |= {"min_cell": release.least, "further_parts": release.is_live}
        facts["analysts"] = [dict(zip(("name", "fingerprint", "added"), row, strict=True)) for row in rows]
        console.out(json.dumps(facts))
    elif not release or not rows:
        console.out("no analysts")
    else:
        console.out(text_table([Heading("analyst"), Heading("fingerprint"), Heading("added")], rows))
        what = f"noisy, epsilon {noisy['epsilon']}" if noisy else f"parts of at least {release.least}"
        console.out(f"release {release.number} of {release.at}: {what}")
        if not noisy and not release.is_live:
            console.out("it gets no further parts; `cleave release new --new-lineage --yes` begins again")
    if spent and not as_json:
        console.out(f"noisy releases have spent epsilon {epsilon_text(spent)}")


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


def _say(ctx: typer.Context, done: ReleaseFacts | NoisyReleaseFacts) -> None:
    from cleave.releases.noising import NoisyReleaseFacts  # noqa: PLC0415 - as above

    names = ", ".join(done.analysts) or "no one"
    if not isinstance(done, NoisyReleaseFacts) and not done.made:
        ctx.obj.say(f"{done.table}: nothing new to release, so none is made; the newest is:")
    ctx.obj.say(f"{done.table}: release {done.number} for {names}, in {done.place}: {counted(done.cells, 'cell')}")
    if isinstance(done, NoisyReleaseFacts):
        _say_noise(ctx, done)
    else:
        _say_exact(ctx, done)
    ctx.obj.say("send the fingerprint to the analysts over another channel than the store")
    console.out(f"fingerprint {done.fingerprint}")


def _say_noise(ctx: typer.Context, done: NoisyReleaseFacts) -> None:
    budget = f" of {done.budget}" if done.budget else ""
    if done.draws:
        ctx.obj.say(f"drawn: epsilon {done.epsilon}, up to {counted(done.most_rows, 'row')} of each person")
    else:
        ctx.obj.say("drawn: nothing new; the numbers that were drawn are published, and cost nothing more")
    ctx.obj.say(f"spent: epsilon {done.spent}{budget}")
    if done.left_out:
        ctx.obj.say(f"not in the cells: {', '.join(done.left_out)}: no values are declared")


def _say_exact(ctx: typer.Context, done: ReleaseFacts) -> None:
    if done.ends:
        ctx.obj.say("a new lineage: differences of releases of this one and of an earlier one can show few people")
    if done.publishes and done.made:
        ctx.obj.say(f"published: {counted(done.parts, 'part')} of at least {done.min_cell} {done.counted}")
    elif done.made:
        ctx.obj.say("published: nothing new; `cleave release new` without new analysts publishes rows added since")
    if done.waiting:
        ctx.obj.say(f"waiting: rows of {counted(done.waiting, 'cell')}, until there are {done.min_cell} {done.counted}")
    for name, parts in done.withheld:
        ctx.obj.say(f"withheld: {name} in {counted(parts, 'part')}")
    if done.left_out:
        why = "not numbers of the table or sums of them with constants, or floats without lower and upper"
        ctx.obj.say(f"left out: {', '.join(done.left_out)}: {why}")
