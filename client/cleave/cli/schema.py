"""`cleave schema`: propose a schema, decide kinds by options or on an HTML page, and check a schema in CI."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cleave.ask.opening import column_names, split_names
from cleave.ask.options import Asking
from cleave.cli import console
from cleave.cli.answer import require_page
from cleave.cli.options import Files, Json, flag, flag_of
from cleave.cli.schema_text import listed, proposal_text, schema_json, unsure_of
from cleave.files import FORCE, names_file, require_target, write_atomically
from cleave.table.shown import entity_text, people_text, schema_text
from cleave.text.printable import printable
from cleave.text.quantities import counted
from cleave_shared.errors import InputError

if TYPE_CHECKING:
    from cleave.propose.propose import Examined
    from cleave.table.progress import Progress
    from cleave.table.schema import CsvDialect, Kind, Schema


class Censored(StrEnum):
    LIMIT = "limit"
    NULL = "null"


_GUESSED = ("cp1252", "latin-1")  # single-byte encodings, as which almost any bytes can be read


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
    force: Annotated[bool, flag("--force", "Replace an existing schema or page.")] = False,
    page: Annotated[
        Path | None, flag("--page FILE", "Write an HTML page to review the proposal; write no schema.")
    ] = None,
    reviewed: Annotated[
        Path | None, flag("--from FILE", "Check this schema, which the page made, against the file, and write it.")
    ] = None,
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
        bool, flag("--show-values", "Show two values of each column, on your terminal and in the page.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Propose which columns are sensitive, for review.

    Prints the proposal with its reasons and writes it as a schema file; on a terminal it asks first. Only columns known
    to be harmless are proposed plain. A column is marked unsure where another kind may be more useful. COLUMN is a name
    or a pattern like 'gene_*'. In an existing file only the columns you name are changed.

    Examples:
      cleave schema visits.csv
      cleave schema visits.csv --page review.html    # choose kinds in a browser, download review.toml
      cleave schema visits.csv --from review.toml
      cleave schema visits.csv --plain ward,sex --encrypted 'gene_*' --entity patient_id --accept --yes
    """
    from cleave.table.inputs import check_reading  # noqa: PLC0415 - see cleave.cli.app
    from cleave.table.schema import CsvDialect, Kind, load_schema, schema_path  # noqa: PLC0415

    reading = CsvDialect(
        skip=skip,
        skip_footer=skip_footer,
        null_tokens=tuple(null_token or ()),
        censored=censored or "",
        sheet=sheet or "",
        flatten=flatten,
    )
    check_reading(files, reading)
    kinds = _decided({Kind.PLAIN: plain, Kind.ENCRYPTED: encrypted, Kind.SEALED: sealed, Kind.LOCAL: local})
    wishes = _Wishes(kinds, entity, accept, reading, name)
    if page is not None and (check or reviewed or output or yes or as_json):
        raise typer.BadParameter("--page writes no schema, so --check, --from, -o, --yes and --json do not fit it")
    if reviewed is not None and (check or show_values or wishes.settle or wishes.reading != CsvDialect()):
        raise typer.BadParameter("--from has all choices in its file: only -o, --yes, --force and --json fit it")
    if check and (yes or skip or wishes.settle):
        raise typer.BadParameter("--check writes nothing, so nothing can be settled with it")
    quiet = ctx.obj.quiet
    if page is not None:
        _review(page, files, wishes, values=show_values, force=force, quiet=quiet)
        return
    target = output or schema_path(files)
    if check:
        _check(files, load_schema(target).read_as(sheet, flatten), target, as_json=as_json, quiet=quiet)
        return
    if output is not None:
        require_target(output, overwrite=True)
    terminal = console.is_terminal(sys.stdout) and not as_json
    exists = names_file(target) and not force
    if show_values:
        _check_values(target, terminal=terminal, edits=exists)
    with console.progress(quiet=quiet) as progress:
        if reviewed is not None:
            outcome = _tried(files, reviewed, target, progress, terminal=terminal, force=force)
        elif exists:
            outcome = _edited(files, wishes, target, progress)
        else:
            outcome = _proposed(files, wishes, target, progress, terminal=terminal, values=show_values, force=force)
    shown = schema_json(outcome.schema, target) if as_json else outcome.shown
    if not yes and console.is_terminal(sys.stdin) and console.is_terminal(sys.stderr):
        console.out(shown)
        if not console.confirm(f"Write this to {printable(str(target))}?"):
            console.say("nothing was written")
            return
        outcome.write()
    else:
        outcome.write()  # first: a failing command prints nothing
        console.out(shown)
    if not quiet:
        for line in outcome.notes:
            console.say(line)
        _say_written(outcome, target, sheet=sheet)


