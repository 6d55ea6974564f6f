"""The newest state of every table that was seen on this machine: a store that shows an older one is refused.

The length of the table's audit log identifies a state: every head makes it longer. A table that was dropped has an
entry under a name that follows from its id. That one stays, whatever is put in the table's place.

Where the file cannot be written, a warning says so and the command goes on: what was seen before still counts.
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

_STATES = TypeAdapter(dict[str, tuple[str, int]])  # by tag: id, and length of its log
_SETTLED = 1_000_000_000  # ns since a file was written, after which another one in its place has another time
_MOST_BYTES = 64 << 20  # 120 bytes for each table


def state_folder() -> Path:
    """Return the folder of what programs of this user remember, as an absolute path.

    Raises InputError for an account without a home.
    """
    try:
        return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state").absolute()
    except RuntimeError:
        raise InputError("this account has no home directory", hint="set XDG_STATE_HOME") from None


class _UnwritableError(InputError):
    """The file, or its folder, cannot be written."""

    def __init__(self, message: str) -> None:
        hint = "it holds the newest state seen of each table; XDG_STATE_HOME names another place"
        super().__init__(message, hint=hint)


class SeenVersions:
    """The newest states that one user has seen on one machine. Holds tags, ids and numbers, nothing of a table."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path or state_folder() / "cleave" / "tables.json"
        self._read: tuple[object, dict[str, tuple[str, int]]] | None = None  # the file's identity, its states

    def newest(self, tag: str) -> tuple[str, int] | None:
        """The id of the table last seen under `tag`, and the length of its log."""
        return self.states().get(tag)

    def states(self) -> dict[str, tuple[str, int]]:
        """All that is noted. A file is not read again if it is as it was when it was read."""
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
        """Note a state, unless a newer one of the same table is noted: several here may ask and change it.

        Warns where it cannot be written.
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
        """Raises InputError where it is noted and cannot be written."""
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
            fcntl.flock(handle, fcntl.LOCK_EX)  # held for a millisecond; it ends with its process
            yield
        finally:
            os.close(handle)
