"""The newest version of every table that was seen here: a store that shows an older one is not believed."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cleave.files import write_atomically
from cleave_shared.errors import InputError

_FILE = "tables.json"


def memory_path() -> Path:
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state"
    return Path(base) / "cleave" / _FILE


class Memory:
    """Of one user on one machine. Holds tags, ids and numbers, nothing of a table."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path or memory_path()

    def newest(self, tag: str) -> tuple[str, int] | None:
        """The id and the version of the table last seen under `tag`."""
        found = self._load().get(tag)
        return (str(found[0]), int(found[1])) if found else None

    def remember(self, tag: str, table_id: str, version: int) -> None:
        """Of one table an older version never takes a newer one's place: several here may ask and change it."""
        with self._locked():
            known = self._load()
            found = known.get(tag)
            if found is None or found[0] != table_id or found[1] < version:
                known[tag] = [table_id, version]
                self._save(known)

    def forget(self, tag: str) -> None:
        with self._locked():
            known = self._load()
            if known.pop(tag, None):
                self._save(known)

    def _load(self) -> dict[str, Any]:
        try:
            content = json.loads(self._path.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError):
            content = None
        if not isinstance(content, dict) or not all(
            isinstance(each, list) and len(each) == 2 and isinstance(each[0], str) and type(each[1]) is int
            for each in content.values()
        ):
            raise InputError(
                f"{self._path}: cannot be read",
                hint="it holds the newest version seen of each stored table; if it is lost, delete it",
            )
        return content

    def _save(self, known: dict[str, Any]) -> None:
        write_atomically(self._path, json.dumps(known, indent=1) + "\n", error=InputError, overwrite=True)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            handle = os.open(self._path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise InputError(
                f"{self._path}: cannot be written ({error.strerror})",
                hint="the newest version seen of each table is kept there; XDG_STATE_HOME names another place",
            ) from None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)  # held for a millisecond; it ends with its process
            yield
        finally:
            os.close(handle)
