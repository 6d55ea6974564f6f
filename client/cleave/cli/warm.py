"""`cleave warm`: encryptions of zero ahead of time, to which questions and `put` then only add their values."""

from __future__ import annotations

import json
from typing import Annotated, Literal

import typer

from cleave.cli import console, passphrase
from cleave.cli.group import Settings
from cleave.cli.key import Json, KeyPath, PassphraseFd
from cleave.printable import printable
from cleave.quantities import counted, sized
from cleave.session import DEFAULT_KEY, Access


def warm(
    ctx: typer.Context,
    values: Annotated[
        int | None,
        typer.Option(
            "--values",
            min=1,
            metavar="N",
            help="Fill up to what N encrypted values take, 8,176 to a ciphertext; 4 million if not said.",
            show_default=False,
        ),
    ] = None,
    use: Annotated[
        Literal["query", "put"],
        typer.Option(
            "--for", help="What they are for: questions over files (query, shell, Python), or put and key rotate."
        ),
    ] = "query",
    show: Annotated[bool, typer.Option("--show", help="Make none, only show what there is.")] = False,
    drop: Annotated[bool, typer.Option("--drop", help="Delete all there is, for either use.")] = False,
    key: KeyPath = DEFAULT_KEY,
    passphrase_fd: PassphraseFd = None,
    as_json: Json = False,
) -> None:
    """Encrypt ahead of time, so that a later question over files or a put takes less.

    Encryptions of zero are kept in ~/.cache/cleave/pool, sealed under the key; each is used once, and none after this
    machine was started anew. CLEAVE_POOL names another folder; CLEAVE_POOL=off uses none.
    """
    from cleave.warming import VALUES, KeyPool  # noqa: PLC0415 - cryptography takes 30 ms; `--help` does without

    if drop and (show or values is not None):
        raise typer.BadParameter("--drop deletes, and makes and shows nothing")
    if show and values is not None:
        raise typer.BadParameter("--show makes nothing: leave --values out")
    settings: Settings = ctx.obj
    pool = KeyPool(Access(key, passphrase.current(passphrase_fd)))
    if drop:
        dropped = pool.drop()
        if not settings.quiet:
            console.say(f"{counted(dropped, 'encryption')} made ahead deleted")
        return
    if not show:
        pool.fill(VALUES if values is None else values, use, lambda: console.progress(quiet=settings.quiet))
    found = [pool.there("query"), pool.there("put")]
    if as_json:
        facts = {
            each.use: {
                "ciphertexts": each.ciphertexts,
                "bytes": each.bytes,
                "cpu_seconds_saved": each.cpu_seconds_saved,
            }
            for each in found
        }
        console.out(json.dumps({"key_id": pool.key_id, "folder": str(pool.folder)} | facts))
        return
    for each in found:
        saving = f": saves about {each.cpu_seconds_saved:.2g} s of one processor" if each.ciphertexts else ""
        room = f"{counted(each.ciphertexts, 'ciphertext')} ({each.values:,} values)"
        console.out(f"for {each.use}: {room}, {sized(each.bytes)}{saving}")
    console.out(f"in {printable(str(pool.folder))}")
