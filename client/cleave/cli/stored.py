"""`cleave put`, `ls`, `show`, `pull`, `derive`, `verify`, `drop`: tables that rest in a store."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cleave.cli import console
from cleave.cli.asked import Files, SchemaFile
from cleave.cli.console import Heading
from cleave.cli.contributing import Fingerprint, IdentityFile, PublicKeyFile, contribute
from cleave.cli.contributors import contributors_table
from cleave.cli.group import Settings
from cleave.cli.key import Json, KeyPath, PassphraseFd
from cleave.cli.options import AwsProfile, Region, Timeout
from cleave.cli.place import Contributor, Name, Store, open_place, opened_tables
from cleave.printable import printable
from cleave.quantities import counted, size_of, sized
from cleave.session import DEFAULT_IDENTITY, DEFAULT_KEY, LONGEST_TIMEOUT, Access, Bars, Session
from cleave_shared.errors import CheckFailed, InputError

if TYPE_CHECKING:
    from cleave.store.machine import Machine
    from cleave.store.manifest import Manifest
    from cleave.store.services import Embedded
    from cleave.store.session import StoredSession
    from cleave.table.lazy import LazyTable


def add_stored_commands(app: typer.Typer) -> None:
    for command in (put, ls, show, pull, derive, verify, drop):
        app.command()(command)


def open_session(
    table: LazyTable | str,
    access: Access,
    embedded: Embedded,
    bars: Bars,
    others: Sequence[LazyTable],
    store: str | None,
    profile: str | None = None,
    region: str | None = None,
    seconds: float | None = None,
    contributor: str | None = None,
    *,
    scan: bool = True,
    fetch_limit: str | None = None,
    memory: str | None = None,
    cache: bool = True,
    machine: str | None = None,
) -> Session | StoredSession:
    """Over files, or over the table of that name in `store`, which may take `seconds` to be opened: all of its rows, or
    those of one `contributor`.

    `machine`: ARN of one that makes the calls of scans.

    Raises InputError where there is no such table, KeyFileError, StoreError, CheckFailed.
    """
    if store is None or not isinstance(table, str):
        if isinstance(table, str):
            raise typer.BadParameter("a stored table is asked with --store")
        if contributor is not None:
            raise typer.BadParameter("--contributor goes with a stored table")
        if not scan:
            raise typer.BadParameter("--no-scan goes with a stored table")
        if memory is not None:
            raise typer.BadParameter("--memory goes with a stored table")
        if machine is not None:
            raise typer.BadParameter("--job goes with a stored table")
        return Session(table, access, embedded, bars, others)
    from cleave.ckks.key_file import describe_key  # noqa: PLC0415
    from cleave.store.choice import FETCH_LIMIT  # noqa: PLC0415
    from cleave.store.session import StoredSession  # noqa: PLC0415

    describe_key(access.key)  # a missing key is told before a store is asked
    stores = open_place(store, profile, region)
    return StoredSession(
        *(table, stores, access, bars, others),
        seconds=seconds,
        contributor=contributor,
        embedded=embedded,
        scan=scan,
        fetch_limit=FETCH_LIMIT if fetch_limit is None else _size_of("--fetch-limit", fetch_limit),
        memory_limit=None if memory is None else _size_of("--memory", memory),
        cache=cache,
        machine=_open_machine(machine, profile, region) if machine is not None else None,
    )


def _size_of(option: str, limit: str) -> int:
    try:
        return size_of(limit)
    except InputError as error:
        raise typer.BadParameter(f"{option} {limit}: {error.message}; {error.hint}") from None


def _open_machine(arn: str, profile: str | None, region: str | None) -> Machine:
    from cleave.store.machine import Machine  # noqa: PLC0415 - botocore takes 100 ms
    from cleave.transport.aws import open_session as open_aws  # noqa: PLC0415

    return Machine(open_aws(profile, region), arn)


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
    again: Annotated[
        bool,
        typer.Option(
            "--again",
            help="With --append or --public-key: add the rows even if the last change added just the same ones.",
        ),
    ] = False,
    replace: Annotated[bool, typer.Option("--replace", help="Replace the existing table.")] = False,
    drop_contributors: Annotated[
        bool,
        typer.Option("--drop-contributors", help="With --replace: also where rows of contributors are lost by it."),
    ] = False,
    scan: Annotated[
        bool,
        typer.Option(
            "--scan",
            help="Store the rows as ciphertexts as well, which services add up by any plain column without their being "
            "fetched: for slow networks and very large tables.",
        ),
    ] = False,
    public_key: PublicKeyFile = None,
    identity: IdentityFile = DEFAULT_IDENTITY,
    fingerprint: Fingerprint = None,
    schema: SchemaFile = None,
    key: KeyPath = DEFAULT_KEY,
    passphrase_fd: PassphraseFd = None,
    profile: AwsProfile = None,
    region: Region = None,
) -> None:
    """Store a table: its sensitive half sealed, its plain half in the same or in another place.

    No reader sees a part of it before all of it is stored. Columns of kind local stay here. With --public-key the rows
    are sealed to the owner of another's table.
    """
    if public_key is not None:
        if append or by is not None or scan or drop_contributors:
            raise typer.BadParameter("--public-key goes by what its owner's table was put with: leave the others out")
        who = public_key, identity, fingerprint
        contribute(ctx.obj, files, table, store, *who, schema, profile, region, replace=replace, again=again)
        return
    if again and not append:
        raise typer.BadParameter("--again goes with --append or --public-key")
    if fingerprint is not None:
        raise typer.BadParameter("--fingerprint goes with --public-key")
    if drop_contributors and not replace:
        raise typer.BadParameter("--drop-contributors goes with --replace")
    if append and (replace or by is not None or scan):
        raise typer.BadParameter("--append goes by what the table was put with: leave the other options out")
    settings: Settings = ctx.obj
    from cleave.store import put as putting  # noqa: PLC0415
    from cleave.table.lazy import of_files  # noqa: PLC0415

    say = console.saying(quiet=settings.quiet)
    unread = of_files(files, schema, table)
    with (
        opened_tables(store, key, passphrase_fd, profile, region) as (stores, tables, secret),
        unread.stream() as rows,
        console.progress(quiet=settings.quiet) as progress,
    ):
        if append:
            opened = putting.append(tables, stores, secret, rows, table, progress, again=again, say=say)
        else:
            columns = None if by is None else [word.strip() for word in by.split(",") if word.strip()]
            opened = putting.put(
                tables,
                stores,
                secret,
                rows,
                table,
                columns,
                progress,
                say=say,
                scan=scan,
                replace=replace,
                drop_contributors=drop_contributors,
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
    timeout: Timeout = 600.0,
) -> None:
    """List the tables that this key has in a store."""
    with opened_tables(store, key, passphrase_fd, profile, region, timeout) as (_, tables, _):
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
    timeout: Timeout = 600.0,
) -> None:
    """Show what a stored table consists of, and what each party can see of it."""
    from cleave.store.cells import load_cells  # noqa: PLC0415
    from cleave.store.schemas import load_stored_schema  # noqa: PLC0415

    with opened_tables(store, key, passphrase_fd, profile, region, timeout) as (stores, tables, secret):
        opened = tables.open(name)
        cells = sum(rows > 0 for rows in load_cells(tables.unseal(opened.vault, "cells", opened.manifest.cells)).rows)
        places = (stores.sensitive.location, stores.plain.location)
        table_set = tables.folder(name).removeprefix("tables/")
    manifest = opened.manifest
    if as_json:
        console.out(json.dumps(_facts(manifest) | {"key_id": secret.key_id, "set": table_set, "cells": cells}))
        return
    schema = load_stored_schema(manifest)
    measures = {each.name for each in manifest.measures}
    columns = [
        [
            each.name,
            str(each.kind),
            each.type,
            ", ".join(
                word
                for word, said in (
                    ("by", each.name in manifest.by),
                    ("totals", each.name in measures),
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
        f"{sized(manifest.bytes)}, under key {secret.key_id}; set {table_set}",
        console.table([Heading(word) for word in ("column", "kind", "type", "kept")], columns),
        console.table([Heading("version"), Heading("at"), Heading("what"), Heading("rows", justify="right")], history),
        *([contributors_table(manifest)] if manifest.contributors else []),
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
    contributor: Contributor = None,
    key: KeyPath = DEFAULT_KEY,
    passphrase_fd: PassphraseFd = None,
    profile: AwsProfile = None,
    region: Region = None,
) -> None:
    """Write a stored table into a file, rows in the order they were put."""
    settings: Settings = ctx.obj
    from cleave.store.pull import check_output, pull_into  # noqa: PLC0415
    from cleave.store.stored import Stored  # noqa: PLC0415

    check_output(output)
    with (
        opened_tables(store, key, passphrase_fd, profile, region) as (_, tables, secret),
        console.progress(quiet=settings.quiet) as progress,
    ):
        stored = Stored(tables, tables.open(name), secret, contributor)
        pull_into(stored, output, progress)
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
    """Store totals of an expression too: questions over it then need no rows."""
    settings: Settings = ctx.obj
    from cleave.store.derive import derive as make  # noqa: PLC0415

    with (
        opened_tables(store, key, passphrase_fd, profile, region) as (stores, tables, secret),
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
    timeout: Timeout = float(LONGEST_TIMEOUT),
) -> None:
    """Read everything a stored table stands on and check it. Ends with 7 where something is lost or damaged."""
    settings: Settings = ctx.obj
    from cleave.store.stored import Stored  # noqa: PLC0415
    from cleave.store.verify import verify as check  # noqa: PLC0415
    from cleave.store.verify import verify_heads  # noqa: PLC0415

    with (
        opened_tables(store, key, passphrase_fd, profile, region, timeout) as (stores, tables, secret),
        console.progress(quiet=settings.quiet) as progress,
    ):
        opened = tables.open(name)
        stored = Stored(tables, opened, secret)
        damages = check(tables, opened, stored, progress)
        damages += verify_heads(stores, secret, opened.manifest)
    for each in damages:
        console.out(f"{each.what}: {each.reason}")
    if damages:
        told = f"{counted(len(damages), 'object')} of table {name!r} lost or damaged"
        raise CheckFailed("stored", told, hint="restore the store from a backup or an older version")
    console.out(f"{printable(name)}: {counted(len(opened.manifest.objects()), 'object')} as they were written")


def drop(
    ctx: typer.Context,
    name: Name,
    store: Store,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    forget: Annotated[
        bool,
        typer.Option(
            "--forget",
            help="Delete nothing in the store, only forget which version of which table was seen here: for one that "
            "was dropped and put anew elsewhere.",
        ),
    ] = False,
    key: KeyPath = DEFAULT_KEY,
    passphrase_fd: PassphraseFd = None,
    profile: AwsProfile = None,
    region: Region = None,
    timeout: Timeout = float(LONGEST_TIMEOUT),
) -> None:
    """Delete a stored table. A versioned bucket keeps what it is set to keep."""
    if not forget and not yes and not console.is_terminal(sys.stdin):
        raise typer.BadParameter("there is no terminal to ask on: --yes says it")
    with opened_tables(store, key, passphrase_fd, profile, region, timeout) as (_, tables, _):
        if forget:
            tables.forget(name)
            return
        if not yes:
            typer.confirm(f"Delete table {printable(name)}?", abort=True)
        with console.progress(quiet=ctx.obj.quiet) as progress:
            tables.drop(name, progress)
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
        "measures": [each.model_dump(include={"name", "sql", "type", "derived"}) for each in manifest.measures],
        "contributors": [each.model_dump(include={"name", "key", "added"}) for each in manifest.contributors],
        "history": [each.model_dump() for each in manifest.history],
    }


def _seen(manifest: Manifest, sensitive: str, plain: str) -> list[str]:
    totals = sum(len(each.lanes) for segment in manifest.segments for each in segment.totals)
    columns = len(manifest.sealed) * len(manifest.segments)
    scans = sum(len(lane) for each in manifest.segments if each.scan for lane in each.scan.lanes)
    held = any(each.plain for each in manifest.segments)
    return [
        f"What {sensitive} holds\n"
        f"  - {counted(columns, 'object')} of sealed columns: their sizes show the number of rows, the width of the\n"
        "    declared bounds, and about how well texts compress\n"
        f"  - {counted(totals, 'object')} of encrypted totals: their sizes show about how many cells there are\n"
        + (f"  - {counted(scans, 'object')} of encrypted rows for scans\n" if scans else "")
        + "  - sealed objects: schema, names, cells, order of the rows\n"
        f"  - a head in the clear: the key's id and that this is version {manifest.version} of a table\n"
        "  - when it was changed, which objects are read when, and under whose credentials",
        f"What {plain} holds\n"
        + (
            "  - the plain columns, with names and values, row by row, in the order they were put\n"
            "  - nothing of any other column, nor which row is which among the ciphertexts"
            if held
            else "  - nothing: no column is plain"
        ),
    ]
