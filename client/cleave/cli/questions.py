"""`cleave plan` and `cleave query`."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from cleave.ask.options import LARGE, Asking, question_options
from cleave.cli import console
from cleave.cli.answer import (
    Force,
    FormatOption,
    OutputOption,
    ReportOption,
    answer_bytes,
    chosen_format,
    print_answer,
    say_trust,
    write_page,
)
from cleave.cli.options import Json, QueryWords, SqlFile, flag, read_question, session_over
from cleave.files import write_atomically
from cleave_shared.errors import InputError

if TYPE_CHECKING:
    from cleave.cli.group import Settings


def plan(
    ctx: typer.Context,
    asking: Asking,
    words: QueryWords = None,
    sql_file: SqlFile = None,
    as_json: Json = False,
    verbose: Annotated[bool, flag("--verbose", "Show all details.")] = False,
) -> None:
    """Show what a query would send to which service.

    Prints the data that leaves this machine, its receivers, its size, what each party learns, how the answer is
    computed, and a sentence to sign; --verbose has all of it. Nothing is sent. Only stored tables need a key.

    Examples:
      cleave plan visits.csv "SELECT ward, AVG(age) FROM visits GROUP BY ward"
      cleave plan "SELECT SUM(bill) FROM visits" --store s3://bucket/prefix --verbose
    """
    tables, sql = read_question(words, sql_file)
    with session_over(tables, asking, ctx.obj, sends=False) as session:
        planned = session.plan(sql, question_options(asking), cloud_only=asking["cloud_only"])
        description = session.describe(planned)
    from cleave.shown.plan import plan_json, plan_lines, plan_text  # noqa: PLC0415 - --help does not need it

    shown = plan_json if as_json else plan_text if verbose else plan_lines
    console.out(shown(description))


def query(
    ctx: typer.Context,
    asking: Asking,
    words: QueryWords = None,
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
        str | None, flag("--job ARN", "State machine that makes the calls of a scan.", section=LARGE)
    ] = None,
    stop_job: Annotated[bool, flag("--stop-job", "End the job that answers this query.", section=LARGE)] = False,
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
        options, strict, cloud_only = question_options(asking), asking["strict"], asking["cloud_only"]
        if stop_job:
            is_there = session.stop_job(session.plan(sql, options, cloud_only=cloud_only))
            console.say("the job was stopped" if is_there else "there is no such job")
            return
        question, answer = session.answer(sql, options, asking["timeout"], strict=strict, cloud_only=cloud_only)
        seconds = time.perf_counter() - started
        description = session.describe(question) if report is not None else None
    content = answer_bytes(answer, chosen) if output is not None else b""
    if report is not None:
        from cleave.report.page import PageFacts  # noqa: PLC0415 - templates

        facts = PageFacts(sql, question.table, datetime.now(UTC), seconds, title, author)
        write_page(report, answer, description, facts, force=force)
    if output is not None:
        write_atomically(output, content, error=InputError, overwrite=force)
    else:
        print_answer(answer, chosen, "Write all to a file with -o, or append `| less -S`.")
    say_trust(answer, chosen, seconds, settings.say)
    for path in (output, report):
        if path is not None:
            settings.say(f"wrote {path}")
