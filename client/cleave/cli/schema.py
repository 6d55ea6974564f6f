"""`cleave schema`: propose, settle by flag (in a written schema too), check in CI."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cleave.ask.options import Asking
from cleave.cli import console
from cleave.cli.options import Files, Json, flag, flag_of
from cleave.files import names_file
from cleave.text.printable import printable
from cleave.text.quantities import counted
from cleave.text.tabular import Heading, table
from cleave_shared.errors import InputError

if TYPE_CHECKING:
    from cleave.propose.propose import Example
    from cleave.table.schema import Column, Kind, Schema


class Censored(StrEnum):
    LIMIT = "limit"
    NULL = "null"


_GROUPED = 4  # columns of one reason that share a line
_WIDEST_CELL = 40  # characters
_NAMED = 10  # columns that a message names before it only counts


def schema(
    ctx: typer.Context,
    files: Files,
    output: Annotated[
        Path | None,
        flag("-o, --output, --schema FILE", "The schema file. Default: NAME.schema.toml next to the table."),
    ] = None,
    plain: Annotated[list[str] | None, flag("--plain COLUMN,...", "Columns the plain service may see.")] = None,
    encrypted: Annotated[
        list[str] | None, flag("--encrypted COLUMN,...", "Columns whose numbers are added up encrypted.")
    ] = None,
    sealed: Annotated[
        list[str] | None, flag("--sealed COLUMN,...", "Columns stored encrypted and never added up.")
    ] = None,
    local: Annotated[list[str] | None, flag("--local COLUMN,...", "Columns that never leave this machine.")] = None,
    entity: Annotated[
        str | None, flag("--entity COLUMN,...", "Columns that name whom a row is about; '' for none.")
    ] = None,
    accept: Annotated[bool, flag("--accept", "Accept the safe kind proposed for each unsure column.")] = False,
    yes: Annotated[bool, flag("--yes", "Write without asking.")] = False,
    force: Annotated[bool, flag("--force", "Replace an existing schema file.")] = False,
    check: Annotated[bool, flag("--check", "Check the file against its schema; write nothing.")] = False,
    name: Annotated[str | None, flag("--table NAME", "Name of the table in SQL, if not the file's.")] = None,
    skip: Annotated[int, flag("--skip N", "Lines before the header that do not belong to the table.", min=0)] = 0,
    skip_footer: Annotated[int, flag("--skip-footer N", "Lines at the end that do not belong to it.", min=0)] = 0,
    null_token: Annotated[
        list[str] | None, flag("--null-token TEXT", "Text that means NULL among numbers and dates. Repeatable.")
    ] = None,
    censored: Annotated[
        Censored | None, flag("--censored limit|null", "Read numbers like '<5' as their limit, or as NULL.")
    ] = None,
    sheet: Annotated[str | None, flag_of(Asking, "sheet")] = None,
    flatten: Annotated[bool, flag_of(Asking, "flatten")] = False,
    show_values: Annotated[
        bool, flag("--show-values", "Show two values of each column, on your terminal and nowhere else.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Propose which columns are sensitive, for review.

    Prints the proposal with its reasons and writes it as a schema file; on a terminal it asks first. Only columns known
    to be harmless are proposed plain. A column is marked unsure where another kind may be more useful. COLUMN is a name
    or a pattern like 'gene_*'. In an existing file only the columns you name are changed.

    Examples:
      cleave schema visits.csv
      cleave schema visits.csv --plain ward,sex --encrypted 'gene_*' --entity patient_id --accept --yes
    """
    from cleave.propose.propose import propose, settle  # noqa: PLC0415 - see cleave.cli.app
    from cleave.table.inputs import check_reading  # noqa: PLC0415
    from cleave.table.schema import (  # noqa: PLC0415
        CsvDialect,
        Kind,
        edit_schema,
        load_schema,
        schema_path,
        write_schema,
    )

    target = output or schema_path(files)
    check_reading(files, sheet, flatten=flatten)
    kinds = _decided({Kind.PLAIN: plain, Kind.ENCRYPTED: encrypted, Kind.SEALED: sealed, Kind.LOCAL: local})
    if check:
        if kinds or yes or accept or skip or name or entity is not None:
            raise typer.BadParameter("--check writes nothing, so nothing can be settled with it")
        _check(files, load_schema(target).read_as(sheet, flatten), target, as_json=as_json, quiet=ctx.obj.quiet)
        return
    reading = CsvDialect(
        skip=skip,
        skip_footer=skip_footer,
        null_tokens=tuple(null_token or ()),
        censored=censored or "",
        sheet=sheet or "",
        flatten=flatten,
    )
    edits = names_file(target) and not force
    terminal = console.is_terminal(sys.stdout) and not as_json
    if show_values:
        _check_values(target, terminal=terminal, edits=edits)
    if edits and (reading != CsvDialect() or name or not (kinds or accept or entity is not None)):
        hint = "--plain and the like settle its columns, --force proposes it again, -o names another file"
        raise InputError(f"{target}: already exists", hint=hint)
    with console.progress(quiet=ctx.obj.quiet) as progress:
        if edits:
            contract = load_schema(target)
            changed = settle(files, contract, kinds, accept=accept, progress=progress)
            new = {column.name: column for column in changed}
            schema = replace(contract, columns=tuple(new.get(each.name, each) for each in contract.columns))
            schema = _about(schema, entity, accept=accept)
            privacy = None if schema.privacy == contract.privacy else schema.privacy
            shown = "\n".join([*([schema_text(changed)] if changed else []), *([_people(schema)] if privacy else [])])
        else:
            cells: dict[str, Example] = {}
            schema = propose(
                files, kinds, accept=accept, reading=reading, table=name, progress=progress, examples=cells
            )
            schema = _about(schema, entity, accept=accept)
            shown = _proposal_text(schema, cells if terminal else {}, show_values=show_values)

    def write() -> None:
        if edits:
            edit_schema(target, changed, privacy)
        else:
            write_schema(schema, target, overwrite=force)

    shown = _as_json(schema, target) if as_json else shown
    if not yes and console.is_terminal(sys.stdin) and console.is_terminal(sys.stderr):
        console.out(shown)
        if not console.confirm(f"Write this to {printable(str(target))}?"):
            console.say("nothing was written")
            return
        write()
    else:
        write()  # first: a command that fails prints nothing
        console.out(shown)
    if not ctx.obj.quiet:
        _say_written(schema, target, len(changed) if edits else None, sheet=sheet)


