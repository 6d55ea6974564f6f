"""`cleave put`, `ls`, `show`, `pull`, `derive`, `verify`, `drop`: tables that rest in a store."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cleave.cli import console, passphrase
from cleave.cli.asked import Files, SchemaFile
from cleave.cli.console import Heading
from cleave.cli.group import Settings
from cleave.cli.key import Json, KeyPath, PassphraseFd
from cleave.cli.options import AwsProfile, Region
from cleave.printable import printable
from cleave.quantities import counted, sized
from cleave.session import DEFAULT_KEY, Access, Bars, Session
from cleave_shared.errors import CheckFailed, InputError

if TYPE_CHECKING:
    from cleave.ckks.secret_key import SecretKey
    from cleave.store.locate import Stores
    from cleave.store.manifest import Manifest
    from cleave.store.session import StoredSession
    from cleave.store.tables import Tables
    from cleave.table.lazy import LazyTable
    from cleave.transport.base import Transport

Store = Annotated[
    str,
    typer.Option(
        "--store",
        metavar="PLACE[,PLACE]",
        envvar="CLEAVE_STORE",
        help="Where stored tables rest: a folder or s3://bucket/prefix; with a comma, the plain half's place apart.",
        show_default=False,
    ),
]
AskedStore = Annotated[
    str | None,
    typer.Option(
        "--store", metavar="PLACE[,PLACE]", help="Ask the stored table of that name, which rests there, not a file."
    ),
]
Name = Annotated[str, typer.Argument(metavar="NAME", help="The stored table.", show_default=False)]


def add_stored_commands(app: typer.Typer) -> None:
    for command in (put, ls, show, pull, derive, verify, drop):
        app.command()(command)


def open_place(store: str, profile: str | None = None, region: str | None = None) -> Stores:
    """Raises InputError for what names no store, ServiceError where there are no credentials."""
    from cleave.store.locate import open_stores  # noqa: PLC0415

    def session() -> object:
        from cleave.transport.aws import open_session  # noqa: PLC0415 - botocore takes 100 ms; a folder needs none

        return open_session(profile, region)

    return open_stores(store, session)


def open_session(
    table: LazyTable | str,
    access: Access,
    embedded: Callable[[], Transport],
    bars: Bars,
    others: Sequence[LazyTable],
    store: str | None,
    profile: str | None = None,
    region: str | None = None,
) -> Session | StoredSession:
    """Over files, or over the table of that name in `store`.

    Raises InputError where there is no such table, KeyFileError, StoreError, CheckFailed.
    """
    if store is None or not isinstance(table, str):
        if isinstance(table, str):
            raise typer.BadParameter("a stored table is asked with --store")
        return Session(table, access, embedded, bars, others)
    from cleave.ckks.key_file import describe_key  # noqa: PLC0415
    from cleave.store.session import StoredSession  # noqa: PLC0415

    describe_key(access.key)  # a missing key is told before a store is asked
    return StoredSession(table, open_place(store, profile, region), access, bars, others)


@contextlib.contextmanager
def _opened(
    store: str, key: Path, fd: int | None, profile: str | None, region: str | None
) -> Iterator[tuple[Stores, Tables, SecretKey]]:
    from cleave.ckks.key_file import describe_key  # noqa: PLC0415
    from cleave.store.session import open_tables  # noqa: PLC0415

    describe_key(key)  # a missing key is told before a store is asked
    stores = open_place(store, profile, region)
    try:
        yield stores, *open_tables(stores, Access(key, passphrase.current(fd)))
    finally:
        stores.close()


def put(
    ctx: typer.Context,
    files: Files,
    table: Annotated[str, typer.Option("--table", metavar="NAME", help="What the stored table is called.")],
    store: Store,
    by: Annotated[
        str | None,
        typer.Option(
            "--by",
            metavar="COLUMN,...",
            help="Columns that will be filtered and grouped by: totals are kept of every combination of their values. "
            "Proposed where it is not said; an empty word means none.",
            show_default=False,
        ),
    ] = None,
    append: Annotated[bool, typer.Option("--append", help="Add the rows to the table that is there.")] = False,
    replace: Annotated[bool, typer.Option("--replace", help="Put the table anew in place of the one there.")] = False,
    lossless: Annotated[
        bool, typer.Option("--lossless", help="Keep every bit of floats: 8 bytes more for each of their values.")
    ] = False,
    schema: SchemaFile = None,
    key: KeyPath = DEFAULT_KEY,
    passphrase_fd: PassphraseFd = None,
    profile: AwsProfile = None,
    region: Region = None,
) -> None:
    """Store a table: its sensitive half encrypted, its plain half beside it or in another place.

    Nothing of a table is seen until all of it is there. Columns of kind local stay here.
    """
    if append and (replace or by is not None or lossless):
        raise typer.BadParameter("--append goes by what the table was put with: leave the other options out")
    settings: Settings = ctx.obj
    from cleave.store import put as putting  # noqa: PLC0415
    from cleave.store.by import describe, propose  # noqa: PLC0415
    from cleave.table.lazy import of_files  # noqa: PLC0415

    unread = of_files(files, schema, table)
    with _opened(store, key, passphrase_fd, profile, region) as (stores, tables, secret):
        with console.progress(quiet=settings.quiet) as progress:
            read = unread.read(progress)
        with read:
            if append:
                with console.progress(quiet=settings.quiet) as progress:
                    opened = putting.append(tables, stores, secret, read, table, progress)
            else:
                putting.require_new(tables, stores, table, replace=replace)
                columns = propose(read) if by is None else [word.strip() for word in by.split(",") if word.strip()]
                chosen = putting.check_by(columns, putting.stored_schema(read.schema, table))
                if not settings.quiet:
                    console.say(printable(describe(read, chosen, secret.profile, lossless=lossless)))
                with console.progress(quiet=settings.quiet) as progress:
                    opened = putting.put(
                        tables, stores, secret, read, table, chosen, progress, lossless=lossless, replace=replace
                    )
        swept = tables.sweep(opened)
    if not settings.quiet:
        manifest = opened.manifest
        console.say(
            f"{printable(table)}: version {manifest.version}, {counted(manifest.rows, 'row')} in "
            f"{counted(len(manifest.segments), 'segment')}" + (f"; {swept} old objects deleted" if swept else "")
        )


def ls(
    store: Store,
    key: KeyPath = DEFAULT_KEY,
    passphrase_fd: PassphraseFd = None,
    as_json: Json = False,
    profile: AwsProfile = None,
    region: Region = None,
) -> None:
    """List the tables that this key has in a store."""
    with _opened(store, key, passphrase_fd, profile, region) as (_, tables, _):
        found = [each.manifest for each in tables.all()]
    if as_json:
        console.out(json.dumps([_facts(each) for each in found]))
        return
    headings = [
        Heading("table"),
        Heading("rows", justify="right"),
        Heading("bytes", justify="right"),
        Heading("version", justify="right"),
        Heading("changed"),
    ]
    rows = [
        [
            each.table,
            f"{each.rows:,}",
            f"{each.bytes:,}",
            str(each.version),
            each.history[-1].at if each.history else "",
        ]
        for each in found
    ]
    console.out(console.table(headings, rows) if rows else "no tables under this key")


def show(
    name: Name,
    store: Store,
    key: KeyPath = DEFAULT_KEY,
    passphrase_fd: PassphraseFd = None,
    as_json: Json = False,
    profile: AwsProfile = None,
    region: Region = None,
) -> None:
    """Show what a stored table consists of, and what each party can see of it."""
    from cleave.store.cells import load_cells  # noqa: PLC0415
    from cleave.store.put import load_stored_schema  # noqa: PLC0415

    with _opened(store, key, passphrase_fd, profile, region) as (stores, tables, secret):
        opened = tables.open(name)
        cells = len(load_cells(tables.unseal(opened.vault, opened.manifest.cells)))
        places = (stores.sensitive.location, stores.plain.location)
    manifest = opened.manifest
    if as_json:
        console.out(json.dumps(_facts(manifest) | {"key_id": secret.key_id, "cells": cells}))
        return
    schema = load_stored_schema(manifest)
    squares = {each.name: each.square for each in manifest.measures}
    columns = [
        [
            each.name,
            str(each.kind),
            each.type,
            ", ".join(
                word
                for word, said in (
                    ("by", each.name in manifest.by),
                    ("sums" + (" and squares" if squares.get(each.name) else ""), each.name in squares),
                )
                if said
            ),
        ]
        for each in schema.columns
    ] + [[each.name, "derived", each.type, each.sql] for each in manifest.measures if each.derived]
    history = [[str(e.version), e.at, e.what, f"{e.rows:,}"] for e in manifest.history]
    sections = [
        f"{manifest.table}: version {manifest.version}, {counted(manifest.rows, 'row')}, {counted(cells, 'cell')} by "
        f"{', '.join(manifest.by) or 'nothing'}, {counted(len(manifest.segments), 'segment')}, "
        f"{sized(manifest.bytes)}, under key {secret.key_id}",
        console.table([Heading(word) for word in ("column", "kind", "type", "kept")], columns),
        console.table([Heading("version"), Heading("at"), Heading("what"), Heading("rows", justify="right")], history),
        *_seen(manifest, *places),
    ]
    console.out("\n\n".join(map(printable_lines, sections)))


def pull(
    ctx: typer.Context,
    name: Name,
    store: Store,
    output: Annotated[
        Path,
        typer.Option("-o", "--output", metavar="FILE", help="A new file: .csv or .parquet.", show_default=False),
    ],
    key: KeyPath = DEFAULT_KEY,
    passphrase_fd: PassphraseFd = None,
    profile: AwsProfile = None,
    region: Region = None,
) -> None:
    """Decrypt and rejoin a stored table into a file, rows in the order they were put."""
    ending = output.suffix.lower()
    if ending not in (".csv", ".parquet"):
        raise typer.BadParameter("-o: name a file that ends in .csv or .parquet")
    if output.exists():
        raise InputError(f"{output}: is there already", hint="name another file, or move this one away first")
    settings: Settings = ctx.obj
    from cleave.files import write_atomically  # noqa: PLC0415
    from cleave.store.stored import Stored  # noqa: PLC0415

    with _opened(store, key, passphrase_fd, profile, region) as (_, tables, secret):
        stored = Stored(tables, tables.open(name), secret)
        names = [each.name for each in stored.schema.columns]
        with (
            console.progress(quiet=settings.quiet) as progress,
            stored.rows.table(names, ordered=True, progress=progress) as table,
        ):
            content = table.csv() if ending == ".csv" else table.parquet(table.relation, names, 0, table.rows)
    write_atomically(output, content, error=InputError, mode=0o600)
    if not settings.quiet:
        console.say(f"wrote {printable(str(output))}: {counted(stored.manifest.rows, 'row')}")


def derive(
    ctx: typer.Context,
    name: Name,
    expression: Annotated[str, typer.Argument(metavar="EXPRESSION", help="A number per row.", show_default=False)],
    store: Store,
    alias: Annotated[str, typer.Option("--as", metavar="NAME", help="What the derived column is called.")],
    key: KeyPath = DEFAULT_KEY,
    passphrase_fd: PassphraseFd = None,
    profile: AwsProfile = None,
    region: Region = None,
) -> None:
    """Keep totals of an expression too: questions that ask for it then need no rows."""
    settings: Settings = ctx.obj
    from cleave.store.derive import derive as make  # noqa: PLC0415

    with (
        _opened(store, key, passphrase_fd, profile, region) as (stores, tables, secret),
        console.progress(quiet=settings.quiet) as progress,
    ):
        opened = make(tables, stores, secret, name, expression, alias, progress)
        tables.sweep(opened)
    if not settings.quiet:
        console.say(f"{printable(name)}: version {opened.manifest.version}, with totals of {printable(alias)}")


def verify(
    ctx: typer.Context,
    name: Name,
    store: Store,
    key: KeyPath = DEFAULT_KEY,
    passphrase_fd: PassphraseFd = None,
    profile: AwsProfile = None,
    region: Region = None,
) -> None:
    """Read everything a stored table stands on and check it. Ends with 7 where something is lost or damaged."""
    settings: Settings = ctx.obj
    from cleave.store.stored import Stored  # noqa: PLC0415
    from cleave.store.verify import verify as check  # noqa: PLC0415

    with (
        _opened(store, key, passphrase_fd, profile, region) as (_, tables, secret),
        console.progress(quiet=settings.quiet) as progress,
    ):
        opened = tables.open(name)
        damages = check(tables, opened, Stored(tables, opened, secret), progress)
    for each in damages:
        console.out(f"{each.what}: {each.reason}")
    if damages:
        raise CheckFailed("stored", f"{counted(len(damages), 'object')} of table {name!r} lost or damaged")
    console.out(f"{printable(name)}: {counted(len(opened.manifest.objects()), 'object')} as they were written")


def drop(
    ctx: typer.Context,
    name: Name,
    store: Store,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    key: KeyPath = DEFAULT_KEY,
    passphrase_fd: PassphraseFd = None,
    profile: AwsProfile = None,
    region: Region = None,
) -> None:
    """Delete a stored table. A versioned bucket keeps what it is set to keep."""
    if not yes and not console.is_terminal(sys.stdin):
        raise typer.BadParameter("there is no terminal to ask on: --yes says it")
    with _opened(store, key, passphrase_fd, profile, region) as (_, tables, _):
        if not yes:
            typer.confirm(f"Delete table {printable(name)}?", abort=True)
        tables.drop(name)
    if not ctx.obj.quiet:
        console.say(f"{printable(name)} is dropped")


def printable_lines(text: str) -> str:
    return "\n".join(map(printable, text.splitlines()))


def _facts(manifest: Manifest) -> dict[str, object]:
    return {
        "table": manifest.table,
        "version": manifest.version,
        "rows": manifest.rows,
        "bytes": manifest.bytes,
        "segments": len(manifest.segments),
        "by": list(manifest.by),
        "measures": [
            each.model_dump(include={"name", "sql", "type", "square", "derived"}) for each in manifest.measures
        ],
        "history": [each.model_dump() for each in manifest.history],
    }


def _seen(manifest: Manifest, sensitive: str, plain: str) -> list[str]:
    ciphertexts = sum(len(lane) for each in manifest.segments for lane in each.lanes)
    held = any(each.plain for each in manifest.segments)
    return [
        f"What {sensitive} holds\n"
        f"  - {counted(ciphertexts, 'object')} of ciphertexts, which tell the number of rows and about that of cells\n"
        "  - sealed objects: schema, names, cells, sealed columns; their sizes\n"
        "  - when it was changed, and which objects are read when",
        f"What {plain} holds\n"
        + (
            "  - the plain columns, with names and values, row by row\n  - nothing of any other column"
            if held
            else "  - nothing: no column is plain"
        ),
    ]
