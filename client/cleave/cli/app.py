"""The command line: what each command takes, and in which order its steps are done.

Everything heavy is imported inside the command that needs it, so that `cleave --help` and `cleave key show` are
immediate. Services and the local server are handed in (see cleave.local.main): the client imports neither.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cleave.cli import console
from cleave.cli.answer import Shown, answer_content, print_content, tell_about, write_page
from cleave.cli.asked import Operation, Words, read_question
from cleave.cli.contributors import contributor_commands
from cleave.cli.group import Group, Serve, Settings, narrowed
from cleave.cli.key import Json, key_commands
from cleave.cli.key_sharing import contributor as new_contributor
from cleave.cli.key_sharing import copy, export, rotate
from cleave.cli.options import Asking, with_options
from cleave.cli.output import Format, FormatOption, OutputOption, ReportOption, chosen_format, write_answer
from cleave.cli.scans import scan_commands
from cleave.cli.schema import schema
from cleave.cli.shell.command import shell
from cleave.cli.sql_file import SqlFile
from cleave.cli.stored import add_stored_commands
from cleave.text.printable import printable
from cleave_shared.version import VERSION

if TYPE_CHECKING:
    from cleave.ask.services import Embedded

HELP = "Aggregate questions over a table whose sensitive columns the cloud never sees in the clear."
EPILOG = (
    "Results go to stdout, everything else to stderr. --debug and --quiet may stand anywhere. Exit codes: 0 answered, "
    "1 unexpected error, 2 usage, 3 bad input, 4 a question that cannot be answered, 5 key or passphrase, 6 a service "
    "or the way to it failed, 7 an answer failed its checks, 8 the error bounds leave a decision open and --strict was "
    "given, 130 interrupted (129 and 143: by SIGHUP and SIGTERM), 141 the reader of stdout left."
)


def create_cli(
    embedded: Embedded,
    serve_locally: Serve,
    prepare: Callable[[], None] = lambda: None,
    words: Sequence[str] = (),
) -> typer.Typer:
    """The whole command line over `embedded` services and a local server.

    `prepare` is called where embedded services will be asked, before this process has a second thread. Of `words` that
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
        debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks, which may quote data.")] = False,
        quiet: Annotated[bool, typer.Option("--quiet", help="Results and errors only.")] = False,
        _version: Annotated[
            bool, typer.Option("--version", is_eager=True, callback=_show_version, help="Show the version.")
        ] = False,
    ) -> None:
        ctx.obj = Settings(embedded, serve_locally, prepare, debug=debug, quiet=quiet)
        console.show_warnings(quiet=quiet)

    app.command()(schema)
    app.add_typer(key_commands(copy, export, new_contributor, rotate), name="key")
    app.command()(plan)
    app.command()(query)
    app.command()(shell)
    add_stored_commands(app)
    app.add_typer(scan_commands(), name="scan")
    app.add_typer(contributor_commands(), name="contributor")
    app.command()(serve)
    return narrowed(app, words)


@with_options
def plan(
    ctx: typer.Context,
    asking: Asking,
    words: Words = None,
    sql_file: SqlFile = None,
    op: Operation = None,
    as_json: Json = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Show everything, not six lines.")] = False,
) -> None:
    """Show what a question would send where.

    Six lines: what leaves, to whom, how much, what each learns, which way and why, and one sentence to sign.
    --verbose adds every column, way and lesson, and how exact the answer would be. Nothing is sent, and no key is
    needed but that of a stored table.
    """
    settings: Settings = ctx.obj
    asked = read_question(words, sql_file, op, asking)
    asked = asked.begun()
    from cleave.cli.plan import plan_json, plan_lines, plan_text  # noqa: PLC0415

    with asking.session(settings, asked.table, asked.others) as session:
        plan = session.plan(asked.question(session), cloud_only=asking.cloud_only)
        description = session.describe(plan, asking.options())
    shown = plan_json if as_json else plan_text if verbose else plan_lines
    console.out(shown(description))


