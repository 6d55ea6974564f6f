"""Commands for stored tables: put, ls, show, log, pull, derive, delete, update, alter, compact, verify, drop,
accept.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated

import typer

import cleave
from cleave.ask.options import (
    Altering,
    Appending,
    Contributing,
    Deleting,
    Deriving,
    Dropping,
    Place,
    Pulling,
    Putting,
    Updating,
)
from cleave.cli import console
from cleave.cli.options import Files, Json, Name, OutputFile, argument, flag, refuse_options
from cleave.text.printable import printable
from cleave.text.quantities import counted, sized
from cleave.text.tabular import Heading
from cleave.text.tabular import table as text_table
from cleave_shared.errors import CheckFailed

if TYPE_CHECKING:
    from cleave.maintain.facts import Changed


def put(
    ctx: typer.Context,
    files: Files,
    table: Annotated[str, flag("--table NAME", "Name of the stored table.")],
    putting: Putting,
    appending: Appending,
    contributing: Contributing,
    append: Annotated[bool, flag("--append", "Add the rows to the existing table.")] = False,
) -> None:
    """Store a table, its sensitive columns encrypted.

    Plain columns are stored as Parquet; columns of kind local are not stored. Readers see the new table once all of it
    is stored. A put that was stopped continues when you run it again.

    Examples:
      cleave put visits.csv --table visits --store s3://bucket/prefix --by ward,sex --dry-run
      cleave put visits.csv --table visits --store s3://bucket/prefix --by ward,sex
      cleave put visits-2025.csv --table visits --store s3://bucket/prefix --append
      cleave put daily/ --table visits --store s3://bucket/prefix --append --upsert
    """
    taken: type = Contributing if contributing["public_key"] is not None else Appending if append else Putting
    what = {Contributing: "--public-key", Appending: "--append", Putting: "a new table"}[taken]
    if taken is Contributing and append:
        raise typer.BadParameter("--append cannot be combined with --public-key")
    for options, given in ((Putting, putting), (Appending, appending), (Contributing, contributing)):
        refuse_options(options, given, taken, what)
    if taken is Contributing:
        done = cleave.contribute(files, table, **contributing)
        rows, version = counted(done.rows, "row"), f"version {done.version} of contributor {done.contributor[:16]}..."
        what = f"{rows} put as {version}" if done.added else f"nothing put: {version} has the {rows}"
        ctx.obj.say(f"{table}: {what}; the owner adds them with `cleave contributor collect`")
        return
    stored = cleave.append(files, table, **appending) if append else cleave.put(files, table, **putting)
    if putting["dry_run"]:
        from cleave.maintain.put import planned_text  # noqa: PLC0415 - --help does not need it

        console.out(planned_text(stored))
        ctx.obj.say("nothing was stored")
        return
    ctx.obj.say(
        f"{table}: version {stored.version}, {counted(stored.rows, 'row')} in {counted(stored.segments, 'segment')}"
    )


def ls(place: Place, as_json: Json = False) -> None:
    """List the tables of your key in a store.

    Only the owner can: an analyst or reader asks the owner for the names of tables.

    Examples:
      cleave ls --store s3://bucket/prefix
      cleave ls --store tables --json
    """
    tables = cleave.ls(**place)
    if as_json:
        console.out(json.dumps([each.facts for each in tables]))
        return
    numbers = [Heading(word, justify="right") for word in ("rows", "bytes", "version")]
    rows = []
    for each in tables:
        rows.append([each.name, f"{each.rows:,}", f"{each.bytes:,}", str(each.version), each.facts["changed"]])
    headings = [Heading("table"), *numbers, Heading("changed")]
    unfinished = [each.facts.get("unfinished", "") for each in tables]
    if any(unfinished):  # commands to run again
        headings.append(Heading("unfinished"))
        rows = [[*row, command] for row, command in zip(rows, unfinished, strict=True)]
    console.out(text_table(headings, rows) if rows else "no tables under this key")


def show(name: Name, place: Place, as_json: Json = False) -> None:
    """Show what a stored table holds, and who can see what.

    Examples:
      cleave show visits --store s3://bucket/prefix
      cleave show visits --store tables --json
    """
    shown = cleave.show(name, **place)
    console.out(json.dumps(shown.facts) if as_json else shown.text)


def log(ctx: typer.Context, name: Name, place: Place, as_json: Json = False) -> None:
    """Show who changed or exported a stored table.

    The exit code is 7 if a record was removed, moved or changed. `cleave config user NAME` sets the name in your
    records.

    Examples:
      cleave log visits --store s3://bucket/prefix
      cleave log visits --store tables --json
    """
    records = cleave.log(name, **place)
    if as_json:
        console.out(json.dumps(records))
        return
    rows = [
        [
            *(f"{each['number']:,}", each["at"], each["user"] or "-", each["key_id"][:16], each["what"]),
            *(f"{each['rows']:,}", str(each["version"])),
            ", ".join(f"{word} {value}" for word, value in each["details"].get("users", each["details"]).items()),
        ]
        for each in records
    ]
    words = ("record", "at", "user", "key", "what", "rows", "version", "details")
    numbers = ("record", "rows", "version")
    headings = [Heading(word, justify="right" if word in numbers else "left") for word in words]
    console.out(text_table(headings, rows))
    ctx.obj.say(f"{counted(len(records), 'record')}, none missing or changed")


def pull(ctx: typer.Context, name: Name, output: OutputFile, options: Pulling) -> None:
    """Decrypt a stored table into a CSV or Parquet file.

    The ending of its name sets the format. Rows have the order in which they were put.

    Examples:
      cleave pull visits -o visits.parquet --store s3://bucket/prefix
      cleave pull visits -o west.csv --contributor west --store tables
    """
    cleave.pull(name, output, **options)
    ctx.obj.say(f"wrote {output}")


def derive(
    ctx: typer.Context,
    name: Name,
    options: Deriving,
    expression: Annotated[str | None, argument("[EXPRESSION]", "A number per row, in SQL.")] = None,
    alias: Annotated[str | None, flag("--as NAME", "Name of the derived column.")] = None,
) -> None:
    """Also store totals of an expression or of products.

    Queries over it then need no rows. With totals of products, COVAR_*, CORR and REGR_* of two columns need none.

    Examples:
      cleave derive sales "price * (1 - discount)" --as revenue --store s3://bucket/prefix
      cleave derive visits --products age,bill,weight --store tables --dry-run
      cleave derive visits --products age,bill,weight --store tables
    """
    done = cleave.derive(name, expression, alias, **options)
    if options["dry_run"]:
        ctx.obj.say("nothing was stored")
        return
    what = f"totals of {alias}" if alias else f"totals of the products of {options['products']}"
    ctx.obj.say(f"{name}: version {done.version}, with {what}")


def verify(name: Name, place: Place) -> None:
    """Read and check all of a stored table.

    The exit code is 7 if something is lost or damaged.

    Examples:
      cleave verify visits --store s3://bucket/prefix
      cleave verify visits --store tables --timeout 3600
    """
    damages = cleave.verify(name, **place)
    for each in damages:
        console.out(f"{each.what}: {each.reason}")
    if damages:
        message = f"{counted(len(damages), 'object')} of table {name!r} lost or damaged"
        raise CheckFailed("stored", message, hint="restore the store from a backup or an older version")
    console.out(f"{printable(name)}: every object is as it was written")


def drop(
    ctx: typer.Context, name: Name, options: Dropping, yes: Annotated[bool, flag("--yes", "Do not ask.")] = False
) -> None:
    """Delete a stored table.

    A bucket with versions keeps old versions as configured.

    Examples:
      cleave drop visits --store s3://bucket/prefix
      cleave drop visits --store tables --yes
    """

    def confirm() -> None:
        if not console.is_terminal(sys.stdin):
            raise typer.BadParameter("there is no terminal to confirm on: use --yes")
        typer.confirm(f"Delete table {printable(name)}?", abort=True)

    options["confirm"] = None if yes else confirm
    cleave.drop(name, **options)
    if not options["forget"]:
        ctx.obj.say(f"{name} is deleted")


def accept(
    ctx: typer.Context,
    name: Name,
    version: Annotated[int, flag("--version N", "The version that the store has, as the error says.")],
    place: Place,
) -> None:
    """Go on with an older or dropped table that was restored.

    This machine refuses a table if it saw a newer version, or dropped it. After this command the stored version is
    the newest. The table's log records that. Later changes are lost.

    Examples:
      cleave accept visits --version 12 --store s3://bucket/prefix
      cleave accept visits --version 3 --store tables
    """
    done = cleave.accept(name, version, **place)
    shown = f"{printable(name)}: version {done.version}, last changed {done.at},"
    if not done.was:
        ctx.obj.say(f"{shown} is the one seen here: there is nothing to accept")
        return
    lost = f"; lost with the changes: {counted(done.lost, 'record')} of its log, seen here" if done.lost else ""
    ctx.obj.say(f"{shown} is accepted on this machine{lost}")
    ctx.obj.say("a machine that saw a longer log refuses the table until it accepts it too")
    if done.readers:
        ctx.obj.say(
            f"columns are open to readers again, as in the copy: {', '.join(map(printable, done.readers))}; run "
            "`cleave reader revoke` for those who were revoked since"
        )


def add_scan(ctx: typer.Context, name: Name, place: Place) -> None:
    """Also store the rows for scans.

    Services can then add up encrypted rows by any plain column.

    Examples:
      cleave scan add visits --store s3://bucket/prefix
      cleave scan add visits --store tables
    """
    ctx.obj.say(f"{name}: {sized(cleave.add_scan(name, **place).bytes)} stored")


def drop_scan(ctx: typer.Context, name: Name, place: Place) -> None:
    """Delete the rows for scans; the table keeps everything else.

    Examples:
      cleave scan drop visits --store s3://bucket/prefix
      cleave scan drop visits --store tables
    """
    ctx.obj.say(f"{name}: {sized(cleave.drop_scan(name, **place).bytes)} stored")


Where = Annotated[str, flag("--where SQL", "Condition over the columns of a row.")]


def delete(ctx: typer.Context, name: Name, where: Where, options: Deleting) -> None:
    """Delete rows of a stored table.

    Rows for which the condition is NULL stay. No reader sees half of the change.

    Examples:
      cleave delete visits --where "patient = 'P-1017'" --store s3://bucket/prefix --yes --record erased.json
      cleave delete visits --where "admitted < '2020-01-01'" --store tables --dry-run
    """
    _say(ctx, cleave.delete(name, where, **options), "deleted", dry_run=options["dry_run"])


def update(
    ctx: typer.Context,
    name: Name,
    where: Where,
    values: Annotated[list[str], flag("--set COLUMN=SQL", "New value: an expression over the old row. Repeatable.")],
    options: Updating,
) -> None:
    """Change values in a stored table.

    If only sensitive columns change, the plain place learns only which segments have changed rows. The last change but
    appends is not repeated without --again.

    Examples:
      cleave update visits --set "bill = bill * 1.19" --where "ward = 'A'" --store s3://bucket/prefix
      cleave update visits --set "name = NULL" --where "patient = 'P-1017'" --store tables
      cleave update visits --set "note = 'new'" --where TRUE --yes --store tables
    """
    given = {}
    for assignment in values:
        column, equals, value = assignment.partition("=")
        column = column.strip().removeprefix('"').removesuffix('"')
        if not equals or not value.strip() or column in given:
            raise typer.BadParameter("--set takes COLUMN=SQL, each column once")
        given[column] = value.strip()
    _say(ctx, cleave.update(name, given, where, **options), "changed", dry_run=options["dry_run"])


def alter(ctx: typer.Context, name: Name, options: Altering) -> None:
    """Change the columns of a stored table.

    Bounds and types can be widened, columns added, renamed and dropped, and --by changed, all in one step. New columns
    are NULL in existing rows. --drop also deletes products, by the names that `cleave show` prints.

    Examples:
      cleave alter visits --widen "bill=0..100000" --store s3://bucket/prefix
      cleave alter visits --add "note VARCHAR sealed" --rename bill=cost --by ward,sex --store tables
      cleave alter visits --drop "age*bill" --drop "age if bill" --store tables
    """
    done = cleave.alter(name, **options)
    ctx.obj.say(f"{name}: version {done.version}, {counted(done.rows, 'row')} by {', '.join(done.by) or 'nothing'}")


def compact(ctx: typer.Context, name: Name, place: Place) -> None:
    """Merge small segments of a stored table.

    An append does this when there are more than 8.

    Examples:
      cleave compact visits --store s3://bucket/prefix
      cleave compact visits --store tables
    """
    done = cleave.compact(name, **place)
    ctx.obj.say(f"{name}: version {done.version}, {counted(done.rows, 'row')} in {counted(done.segments, 'segment')}")


def _say(ctx: typer.Context, changed: Changed, what: str, *, dry_run: bool) -> None:
    name = changed.name
    if changed.repeated:
        again = " (--again repeats it)" if what == "changed" else ""
        ctx.obj.say(f"{name}: version {changed.version} made this change; nothing is changed now{again}")
    elif not changed.rows:
        ctx.obj.say(f"{name}: no row meets the condition; nothing is changed")
    else:
        for line in changed.text.splitlines():
            ctx.obj.say(line)
        version = "" if dry_run else f"version {changed.version}, "
        ctx.obj.say(f"{name}: {version}{counted(changed.rows, 'row')} {'would be ' if dry_run else ''}{what}")
