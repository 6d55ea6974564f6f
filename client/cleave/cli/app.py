"""The command line: its commands by name.

If the words begin with a command's name, only that command's module is imported, and heavy imports happen inside the
command. So `cleave --help` and `cleave key show` are fast. Services, and commands that run servers, are passed in (see
cleave.local.main).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Final

import typer

from cleave.cli import console
from cleave.cli.group import ANYWHERE, CliCommand, CommandLine, Settings, Subgroup
from cleave.cli.options import flag, with_options
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


# module:function; for a group, by command name
_COMMANDS: Final = (
    "cleave.cli.schema:schema",
    "cleave.cli.questions:plan",
    "cleave.cli.questions:query",
    "cleave.cli.shell.command:shell",
    "cleave.cli.models:fit",
    "cleave.cli.models:pca",
    "cleave.cli.models:survival",
    *(
        f"cleave.cli.stored:{name}"
        for name in (
            *("put", "ls", "show", "log", "pull", "derive"),
            *("delete", "update", "alter", "compact", "verify", "drop", "accept"),
        )
    ),
    "cleave.cli.config:config",
)
_GROUPS: Final[dict[str, tuple[str, dict[str, str]]]] = {
    "key": (
        "Create, show, copy, split, export and rotate keys.",
        {
            "new": "cleave.cli.key:new",
            "show": "cleave.cli.key:show",
            "passphrase": "cleave.cli.key:rewrap",
            "wrap": "cleave.cli.key:wrap",
            "unwrap": "cleave.cli.key:unwrap",
            "copy": "cleave.cli.key:copy",
            "split": "cleave.cli.recovery:split",
            "join": "cleave.cli.recovery:join",
            "export": "cleave.cli.key:export",
            "contributor": "cleave.cli.key:contributor",
            "rotate": "cleave.cli.key:rotate",
        },
    ),
    "scan": (
        "Store or delete the rows of a table for scans.",
        {"add": "cleave.cli.stored:add_scan", "drop": "cleave.cli.stored:drop_scan"},
    ),
    "analyst": (
        "Create an identity to query released totals.",
        {"new": "cleave.cli.analysts:new_analyst", "accept": "cleave.cli.analysts:accept"},
    ),
    "release": (
        "Release totals of a stored table to analysts.",
        {"new": "cleave.cli.analysts:new", "ls": "cleave.cli.analysts:ls", "revoke": "cleave.cli.analysts:revoke"},
    ),
    "reader": (
        "Let others query some columns of a stored table.",
        {
            "new": "cleave.cli.readers:new",
            "add": "cleave.cli.readers:add",
            "ls": "cleave.cli.readers:ls",
            "accept": "cleave.cli.readers:accept",
            "revoke": "cleave.cli.readers:revoke",
        },
    ),
    "user": (
        "Manage users of the gateway.",
        {"add": "cleave.cli.users:add", "ls": "cleave.cli.users:ls", "remove": "cleave.cli.users:remove"},
    ),
    "contributor": (
        "Let others add rows to a stored table, and collect them.",
        {
            "add": "cleave.cli.contributors:add",
            "ls": "cleave.cli.contributors:ls",
            "collect": "cleave.cli.contributors:collect",
            "clear": "cleave.cli.contributors:clear",
            "remove": "cleave.cli.contributors:remove",
        },
    ),
}


def create_cli(
    embedded: Embedded,
    prepare: Callable[[], None] = lambda: None,
    words: Sequence[str] = (),
    more: Sequence[str] = (),
) -> typer.Typer:
    """The whole command line over `embedded` services. `more`: further commands, as module:function.

    `prepare` is called before embedded services are used, while this process has one thread. If `words` begin with a
    command's name, only that command is made: typer takes 30 ms for all.
    """
    app = typer.Typer(
        cls=CommandLine,
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

    commands = {target.partition(":")[2]: target for target in (*_COMMANDS, *more)}
    names = {*_GROUPS, *commands}
    first = next((word for word in words if word not in ANYWHERE), "")
    wanted = {first} & names or names
    for name, target in commands.items():
        if name in wanted:
            _add(app, target, name)
    for name, (about, members) in _GROUPS.items():
        if name in wanted:
            group = typer.Typer(cls=Subgroup, help=about, rich_markup_mode=None, no_args_is_help=True)
            for called, target in members.items():
                _add(group, target, called)
            app.add_typer(group, name=name)
    return app


def _add(app: typer.Typer, target: str, name: str) -> None:
    module, _, function = target.partition(":")
    app.command(name, cls=CliCommand)(with_options(getattr(import_module(module), function)))


def _show_version(wanted: bool) -> None:
    if wanted:
        console.out(f"cleave {VERSION}")
        raise typer.Exit
