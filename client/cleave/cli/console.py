"""Terminal output: results to stdout, everything else to stderr, and nothing raw from a file or a service.

Names and texts of a CSV may contain anything (see cleave.text.printable). rich's markup is not interpreted.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import shutil
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from typing import TextIO

from cleave.table.progress import BarProgress, Silent
from cleave.text.printable import printable
from cleave_shared.errors import CleaveWarning, InputError

LINE_SECONDS = 60.0


def out(text: str) -> None:
    """Print results on stdout. Raises InputError if that fails, BrokenPipeError if the reader closed it."""
    try:
        _write(sys.stdout, text + "\n")
    except BrokenPipeError:
        raise
    except OSError as error:
        raise unwritable(error) from None


def unwritable(error: OSError) -> InputError:
    """Return the error for a closed or full stdout. Nothing more is written to it."""
    abandon_stdout()
    hint = "is the disk full?" if error.errno == errno.ENOSPC else "is it open for writing?"
    return InputError(f"stdout: cannot be written ({error.strerror})", hint=hint)


def say(text: str) -> None:
    """Print everything else on stderr. If that fails, the text is lost."""
    with contextlib.suppress(OSError):
        _write(sys.stderr, text + "\n")


def show_warnings(*, quiet: bool) -> None:
    """Print Cleave's own warnings on stderr, each text once; none if `quiet`."""
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


def report_error(message: str, hint: str | None = None, excerpt: str = "") -> None:
    say(f"error: {printable(message)}")
    for line in excerpt.splitlines():
        say(f"  {printable(line)}")
    if hint:
        say(f"hint: {printable(hint)}")


def is_terminal(stream: object) -> bool:
    """True if a person reads this stream."""
    return bool(getattr(stream, "isatty", lambda: False)())


def width() -> int:
    """Characters per line of the terminal."""
    return shutil.get_terminal_size().columns


def confirm(question: str) -> bool:
    """Ask on the terminal. Only "y" or "yes" confirms."""
    _write(sys.stderr, f"{question} [y/N] ")
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def abandon_stdout() -> None:
    """Write nothing more to stdout, also when Python closes it: its reader left, or its disk is full."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class LineProgress:
    """Progress for a log: one line on stderr per minute of a stage. Any thread may advance a stage."""

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
    """Switch on or off: one line on stderr per request to a service, and per wait between attempts."""
    log = logging.getLogger("cleave.transport")
    log.setLevel(logging.INFO if shown else logging.WARNING)
    log.propagate = False
    log.handlers = [_Said()]


@contextlib.contextmanager
def progress(*, quiet: bool) -> Iterator[Silent | LineProgress | BarProgress]:
    """Show bars if a person reads stderr, else lines; nothing if `quiet`."""
    if quiet:
        yield Silent()
    elif not is_terminal(sys.stderr):
        yield LineProgress()
    else:
        with BarProgress() as bars:
            yield bars


def _write(stream: TextIO, text: str) -> None:
    """Write at once. Characters that the stream's encoding lacks become escapes."""
    encoding = stream.encoding or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        text = text.replace("±", "+/-").encode(encoding, "backslashreplace").decode(encoding)
    stream.write(text)
    stream.flush()