@dataclass(frozen=True, slots=True)
class _Wishes:
    """What the user decided with options."""

    kinds: Mapping[str, Kind]
    entity: str | None
    accept: bool
    reading: CsvDialect
    table: str | None

    @property
    def settle(self) -> bool:
        return bool(self.kinds or self.accept or self.table or self.entity is not None)

    def propose(
        self,
        files: list[str],
        progress: Progress,
        examined: dict[str, Examined] | None,
        *,
        choosing: bool = False,
    ) -> Schema:
        """Propose a schema for `files`, as the user decided. `examined`, `choosing`: see `propose`."""
        from cleave.propose.propose import propose  # noqa: PLC0415 - see cleave.cli.app

        return self.about(
            propose(
                *(files, self.kinds),
                accept=self.accept,
                reading=self.reading,
                table=self.table,
                progress=progress,
                examined=examined,
                choosing=choosing,
            )
        )

    def about(self, schema: Schema) -> Schema:
        """Return `schema` with the entity that the user chose or accepted."""
        if self.entity is not None:
            return schema.about(column_names(self.entity) or ())
        return schema.about(schema.privacy.entity) if self.accept and schema.privacy.unsure else schema


@dataclass(frozen=True, slots=True)
class _Outcome:
    """A schema, its text, and a function that writes it. `changed` counts changed columns; None for a new schema."""

    schema: Schema
    shown: str
    write: Callable[[], None]
    changed: int | None = None
    notes: Sequence[str] = ()
    is_reviewed: bool = False


def _proposed(
    files: list[str], wishes: _Wishes, target: Path, progress: Progress, *, terminal: bool, values: bool, force: bool
) -> _Outcome:
    from cleave.table.schema import write_schema  # noqa: PLC0415 - see cleave.cli.app

    examined: dict[str, Examined] = {}
    schema = wishes.propose(files, progress, examined if terminal else None)
    changed = {name: each.changed for name, each in examined.items() if each.changed}
    cells = {name: each.values for name, each in examined.items()} if values else None
    write = partial(write_schema, schema, target, overwrite=force)
    return _Outcome(schema, proposal_text(schema, changed, cells), write)


def _tried(
    files: list[str], reviewed: Path, target: Path, progress: Progress, *, terminal: bool, force: bool
) -> _Outcome:
    """Try the schema that a page made on the files."""
    from cleave.propose.trial import tried  # noqa: PLC0415 - see cleave.cli.app
    from cleave.table.schema import load_schema, write_schema  # noqa: PLC0415

    require_target(target, hint="--force replaces it, -o names another file", overwrite=force)
    if not names_file(reviewed):
        raise InputError(
            f"{printable(str(reviewed))}: there is no such file",
            hint="name the file in your browser's folder of downloads; --page writes the page that makes one",
        )
    schema, differences = tried(files, load_schema(reviewed), progress)
    changed = {each.column: (each.field, each.back) for each in differences} if terminal else {}
    notes = [] if terminal else [f"{printable(each.column)}: {each.note}" for each in differences]
    write = partial(write_schema, schema, target, overwrite=force)
    return _Outcome(schema, proposal_text(schema, changed), write, notes=notes, is_reviewed=True)


def _edited(files: list[str], wishes: _Wishes, target: Path, progress: Progress) -> _Outcome:
    """Return the existing schema, changed by options."""
    from cleave.propose.settling import settle  # noqa: PLC0415 - see cleave.cli.app
    from cleave.table.schema import CsvDialect, edit_schema, load_schema  # noqa: PLC0415

    if wishes.reading != CsvDialect() or wishes.table or not wishes.settle:
        hint = "--plain and the like settle its columns, --force proposes it again, -o names another file"
        raise InputError(f"{target}: already exists", hint=hint)
    contract = load_schema(target)
    changed = settle(files, contract, wishes.kinds, accept=wishes.accept, progress=progress)
    new = {column.name: column for column in changed}
    schema = replace(contract, columns=tuple(new.get(each.name, each) for each in contract.columns))
    schema = wishes.about(schema)
    privacy = None if schema.privacy == contract.privacy else schema.privacy
    shown = [*([schema_text(changed)] if changed else []), *([people_text(schema)] if privacy else [])]
    write = partial(edit_schema, target, changed, privacy)
    return _Outcome(schema, "\n".join(shown), write, len(changed))


