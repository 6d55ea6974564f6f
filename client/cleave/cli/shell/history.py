"""History of questions, for this user alone: SQL may hold values that no one else should read.

In $XDG_STATE_HOME/cleave (~/.local/state/cleave), readable by its owner only. A line that begins with a space is not
kept.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from prompt_toolkit.history import FileHistory, History, InMemoryHistory

from cleave.files import PRIVATE
from cleave_shared.errors import InputError


class _Kept(FileHistory):
    """A history file; a full disk loses lines and does not end the shell."""

    def store_string(self, string: str) -> None:
        if string.startswith(" "):
            return
        with contextlib.suppress(OSError), _opened(Path(os.fsdecode(self.filename))):
            super().store_string(string)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[None]:
    """Create the file where it is missing, less the umask, and take the rights of others from one that is there.

    O_NOFOLLOW: SQL must not end up in a file that another user has put a link to.
    """
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, PRIVATE)
    try:
        os.fchmod(handle, os.fstat(handle).st_mode & PRIVATE)
        yield
    finally:
        os.close(handle)


def history_path(environment: Mapping[str, str]) -> Path:
    """Raises InputError where there is neither a state folder nor a home."""
    state = environment.get("XDG_STATE_HOME", "")
    try:
        # the specification: a relative path is to be ignored
        folder = Path(state) if os.path.isabs(state) else Path("~/.local/state").expanduser()
    except RuntimeError:
        raise InputError("history: this account has no home directory", hint="--no-history does without") from None
    return folder / "cleave" / "history"


def open_history(path: Path | None) -> History:
    """The history in `path`, made for its owner only; None: of this session.

    Raises InputError where it cannot be written, or is no file of this user's.
    """
    if path is None:
        return InMemoryHistory()
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with _opened(path):
            pass
    except OSError as error:
        raise InputError(
            f"history {path}: cannot be written ({error.strerror})", hint="--no-history does without"
        ) from None
    return _Kept(str(path))