def _say_written(schema: Schema, target: Path, changed: int | None, *, sheet: str | None) -> None:
    """`changed`: columns of a schema that was there; None: it is new. `sheet`: as it was named."""
    changes = "wrote" if changed is None else f"changed {counted(changed, 'column')} of"
    console.say(f"{changes} {printable(str(target))}: review it before the first query")
    if changed is None and not sheet and schema.dialect.sheet:
        console.say(f"it is of sheet {printable(schema.dialect.sheet)!r}, the first of several: --sheet names another")
    _say_unsure(schema)


def _say_unsure(schema: Schema) -> None:
    if unsure := _unsure(schema):
        console.say(
            f"unsure of {_listed(unsure)}: none of it is plain; settle it with --plain, --encrypted, "
            "--sealed or --local, or --accept all of it"
        )
    if schema.privacy.unsure:
        console.say(
            f"unsure whether {_entity(schema)} names whom a row is about: settle it with --entity, or --accept it"
        )


def _about(schema: Schema, entity: str | None, *, accept: bool) -> Schema:
    """`schema` with the entity that a person settled."""
    if entity is not None:
        return schema.about([each.strip() for each in entity.split(",") if each.strip()])
    return schema.about(schema.privacy.entity) if accept and schema.privacy.unsure else schema


def _entity(schema: Schema) -> str:
    return printable(", ".join(schema.privacy.entity))


def _people(schema: Schema) -> str:
    return f"whom a row is about: {_entity(schema) or 'not named'}; thresholds count {schema.privacy.counted}"


def schema_text(columns: Sequence[Column], values: Mapping[str, Sequence[str]] | None = None) -> str:
    """Columns of a schema, to be judged one by one; those of equal kind, type and reason in one line, if they are many.

    `values`: cells to show of each, on a terminal only; then every column has a line.
    """
    headings = [Heading("column"), Heading("kind"), Heading("type"), Heading("reason")]
    if values is not None:
        rows = [[each.name, each.kind, each.type, _cells(values.get(each.name, ())), each.reason] for each in columns]
        return table([*headings[:3], Heading("values"), headings[3]], rows)
    groups: dict[tuple[str, str, str], list[str]] = {}
    for each in columns:
        groups.setdefault((each.kind, each.type, each.reason), []).append(each.name)
    rows = []
    for (kind, type_, reason), names in groups.items():
        many = len(names) >= _GROUPED
        shown = [f"{names[0]}, {names[1]} and {len(names) - 2:,} more"] if many else names
        rows += [[name, kind, type_, reason] for name in shown]
    return table(headings, rows)


def _proposal_text(schema: Schema, cells: Mapping[str, Example], *, show_values: bool) -> str:
    """The proposal, with what comes back as another text than it was. `cells` are quoted: none, but on a terminal."""
    values = {name: each.values for name, each in cells.items()} if show_values else None
    changes = [
        f"{printable(name)}: {printable(_cells(each.changed[:1]))} comes back as {printable(_cells(each.changed[1:]))}"
        for name, each in cells.items()
        if each.changed
    ]
    people = [_people(schema)] if schema.privacy.entity else []
    return "\n".join([schema_text(schema.columns, values), *people, *changes])


def _check_values(target: Path, *, terminal: bool, edits: bool) -> None:
    if not terminal:
        raise typer.BadParameter("--show-values shows cells on a terminal only: stdout is a file or a pipe, or JSON")
    if edits:
        raise typer.BadParameter(f"--show-values shows cells of a proposal: {target} exists, --force proposes it again")


def _cells(values: Sequence[str]) -> str:
    return ", ".join(each if len(each) <= _WIDEST_CELL else f"{each[: _WIDEST_CELL - 3]}..." for each in values)


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


def _check(files: list[str], contract: Schema, target: Path, *, as_json: bool, quiet: bool) -> None:
    from cleave.table.stream import open_table  # noqa: PLC0415

    with console.progress(quiet=quiet) as progress, open_table(files, contract, progress) as opened:
        rows = opened.rows
    if contract.privacy.unsure:
        raise InputError(
            f"{target}: not settled: whether {', '.join(contract.privacy.entity)} names whom a row is about",
            hint="correct [privacy] entity, then delete its line `unsure = true`",
        )
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
            "entity": list(schema.privacy.entity),
            "entity_unsure": schema.privacy.unsure,
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
