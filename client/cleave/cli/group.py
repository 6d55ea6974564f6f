"""Runs commands. Errors appear as `error:` and `hint:` on stderr, with the exit codes of cleave_shared.errors."""

from __future__ import annotations

import functools
import os
import re
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from cleave.ask.config import require_text
from cleave.ask.options import ADVANCED, LARGE
from cleave.cli import console
from cleave.cli.process import Signals
from cleave.table.progress import Progress
from cleave.text.nearest import nearest
from cleave.text.printable import printable
from cleave_shared.errors import CleaveError, InputError
from cleave_shared.exhaustion import exhausted

if TYPE_CHECKING:
    from cleave.ask.services import Embedded

ANYWHERE = ("--debug", "--quiet")  # options allowed at any position
_EXAMPLES = "\nExamples:\n"
_NO_SUCH = re.compile(r"^No such (\w+):?")
_DESCRIPTORS = Path("/proc/self/fd")  # SEAL and DuckDB open memory files through it
INTERRUPTED = 130
READER_LEFT = 141  # 128 + SIGPIPE, like other programs


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of the command line. Each command finds them in its typer context."""

    embedded: Embedded
    prepare: Callable[[], None]
    debug: bool
    quiet: bool

    def say(self, text: str) -> None:
        """Print one line on stderr, with unprintable characters escaped; nothing with --quiet."""
        if not self.quiet:
            console.say(printable(text))

    def bars(self) -> AbstractContextManager[Progress]:
        """Open a progress display for one piece of work."""
        return console.progress(quiet=self.quiet)


class _AsGiven:
    """Mixin for parameters that need no conversion. Typer would import pydantic for it (50 ms)."""

    def __init__(self, parameter: TyperArgument | TyperOption) -> None:
        self.__dict__.update(parameter.__dict__)

    def process_value(self: Any, ctx: Any, value: Any) -> Any:
        takes = self.type_descriptor.annotation
        if takes == list[str]:
            value, is_fit = list(value or ()), True
        else:
            is_fit = value is None or type(value) is takes
        if not is_fit or (self.required and self.value_is_missing(value)):
            return super().process_value(ctx, value)  # type: ignore[misc]  # the parameter's own conversion
        return value if self.callback is None else self.callback(ctx, self, value)


class _Option(_AsGiven, TyperOption):
    pass


class _Argument(_AsGiven, TyperArgument):
    pass


@functools.cache  # typer looks parameters up in a dictionary
def _as_given(parameter: Any) -> Any:
    return (_Argument if isinstance(parameter, TyperArgument) else _Option)(parameter)


class CliCommand(TyperCommand):
    """A command. Its help shows the docstring's examples unchanged, and advanced options last."""

    def get_params(self, ctx: Any) -> list[Any]:
        return [*map(_as_given, super().get_params(ctx))]

    def invoke(self, ctx: Any) -> Any:
        if not _DESCRIPTORS.exists():
            raise InputError("/proc is not mounted here, and Cleave needs it", hint="as root: mount -t proc proc /proc")
        return super().invoke(ctx)

    def format_help_text(self, _ctx: Any, formatter: Any) -> None:
        text, _, _ = (self.help or "").partition(_EXAMPLES)
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(text.strip())

    def format_options(self, ctx: Any, formatter: Any) -> None:
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for parameter in self.get_params(ctx):
            if (record := parameter.get_help_record(ctx)) is None:
                continue
            if isinstance(parameter, TyperArgument):
                sections["Arguments"].append((parameter.metavar or "", parameter.help or ""))
            else:
                panel = getattr(parameter, "rich_help_panel", None) or "Options"
                sections.setdefault(panel, []).append((record[0].removeprefix(" / "), record[1]))
        last = {each: sections.pop(each) for each in (ADVANCED, LARGE) if each in sections}
        for name, rows in (sections | last).items():
            if rows:
                with formatter.section(name):
                    formatter.write_dl(rows, col_max=26)

    def format_epilog(self, _ctx: Any, formatter: Any) -> None:
        if examples := (self.help or "").partition(_EXAMPLES)[2]:
            formatter.write(f"\nExamples:\n{examples.rstrip()}\n")


