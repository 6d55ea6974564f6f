"""Objects of stores, read and written through the links in a request: presigned URLs.

A service has no rights of its own in any store. It follows a link only into its allowed locations, and only below the
set in the request's path:

    https://BUCKET.s3.REGION.amazonaws.com/   a bucket, from the environment: CLEAVE_STORE_URLS, separated by commas
    file:///FOLDER/                           a folder, only if the program that runs the service allows it (`allow`)

A link is a credential, so no part of it is logged or in an error. Redirects are not followed, and the environment's
proxies are not used. An error names the object's position in the request, and the status or class of the failure.
"""

from __future__ import annotations

import contextlib
import hashlib
import mmap
import os
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote, unquote

from cleave_services import link_files
from cleave_services.link_files import Broken
from cleave_services.link_places import PRINTABLE, Base, base_of, read_twice
from cleave_shared import limits, messages
from cleave_shared.errors import WireError
from cleave_shared.requests import SET, Linked, StoredAnswer

if TYPE_CHECKING:
    from cleave_services.link_http import Connections

VARIABLE = "CLEAVE_STORE_URLS"
TABLES, RESULTS = "tables", "results"  # kinds in /KIND/SET/OBJECT
_LEAST_SECONDS = 5.0
_LATE = WireError(
    f"the objects could not be read within {limits.LINK_SECONDS:g} s",
    hint="send the request again, or request fewer at once",
)


class LinkedContent(Protocol):
    def read(self, buffer: Buffer) -> memoryview:
        """Return the bytes, perhaps in `buffer`. Raises WireError if they are not the expected ones."""
        ...


@dataclass(frozen=True, slots=True)
class _InMemory:
    content: bytes

    def __reduce__(self) -> Any:
        return _InMemory, (memoryview(self.content),)

    def read(self, _: Buffer) -> memoryview:
        return memoryview(self.content)


@dataclass(frozen=True, slots=True)
class _InFolder:
    """An object in a folder. Errors name it by `number`."""

    folder: str
    name: str
    size: int
    sha256: str
    number: int

    def read(self, buffer: Buffer) -> memoryview:
        into = buffer.reserve(self.size)

        def read() -> memoryview:
            link_files.read_into(self.folder, self.name, into)
            return into

        try:
            return read_twice(read, self.sha256)
        except Broken as broken:
            raise WireError(f"object {self.number} {broken.reason}", hint=broken.hint) from None


class Links:
    """The locations that links may lead to. Thread-safe."""

    def __init__(self, bases: Sequence[str]) -> None:
        """`bases`: URLs that end with a slash. Raises ValueError for one that is not a store's location."""
        self._bases = tuple(map(base_of, bases))

    def below(self, table_set: str) -> TableLinks:
        """Links below the set in a request's path. Raises WireError."""
        if not re.fullmatch(SET, table_set):
            raise WireError("the set in the path is not 32 hexadecimal digits")
        return TableLinks(self._bases, table_set)


class TableLinks:
    """The objects of one set, to which links may lead. Thread-safe."""

    def __init__(self, bases: Sequence[Base], table_set: str) -> None:
        self._bases = bases
        self._set = table_set

    def read(self, objects: Sequence[Linked], *, kind: str = TABLES, what: str = "") -> list[bytes]:
        """The content of each object; several are read at once. Raises WireError: before reading, for a link that leads
        elsewhere; else for the first object that is missing, changed or late.

        `kind`: RESULTS for questions and answers of a job. `what`: name in errors, by default "object" and its number.
        """
        addresses = [self._address(each.link, kind, what or f"object {at}") for at, each in enumerate(objects)]
        contents: list[bytes] = [b""] * len(objects)

        def fetch(at: int, connections: Connections) -> None:
            base, rest = addresses[at]
            contents[at] = base.content(rest, objects[at], connections)

        _each(len(objects), fetch, what)
        return contents

    def contents(self, objects: Sequence[Linked]) -> list[LinkedContent]:
        """Like `read`, but an object in a folder is read by the process that needs it."""
        addresses = [self._address(each.link, TABLES, f"object {at}") for at, each in enumerate(objects)]
        if not all(base.is_shared for base, _ in addresses):
            return [_InMemory(content) for content in self.read(objects)]
        return [
            _InFolder(base.path, rest, each.bytes, each.sha256, at)
            for at, ((base, rest), each) in enumerate(zip(addresses, objects, strict=True))
        ]

    def write(self, link: str, content: bytes) -> StoredAnswer:
        """Write an answer to `link`, if no object exists there. Raises WireError."""
        base, rest = self._address(link, RESULTS, "result")

        def put(_: int, connections: Connections) -> None:
            base.write(rest, content, connections)

        _each(1, put, "the result")
        return StoredAnswer(bytes=len(content), sha256=hashlib.sha256(content).hexdigest())

    def _address(self, link: str, kind: str, what: str) -> tuple[Base, str]:
        """The link's location, and what follows its URL. Raises WireError."""
        base = next((each for each in self._bases if link.startswith(each.url)), None)
        if base is None or not PRINTABLE.fullmatch(link) or "#" in link:
            raise WireError(
                f"{what}: its link leads to no store of this service",
                hint=f"{VARIABLE} names the buckets a service reads, `cleave serve --store` the folder",
            )
        rest = link[len(base.url) :]
        path = rest.partition("?")[0]
        key = unquote(path)
        parts = key.split("/")
        named = re.fullmatch(rf"{kind}/{self._set}/[0-9a-f]{{32}}", "/".join(parts[-3:]))
        # only one spelling, so `path` is sent as checked
        plain = quote(key) == path and not {"", ".", ".."} & set(parts)
        if not (named and plain and base.contains(rest, "/".join(parts[-3:]))):
            raise WireError(
                f"{what}: its link leads to no object of the set in the path", hint=f"they are {kind}/SET/..."
            )
        return base, rest


