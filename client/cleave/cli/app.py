"""Commands of the command line: their arguments, and the order of their steps.

Everything heavy is imported inside the command that needs it, so that `cleave --help` and `cleave key show` are
immediate. Services, and the commands that run servers, are handed in (see cleave.local.main).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from cleave.ask.config import SETTINGS, change, config_path, origin, usual
from cleave.ask.options import Asking, question_options
from cleave.cli import analysts, console, contributors, key, stored, users
from cleave.cli.answer import (
    Force,
    FormatOption,
    OutputOption,
    ReportOption,
    answer_bytes,
    chosen_format,
    print_content,
    say_trust,
    write_page,
)
from cleave.cli.group import ANYWHERE, Command, Group, Settings, Subgroup
from cleave.cli.options import Json, SqlFile, Words, argument, flag, read_question, session_over, with_options
from cleave.cli.schema import schema
from cleave.cli.shell.command import shell
from cleave.files import write_atomically
from cleave.text.nearest import did_you_mean
from cleave.text.tabular import Heading, table
from cleave_shared.errors import InputError
from cleave_shared.version import VERSION

if TYPE_CHECKING:
    from cleave.ask.services import Embedded


HELP = "Query tables whose sensitive columns the cloud cannot read."
EPILOG = (
    "CLEAVE_STORE, CLEAVE_KEY and CLEAVE_ENDPOINT, or `cleave config`, set defaults. Results go to stdout, "
    "everything else to stderr. --debug and --quiet can be anywhere. Exit codes: 0 answered, 1 unexpected error, "
    "2 usage, 3 bad input, 4 a query that cannot be answered, 5 key or passphrase, 6 a service, the connection to it "
    "or a setting for it failed, or this machine has too little of something, 7 an answer failed its checks, 8 the "
    "error bounds leave a decision open and --strict was given, 130 "
    "interrupted (129 and 143: by SIGHUP and SIGTERM), 141 the reader of stdout closed it."
)


def create_cli(
    embedded: Embedded,
    prepare: Callable[[], None] = lambda: None,
    words: Sequence[str] = (),
    more: Sequence[Callable[..., None]] = (),
) -> typer.Typer:
    """The whole command line over `embedded` services, with the commands of `more`.

    `prepare` is called where embedded services will be used, before this process has a second thread. Of `words` that
    begin with a command's name only that command is made: typer takes 30 ms for all of them.
    """
    app = typer.Typer(
        cls=Group,
        help=HELP,
        epilog=EPILOG,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        no_args_is_help=True,
    )

    @app.callback()
    def root(
        ctx: typer.Context,
        debug: Annotated[bool, flag("--debug", "Show tracebacks, which may quote data.")] = False,
        quiet: Annotated[bool, flag("--quiet", "Print results and errors only.")] = False,
        _version: Annotated[
            bool, flag("--version", "Show the version.", is_eager=True, callback=_show_version)
        ] = False,
    ) -> None:
        ctx.obj = Settings(embedded, prepare, debug=debug, quiet=quiet)
        console.show_warnings(quiet=quiet)

    own = ("put", "ls", "show", "log", "pull", "derive", "delete", "update", "alter", "compact", "verify", "drop")
    commands: tuple[Callable[..., None], ...] = (
        schema,
        plan,
        query,
        shell,
        *(getattr(stored, each) for each in own),
        *more,
        config,
    )
    groups: dict[str, tuple[str, dict[str, Callable[..., None]]]] = {
        "key": (
            "Create, show, copy, export and rotate keys.",
            {
                "new": key.new,
                "show": key.show,
                "passphrase": key.rewrap,
                "copy": key.copy,
                "export": key.export,
                "contributor": key.contributor,
                "rotate": key.rotate,
            },
        ),
        "scan": ("Store or delete the rows of a table for scans.", {"add": stored.add_scan, "drop": stored.drop_scan}),
        "analyst": ("Create an identity to query released totals.", {"new": analysts.new_analyst}),
        "release": (
            "Release totals of a stored table to analysts.",
            {"new": analysts.new, "ls": analysts.ls, "revoke": analysts.revoke},
        ),
        "user": ("Manage users of the gateway.", {"add": users.add, "ls": users.ls, "remove": users.remove}),
        "contributor": (
            "Let others add rows to a stored table, and collect them.",
            {
                "add": contributors.add,
                "ls": contributors.ls,
                "collect": contributors.collect,
                "remove": contributors.remove,
            },
        ),
    }
    names = {*groups, *(command.__name__ for command in commands)}
    first = next((word for word in words if word not in ANYWHERE), "")
    wanted = {first} & names or names
    for command in commands:
        if command.__name__ in wanted:
            _add(app, command)
    for name, (about, members) in groups.items():
        if name not in wanted:
            continue
        group = typer.Typer(cls=Subgroup, help=about, rich_markup_mode=None, no_args_is_help=True)
        for called, command in members.items():
            _add(group, command, called)
        app.add_typer(group, name=name)
    return app


def plan(
    ctx: typer.Context,
    asking: Asking,
    words: Words = None,
    sql_file: SqlFile = None,
    as_json: Json = False,
    verbose: Annotated[bool, flag("--verbose", "Show all details.")] = False,
) -> None:
    """Show what a query would send to which service.

    Prints six lines: the data that leaves this machine, its receivers, its size, what each party learns, how the answer
    is computed, and a sentence to sign. Nothing is sent. Only stored tables need a key.

    Examples:
      cleave plan visits.csv "SELECT ward, AVG(age) FROM visits GROUP BY ward"
      cleave plan "SELECT SUM(bill) FROM visits" --store s3://bucket/prefix --verbose
    """
    tables, sql = read_question(words, sql_file)
    with session_over(tables, asking, ctx.obj, sends=False) as session:
        planned = session.plan(sql, cloud_only=asking["cloud_only"])
        description = session.describe(planned, question_options(asking))
    from cleave.cli.plan import plan_json, plan_lines, plan_text  # noqa: PLC0415 - what --help does without

    shown = plan_json if as_json else plan_text if verbose else plan_lines
    console.out(shown(description))


def query(
    ctx: typer.Context,
    asking: Asking,
    words: Words = None,
    sql_file: SqlFile = None,
    as_json: Json = False,
    written: FormatOption = None,
    output: OutputOption = None,
    report: ReportOption = None,
    title: Annotated[str, flag("--title TEXT", "Title of the report. Default: the table.", advanced=True)] = "",
    author: Annotated[str, flag("--author TEXT", "Author that the report names.", advanced=True)] = "",
    force: Force = False,
    verbose: Annotated[bool, flag("--verbose", "Show each request: path, bytes, seconds.", advanced=True)] = False,
    job: Annotated[
        str | None, flag("--job ARN", "State machine that makes the calls of a scan.", advanced=True)
    ] = None,
    stop_job: Annotated[bool, flag("--stop-job", "End the job that answers this query.", advanced=True)] = False,
) -> None:
    """Run a query over a table.

    Sensitive columns leave this machine only encrypted. Answers are checked before they are shown. Rows and values that
    the error bounds leave open are marked undecided.

    Examples:
      cleave query visits.csv "SELECT ward, AVG(age) FROM visits GROUP BY ward"
      cleave query "SELECT ward, SUM(bill) FROM visits GROUP BY ward" --store s3://bucket/prefix
    """
    chosen = chosen_format(written, output, as_json=as_json, report=report, force=force)
    if (title or author) and report is None:
        raise typer.BadParameter("--title and --author need --report")
    if stop_job and job is None:
        raise typer.BadParameter("--stop-job: name the state machine with --job")
    console.show_requests(shown=verbose)
    started = time.perf_counter()
    settings: Settings = ctx.obj
    tables, sql = read_question(words, sql_file)
    with session_over(tables, asking, settings, machine=job) as session:
        question = session.plan(sql, cloud_only=asking["cloud_only"])
        if stop_job:
            console.say("the job was stopped" if session.stop_job(question) else "there is no such job")
            return
        options = question_options(asking)
        answer = session.ask(question, options, asking["timeout"], strict=asking["strict"])
        seconds = time.perf_counter() - started
        description = session.describe(question, options) if report is not None else None
    content = answer_bytes(answer, chosen)
    if report is not None:
        from cleave.report.page import PageFacts  # noqa: PLC0415 - templates

        facts = PageFacts(sql, question.table, datetime.now(UTC), seconds, title, author)
        write_page(report, answer, description, facts, force=force)
    if output is not None:
        write_atomically(output, content, error=InputError, overwrite=force)
    else:
        print_content(content, chosen)
    say_trust(answer, chosen, seconds, settings.say)
    for path in (output, report):
        if path is not None:
            settings.say(f"wrote {path}")


def _add(app: typer.Typer, command: Callable[..., None], name: str | None = None) -> None:
    app.command(name, cls=Command)(with_options(command))


def _show_version(wanted: bool) -> None:
    if wanted:
        console.out(f"cleave {VERSION}")
        raise typer.Exit


def config(
    ctx: typer.Context,
    name: Annotated[str | None, argument("[NAME]", f"The setting: {', '.join(SETTINGS)}.")] = None,
    value: Annotated[str | None, argument("[VALUE]", "Its new value; '' removes it.")] = None,
) -> None:
    """Show or change settings that commands use.

    Options override environment variables, which override the file.

    Examples:
      cleave config
      cleave config store s3://bucket/prefix
    """
    if name is not None and name not in SETTINGS:
        hint = did_you_mean(name, SETTINGS) or f"settings are {', '.join(SETTINGS)}"
        raise typer.BadParameter(f"there is no setting {name!r}; {hint}")
    if name is not None and value is not None:
        path = change(name, value)
        ctx.obj.say(f"wrote {path}")
        if origin(name) == SETTINGS[name]:
            ctx.obj.say(f"warning: {SETTINGS[name]} is set and takes precedence")
        return
    if name is not None:
        console.out(usual(name) or "")
        return
    rows = [[each, usual(each) or "", origin(each)] for each in SETTINGS]
    console.out(table([Heading("setting"), Heading("value"), Heading("from")], rows))
    ctx.obj.say(f"file {config_path()}")
