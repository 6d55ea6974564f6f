"""The command's own process: hide its secrets from others on this machine, and end within a second of a signal.

Our own children need no care here: the kernel ends each with its parent (cleave_shared.children).
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

# From a signal to the end, whatever is under way: code that cannot be interrupted, or a service embedded here.
GRACE = 0.6
_REAP_SECONDS = 0.1  # a killed process is gone in one or two milliseconds, if not on a busy machine
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_ours = False
_terminal: list[Any] = []  # what stdin's terminal was like, if it is one
_SHOW_CURSOR = "\x1b[?25h"  # a progress bar hides it


def protect() -> None:
    """First of all, where the process is the command's own: no core dump, no debugger, no passphrase to be seen."""
    global _ours  # noqa: PLW0603 - a fact about the process
    _ours = True
    _open_closed_streams()
    with contextlib.suppress(termios.error):  # no terminal
        _terminal[:] = termios.tcgetattr(0)
    refuse_core_dumps()
    passphrase.hide()


def _open_closed_streams() -> None:
    """Open the null device in place of each closed standard stream, or the next file or socket would take its number.

    Reading from it finds nothing, and writing to stdout is the error that it is to other programs.
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
    """End now, even if threads are still at work or wait for a program; the terminal is as it was before."""
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
    """Reap killed children, so that none is left and their usage counts as this process's."""
    end = time.monotonic() + _REAP_SECONDS
    with contextlib.suppress(ChildProcessError):  # there is none any more
        while time.monotonic() < end:
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                time.sleep(0.001)


def descendants() -> set[int]:
    """Every process that this one has started, and those that these have."""
    started: set[int] = set()
    rest = [os.getpid()]
    while rest:
        with contextlib.suppress(OSError):  # no file can be opened
            for listing in Path(f"/proc/{rest.pop()}/task").glob("*/children"):
                with contextlib.suppress(OSError):  # gone since
                    children = set(map(int, listing.read_text().split())) - started
                    started |= children
                    rest += children
    return started


def end_descendants(but: Collection[int] = ()) -> None:
    """Kill them at once, except those in `but`."""
    for each in descendants().difference(but):
        with contextlib.suppress(OSError):
            os.kill(each, signal.SIGKILL)


class Signals:
    """Turns SIGINT, SIGTERM and SIGHUP into KeyboardInterrupt, and remembers which it was.

    Remembers, because DuckDB makes an error of its own of it, and because a child that it ended looks like one that
    died. If a process of our own is still there after GRACE seconds, it ends without cleaning up.
    """

    def __init__(self) -> None:
        self.number: int | None = None
        self._before: dict[signal.Signals, object] = {}
        self._hook_before = sys.unraisablehook

    @property
    def code(self) -> int:
        """Return the exit code that shells show for a program ended by this signal."""
        return 128 + (self.number or signal.SIGINT)

    def __enter__(self) -> Signals:
        for each in _SIGNALS:
            if signal.getsignal(each) != signal.SIG_IGN:  # as nohup asks for
                self._before[each] = signal.signal(each, self._notice)
        self._hook_before, sys.unraisablehook = sys.unraisablehook, self._lost
        return self

    def __exit__(self, *_: object) -> None:
        sys.unraisablehook = self._hook_before
        if self.number is None or not _ours:  # else no second signal is to disturb the end
            for each, handler in self._before.items():
                signal.signal(each, handler)  # type: ignore[arg-type]  # what signal.signal gave

    def _notice(self, number: int, _frame: FrameType | None) -> None:
        if self.number is None:
            self.number = number
            if _ours:
                threading.Thread(target=self._end, daemon=True).start()
        raise KeyboardInterrupt

    def _lost(self, lost: sys.UnraisableHookArgs) -> None:
        """Print no traceback of an interrupt that Python dropped in a callback, such as an import's; `_end` ends us."""
        if not isinstance(lost.exc_value, KeyboardInterrupt):
            self._hook_before(lost)

    def _end(self) -> None:
        time.sleep(GRACE)
        with contextlib.suppress(Exception):
            if sys.stderr.isatty():
                sys.stderr.write(_SHOW_CURSOR)
        leave(self.code)
