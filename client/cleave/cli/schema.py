"""`cleave schema`: propose, settle by flag, check in CI."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cleave.cli import console
from cleave.cli.options import Files, Json, flag
from cleave.text.printable import printable
from cleave.text.tabular import Heading, table
from cleave_shared.errors import InputError

if TYPE_CHECKING:
    from cleave.table.schema import Column, Kind, Schema

_NAMED = 10  # columns that a message names before it only counts


def schema(
    ctx: typer.Context,
    files: Files,
    output: Annotated[
        Path | None, flag("-o, --output, --schema FILE", "The schema file, if not NAME.schema.toml beside the table.")
    ] = None,
    skip: Annotated[int, flag("--skip N", "Lines before the header that do not belong to the table.", min=0)] = 0,
    name: Annotated[str | None, flag("--table NAME", "Name of the table in SQL, if not the file's.")] = None,
    yes: Annotated[bool, flag("--yes", "Write without asking.")] = False,
    check: Annotated[
        bool, flag("--check", "Only check that a schema covers the file and leaves nothing unsure.")
    ] = False,
    plain: Annotated[list[str] | None, flag("--plain COLUMN,...", "Columns the plain service may see.")] = None,
    encrypted: Annotated[list[str] | None, flag("--encrypted COLUMN,...", "Numbers to add up encrypted.")] = None,
    sealed: Annotated[
        list[str] | None, flag("--sealed COLUMN,...", "Columns stored encrypted, computed on here only.")
    ] = None,
    local: Annotated[list[str] | None, flag("--local COLUMN,...", "Columns that never leave.")] = None,
    as_json: Json = False,
) -> None:
    """Propose which columns are sensitive, for review.

    Prints the proposal with its reasons and writes it as a schema file; on a terminal it asks first. A column that
    neither name nor values settle is marked unsure and never proposed plain. An existing file is not changed.

    Examples:
      cleave schema visits.csv
      cleave schema visits.csv --plain ward,sex --encrypted age --local notes --yes
    """
    from cleave.table.schema import Kind, schema_path  # noqa: PLC0415 - see cleave.cli.app

    target = output or schema_path(files)
    kinds = _decided({Kind.PLAIN: plain, Kind.ENCRYPTED: encrypted, Kind.SEALED: sealed, Kind.LOCAL: local})
    if check:
        if kinds or yes or skip or name:
            raise typer.BadParameter("--check writes nothing, so nothing can be settled with it")
        _check(files, target, as_json=as_json, quiet=ctx.obj.quiet)
        return
    if target.exists():
        raise InputError(f"{target}: is there already", hint="name another file with -o, or move this one away first")
    from cleave.propose.propose import propose  # noqa: PLC0415
    from cleave.table.schema import write_schema  # noqa: PLC0415

    with console.progress(quiet=ctx.obj.quiet) as progress:
        proposal = propose(files, kinds, skip=skip, table=name, progress=progress)
    shown = _as_json(proposal, target) if as_json else schema_text(proposal)
    if not yes and console.is_terminal(sys.stdin) and console.is_terminal(sys.stderr):
        console.out(shown)
        if not console.confirm(f"Write this to {printable(str(target))}?"):
            console.say("nothing was written")
            return
        write_schema(proposal, target)
    else:
        write_schema(proposal, target)  # first: a command that fails prints nothing
        console.out(shown)
    if not ctx.obj.quiet:
        console.say(f"wrote {printable(str(target))}: review it before the first question")
        if unsure := _unsure(proposal):
            console.say(
                f"unsure of {_listed(unsure)}: none of it is plain; settle it with --plain, --encrypted, "
                "--sealed or --local"
            )


def schema_text(schema: Schema) -> str:
    """A proposed schema, to be judged column by column."""
    headings = [Heading("column"), Heading("kind"), Heading("type"), Heading("reason")]
    return table(headings, [[column.name, column.kind, column.type, column.reason] for column in schema.columns])


def _decided(given: dict[Kind, list[str] | None]) -> dict[str, Kind]:
    kinds: dict[str, Kind] = {}
    seen: dict[str, Kind] = {}
    for kind, values in given.items():
        for name in (name.strip() for row in csv.reader(values or []) for name in row):
            if not name:
                raise typer.BadParameter(f"--{kind}: a name is missing between commas")
            if seen.get(name.lower(), kind) is not kind:
                raise typer.BadParameter(f"{name!r} is given both as {seen[name.lower()]} and as {kind}")
            kinds[name] = seen[name.lower()] = kind
    return kinds


def _check(files: list[str], target: Path, *, as_json: bool, quiet: bool) -> None:
    from cleave.table.schema import load_schema  # noqa: PLC0415
    from cleave.table.table import open_table  # noqa: PLC0415

    contract = load_schema(target)
    with console.progress(quiet=quiet) as progress, open_table(files, contract, progress) as opened:
        rows = opened.rows
    if unsure := _unsure(contract):
        raise InputError(
            f"{target}: not settled: {_listed(unsure)}",
            hint="decide each one's kind, then delete its line `unsure = true`",
        )
    if as_json:
        console.out(_as_json(contract, target))
    elif not quiet:
        console.say(
            f"{printable(str(target))} covers {printable(', '.join(files))}: {len(contract.columns)} columns, "
            f"{rows:,} rows"
        )


def _unsure(schema: Schema) -> list[str]:
    return [column.name for column in schema.columns if column.unsure]


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(map(printable, names[:_NAMED])) + more


def _as_json(schema: Schema, target: Path) -> str:
    """The shape of `cleave schema --json`; bounds are text, for a JSON number may lose digits."""
    return json.dumps(
        {
            "schema": str(target),
            "columns": [_column(column) for column in schema.columns],
            "unsure": _unsure(schema),
        }
    )


def _column(column: Column) -> dict[str, Any]:
    return {
        "name": column.name,
        "kind": str(column.kind),
        "type": column.type,
        "nullable": column.nullable,
        "lower": None if column.lower is None else f"{column.lower:f}",
        "upper": None if column.upper is None else f"{column.upper:f}",
        "reason": column.reason,
        "unsure": column.unsure,
    }
