"""The command line, made from the commands of cleave.names.

If the words begin with a command's name, only that command's module is imported, and heavy imports happen inside the
command. So `cleave --help` and `cleave key show` are fast. Services, and commands that run servers, are passed in (see
cleave.local.main).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Annotated

import typer

from cleave.cli import console
from cleave.cli.group import ANYWHERE, CliCommand, CommandLine, Settings, Subgroup
from cleave.cli.options import flag, with_options
from cleave.names import COMMANDS, GROUPS
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

    commands = {called: target for called, (target, _) in COMMANDS.items()}
    commands |= {target.partition(":")[2]: target for target in more}
    every = {called.partition(" ")[0] for called in commands}
    first = next((word for word in words if word not in ANYWHERE), "")
    wanted = {first} & every or every
    groups: dict[str, typer.Typer] = {}
    for called, target in commands.items():
        name, _, member = called.partition(" ")
        if name not in wanted:
            continue
        if not member:
            _add(app, target, name)
            continue
        if name not in groups:
            groups[name] = typer.Typer(cls=Subgroup, help=GROUPS[name], rich_markup_mode=None, no_args_is_help=True)
            app.add_typer(groups[name], name=name)
        _add(groups[name], target, member)
    return app


def _add(app: typer.Typer, target: str, name: str) -> None:
    module, _, function = target.partition(":")
    app.command(name, cls=CliCommand)(with_options(getattr(import_module(module), function)))


def _show_version(wanted: bool) -> None:
    if wanted:
        console.out(f"cleave {VERSION}")
        raise typer.Exit
