"""The shell for a person: a line editor with completion and history. Errors and Ctrl-C do not end it.

The history is in $XDG_STATE_HOME/cleave (~/.local/state/cleave). Only its owner can read it, because SQL may contain
values. A line that begins with a space is not recorded.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from types import FrameType

from prompt_toolkit import PromptSession
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import Output

from cleave.cli import console
from cleave.cli.answer import PRINTED
from cleave.cli.shell.shell import COMMANDS, Cancelled, Left, Shell, is_command
from cleave.files import PRIVATE
from cleave.sql.read import split_statements
from cleave.table.duck import identifier, private
from cleave.table.schema import Schema
from cleave.text.printable import printable
from cleave_shared.errors import InputError


class Ended(BaseException):
    """SIGTERM or SIGHUP: the shell ends at once, even during a query."""


def editor(
    name: str,
    completer: Completer,
    history: History,
    source: Input | None = None,
    target: Output | None = None,
) -> PromptSession[str]:
    """A line editor that reads up to a semicolon, over any number of lines. `source` and `target` replace the
    terminal.
    """
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
    """True if Enter ends the input: a command, nothing, or statements ending with a semicolon."""
    return is_command(text) or not split_statements(text)[1].strip()


def interact(shell: Shell, session: PromptSession[str], on_error: Callable[[Exception], object]) -> None:
    """Run lines until Ctrl-D or `.exit`. Errors are reported, and do not end it."""
    with _ctrl_c():
        while True:
            try:
                text = session.prompt()
            except KeyboardInterrupt:  # at the prompt: discard the line
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
            except Exception as error:  # noqa: BLE001 - the shell survives a failed question
                on_error(error)


def _parts(text: str) -> list[Callable[[Shell], None]]:
    if is_command(text):
        return [partial(Shell.command, line=text.strip())]
    statements, rest = split_statements(text)
    return [partial(Shell.statement, sql=each) for each in [*statements, rest.strip()] if each]


@contextlib.contextmanager
def _ctrl_c() -> Iterator[None]:
    """Ctrl-C interrupts the current work, not the process. Other signals end the process as before."""
    before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}

    def ended(number: int, frame: FrameType | None) -> None:
        handler = before[signal.Signals(number)]
        try:
            if callable(handler):
                handler(number, frame)
        except KeyboardInterrupt:  # it means Ctrl-C here
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


_WORD = re.compile(r'"[^"]*$|[^\W\d]\w*$|$')
# Where names have no meaning: in a text, in a comment to the end of its line, and in one that is still open.
_DEAD = re.compile(r"""'(?:[^']|'')*$|--[^\n]*$|/\*(?:(?!\*/).)*$""", re.DOTALL)
_CLOSED = re.compile(r"""'(?:[^']|'')*'|"[^"]*"|--[^\n]*\n|/\*.*?\*/""", re.DOTALL)
_PLAIN = re.compile(r"[a-z_][a-z0-9_]*")


class SqlCompleter(Completer):
    """Completes columns first, then functions, then SQL's words. Names that need quotes get them."""

    def __init__(self, schemas: Mapping[str, Schema]) -> None:
        functions, words = _words()
        reserved = set(words)
        columns = [
            (_spelled(each.name, reserved), each.name, f"{each.kind} {each.type}")
            for schema in schemas.values()
            for each in schema.columns
        ]
        names = [(_spelled(name, reserved), name, "table") for name in schemas]
        self._names = [*columns, *names]
        self._words = [*((name, "function") for name in functions), *((word, "") for word in words)]

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:  # noqa: ARG002
        before = document.text_before_cursor
        command, _, rest = before.lstrip().partition(" ")
        if command.startswith("."):
            if not rest and not before.endswith(" "):
                yield from _matching(command, [(name, name, about) for name, (about, _) in COMMANDS.items()])
                return
            if command != ".plan":
                formats = PRINTED if command == ".format" else []
                yield from _matching(rest, [(each, each, "") for each in formats])
                return
            before = rest
        open_ = _CLOSED.sub(" ", before)
        if _DEAD.search(open_):
            return
        match = _WORD.search(open_)
        word = match[0] if match else ""
        if not word:
            return
        if word.startswith('"'):
            quoted = [(identifier(name), identifier(name), about) for _, name, about in self._names]
            yield from _matching(word, quoted)
            return
        yield from _matching(word, self._names)
        written = str.upper if word[0].isupper() else str.lower
        yield from _matching(word, [(written(name), written(name), about) for name, about in self._words])


def _matching(word: str, offered: Iterable[tuple[str, str, str]]) -> Iterable[Completion]:
    """Completions of `word`. `offered`: (text to insert, name to compare, note). Case does not matter."""
    lower = word.lower()
    for text, name, about in offered:
        if name.lower().startswith(lower):
            yield Completion(text, -len(word), display=printable(name), display_meta=printable(about))


def _spelled(name: str, reserved: set[str]) -> str:
    return name if _PLAIN.fullmatch(name) and name not in reserved else identifier(name)


@cache
def _words() -> tuple[list[str], list[str]]:
    """DuckDB's functions that are called by name, and its keywords."""
    with private() as connection:
        functions = connection.execute(
            "SELECT DISTINCT function_name FROM duckdb_functions() "
            "WHERE function_type IN ('aggregate', 'scalar', 'macro') "
            "AND regexp_full_match(function_name, '[a-z][a-z0-9_]*') ORDER BY 1"
        ).fetchall()
        words = connection.execute(
            "SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category = 'reserved' "
            "OR keyword_name IN ('by', 'over', 'partition', 'rows', 'range', 'filter', 'within', 'between', 'exists', "
            "'cast', 'extract', 'interval', 'join', 'left', 'inner', 'coalesce', 'rollup', 'cube', 'grouping', 'sets') "
            "ORDER BY 1"
        ).fetchall()
    return [name for (name,) in functions], [name for (name,) in words]


class _HistoryFile(FileHistory):
    """A history file. If the disk is full, lines are lost, but the shell goes on."""

    def store_string(self, string: str) -> None:
        if string.startswith(" "):
            return
        with contextlib.suppress(OSError), _opened(Path(os.fsdecode(self.filename))):
            super().store_string(string)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[None]:
    """Create a missing file, following the umask, and remove other users' rights from an existing one.

    O_NOFOLLOW: another user must not redirect SQL into a file by a link.
    """
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, PRIVATE)
    try:
        os.fchmod(handle, os.fstat(handle).st_mode & PRIVATE)
        yield
    finally:
        os.close(handle)


def history_path(environment: Mapping[str, str]) -> Path:
    """Raises InputError if there is neither a state folder nor a home directory."""
    state = environment.get("XDG_STATE_HOME", "")
    try:
        # the specification says to ignore relative paths
        folder = Path(state) if os.path.isabs(state) else Path("~/.local/state").expanduser()
    except RuntimeError:
        raise InputError("history: this account has no home directory", hint="use --no-history") from None
    return folder / "cleave" / "history"


def open_history(path: Path | None) -> History:
    """The history in `path`, readable by its owner only; None: kept in memory.

    Raises InputError if the file cannot be written, or is not this user's.
    """
    if path is None:
        return InMemoryHistory()
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with _opened(path):
            pass
    except OSError as error:
        raise InputError(f"history {path}: cannot be written ({error.strerror})", hint="use --no-history") from None
    return _HistoryFile(str(path))