def read(
    objects: Sequence[messages.Bytes | Linked], links: TableLinks | None, result: str | None
) -> Sequence[messages.Bytes]:
    """The content of a request's objects: inline without `links`, else linked. `result`: link for a stored answer.

    Raises WireError.
    """
    if links is None and result is not None:
        raise WireError("result: only where the path has a set")
    linked = [each for each in objects if isinstance(each, Linked)]
    if links is not None and len(linked) == len(objects):
        return links.read(linked)
    if links is not None or linked:
        raise WireError("objects: they are linked where the path has a set, and inline where it has none")
    return [each for each in objects if not isinstance(each, Linked)]


def seconds_left(limit: float, reading: float) -> float:
    """Remaining seconds of a request's `limit` after `reading` its objects, at least a few."""
    return max(min(_LEAST_SECONDS, limit), limit - reading)


_allowed: tuple[str, ...] = ()
_own: Links | None = None


def own() -> Links:
    """The links that this process's service may read, from `allow` and the environment. Raises WireError (500)."""
    global _own  # noqa: PLW0603 - the configuration of the process, read once
    if _own is None:
        text = os.environ.get(VARIABLE, "")
        bases = [base.strip() for base in text.split(",") if base.strip()]
        try:
            if any(base_of(base).by_program for base in bases):
                raise ValueError
            _own = Links([*_allowed, *bases])
        except ValueError:
            raise WireError(f"{VARIABLE} of this service is not a list of URLs of buckets", code="settings") from None
    return _own


def allow(bases: Sequence[str]) -> None:
    """Let this process's service also read these locations."""
    global _own, _allowed
    _allowed, _own = tuple(bases), None


def _each(count: int, fetch: Callable[[int, Connections], None], what: str = "") -> None:
    """Call `fetch` for 0..count, LINK_READS at once. All have ended when this returns, or soon after it raises."""
    from cleave_services.link_http import Connections  # noqa: PLC0415 - TLS takes 15 ms, and most requests have no link

    until = time.monotonic() + limits.LINK_SECONDS
    waiting, failed = deque(range(count)), threading.Event()
    lines = [Connections(until, failed) for _ in range(min(limits.LINK_READS, count))]

    def work(connections: Connections) -> None:
        with contextlib.closing(connections):
            for at in _taken(waiting):
                if failed.is_set():
                    return
                try:
                    fetch(at, connections)
                except Broken as broken:
                    failed.set()
                    raise WireError(f"{what or f'object {at}'} {broken.reason}", hint=broken.hint) from None

    pool = ThreadPoolExecutor(max(1, len(lines)), "links")
    try:
        futures = [pool.submit(work, line) for line in lines]
        done, late = wait(futures, limits.LINK_SECONDS)
        failures = [error for each in done if (error := each.exception()) is not None]
        if late or failures:
            failed.set()
            for line in lines:
                line.cut()  # so that no thread waits for more data
            raise failures[0] if failures else _LATE
    finally:
        pool.shutdown(wait=not failed.is_set(), cancel_futures=True)


def _taken(waiting: deque[int]) -> Iterator[int]:
    while True:
        try:
            yield waiting.popleft()
        except IndexError:
            return


_LARGE_PAGE = 2 << 20


class Buffer:
    """Memory that is reused for one object after another."""

    def __init__(self) -> None:
        self._memory: mmap.mmap | None = None

    def reserve(self, size: int) -> memoryview:
        """Return `size` bytes, which the next call reuses. They are in huge pages; a forked process has its own."""
        if self._memory is None or len(self._memory) < size:
            length = -(-max(size, 1) // _LARGE_PAGE) * _LARGE_PAGE
            self._memory = mmap.mmap(-1, length, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            with contextlib.suppress(OSError):  # the kernel has none
                self._memory.madvise(mmap.MADV_HUGEPAGE)
        return memoryview(self._memory)[:size]
