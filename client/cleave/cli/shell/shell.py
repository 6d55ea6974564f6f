"""Lines of the shell: its own commands, or statements, which are planned, answered and shown.

Lines come from a program (`run_lines`) or a person (cleave.cli.shell.interactive); nothing here depends on that. For a
person, work runs in another thread than the one that gets Ctrl-C, so Ctrl-C always returns to the prompt. Waits for
services, DuckDB and encrypting children are stopped. Work that cannot be stopped, such as a computation in numpy, ends
by itself; the next question waits for it.
"""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, wait
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeVar

from cleave.ask.options import Asking, question_options
from cleave.cli import console
from cleave.cli.answer import PRINTED, Format, print_answer, require_page, say_trust, write_page
from cleave.shown.plan import plan_lines
from cleave.sql.read import split_statements
from cleave.table.progress import BarProgress, Bars, Progress
from cleave.text.nearest import did_you_mean
from cleave.text.printable import printable
from cleave.text.tabular import Heading, table
from cleave_shared import limits
from cleave_shared.errors import InputError

if TYPE_CHECKING:
    from cleave.ask.plan import AnswerPlan
    from cleave.ask.question import Answer
    from cleave.ask.session import Session


T = TypeVar("T")
_ABOUT_TABLES = re.compile(r"SHOW\s+TABLES|(?:DESCRIBE|DESC)\s+(\w+|\"(?:[^\"]|\"\")+\")", re.IGNORECASE)


_STATES = ("on", "off")
_ROWS = ("all", "few")


class Left(Exception):  # noqa: N818 - named for what happened
    """The user entered `.exit`."""


@dataclass(frozen=True, slots=True)
class Last:
    sql: str
    plan: AnswerPlan
    answer: Answer
    seconds: float