@with_options
def query(
    ctx: typer.Context,
    asking: Asking,
    words: Words = None,
    sql_file: SqlFile = None,
    op: Operation = None,
    job: Annotated[
        str | None,
        typer.Option(
            "--job",
            metavar="ARN",
            help="Let this state machine make the calls of a scan: the stack's output Job. The job goes on when this "
            "command ends; asked once more, it is taken up.",
            show_default=False,
        ),
    ] = None,
    stop_job: Annotated[bool, typer.Option("--stop-job", help="End the job that answers this question.")] = False,
    as_json: Json = False,
    written: FormatOption = None,
    output: OutputOption = None,
    report: ReportOption = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="For programs: every digit of a float64, also those its bound does not cover.")
    ] = False,
    verbose: Annotated[
        bool,
        typer.Option("--verbose", help="A line on stderr for each request: path, bytes, seconds, waits; no values."),
    ] = False,
) -> None:
    """Answer a question through both services.

    The sensitive half is encrypted here, and what comes back is checked before anything is shown. Where the error
    bounds do not decide a HAVING, ORDER BY, LIMIT, CASE, comparison or rounding, rows and values are marked undecided.
    """
    chosen = chosen_format(written, output, as_json=as_json, report=report)
    if raw and chosen in (Format.TABLE, Format.MARKDOWN):
        raise typer.BadParameter("--raw goes with --json and the other formats for programs")
    if stop_job and job is None:
        raise typer.BadParameter("--stop-job: name the state machine with --job")
    console.show_requests(shown=verbose)
    started = time.perf_counter()
    settings: Settings = ctx.obj
    asked = read_question(words, sql_file, op, asking)
    if asking.embedded:
        settings.prepare()
    asked = asked.begun()
    shown = Shown(chosen, raw=raw, quiet=settings.quiet)
    with asking.session(settings, asked.table, asked.others, machine=job) as session:
        sql = asked.question(session)
        question = session.plan(sql, cloud_only=asking.cloud_only)
        if stop_job:
            console.say("the job is ended" if session.stop_job(question) else "there is no such job")
            return
        answer = session.ask(question, asking.options(), asking.timeout, strict=asking.strict)
        seconds = time.perf_counter() - started
        description = session.describe(question, asking.options()) if report is not None else None
    content = answer_content(answer, shown)
    if report is not None:
        write_page(report, answer, description, sql, question.table, seconds)
    if output is not None:
        write_answer(output, content)
    else:
        print_content(content, shown.written)
    tell_about(answer, shown, seconds)
    for path in (output, report):
        if path is not None and not settings.quiet:
            console.say(f"wrote {printable(str(path))}")


def serve(
    ctx: typer.Context,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes any free one.")] = 8000,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A name that requests may be sent to besides loopback ones; repeatable."),
    ] = None,
    cors: Annotated[
        list[str] | None,
        typer.Option(metavar="ORIGIN", help="A web origin whose pages may read answers; repeatable. None by default."),
    ] = None,
    store: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FOLDER",
            help="A folder whose stored tables the services may read; repeatable. Buckets are in CLEAVE_STORE_URLS.",
        ),
    ] = None,
) -> None:
    """Run both services on this machine over HTTP, each in a process of its own."""
    settings: Settings = ctx.obj
    stores = [f"{each.expanduser().resolve().as_uri()}/" for each in store or ()]
    from cleave.transport.endpoint import is_loopback  # noqa: PLC0415

    def ready(url: str) -> None:
        console.say(f"listening on {url}")
        if not is_loopback(url):
            console.say("warning: whoever reaches this address may ask; there is no authentication and no TLS")

    settings.serve(host, port, ready, log=not settings.quiet, names=allow_host or (), origins=cors or (), stores=stores)


def _show_version(wanted: bool) -> None:
    if wanted:
        console.out(f"cleave {VERSION}")
        raise typer.Exit
