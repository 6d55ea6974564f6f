"""The newest state of every table that this machine saw. A store that shows an older one is refused.

A state is identified by the length of the table's audit log, which every new head makes longer. A dropped table has an
entry under a name derived from its id, which stays, whatever replaces the table.

If the file cannot be written, a warning says so and the command continues: earlier entries still count.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import TypeAdapter

from cleave.files import read_at_most, write_atomically
from cleave_shared.errors import CleaveWarning, InputError

_STATES = TypeAdapter(dict[str, tuple[str, int]])  # by tag: (id, length of its log)
_SETTLED = 1_000_000_000  # nanoseconds after which a replaced file certainly has another modification time
_MOST_BYTES = 64 << 20  # 120 bytes per table


def state_folder() -> Path:
    """The folder of this user's program state, as an absolute path.

    Raises InputError for an account without a home directory.
    """
    try:
        return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state").absolute()
    except RuntimeError:
        raise InputError("this account has no home directory", hint="set XDG_STATE_HOME") from None


class _UnwritableError(InputError):
    """The file or its folder cannot be written."""

    def __init__(self, message: str) -> None:
        hint = "it holds the newest state seen of each table; XDG_STATE_HOME names another place"
        super().__init__(message, hint=hint)


class SeenVersions:
    """The newest states that one user saw on one machine. It has tags, ids and numbers, but nothing of a table."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path or state_folder() / "cleave" / "tables.json"
        self._read: tuple[object, dict[str, tuple[str, int]]] | None = None  # (the file's identity, its states)

    def newest(self, tag: str) -> tuple[str, int] | None:
        """The id of the table last seen under `tag`, and the length of its log."""
        return self.states().get(tag)

    def states(self) -> dict[str, tuple[str, int]]:
        """All states. An unchanged file is not read again."""
        try:
            status = os.stat(self._path)
        except OSError:
            return self._load()
        identity = status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
        if self._read is not None and self._read[0] == identity:
            return self._read[1]
        states = self._load()
        self._read = (identity, states) if time.time_ns() - status.st_mtime_ns > _SETTLED else None
        return states

    def remember(self, tag: str, table_id: str, count: int) -> None:
        """Record a state, unless a newer one of the same table is recorded. Other processes may change the file at the
        same time.

        Warns if it cannot be written.
        """
        if self._has(tag, table_id, count):
            return
        try:
            with self._locked():
                if not self._has(tag, table_id, count):
                    self._save(self._load() | {tag: (table_id, count)})
        except _UnwritableError as error:
            text = (
                f"{error.message}: this machine will not notice if a store shows an older state of the table; "
                "XDG_STATE_HOME names another place"
            )
            warnings.warn(text, CleaveWarning, stacklevel=2)

    def _has(self, tag: str, table_id: str, count: int) -> bool:
        seen = self.newest(tag)
        return seen is not None and seen[0] == table_id and seen[1] >= count

    def forget(self, tag: str) -> None:
        """Raises InputError if there is an entry and the file cannot be written."""
        if self.newest(tag) is None:
            return
        with self._locked():
            states = self._load()
            if states.pop(tag, None):
                self._save(states)

    def _load(self) -> dict[str, tuple[str, int]]:
        try:
            return _STATES.validate_json(read_at_most(self._path, _MOST_BYTES, InputError), strict=True)
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except (OSError, ValueError):
            raise InputError(
                f"{self._path}: cannot be read",
                hint="it holds the newest state seen of each stored table; if it is lost, delete it",
            ) from None

    def _save(self, states: dict[str, tuple[str, int]]) -> None:
        write_atomically(self._path, json.dumps(states, indent=1) + "\n", error=_UnwritableError, overwrite=True)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            handle = os.open(self._path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise _UnwritableError(f"{self._path}: cannot be written ({error.strerror})") from None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)  # for a millisecond; it ends with the process
            yield
        finally:
            os.close(handle)
