"""`cleave shell FILE...`."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from cleave.cli import console, passphrase, process
from cleave.cli.asked import CloudOnly, Files, SchemaFile, TableName, With, read_tables
from cleave.cli.group import Settings, tell
from cleave.cli.key import KeyPath, PassphraseFd
from cleave.cli.options import (
    AwsProfile,
    Digits,
    Endpoint,
    FetchLimit,
    Functions,
    InsecureHttp,
    MemoryLimit,
    MinGroup,
    NoCache,
    NoScan,
    Pad,
    Region,
    Sign,
    Strict,
    Timeout,
    access_by,
    bars_of,
)
from cleave.cli.place import AskedStore, Contributor
from cleave.cli.stored import open_session
from cleave.printable import printable
from cleave.quantities import counted
from cleave.session import DEFAULT_KEY, Session
from cleave_shared.errors import InputError

if TYPE_CHECKING:
    from cleave.cli.shell.cancel import ClearedBars
    from cleave.cli.shell.shell import Asking
    from cleave.store.session import StoredSession

T = TypeVar("T")
NoHistory = Annotated[
    bool,
    typer.Option(
        "--no-history",
        help="Keep no history of what is asked here: SQL may hold values. CLEAVE_NO_HISTORY=1 as well.",
        envvar="CLEAVE_NO_HISTORY",
    ),
]


def shell(
    ctx: typer.Context,
    files: Files,
    schema: SchemaFile = None,
    table: TableName = None,
    others: With = None,
    store: AskedStore = None,
    contributor: Contributor = None,
    cloud_only: CloudOnly = False,
    no_scan: NoScan = False,
    fetch_limit: FetchLimit = "1GB",
    memory: MemoryLimit = None,
    no_cache: NoCache = False,
    key: KeyPath = DEFAULT_KEY,
    passphrase_fd: PassphraseFd = None,
    strict: Strict = False,
    endpoint: Endpoint = None,
    functions: Functions = None,
    profile: AwsProfile = None,
    region: Region = None,
    sign: Sign = False,
    insecure_http: InsecureHttp = False,
    min_group: MinGroup = 0,
    pad: Pad = False,
    digits: Digits = 9,
    timeout: Timeout = 600.0,
    no_history: NoHistory = False,
) -> None:
    """Ask one question after the other: the table is read once, the key opened once.

    SQL up to a semicolon; .help shows the shell's own commands. Where stdin is no terminal its lines are run, and the
    first error ends it with that error's exit code.
    """
    if "-" in files:
        raise typer.BadParameter("standard input cannot hold both the table and the questions")
    from cleave.cli.shell.cancel import ClearedBars  # noqa: PLC0415 - what --help does without
    from cleave.cli.shell.shell import Asking  # noqa: PLC0415
    from cleave.pipeline import Options  # noqa: PLC0415

    settings: Settings = ctx.obj
    if endpoint is None and functions is None:
        settings.prepare()
    first, further = read_tables(files, schema, table, others or (), stored=store is not None)
    access = access_by(
        key,
        passphrase.current(passphrase_fd),
        *(endpoint, functions, profile, region),
        sign=sign,
        insecure_http=insecure_http,
    )
    asking = Asking(
        Options(pad, digits, min_group), timeout, cloud_only=cloud_only, strict=strict, quiet=settings.quiet
    )
    bars = ClearedBars(bars_of(settings))
    where = (store, profile, region)
    opened = open_session(
        *(first, access, settings.embedded, bars, further, *where),
        contributor=contributor,
        scan=not no_scan,
        fetch_limit=fetch_limit,
        memory=memory,
        cache=not no_cache,
    )
    with opened as session:
        if console.is_terminal(sys.stdin):
            _interactive(session, asking, settings, bars, keeps_history=not no_history)
        else:
            _piped(session, asking)


def _piped(session: Session | StoredSession, asking: Asking) -> None:
    from cleave.cli.shell.piped import lines_of, run_lines  # noqa: PLC0415
    from cleave.cli.shell.shell import Shell  # noqa: PLC0415

    run_lines(Shell(session, asking, lambda work: work()), lines_of(sys.stdin.buffer))


def _interactive(
    session: Session | StoredSession, asking: Asking, settings: Settings, bars: ClearedBars, *, keeps_history: bool
) -> None:
    from cleave.cli.shell.cancel import Cancellable  # noqa: PLC0415
    from cleave.cli.shell.completion import Sql  # noqa: PLC0415 - prompt_toolkit takes 100 ms
    from cleave.cli.shell.history import history_path, open_history  # noqa: PLC0415
    from cleave.cli.shell.interactive import editor, interact  # noqa: PLC0415
    from cleave.cli.shell.shell import Shell  # noqa: PLC0415

    try:
        history = open_history(history_path(os.environ) if keeps_history else None)
    except InputError as error:
        console.say(f"warning: {printable(error.message)}; nothing asked here is kept")
        history = open_history(None)
    rows = session.rows
    if not settings.quiet:
        columns = counted(len(session.schema.columns), "column")
        console.say(f"{printable(session.name)}: {counted(rows, 'row')}, {columns}. .help shows what there is.")

    lasting = process.descendants()  # what embedded services fork from, see cleave_shared.fork_server

    def stop() -> None:
        bars.stop()
        session.stop()
        process.end_descendants(lasting)

    work = Cancellable(stop)
    try:
        interact(
            Shell(session, asking, work.run),
            editor(session.name, Sql(session.schemas), history),
            lambda error: tell(error, debug=settings.debug),
        )
    finally:
        ended = work.end()
    if not ended:  # DuckDB may be at something that no interrupt reaches, and would not let its table go
        process.leave(0)
