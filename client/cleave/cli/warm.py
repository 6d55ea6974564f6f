"""`cleave warm`: encryptions of zero ahead of time, to which questions and `put` then only add their values."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from cleave.cli import console, passphrase
from cleave.cli.group import Settings
from cleave.cli.key import Json, KeyPath, PassphraseFd
from cleave.printable import printable
from cleave.quantities import counted, sized
from cleave.session import DEFAULT_KEY

if TYPE_CHECKING:
    from cleave.ckks.cipher import Form

_SECONDS = 86_400.0


class Use(StrEnum):
    QUERY = "query"
    PUT = "put"

    @property
    def form(self) -> Form:
        return "coefficients" if self is Use.QUERY else "ntt"


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
        Use, typer.Option("--for", help="What they are for: questions over files (query, shell, Python), or put.")
    ] = Use.QUERY,
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
    from cleave.ckks import pool  # noqa: PLC0415 - cryptography takes 30 ms; `--help` does without
    from cleave.ckks.filling import chunks_of, fill, seconds_saved  # noqa: PLC0415
    from cleave.ckks.key_file import describe_key, open_key  # noqa: PLC0415
    from cleave.transport.deadline import Deadline  # noqa: PLC0415

    if drop and (show or values is not None):
        raise typer.BadParameter("--drop deletes, and makes and shows nothing")
    if show and values is not None:
        raise typer.BadParameter("--show makes nothing: leave --values out")
    settings: Settings = ctx.obj
    known = describe_key(key)
    folder = pool.folder_of(known.key_id)
    if folder is None:
        raise typer.BadParameter("CLEAVE_POOL is off, or this account has no home directory: there is no pool")
    if drop:
        dropped = pool.drop(known.key_id)
        if not settings.quiet:
            console.say(f"{counted(dropped, 'encryption')} made ahead deleted")
        return
    secret = open_key(key, passphrase.current(passphrase_fd))
    if not show:
        wanted = chunks_of(values or 4_000_000, known.profile)
        pool.sweep(known.key_id)
        with console.progress(quiet=settings.quiet) as progress:
            advance = progress.stage("encrypt zeros", max(0, wanted - pool.count(known.key_id, use.form)))
            fill(pool.Pool(folder, secret), secret, use.form, wanted, Deadline(_SECONDS), advance)
    facts = []
    for each in Use:
        there = pool.count(known.key_id, each.form)
        saves = seconds_saved(secret, each.form) * there if there else 0.0
        facts.append((each, there, pool.size(known.key_id, each.form), saves))
    if as_json:
        found = {
            str(each): {"ciphertexts": there, "bytes": size, "cpu_seconds_saved": saves}
            for each, there, size, saves in facts
        }
        console.out(json.dumps({"key_id": known.key_id, "folder": str(folder)} | found))
        return
    for each, there, size, saves in facts:
        room = f"{there * (known.profile.degree - 16):,} values"
        saving = f": saves about {saves:.2g} s of one processor" if there else ""
        console.out(f"for {each}: {counted(there, 'ciphertext')} ({room}), {sized(size)}{saving}")
    console.out(f"in {printable(str(folder))}")
