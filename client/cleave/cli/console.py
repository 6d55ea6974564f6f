"""All terminal output: results to stdout, everything else to stderr, nothing raw from a file or a service.

Names and texts of a CSV may hold anything (see cleave.text.printable). Nothing here interprets rich's markup.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
import time
import unicodedata
import warnings
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Literal, TextIO

from cleave.table.progress import Silent
from cleave.text.printable import printable
from cleave_shared.dataclass import dataclass
from cleave_shared.errors import CleaveWarning, InputError

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import Task

Justify = Literal["left", "right"]
LINE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Heading:
    """A column of a printed table; `note` stands under its name."""

    name: str
    note: str = ""
    justify: Justify = "left"


def out(text: str) -> None:
    """One block of results on stdout. Raises InputError if it cannot be written, BrokenPipeError if nobody reads it."""
    try:
        _write(sys.stdout, text + "\n")
    except BrokenPipeError:
        raise
    except OSError as error:
        raise unwritable(error) from None


def unwritable(error: OSError) -> InputError:
    """The error for a stdout that takes no more, to which nothing is written any longer."""
    abandon_stdout()
    return InputError(f"stdout: cannot be written ({error.strerror})", hint="is the disk full?")


def say(text: str) -> None:
    """Anything else, on stderr; if that cannot be written there is nobody to tell."""
    with contextlib.suppress(OSError):
        _write(sys.stderr, text + "\n")


def saying(*, quiet: bool) -> Callable[[str], None]:
    """Says what may hold anything, one text a line; nothing where it is to be `quiet`."""
    return (lambda _: None) if quiet else (lambda text: say(printable(text)))


def show_warnings(*, quiet: bool) -> None:
    """Have this program's own warnings said on stderr, each text once; none where `quiet`."""
    warnings.simplefilter("ignore" if quiet else "once", CleaveWarning)
    others = warnings.showwarning

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if issubclass(category, CleaveWarning):
            say(f"warning: {printable(str(message))}")
        else:
            others(message, category, filename, lineno, file, line)

    warnings.showwarning = show


def report_error(message: str, hint: str | None = None) -> None:
    say(f"error: {printable(message)}")
    if hint:
        say(f"hint: {printable(hint)}")


def is_terminal(stream: object) -> bool:
    """Whether a person sees this stream."""
    return bool(getattr(stream, "isatty", lambda: False)())


def confirm(question: str) -> bool:
    """Ask on the terminal; only a yes is one."""
    _write(sys.stderr, f"{question} [y/N] ")
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def abandon_stdout() -> None:
    """Let nothing more be written to stdout, not even when Python closes it: its reader left, or its disk is full."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def table(headings: Sequence[Heading], rows: Sequence[Sequence[str]]) -> str:
    """A plain table, as wide as it needs to be: a figure is never cut or wrapped. Cells are made printable."""
    names = [printable(heading.name) for heading in headings]
    notes = [printable(heading.note) for heading in headings]
    cells = [[printable(cell) for cell in row] for row in rows]
    head = [names, notes] if any(notes) else [names]
    widths = [max(_width(line[place]) for line in [*head, *cells]) for place in range(len(headings))]
    rule = ["-" * width for width in widths]
    lines = []
    for line in [*head, rule, *cells]:
        padded = [
            _pad(cell, width, heading.justify) for cell, width, heading in zip(line, widths, headings, strict=True)
        ]
        lines.append("  ".join(padded).rstrip())
    return "\n".join(lines)


class BarProgress:
    """Progress bars on stderr, one per stage; gone when the work is done. They may be advanced by any thread."""

    def __init__(self) -> None:
        from rich.console import Console  # noqa: PLC0415 - 40 ms that silent runs do not need
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415

        class Rate(TextColumn):
            """How many of a stage's units are done, and how many a second, where it has a unit."""

            def render(self, task: Task) -> Text:
                unit = task.fields.get("unit")
                if not unit:
                    return Text()
                speed = f", {task.speed:,.0f}/s" if task.speed else ""
                return Text(f"{task.completed:,.0f} {unit}{speed}")

        self._bars: Bars = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TaskProgressColumn(),
            Rate(""),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
            auto_refresh=False,  # a thread of its own would hold locks when others fork
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def __enter__(self) -> BarProgress:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Show nothing any more. Does nothing a second time; any thread may call it."""
        self._bars.stop()

    def stage(self, name: str, total: int, unit: str = "") -> Callable[[int], None]:
        task = self._bars.add_task(printable(name), total=total, unit=unit)
        self._bars.refresh()
        return lambda amount: self._bars.update(task, advance=amount, refresh=True)


class LineProgress:
    """Progress for a log: a line on stderr for each minute that a stage lasts. Any thread may advance a stage."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()

    def stage(self, name: str, total: int, unit: str = "") -> Callable[[int], None]:
        done, due = 0, self._clock() + LINE_SECONDS

        def advance(amount: int) -> None:
            nonlocal done, due
            with self._lock:
                done += amount
                if self._clock() >= due:
                    due = self._clock() + LINE_SECONDS
                    say(f"{printable(name)}: {done:,} of {total:,} {unit}".rstrip())

        return advance


class _Said(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        say(record.getMessage())


def show_requests(*, shown: bool) -> None:
    """Write a line on stderr for each request to a service and each wait between attempts, or none."""
    log = logging.getLogger("cleave.transport")
    log.setLevel(logging.INFO if shown else logging.WARNING)
    log.propagate = False
    log.handlers = [_Said()]


@contextlib.contextmanager
def progress(*, quiet: bool) -> Iterator[Silent | LineProgress | BarProgress]:
    """Bars if a person sees stderr, else lines; nothing where quiet is asked for."""
    if quiet:
        yield Silent()
    elif not is_terminal(sys.stderr):
        yield LineProgress()
    else:
        with BarProgress() as bars:
            yield bars


def _write(stream: TextIO, text: str) -> None:
    """Write at once; what the stream's encoding lacks goes as an escape."""
    encoding = stream.encoding or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        text = text.replace("±", "+/-").encode(encoding, "backslashreplace").decode(encoding)
    stream.write(text)
    stream.flush()


def _width(text: str) -> int:
    """Columns on a terminal: wide letters take two, combining marks none."""
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )


def _pad(text: str, width: int, justify: Justify) -> str:
    blank = " " * (width - _width(text))
    return text + blank if justify == "left" else blank + text
