"""`cleave shell FILE...`."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from cleave.ask.options import Asking
from cleave.cli import console, process
from cleave.cli.group import Settings, report_failure
from cleave.cli.options import argument, flag, session_over
from cleave.text.printable import printable
from cleave.text.quantities import counted
from cleave_shared.errors import InputError

if TYPE_CHECKING:
    from cleave.ask.session import Session
    from cleave.cli.shell.shell import ClearedBars

NoHistory = Annotated[
    bool,
    flag("--no-history", "Keep no history of queries, which may hold values.", envvar="CLEAVE_NO_HISTORY"),
]
_TableWords = Annotated[
    list[str] | None,
    argument("[FILE... | NAME]", "Files as in `cleave query`, or a stored table. With --store it can be left out."),
]


def shell(ctx: typer.Context, asking: Asking, files: _TableWords = None, no_history: NoHistory = False) -> None:
    """Run one query after another.

    Files are read once, and the key is opened once. Each query reads the newest version of a stored table.

    SQL ends with a semicolon; `help` lists other commands. If stdin is not a terminal, its lines are run and the first
    error ends the shell.

    Examples:
      cleave shell visits.csv
      cleave shell --store s3://bucket/prefix
    """
    if "-" in (files or ()):
        raise typer.BadParameter("standard input cannot hold both the table and the queries")
    from cleave.cli.shell.shell import ClearedBars  # noqa: PLC0415 - --help does not need it

    settings: Settings = ctx.obj
    bars = ClearedBars(settings.bars)
    with session_over(files or (), asking, settings, bars) as session:
        session.open()
        if console.is_terminal(sys.stdin):
            _interactive(session, asking, settings, bars, keeps_history=not no_history)
        else:
            from cleave.cli.shell.shell import Shell, lines_of, run_lines  # noqa: PLC0415

            run_lines(Shell(session, asking, lambda work: work(), settings.say), lines_of(sys.stdin.buffer))


def _interactive(
    session: Session, asking: Asking, settings: Settings, bars: ClearedBars, *, keeps_history: bool
) -> None:
    from cleave.cli.shell import interactive  # noqa: PLC0415 - prompt_toolkit takes 100 ms
    from cleave.cli.shell.shell import Cancellable, Shell  # noqa: PLC0415

    try:
        history = interactive.open_history(interactive.history_path(os.environ) if keeps_history else None)
    except InputError as error:
        console.say(f"warning: {printable(error.message)}; no history is written")
        history = interactive.open_history(None)
    settings.say(f"{_greeting(session)}. help lists commands.")

    lasting = process.descendants()  # embedded services fork from them, see cleave_shared.fork_server

    def stop() -> None:
        bars.stop()
        session.stop()
        process.end_descendants(lasting)

    work = Cancellable(stop)
    try:
        interactive.interact(
            Shell(session, asking, work.run, settings.say),
            interactive.editor(session.name or "cleave", interactive.SqlCompleter(session.schemas), history),
            lambda error: report_failure(error, debug=settings.debug),
        )
    finally:
        ended = work.end()
    if not ended:  # DuckDB may run something that cannot be interrupted, and would not release its table
        process.leave(0)


def _greeting(session: Session) -> str:
    if not session.name:
        return f"{counted(len(session.schemas), 'table')}: SHOW TABLES"
    columns = counted(len(session.schema.columns), "column")
    return f"{session.name}: {counted(session.rows or 0, 'row')}, {columns}"
