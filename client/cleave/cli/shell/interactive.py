"""The shell with a person before it: a line editor, and errors and Ctrl-C that leave it standing."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from types import FrameType

from prompt_toolkit import PromptSession
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.completion import Completer
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import History
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import Output

from cleave.cli import console
from cleave.cli.shell.cancel import Cancelled
from cleave.cli.shell.commands import is_command
from cleave.cli.shell.shell import Left, Shell
from cleave.sql.statements import split_statements
from cleave.text.printable import printable


class Ended(BaseException):
    """SIGTERM or SIGHUP: the shell goes, whatever is under way."""


def editor(
    name: str,
    completer: Completer,
    history: History,
    source: Input | None = None,
    target: Output | None = None,
) -> PromptSession[str]:
    """Reads up to a semicolon, over as many lines as it takes. `source` and `target`: in place of the terminal."""
    bindings = KeyBindings()

    @bindings.add("enter", filter=Condition(lambda: session.default_buffer.complete_state is None))
    def enter(event: KeyPressEvent) -> None:
        if is_complete(event.current_buffer.text):
            event.current_buffer.validate_and_handle()
        else:
            event.current_buffer.insert_text("\n")

    shown = f"{printable(name)}> "
    session: PromptSession[str] = PromptSession(
        shown,
        multiline=True,
        prompt_continuation=lambda width, _line, _wrapped: "...> ".rjust(width),
        completer=completer,
        complete_while_typing=False,
        history=history,
        auto_suggest=AutoSuggestFromHistory(),
        key_bindings=bindings,
        input=source,
        output=target,
    )
    return session


def is_complete(text: str) -> bool:
    """Check whether Enter ends it: a command, nothing at all, or statements that a semicolon ends."""
    return is_command(text) or not split_statements(text)[1].strip()


def interact(shell: Shell, session: PromptSession[str], tell: Callable[[Exception], object]) -> None:
    """Run lines until Ctrl-D or `.exit`. An error is reported, and the next line is read."""
    with _ctrl_c():
        while True:
            try:
                text = session.prompt()
            except KeyboardInterrupt:  # at the prompt: the line is given up
                continue
            except EOFError:
                return
            try:
                for part in _parts(text):
                    part(shell)
            except Left:
                return
            except (KeyboardInterrupt, Cancelled):
                console.say("cancelled")
            except BrokenPipeError:
                raise
            except Exception as error:  # noqa: BLE001 - the shell outlives a question
                tell(error)


def _parts(text: str) -> list[Callable[[Shell], None]]:
    if is_command(text):
        return [lambda shell: shell.command(text.strip())]
    statements, rest = split_statements(text)
    return [_asked(each) for each in [*statements, rest.strip()] if each]


def _asked(statement: str) -> Callable[[Shell], None]:
    return lambda shell: shell.statement(statement)


@contextlib.contextmanager
def _ctrl_c() -> Iterator[None]:
    """Ctrl-C interrupts what is under way and not the process; other signals do as they did, and end it."""
    before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}

    def ended(number: int, frame: FrameType | None) -> None:
        handler = before[signal.Signals(number)]
        try:
            if callable(handler):
                handler(number, frame)
        except KeyboardInterrupt:  # which here means Ctrl-C
            raise Ended from None

    signal.signal(signal.SIGINT, signal.default_int_handler)
    for each in (signal.SIGTERM, signal.SIGHUP):
        if callable(before[each]):
            signal.signal(each, ended)
    try:
        yield
    except Ended:
        raise KeyboardInterrupt from None
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
