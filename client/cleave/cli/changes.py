"""`cleave delete`, `update`, `alter` and `compact`: commands that write segments of a stored table again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from cleave.ask.options import Altering, Deleting, Place, Updating
from cleave.cli.options import Name, flag
from cleave.text.quantities import counted

if TYPE_CHECKING:
    from cleave.maintain.facts import Changed

Where = Annotated[str, flag("--where SQL", "Condition over the columns of a row.")]


def delete(ctx: typer.Context, name: Name, where: Where, options: Deleting) -> None:
    """Delete rows of a stored table.

    Rows for which the condition is NULL stay. Segments with such rows are written again, in one step.

    Examples:
      cleave delete visits --where "patient = 'P-1017'" --store s3://bucket/prefix --yes --record erased.json
      cleave delete visits --where "admitted < '2020-01-01'" --store tables --dry-run
    """
    from cleave.maintain.operations import delete as remove  # noqa: PLC0415 - what --help does without

    _say(ctx, remove(name, where, **options), "deleted", dry_run=options["dry_run"])


def update(
    ctx: typer.Context,
    name: Name,
    where: Where,
    values: Annotated[list[str], flag("--set COLUMN=SQL", "New value, over the row as it was. Repeatable.")],
    options: Updating,
) -> None:
    """Change values in a stored table.

    If only sensitive columns change, the plain place learns nothing. The last change is not repeated without --again.

    Examples:
      cleave update visits --set "bill = bill * 1.19" --where "ward = 'A'" --store s3://bucket/prefix
      cleave update visits --set "name = NULL" --where "patient = 'P-1017'" --store tables
    """
    from cleave.maintain.operations import update as change  # noqa: PLC0415 - as above

    given = {}
    for each in values:
        column, equals, value = each.partition("=")
        column = column.strip().removeprefix('"').removesuffix('"')
        if not equals or not value.strip() or column in given:
            raise typer.BadParameter("--set takes COLUMN=SQL, each column once")
        given[column] = value.strip()
    _say(ctx, change(name, given, where, **options), "changed", dry_run=options["dry_run"])


def alter(ctx: typer.Context, name: Name, options: Altering) -> None:
    """Change the columns of a stored table.

    Bounds and types can be widened, columns added, renamed and dropped, and --by changed, all in one step. New columns
    are NULL in rows that are there.

    Examples:
      cleave alter visits --widen "bill=0..100000" --store s3://bucket/prefix
      cleave alter visits --add "note VARCHAR sealed" --rename bill=cost --by ward,sex --store tables
    """
    from cleave.maintain.operations import alter as change  # noqa: PLC0415 - as above

    done = change(name, **options)
    ctx.obj.say(f"{name}: version {done.version}, {counted(done.rows, 'row')} by {', '.join(done.by) or 'nothing'}")


def compact(ctx: typer.Context, name: Name, place: Place) -> None:
    """Merge small segments of a stored table.

    Appends do so themselves beyond 8 small segments.

    Examples:
      cleave compact visits --store s3://bucket/prefix
      cleave compact visits --store tables
    """
    from cleave.maintain.operations import compact as merge  # noqa: PLC0415 - as above

    done = merge(name, **place)
    ctx.obj.say(f"{name}: version {done.version}, {counted(done.rows, 'row')} in {counted(done.segments, 'segment')}")


def _say(ctx: typer.Context, changed: Changed, what: str, *, dry_run: bool) -> None:
    name = changed.name
    if changed.repeated:
        ctx.obj.say(f"{name}: version {changed.version} made this change; nothing is changed now (--again repeats it)")
    elif not changed.rows:
        ctx.obj.say(f"{name}: no row meets the condition; nothing is changed")
    else:
        for line in changed.text.splitlines():
            ctx.obj.say(line)
        version = "" if dry_run else f"version {changed.version}, "
        ctx.obj.say(f"{name}: {version}{counted(changed.rows, 'row')} {'would be ' if dry_run else ''}{what}")
