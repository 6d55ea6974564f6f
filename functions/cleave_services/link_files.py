"""Objects of a folder, for a service on this machine: opened step by step from the folder, through no symbolic link."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from io import BufferedReader

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # a pipe without a writer must not hold us


class Broken(Exception):  # noqa: N818 - never leaves cleave_services.links
    """`reason` follows the name of the object; neither holds anything of a link or of an answer."""

    def __init__(self, reason: str, hint: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.hint = hint


def read(folder: str, name: str, size: int) -> bytes:
    """Exactly `size` bytes of the object `name`. Raises Broken."""
    with _object(folder, name, size) as file:
        content = file.read(size)
        if len(content) != size:
            raise _other_size()
    return content


def read_into(folder: str, name: str, into: memoryview) -> None:
    """The same, as many as there is room for."""
    with _object(folder, name, len(into)) as file:
        if file.readinto(into) != len(into):
            raise _other_size()


@contextlib.contextmanager
def _object(folder: str, name: str, size: int) -> Iterator[BufferedReader]:
    """What is to be read of it. Raises Broken, also for what its block raises."""
    *folders, last = name.split("/")
    try:
        with _opened(folder, folders, make=False) as inside, _closing(os.open(last, _FILE, dir_fd=inside)) as handle:
            found = os.fstat(handle)
            if not stat.S_ISREG(found.st_mode):
                raise Broken("is no file")
            if found.st_size != size:
                raise _other_size()
            with os.fdopen(os.dup(handle), "rb") as file:
                yield file
    except OSError as error:
        raise Broken(f"cannot be read ({error.strerror})") from None


def _other_size() -> Broken:
    return Broken("has another size than the request says")


def write(folder: str, name: str, content: bytes) -> None:
    """A new object `name`. Raises Broken, also where there is one; nothing is left of one that cannot be written."""
    *folders, last = name.split("/")
    try:
        with _opened(folder, folders, make=True) as inside:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            handle = os.open(last, flags, 0o600, dir_fd=inside)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(content)
            except OSError:
                os.unlink(last, dir_fd=inside)
                raise
    except OSError as error:
        raise Broken(f"cannot be written ({error.strerror})") from None


@contextlib.contextmanager
def _opened(folder: str, below: list[str], *, make: bool) -> Iterator[int]:
    with contextlib.ExitStack() as stack:
        inside = stack.enter_context(_closing(os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)))
        for part in below:
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, 0o700, dir_fd=inside)
            inside = stack.enter_context(_closing(os.open(part, _FOLDER, dir_fd=inside)))
        yield inside


@contextlib.contextmanager
def _closing(handle: int) -> Iterator[int]:
    try:
        yield handle
    finally:
        os.close(handle)
