"""The command's process: protect its secrets from other users, and end within a second of a signal.

Children need no care here: the kernel ends each with its parent (cleave_shared.children).
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import termios
import threading
import time
from collections.abc import Collection
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from cleave.cli import passphrase
from cleave_shared.core_dumps import refuse_core_dumps

# seconds from a signal to the end, even if code cannot be interrupted
GRACE = 0.6
_REAP_SECONDS = 0.1  # a killed process is gone in one or two milliseconds, except on a busy machine
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_ours = False
_terminal: list[Any] = []  # what stdin's terminal was like, if it is one
_SHOW_CURSOR = "\x1b[?25h"  # a progress bar hides it


def protect() -> None:
    """Call it first, if the process is the command's own: no core dump, no debugger, no readable passphrase."""
    global _ours  # noqa: PLW0603 - a fact about the process
    _ours = True
    _open_closed_streams()
    with contextlib.suppress(termios.error):  # no terminal
        _terminal[:] = termios.tcgetattr(0)
    refuse_core_dumps()
    passphrase.hide()


def _open_closed_streams() -> None:
    """Open /dev/null for each closed standard stream. Otherwise the next file or socket would get its number.

    Reading from it finds nothing; writing to stdout fails as in other programs.
    """
    for number, (name, mode, access) in enumerate(
        (("stdin", "r", os.O_RDONLY), ("stdout", "w", os.O_RDONLY), ("stderr", "w", os.O_WRONLY))
    ):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, access)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))


def leave(code: int) -> NoReturn:
    """End now, even if threads are running or waiting. The terminal is restored."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    end_descendants()
    _reap()
    _restore_terminal()
    os._exit(code)


def _restore_terminal() -> None:
    """A line editor or a question for a passphrase may not have come to that."""
    with contextlib.suppress(termios.error, OSError):  # it is gone
        if _terminal and os.tcgetpgrp(0) == os.getpgrp() and termios.tcgetattr(0) != _terminal:
            termios.tcsetattr(0, termios.TCSANOW, _terminal)


def _reap() -> None:
    """Reap killed children, so that their resource usage counts as this process's."""
    end = time.monotonic() + _REAP_SECONDS
    with contextlib.suppress(ChildProcessError):  # none is left
        while time.monotonic() < end:
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                time.sleep(0.001)


def descendants() -> set[int]:
    """All processes started by this one, or by those."""
    started: set[int] = set()
    rest = [os.getpid()]
    while rest:
        with contextlib.suppress(OSError):  # no file can be opened
            for listing in Path(f"/proc/{rest.pop()}/task").glob("*/children"):
                with contextlib.suppress(OSError):  # it has ended
                    children = set(map(int, listing.read_text().split())) - started
                    started |= children
                    rest += children
    return started


def end_descendants(but: Collection[int] = ()) -> None:
    """Kill all descendants except those in `but`."""
    for each in descendants().difference(but):
        with contextlib.suppress(OSError):
            os.kill(each, signal.SIGKILL)


class Signals:
    """Turns SIGINT, SIGTERM and SIGHUP into KeyboardInterrupt, and remembers the signal.

    DuckDB replaces the interrupt by its own error, and a child ended by the signal looks like a crash; hence it
    remembers. If a process of our own still runs after GRACE seconds, it ends without cleaning up.
    """

    def __init__(self) -> None:
        self.number: int | None = None
        self._before: dict[signal.Signals, object] = {}
        self._hook_before = sys.unraisablehook

    @property
    def code(self) -> int:
        """The exit code that shells show for a program ended by this signal."""
        return 128 + (self.number or signal.SIGINT)

    def __enter__(self) -> Signals:
        for each in _SIGNALS:
            if signal.getsignal(each) != signal.SIG_IGN:  # nohup ignores it
                self._before[each] = signal.signal(each, self._notice)
        self._hook_before, sys.unraisablehook = sys.unraisablehook, self._lost
        return self

    def __exit__(self, *_: object) -> None:
        sys.unraisablehook = self._hook_before
        if self.number is None or not _ours:  # otherwise a second signal must not disturb the end
            for each, handler in self._before.items():
                signal.signal(each, handler)  # type: ignore[arg-type]  # a value that signal.signal returned

    def _notice(self, number: int, _frame: FrameType | None) -> None:
        if self.number is None:
            self.number = number
            if _ours:
                threading.Thread(target=self._end, daemon=True).start()
        raise KeyboardInterrupt

    def _lost(self, lost: sys.UnraisableHookArgs) -> None:
        """Print no traceback of an interrupt that Python dropped in a callback, such as an import's. `_end` ends the
        process.
        """
        if not isinstance(lost.exc_value, KeyboardInterrupt):
            self._hook_before(lost)

    def _end(self) -> None:
        time.sleep(GRACE)
        with contextlib.suppress(Exception):
            if sys.stderr.isatty():
                sys.stderr.write(_SHOW_CURSOR)
        leave(self.code)