def _review(page: Path, files: list[str], wishes: _Wishes, *, values: bool, force: bool, quiet: bool) -> None:
    """Write an HTML page to review the proposal."""
    require_page(page)
    from cleave.report.review import review  # noqa: PLC0415 - templates
    from cleave.table.inputs import table_name  # noqa: PLC0415

    require_target(page, hint=FORCE, overwrite=force)
    examined: dict[str, Examined] = {}
    with console.progress(quiet=quiet) as progress:
        schema = wishes.propose(files, progress, examined, choosing=True)
    download = f"{page.stem}.toml"
    named = [f"./{file}" if file.startswith("-") and file != "-" else file for file in files]  # no options
    target = ["-o", f"{page.stem}.schema.toml"] if files == ["-"] else []  # a schema beside stdin has no name
    command = shlex.join(["cleave", "schema", *named, "--from", download, *target])
    content = review(
        schema,
        examined,
        table=schema.table or table_name(files),
        created=datetime.now(UTC),
        file=download,
        command=command,
        values=values,
    )
    write_atomically(page, content, error=InputError, overwrite=force)
    if not quiet:
        shown = printable(str(page))
        console.say(f"wrote {shown}: choose there and download the schema, then run: {printable(command)}")
        if values:
            console.say(f"{shown} holds values of the file: keep it as private as the file")


def _say_written(outcome: _Outcome, target: Path, *, sheet: str | None) -> None:
    """Report what was written. `sheet` is the name that the user gave."""
    schema, changed = outcome.schema, outcome.changed
    changes = "wrote" if changed is None else f"changed {counted(changed, 'column')} of"
    advice = "" if outcome.is_reviewed else ": review it before the first query"
    console.say(f"{changes} {printable(str(target))}{advice}")
    if changed is None and not sheet and schema.dialect.sheet:
        console.say(f"it is of sheet {printable(schema.dialect.sheet)!r}, the first of several: --sheet names another")
    if changed is None and schema.dialect.encoding in _GUESSED:
        encoding = schema.dialect.encoding
        console.say(f"it is not UTF-8, and read as {encoding}: check its texts, and [csv] encoding in the schema")
    _say_unsure(schema)


def _say_unsure(schema: Schema) -> None:
    if unsure := unsure_of(schema):
        plain = {each.name for each in schema.columns if each.kind == "plain"}
        safe = "" if plain.intersection(unsure) else "none of it is plain; "
        console.say(
            f"unsure of {listed(unsure)}: {safe}settle it with --plain, --encrypted, "
            "--sealed or --local, or --accept all of it"
        )
    if schema.privacy.unsure:
        console.say(
            f"unsure whether {entity_text(schema)} names whom a row is about: settle it with --entity, or --accept it"
        )


def _check_values(target: Path, *, terminal: bool, edits: bool) -> None:
    if not terminal:
        raise typer.BadParameter("--show-values shows cells on a terminal only: stdout is a file or a pipe, or JSON")
    if edits:
        raise typer.BadParameter(f"--show-values shows cells of a proposal: {target} exists, --force proposes it again")


def _decided(given: dict[Kind, list[str] | None]) -> dict[str, Kind]:
    kinds: dict[str, Kind] = {}
    seen: dict[str, Kind] = {}
    for kind, values in given.items():
        for name in (name for text in values or [] for name in split_names(text)):
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
    if unsure := unsure_of(contract):
        raise InputError(
            f"{target}: not settled: {listed(unsure)}",
            hint="decide each one's kind, then delete its line `unsure = true`",
        )
    if as_json:
        console.out(schema_json(contract, target))
    elif not quiet:
        console.say(
            f"{printable(str(target))} covers {printable(', '.join(files))}: "
            f"{counted(len(contract.columns), 'column')}, {counted(rows, 'row')}"
        )
