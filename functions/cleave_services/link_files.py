"""Objects in a folder, for a service on this machine, over cleave_shared.folder_store."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from cleave_shared import folder_store
from cleave_shared.folder_store import ForeignEntry


class Broken(Exception):  # noqa: N818 - never leaves cleave_services.links
    """An object cannot be read or written. `reason` follows the object's name in errors; it contains nothing of a link
    or answer.
    """

    def __init__(self, reason: str, hint: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.hint = hint


def read(folder: str, name: str, size: int) -> bytes:
    """Exactly `size` bytes of the object `name`. Raises Broken."""
    with _translated("read"):
        content = folder_store.read(folder, name, 0, size + 1)
    if len(content) != size:
        raise _other_size()
    return content


def read_into(folder: str, name: str, into: memoryview) -> None:
    """Fill `into` with the object `name`. Raises Broken if its size differs."""
    with _translated("read"), folder_store.opened(folder, name) as (file, size):
        if size != len(into) or file.readinto(into) != len(into):
            raise _other_size()


def write(folder: str, name: str, content: bytes) -> None:
    """Write a new object. Raises Broken, also if it exists. A failed write leaves nothing."""
    with _translated("written"):
        folder_store.write(folder, name, content)


def _other_size() -> Broken:
    return Broken("has another size than the request says")


@contextlib.contextmanager
def _translated(what: str) -> Iterator[None]:
    try:
        yield
    except ForeignEntry as entry:
        raise Broken(f"is {entry.kind}, or in one: no object") from None
    except OSError as error:
        raise Broken(f"cannot be {what} ({error.strerror})") from None