class Subgroup(TyperGroup):
    """Commands under one name, such as those of `cleave key`."""

    def get_params(self, ctx: Any) -> list[Any]:
        return [*map(_as_given, super().get_params(ctx))]


class CommandLine(Subgroup):
    """All commands, with their signals and errors."""

    def main(  # type: ignore[override]  # other arguments are passed by name
        self, args: Sequence[str] | None = None, *, standalone_mode: bool = True, **extra: Any
    ) -> Any:
        """Run and exit. --debug and --quiet are allowed anywhere."""
        words = given = list(sys.argv[1:] if args is None else args)
        options = given[: given.index("--")] if "--" in given else given
        moved = [word for word in options if word in ANYWHERE]
        given = moved + [word for word in options if word not in ANYWHERE] + given[len(options) :]
        try:
            for place, word in enumerate(words, 1):
                require_text(f"argument {place}", word)
            code = self._run(given, **extra)
        except BrokenPipeError:  # while help was printed
            console.abandon_stdout()
            code = READER_LEFT
        except CleaveError as error:
            code = report_failure(error)
        except OSError as error:
            code = report_failure(exhausted(error) or console.unwritable(error))
        if standalone_mode or code:
            sys.exit(code if isinstance(code, int) else 0)
        return code

    def _run(self, words: Sequence[str], **extra: Any) -> Any:
        try:
            return super().main(words, standalone_mode=False, **extra)
        except typer.TyperException as error:
            return _usage(error)
        except typer.Abort:
            return INTERRUPTED

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]
        with Signals() as signals:
            try:
                return super().invoke(ctx)
            except KeyboardInterrupt:
                raise typer.Exit(signals.code) from None
            except BrokenPipeError:
                console.abandon_stdout()
                raise typer.Exit(READER_LEFT) from None
            except (typer.TyperException, typer.Exit, typer.Abort):
                raise
            except Exception as error:  # noqa: BLE001 - the last handler before the user
                if signals.number:  # what fails after a signal fails because of it
                    raise typer.Exit(signals.code) from None
                raise typer.Exit(report_failure(error, debug=ctx.obj is not None and ctx.obj.debug)) from None


def _usage(error: typer.TyperException) -> int:
    """Report what is wrong with a command's words. Without words, print its help."""
    context = getattr(error, "ctx", None)
    if context is not None and error.format_message() == context.get_help():
        console.out(error.format_message())
        return 0
    command = getattr(context, "command_path", "cleave")
    said = error.format_message().removeprefix("Invalid value: ")  # of no one option
    said = said.replace(": Value error, ", ": ", 1)  # pydantic's wording for errors of parsers
    words, hint = _NO_SUCH.sub(r"there is no \1", said), f"{command} --help shows what it takes"
    message, _, suggestion = words.partition(". Did you mean ")
    near = getattr(error, "possibilities", None)
    if near and (best := nearest(getattr(error, "option_name", ""), near)):
        message, suggestion = message.partition(" (")[0], f"{best!r}?"
    elif near:
        message = message.partition(" (")[0]
    console.report_error(message.rstrip("."), f"did you mean {suggestion} {hint}" if suggestion else hint)
    return error.exit_code


def _say_no_more(_lost: object) -> None:
    """Print nothing about errors in clean-up that have the same cause."""


def report_failure(error: Exception, *, debug: bool = False) -> int:
    """Report an error and return its exit code. For errors of the operating system: the file's name and the reason."""
    if debug:
        console.say("".join(traceback.format_exception(error)).rstrip())
    if shortage := exhausted(error):
        error, sys.unraisablehook = shortage, _say_no_more
    if isinstance(error, OSError) and isinstance(error.filename, str | bytes | Path) and error.strerror:
        error = InputError(f"{os.fsdecode(error.filename)}: {error.strerror}")
    if isinstance(error, CleaveError):
        console.report_error(error.message, error.hint, error.excerpt)
        return error.exit_code
    console.report_error(
        f"unexpected {type(error).__name__}", "this is a defect of Cleave; --debug shows where, and may quote values"
    )
    return 1