class Shell:
    """`run` runs work that may take long, and may raise an error that ends it early. Use it in one thread at a time."""

    def __init__(
        self,
        session: Session,
        asking: Asking,
        run: Callable[[Callable[[], object]], object],
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._session = session
        self._asking = asking
        self._options = question_options(asking)
        self._say = say
        self._run = run
        self._format = Format.TABLE
        self._shows_all = False
        self._last: Last | None = None
        self._snapshot = contextlib.ExitStack()
        self._has_snapshot = False

    def statement(self, sql: str) -> None:
        """Run a query and show its answer. Raises the errors of planning and querying, and Undecided under --strict."""
        session, asking = self._session, self._asking
        if match := _ABOUT_TABLES.fullmatch(sql.strip()):
            console.out(self._schema(_unquoted(match[1])) if match[1] else self._tables())
            return
        started = time.perf_counter()
        strict, cloud_only = asking["strict"], asking["cloud_only"]
        plan, answer = self._do(
            lambda: session.answer(sql, self._options, asking["timeout"], strict=strict, cloud_only=cloud_only)
        )
        seconds = time.perf_counter() - started
        print_answer(answer, self._format, None if self._shows_all else "`.rows all` shows all from the next query on.")
        say_trust(answer, self._format, seconds, self._say)
        self._last = Last(sql, plan, answer, seconds)

    def command(self, line: str) -> None:
        """Raises Left, InputError for an unknown command, and the command's own errors."""
        name, argument = read_command(line)
        match name:
            case ".plan":
                self._plan(argument)
            case ".report":
                self._report(Path(argument))
            case ".format":
                self._choose(argument)
            case ".rows":
                self._choose_rows(argument)
            case ".snapshot":
                self._fix(argument)
            case ".tables":
                console.out(self._tables())
            case ".schema":
                console.out(self._schema(argument))
            case ".help":
                console.out(help_text())
            case ".exit":
                raise Left

    def _do(self, work: Callable[[], T]) -> T:
        result: T = self._run(work)  # type: ignore[assignment]  # the runner returns the work's result
        return result

    def _plan(self, sql: str) -> None:
        session, asking = self._session, self._asking
        plan = self._do(lambda: session.plan(sql, self._options, cloud_only=asking["cloud_only"]))
        console.out(plan_lines(self._do(lambda: session.describe(plan))))

    def _report(self, path: Path) -> None:
        require_page(path)
        last = self._last
        if last is None:
            raise InputError("there is no answer yet to report on", hint="run a query first")
        description = self._do(lambda: self._session.describe(last.plan))
        from cleave.report.page import PageFacts  # noqa: PLC0415 - templates

        facts = PageFacts(last.sql, last.plan.table, datetime.now(UTC), last.seconds)
        write_page(path, last.answer, description, facts)
        console.say(f"wrote {printable(str(path))}")

    def _choose(self, name: str) -> None:
        if name and name not in PRINTED:
            hint = did_you_mean(name, PRINTED) or f"formats are {', '.join(PRINTED)}"
            raise InputError(f"there is no format {name}", hint=hint)
        if name:
            self._format = Format(name)
        else:
            console.out(str(self._format))

    def _choose_rows(self, state: str) -> None:
        if state and state not in _ROWS:
            raise InputError(f".rows {state}: it is all or few")
        if state:
            self._shows_all = state == "all"
        else:
            console.out("all" if self._shows_all else "few")

    def _fix(self, state: str) -> None:
        if state and state not in _STATES:
            raise InputError(f".snapshot {state}: it is on or off")
        if state:
            self._snapshot.close()
            self._has_snapshot = False
        if state == "on":
            self._do(lambda: self._snapshot.enter_context(self._session.snapshot()))
            self._has_snapshot = True
        if not state:
            console.out("on" if self._has_snapshot else "off")

    def _tables(self) -> str:
        session = self._session
        schemas = self._do(lambda: session.schemas)
        headings = [Heading("table"), Heading("columns", justify="right"), Heading("rows", justify="right")]
        cells = []
        for name, schema in schemas.items():
            rows = self._do(lambda name=name: session.rows_of(name))  # type: ignore[misc]
            cells.append([name, str(len(schema.columns)), "read here only" if rows is None else f"{rows:,}"])
        return table(headings, cells) if cells else "no tables under this key"

    def _schema(self, name: str = "") -> str:
        wanted = (name or self._session.name).lower()
        schemas = self._do(lambda: self._session.schemas)
        schema = next((each for stored, each in schemas.items() if stored.lower() == wanted), None)
        if schema is None:
            message = f"there is no table {name!r}" if name else ".schema: name a table"
            raise InputError(message, hint=did_you_mean(wanted, schemas) or ".tables lists all")
        headings = [Heading(name) for name in ("column", "kind", "type", "NULL")]
        bounds = [Heading(name, justify="right") for name in ("lower", "upper")]
        rows = [
            [
                column.name,
                str(column.kind),
                column.type,
                "yes" if column.nullable else "no",
                *("" if bound is None else str(bound) for bound in (column.lower, column.upper)),
            ]
            for column in schema.columns
        ]
        return table([*headings, *bounds], rows)


def _unquoted(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name


# name -> (what it does, name of its argument, in brackets if optional)
COMMANDS = {
    ".plan": ("show what a query would send where; sends nothing", "SQL"),
    ".report": ("write the last answer as one HTML page", "FILE"),
    ".format": ("how answers are written: table, csv, json, ndjson or markdown", "[FORMAT]"),
    ".rows": (
        "few (default): a terminal shows 40 rows, and the columns that fit; all: everything",
        "[all|few]",
    ),
    ".snapshot": ("on: query the stored tables' versions of now, until off", "[on|off]"),
    ".tables": ("list the tables, as SHOW TABLES", ""),
    ".schema": ("list the columns of a table, as DESCRIBE", "[TABLE]"),
    ".help": ("show this", ""),
    ".exit": ("leave, like Ctrl-D", ""),
}
# names from other shells; the first ones need no point
_WORDS = {"help": ".help", "exit": ".exit", "quit": ".exit"}
_OTHERS = {".quit": ".exit", "\\q": ".exit", "\\?": ".help", "\\h": ".help"}


def is_command(text: str) -> bool:
    """True if a line is a command, not SQL."""
    line = text.strip()
    return line.startswith((".", "\\")) or line.rstrip("; ").lower() in _WORDS


def read_command(line: str) -> tuple[str, str]:
    """(Name, argument). Raises InputError for an unknown name, and for a missing or unexpected argument."""
    given, _, argument = line.strip().rstrip(";").partition(" ")
    argument, name = argument.strip(), given.lower()
    name = ({"\\d": ".schema" if argument else ".tables"} | _WORDS | _OTHERS).get(name, name)
    if name not in COMMANDS:
        raise InputError(
            f"there is no command {given}", hint=did_you_mean(name, COMMANDS) or ".help lists the commands"
        )
    wanted = COMMANDS[name][1]
    if argument and not wanted:
        raise InputError(f"{name} takes no argument")
    if not argument and wanted and not wanted.startswith("["):
        raise InputError(f"{name} needs an argument", hint=f"{name} {wanted}")
    return name, argument


def help_text() -> str:
    width = max(len(f"{name} {argument}") for name, (_, argument) in COMMANDS.items())
    lines = [f"{f'{name} {argument}'.ljust(width)}  {about}" for name, (about, argument) in COMMANDS.items()]
    lines += [
        "",
        "help, quit, exit, \\q, \\d and \\d TABLE work too. Anything else is SQL: one SELECT, ended by a semicolon.",
        "Tab completes, arrows recall, Ctrl-C stops what is running, Ctrl-D leaves.",
    ]
    return "\n".join(lines)


def lines_of(stream: BinaryIO) -> Iterator[bytes]:
    """Lines as they arrive. A line longer than any statement comes in pieces."""
    return iter(lambda: stream.readline(4 * limits.MAX_SQL_CHARS), b"")


def run_lines(shell: Shell, lines: Iterable[bytes]) -> None:
    """Raises the error of the first failing line; InputError for lines that are not UTF-8 or never end."""
    open_ = ""
    try:
        for number, line in enumerate(lines, start=1):
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError:
                raise InputError(f"standard input, line {number}: is not UTF-8 text") from None
            begins = text.strip()
            if not open_ and is_command(begins):
                shell.command(begins)
                continue
            if not open_ and (not begins or begins.startswith("--")):
                continue
            open_ += text
            if len(open_) > 2 * limits.MAX_SQL_CHARS:
                raise InputError(f"standard input, line {number}: a statement does not end", hint="is a ; missing?")
            if ";" in text:
                statements, open_ = split_statements(open_)
                for each in statements:
                    shell.statement(each)
        statements, rest = split_statements(open_)
        for each in [*statements, rest.strip()]:
            if each:
                shell.statement(each)
    except Left:
        return


# maximum seconds from Ctrl-C to the prompt
PATIENCE = 0.5
_AGAIN = 0.05  # between two calls of `stop`: work that does not wait yet cannot be stopped
# a signal delivered to another thread does not end a wait in this one
_LOOK = 0.1


class Cancelled(Exception):  # noqa: N818 - named for what happened
    """Ctrl-C was pressed during work."""


class ClearedBars:
    """Progress bars that `stop` removes from the screen, even if work still advances them."""

    def __init__(self, bars: Bars) -> None:
        self._bars = bars
        self._shown: Progress | None = None

    @contextlib.contextmanager
    def __call__(self) -> Iterator[Progress]:
        with self._bars() as self._shown:
            yield self._shown

    def stop(self) -> None:
        if isinstance(self._shown, BarProgress):
            self._shown.stop()


class Cancellable:
    """Runs one thing at a time. `stop` ends it; another thread may call it at any moment."""

    def __init__(self, stop: Callable[[], None]) -> None:
        self._stop = stop
        self._thread: threading.Thread | None = None
        self._stopper: threading.Thread | None = None
        self._turn = threading.Lock()  # so that `stop` never stops the next work

    def run(self, work: Callable[[], T]) -> T:
        """Run `work` and return its result or raise its error. Raises Cancelled, within PATIENCE, if this thread is
        interrupted.
        """
        self._join()
        outcome: Future[T] = Future()
        try:
            with self._turn:
                self._thread = threading.Thread(target=_run, args=(work, outcome), daemon=True)
                self._thread.start()
            while not outcome.done():
                wait([outcome], _LOOK)
            return outcome.result()
        except KeyboardInterrupt:
            self.end()
            raise Cancelled from None

    def end(self) -> bool:
        """Stop the running work. True if it ended within PATIENCE."""
        thread = self._thread
        if thread is None or not thread.is_alive():
            return True
        self._begin_stopping(thread)
        thread.join(PATIENCE)
        return not thread.is_alive()

    def _join(self) -> None:
        """Wait for stopped work. Raises Cancelled if this wait is interrupted too."""
        thread = self._thread
        if thread is None or not thread.is_alive():
            return
        console.say("waiting for what was cancelled to end")
        try:
            self._begin_stopping(thread)
            while thread.is_alive():
                thread.join(_LOOK)
        except KeyboardInterrupt:
            raise Cancelled from None

    def _begin_stopping(self, thread: threading.Thread) -> None:
        """Stop the work from a separate thread, because that may take time on a busy machine."""
        if self._stopper is None or not self._stopper.is_alive():
            self._stopper = threading.Thread(target=self._stop_until_ended, args=[thread], daemon=True)
            self._stopper.start()

    def _stop_until_ended(self, thread: threading.Thread) -> None:
        while thread.is_alive():
            with self._turn:
                if thread.is_alive():
                    self._stop()
            thread.join(_AGAIN)


def _run(work: Callable[[], T], outcome: Future[T]) -> None:
    try:
        result = work()
    except BaseException as error:  # noqa: BLE001 - raised where the result is awaited
        outcome.set_exception(error)
    else:
        outcome.set_result(result)
