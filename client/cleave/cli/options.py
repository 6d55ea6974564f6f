"""Options and arguments of commands: `with_options` makes them of the classes of `cleave.ask.options`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, is_typeddict

import typer

from cleave.ask.options import ADVANCED, Flag, complete, flags
from cleave.cli import passphrase

if TYPE_CHECKING:
    from cleave.cli.group import Settings


def flag(words: str, help_: str, *, default: Any = None, advanced: bool = False, **more: Any) -> Any:
    """An option of a command, spelled as in `Flag.words`."""
    names = [word.strip(",") for word in words.split() if word.startswith("-")]
    metavar = " ".join(word for word in words.split() if not word.startswith("-")) or None
    if default is True:
        names = [f" /{name}" for name in names]
    panel = ADVANCED if advanced else None
    return typer.Option(*names, metavar=metavar, help=help_, show_default=False, rich_help_panel=panel, **more)


def argument(metavar: str, help_: str) -> Any:
    return typer.Argument(metavar=metavar, help=help_, show_default=False)


def flag_of(options: type, name: str) -> Any:
    """One option of a class of options, for a command that takes no other of it."""
    known = flags(options)[name]
    return flag(known.words, known.help, default=known.default, advanced=known.advanced)


Name = Annotated[str, argument("NAME", "The stored table.")]
Json = Annotated[bool, flag("--json", "Print JSON.")]
Output = Annotated[Path, flag("-o, --output FILE", "Where to write it.")]
Files = Annotated[
    list[str],
    argument(
        "FILE...",
        "The table: CSV (.gz too), Parquet, JSON or Excel, several files, a pattern in quotes, or - for stdin.",
    ),
]


@functools.cache  # of each command once a process
def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """`command`, with the options of a class in place of each parameter annotated with it.

    What it does with them is shown and said as the settings of the command line have it.
    """
    signature = inspect.signature(command, eval_str=True)
    groups = {each.name: each.annotation for each in signature.parameters.values() if is_typeddict(each.annotation)}
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = {"ctx": inspect.Parameter("ctx", keyword, annotation=typer.Context)}
    for each in signature.parameters.values():
        if each.name not in groups:
            parameters[each.name] = each.replace(kind=keyword)
            continue
        for name, known in flags(groups[each.name]).items():
            if known.words:
                parameters[name] = inspect.Parameter(
                    name, keyword, default=known.default, annotation=_annotation(known)
                )

    @functools.wraps(command)
    def run(**given: Any) -> None:
        settings: Settings = given["ctx"].obj
        values = {name: _READ.get(name, _as_it_is)(value) for name, value in given.items()}
        values |= {"progress": settings.bars, "say": settings.say}
        own = {name: given[name] for name in signature.parameters if name not in groups}
        for name, group in groups.items():
            own[name] = complete(group, {each: values[each] for each in flags(group) if each in values})
        command(**own)

    run.__signature__ = inspect.Signature(list(parameters.values()))  # type: ignore[attr-defined]  # what typer reads
    run.__annotations__ = {each.name: each.annotation for each in parameters.values()}
    return run


def _annotation(known: Flag) -> Any:
    takes = known.takes if known.takes is bool or known.default is not None else known.takes | None
    return Annotated[takes, flag(known.words, known.help, default=known.default, advanced=known.advanced)]


def _as_it_is(value: Any) -> Any:
    return value


_READ: dict[str, Callable[[Any], Any]] = {
    "passphrase": passphrase.current,
    "new_passphrase": passphrase.current_new,
}


def goes_without(options: type, given: Mapping[str, Any], taken: type, what: str) -> None:
    """Raises typer.BadParameter for an option of `options` that was given and is none of `taken`."""
    for name, known in flags(options).items():
        if known.words and given[name] != known.default and name not in flags(taken):
            raise typer.BadParameter(f"{known.words.split()[0]} does not go with {what}")
