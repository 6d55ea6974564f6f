"""Options and arguments of commands. `with_options` makes them from the classes of cleave.ask.options.

The words of `plan`, `query` and `shell` are the table's files, or a stored table, and a query.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, is_typeddict

import typer

from cleave.ask.opening import asks_embedded, is_remote, open_session, read_data
from cleave.ask.options import ADVANCED, Asking, Flag, complete, flags
from cleave.cli import passphrase
from cleave.files import names_file
from cleave_shared.errors import InputError

if TYPE_CHECKING:
    from cleave.ask.session import Session
    from cleave.cli.group import Settings
    from cleave.table.progress import Bars


def flag(
    words: str, help_: str, *, default: Any = None, advanced: bool = False, section: str | None = None, **more: Any
) -> Any:
    """An option of a command, spelled as in `Flag.words`. `section`: its section in the help."""
    names = [word.strip(",") for word in words.split() if word.startswith("-")]
    metavar = " ".join(word for word in words.split() if not word.startswith("-")) or None
    if default is True:
        names = [f" /{name}" for name in names]
    panel = ADVANCED if advanced else section
    return typer.Option(*names, metavar=metavar, help=help_, show_default=False, rich_help_panel=panel, **more)


def argument(metavar: str, help_: str) -> Any:
    return typer.Argument(metavar=metavar, help=help_, show_default=False)


def flag_of(options: type, name: str) -> Any:
    """One option of a class, for a command that has no other option of it."""
    option = flags(options)[name]
    return flag(option.words, option.help, default=option.default, advanced=option.advanced)


Name = Annotated[str, argument("NAME", "The stored table.")]
Json = Annotated[bool, flag("--json", "Print JSON.")]
OutputFile = Annotated[Path, flag("-o, --output FILE", "Where to write it.")]
Files = Annotated[
    list[str],
    argument(
        "FILE...",
        "The table: CSV (.gz too), Parquet, JSON or Excel, several files, a pattern in quotes, or - for stdin.",
    ),
]


@functools.cache  # once per command and process
def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """The command with each parameter annotated with a class replaced by the options of that class.

    The option values get the progress display and output function of the command line.
    """
    signature = inspect.signature(command, eval_str=True)
    groups = {each.name: each.annotation for each in signature.parameters.values() if is_typeddict(each.annotation)}
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = {"ctx": inspect.Parameter("ctx", keyword, annotation=typer.Context)}
    for parameter in signature.parameters.values():
        if parameter.name not in groups:
            parameters[parameter.name] = parameter.replace(kind=keyword)
            continue
        for name, option in flags(groups[parameter.name]).items():
            if option.words:
                parameters[name] = inspect.Parameter(
                    name, keyword, default=option.default, annotation=_annotation(option)
                )

    @functools.wraps(command)
    def run(**given: Any) -> None:
        settings: Settings = given["ctx"].obj
        values = {name: _READ[name](value) if name in _READ else value for name, value in given.items()}
        values |= {"progress": settings.bars, "say": settings.say}
        own = {name: given[name] for name in signature.parameters if name not in groups}
        for name, group in groups.items():
            own[name] = complete(group, {each: values[each] for each in flags(group) if each in values})
        command(**own)

    run.__signature__ = inspect.Signature(list(parameters.values()))  # type: ignore[attr-defined]  # typer reads it
    run.__annotations__ = {each.name: each.annotation for each in parameters.values()}
    return run


def _annotation(option: Flag) -> Any:
    takes = option.takes if option.takes is bool or option.default is not None else option.takes | None
    section = f"{option.kind.capitalize()} releases" if option.kind else None
    shown = flag(option.words, option.help, default=option.default, advanced=option.advanced, section=section)
    return Annotated[takes, shown]


_READ: dict[str, Callable[[Any], Any]] = {
    "passphrase": passphrase.current,
    "new_passphrase": functools.partial(
        passphrase.current, what="new passphrase", question="Passphrase of the new key: "
    ),
}


def refuse_options(options: type, given: Mapping[str, Any], taken: type, what: str) -> None:
    """Raises typer.BadParameter for a given option of `options` that is not in `taken`."""
    for name, option in flags(options).items():
        if option.words and given[name] != option.default and name not in flags(taken):
            raise typer.BadParameter(f"{option.words.split()[0]} cannot be combined with {what}")


_LONGEST = 1_000_000  # bytes of SQL; the services accept much less

QueryWords = Annotated[
    list[str] | None,
    argument(
        "[FILE... | NAME] [SQL]",
        "CSV, Parquet, JSON or Excel files (- for stdin), or a stored table; then one SELECT. "
        "With --store the SELECT can be alone.",
    ),
]
# for SQL that must not be in a shell's history or a list of processes
SqlFile = Annotated[Path | None, flag("--sql-file FILE", "Read the SQL from this file, or from stdin if it is -.")]


def read_question(words: Sequence[str] | None, sql_file: Path | None) -> tuple[list[str], str]:
    """Return the words before the query, and the query: the last word, or the text of `sql_file`.

    Raises typer.BadParameter unless there is exactly one query, InputError for a file without SQL.
    """
    given = list(words or ())
    if sql_file is None:
        if not given or (len(given) == 1 and not _is_sql(given[0])):
            raise typer.BadParameter("a query is needed: one SELECT as the last word, or --sql-file")
        if _FORMULA.match(given[-1]):
            raise typer.BadParameter("a query is needed, not a formula: only cleave fit takes formulas")
        return given[:-1], given[-1]
    if given and _is_sql(given[-1]):
        raise typer.BadParameter("one query is needed: either SQL or --sql-file")
    if "-" in given and str(sql_file) == "-":
        raise typer.BadParameter("standard input cannot hold both the table and the SQL")
    return given, read_sql(sql_file)


@contextlib.contextmanager
def session_over(
    words: Sequence[str],
    asking: Asking,
    settings: Settings,
    bars: Bars | None = None,
    machine: str | None = None,
    *,
    sends: bool = True,
) -> Iterator[Session]:
    """Open a session over the table of `words`. A small file is read in the background.

    `sends`: queries will be sent to the services, so embedded ones are prepared.
    """
    from cleave.table.lazy import LazyTable, prefetch  # noqa: PLC0415 - --help does not need it

    table = read_data(words or None, asking)
    others: list[LazyTable] = []
    if asking["others"]:
        from cleave.ask.files import further_of  # noqa: PLC0415 - numpy: else imported while a file is read

        others += map(further_of, asking["others"])
    if sends and (not is_remote(asking) if isinstance(table, LazyTable) else asks_embedded(asking)):
        settings.prepare()
    if isinstance(table, LazyTable):
        table = prefetch(table)
    with open_session(table, others, asking, settings.embedded, bars or settings.bars, machine) as session:
        yield session


_FORMULA = re.compile(r"\s*(?!(select|with|from)\b)[^\s~]+\s*~", re.IGNORECASE)


def _is_sql(word: str) -> bool:
    return " " in word.strip() and not names_file(word)


def read_sql(path: Path) -> str:
    """Raises InputError for a file that cannot be read or has no SQL."""
    name = "standard input" if str(path) == "-" else str(path)
    try:
        with contextlib.nullcontext(sys.stdin.buffer) if str(path) == "-" else path.open("rb") as file:
            content = file.read(_LONGEST + 1)
        text = content.decode("utf-8-sig")
    except OSError as error:
        raise InputError(f"{name}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise InputError(f"{name}: is not UTF-8 text", hint="SQL is expected there") from None
    if len(content) > _LONGEST:
        raise InputError(f"{name}: holds more than {_LONGEST // 1_000_000} MB", hint="SQL is expected there, not data")
    if not text.strip():
        raise InputError(f"{name}: holds no SQL")
    return text
