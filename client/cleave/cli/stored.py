"""`cleave put`, `ls`, `show`, `pull`, `derive`, `verify`, `drop`: tables that rest in a store."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cleave.ask.access import DEFAULT_IDENTITY, LONGEST_TIMEOUT
from cleave.cli import console
from cleave.cli.asked import Files
from cleave.cli.console import Heading
from cleave.cli.contributing import Fingerprint, IdentityFile, PublicKeyFile, contribute
from cleave.cli.contributors import contributors_table
from cleave.cli.group import Settings
from cleave.cli.key import Json
from cleave.cli.options import Contributor, Name, SchemaFile, StoreOptions, Timeout, with_options
from cleave.text.printable import printable
from cleave.text.quantities import counted, sized
from cleave_shared.errors import CheckFailed

if TYPE_CHECKING:
    from cleave.store.manifest import Manifest


def add_stored_commands(app: typer.Typer) -> None:
    for command in (put, ls, show, pull, derive, verify, drop):
        app.command()(with_options(command))


def put(
    ctx: typer.Context,
    files: Files,
    table: Annotated[str, typer.Option("--table", metavar="NAME", help="What the stored table is called.")],
    at: StoreOptions,
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
) -> None:
    """Store a table: its sensitive half sealed, its plain half in the same or in another place.

    No reader sees a part of it before all of it is stored. Columns of kind local stay here. With --public-key the rows
    are sealed to the owner of another's table.
    """
    if public_key is not None:
        if append or by is not None or scan or drop_contributors:
            raise typer.BadParameter("--public-key goes by what its owner's table was put with: leave the others out")
        who = public_key, identity, fingerprint
        contribute(ctx.obj, files, table, at.store, *who, schema, at.profile, at.region, replace=replace, again=again)
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
        at.opened() as (_, tables, _),
        unread.stream() as rows,
        console.progress(quiet=settings.quiet) as progress,
    ):
        if append:
            opened = putting.append(tables, rows, table, progress, again=again, say=say)
        else:
            columns = None if by is None else [word.strip() for word in by.split(",") if word.strip()]
            opened = putting.put(
                tables,
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
    at: StoreOptions,
    as_json: Json = False,
    timeout: Timeout = 600.0,
) -> None:
    """List the tables that this key has in a store."""
    with at.opened(timeout) as (_, tables, _):
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
    at: StoreOptions,
    as_json: Json = False,
    timeout: Timeout = 600.0,
) -> None:
    """Show what a stored table consists of, and what each party can see of it."""
    from cleave.store.schemas import load_stored_schema  # noqa: PLC0415

    with at.opened(timeout) as (stores, tables, secret):
        opened = tables.open(name)
        cells = sum(rows > 0 for rows in tables.cells(opened).rows)
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
    at: StoreOptions,
    output: Annotated[
        Path,
        typer.Option("-o", "--output", metavar="FILE", help="A new file: .csv or .parquet.", show_default=False),
    ],
    contributor: Contributor = None,
) -> None:
    """Write a stored table into a file, rows in the order they were put."""
    settings: Settings = ctx.obj
    from cleave.maintain.pull import check_output, pull_into  # noqa: PLC0415
    from cleave.sums.stored import Stored  # noqa: PLC0415

    check_output(output)
    with (
        at.opened() as (_, tables, _),
        console.progress(quiet=settings.quiet) as progress,
    ):
        stored = Stored(tables, tables.open(name), contributor)
        pull_into(stored, output, progress)
    if not settings.quiet:
        console.say(f"wrote {printable(str(output))}: {counted(stored.manifest.rows, 'row')}")


def derive(
    ctx: typer.Context,
    name: Name,
    expression: Annotated[str, typer.Argument(metavar="EXPRESSION", help="A number per row.", show_default=False)],
    at: StoreOptions,
    alias: Annotated[str, typer.Option("--as", metavar="NAME", help="What the derived column is called.")],
) -> None:
    """Store totals of an expression too: questions over it then need no rows."""
    settings: Settings = ctx.obj
    from cleave.maintain.derive import derive as make  # noqa: PLC0415

    with (
        at.opened() as (_, tables, _),
        console.progress(quiet=settings.quiet) as progress,
    ):
        opened = make(tables, name, expression, alias, progress)
        tables.sweep(opened)
    if not settings.quiet:
        console.say(f"{printable(name)}: version {opened.manifest.version}, with totals of {printable(alias)}")


def verify(
    ctx: typer.Context,
    name: Name,
    at: StoreOptions,
    timeout: Timeout = float(LONGEST_TIMEOUT),
) -> None:
    """Read everything a stored table stands on and check it. Ends with 7 where something is lost or damaged."""
    settings: Settings = ctx.obj
    from cleave.maintain.verify import verify as check  # noqa: PLC0415
    from cleave.sums.stored import Stored  # noqa: PLC0415

    with (
        at.opened(timeout) as (_, tables, _),
        console.progress(quiet=settings.quiet) as progress,
    ):
        stored = Stored(tables, tables.open(name))
        damages = check(stored, progress)
    for each in damages:
        console.out(f"{each.what}: {each.reason}")
    if damages:
        told = f"{counted(len(damages), 'object')} of table {name!r} lost or damaged"
        raise CheckFailed("stored", told, hint="restore the store from a backup or an older version")
    console.out(f"{printable(name)}: {counted(len(stored.manifest.objects()), 'object')} as they were written")


def drop(
    ctx: typer.Context,
    name: Name,
    at: StoreOptions,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    forget: Annotated[
        bool,
        typer.Option(
            "--forget",
            help="Delete nothing in the store, only forget which version of which table was seen here: for one that "
            "was dropped and put anew elsewhere.",
        ),
    ] = False,
    timeout: Timeout = float(LONGEST_TIMEOUT),
) -> None:
    """Delete a stored table. A versioned bucket keeps what it is set to keep."""
    if not forget and not yes and not console.is_terminal(sys.stdin):
        raise typer.BadParameter("there is no terminal to ask on: --yes says it")
    with at.opened(timeout) as (_, tables, _):
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
