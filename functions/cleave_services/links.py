"""Objects of stores, read and written by the links that a request brings: presigned URLs.

A service has no rights of its own in any store. A link counts where it leads into one of the places this service was
given, below the set that stands in the request's path, and nowhere else:

    https://BUCKET.s3.REGION.amazonaws.com/   a bucket, from the environment: CLEAVE_STORE_URLS, with commas between
    file:///FOLDER/                           a folder, only as the program says that holds the service (`allow`)

A link is a credential, so nothing of it is logged or put into an error. No redirect is followed, and no proxy of the
environment is used. An error names the object's place in the request, and the status or class of the failure.
"""

from __future__ import annotations

import contextlib
import hashlib
import mmap
import os
import re
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from urllib.parse import quote, unquote, urlsplit

from cleave_services import link_files
from cleave_services.link_files import Broken
from cleave_shared import limits, messages
from cleave_shared.errors import WireError
from cleave_shared.requests import SET, Linked, StoredAnswer

if TYPE_CHECKING:
    from cleave_services.link_http import Connections

VARIABLE = "CLEAVE_STORE_URLS"
TABLES, RESULTS = "tables", "results"  # kinds in /KIND/SET/OBJECT
Bytes = TypeVar("Bytes", bytes, memoryview)
_PRINTABLE = re.compile(r"[!-\[\]-~]+")  # what a URL is written in; no backslash, which some take for a slash
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_LEAST_SECONDS = 5.0
_LATE = WireError(
    f"the objects could not be read within {limits.LINK_SECONDS:g} s",
    hint="send the request again, or request fewer at once",
)


@dataclass(frozen=True, slots=True)
class _Address:
    """Destination of a link: `rest` follows `base`."""

    base: str
    rest: str


class Content(Protocol):
    """An object's bytes."""

    def read(self, buffer: Buffer) -> memoryview:
        """Return them, perhaps in `buffer`. Raises WireError where they are not what they must be."""
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
    """Object in a folder; an error names it by `number`."""

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
            return _read_twice(read, self.sha256)
        except Broken as broken:
            raise WireError(f"object {self.number} {broken.reason}", hint=broken.hint) from None


class Links:
    """The places that links may lead to. Thread-safe."""

    def __init__(self, bases: Sequence[str]) -> None:
        """`bases`: URLs that end in a slash. Raises ValueError for one that is no place of a store."""
        for base in bases:
            _require_base(base)
        self._bases = tuple(bases)

    def below(self, table_set: str) -> TableLinks:
        """Links below the set in a request's path. Raises WireError."""
        if not re.fullmatch(SET, table_set):
            raise WireError("the set in the path is not 32 hexadecimal digits")
        return TableLinks(self._bases, table_set)


class TableLinks:
    """The objects of one set that links may lead to. Thread-safe."""

    def __init__(self, bases: Sequence[str], table_set: str) -> None:
        self._bases = bases
        self._set = table_set

    def read(self, objects: Sequence[Linked], *, kind: str = TABLES, what: str = "") -> list[bytes]:
        """The content of each, several of them read at once. Raises WireError before any is read for a link that leads
        elsewhere, else for the first that is missing, changed or late.

        `kind`: RESULTS for questions and answers of a job.
        `what` an error calls them: else objects, by number.
        """
        addresses = [self._address(each.link, kind, what or f"object {at}") for at, each in enumerate(objects)]
        contents: list[bytes] = [b""] * len(objects)

        def fetch(at: int, connections: Connections) -> None:
            contents[at] = _content(addresses[at], objects[at], connections)

        _each(len(objects), fetch, what)
        return contents

    def contents(self, objects: Sequence[Linked]) -> list[Content]:
        """Like `read`, but the process that needs an object of a folder reads it."""
        addresses = [self._address(each.link, TABLES, f"object {at}") for at, each in enumerate(objects)]
        if any(not address.base.startswith("file:") for address in addresses):
            return [_InMemory(content) for content in self.read(objects)]
        return [
            _InFolder(_folder(address.base), address.rest, each.bytes, each.sha256, at)
            for at, (address, each) in enumerate(zip(addresses, objects, strict=True))
        ]

    def write(self, link: str, content: bytes) -> StoredAnswer:
        """Put an answer where `link` says, if nothing is there. Raises WireError."""
        address = self._address(link, RESULTS, "result")

        def put(_: int, connections: Connections) -> None:
            if address.base.startswith("file:"):
                link_files.write(_folder(address.base), address.rest, content)
            else:
                connections.put(address.base, address.rest, content)

        _each(1, put, "the result")
        return StoredAnswer(bytes=len(content), sha256=hashlib.sha256(content).hexdigest())

    def _address(self, link: str, kind: str, what: str) -> _Address:
        base = next((each for each in self._bases if link.startswith(each)), None)
        if base is None or not _PRINTABLE.fullmatch(link) or "#" in link:
            raise WireError(
                f"{what}: its link leads to no store of this service",
                hint=f"{VARIABLE} names the buckets a service reads, `cleave serve --store` the folder",
            )
        rest = link[len(base) :]
        path = rest.partition("?")[0]
        key = unquote(path)
        parts = key.split("/")
        named = re.fullmatch(rf"{kind}/{self._set}/[0-9a-f]{{32}}", "/".join(parts[-3:]))
        plain = quote(key) == path and not {"", ".", ".."} & set(parts)  # one spelling, so `path` is sent as checked
        within = not base.startswith("file:") or rest == "/".join(parts[-3:])  # of a folder: no prefix, nothing signed
        if not (named and plain and within):
            raise WireError(
                f"{what}: its link leads to no object of the set in the path", hint=f"they are {kind}/SET/..."
            )
        return _Address(base, rest)


def read(
    objects: Sequence[messages.Bytes | Linked], links: TableLinks | None, result: str | None
) -> Sequence[messages.Bytes]:
    """The content of a request's objects: inline without `links`, else linked. `result`: where its answer may be put.

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
    """Seconds of a request's `limit` that are left after `reading` its objects: some, however long that took."""
    return max(min(_LEAST_SECONDS, limit), limit - reading)


_allowed: tuple[str, ...] = ()
_own: Links | None = None


def own() -> Links:
    """Return the links this process's service may read: by `allow` and by the environment. Raises WireError (500)."""
    global _own  # noqa: PLW0603 - the configuration of the process, read once
    if _own is None:
        text = os.environ.get(VARIABLE, "")
        bases = [base.strip() for base in text.split(",") if base.strip()]
        try:
            if any(base.startswith("file:") for base in bases):
                raise ValueError  # a folder is for the program to allow
            _own = Links([*_allowed, *bases])
        except ValueError:
            raise WireError(f"{VARIABLE} of this service is not a list of URLs of buckets", status=500) from None
    return _own


def allow(bases: Sequence[str]) -> None:
    """Let the service of this process read these places too, besides those of the environment."""
    global _own, _allowed
    _allowed, _own = tuple(bases), None


def _require_base(base: str) -> None:
    parts = urlsplit(base)
    fine = base.endswith("/") and _PRINTABLE.fullmatch(base) is not None and "?" not in base and "#" not in base
    host = parts.netloc.rpartition(":")[0] if re.search(r":\d+$", parts.netloc) else parts.netloc
    if parts.scheme == "file":
        fine = fine and not parts.netloc
    elif parts.scheme == "http":
        fine = fine and host in _LOOPBACK  # a store on this machine
    else:
        fine = fine and parts.scheme == "https" and host != "" and "@" not in host
    if not fine:
        raise ValueError("not the URL of a bucket or a folder")


def _folder(base: str) -> str:
    return unquote(urlsplit(base).path)


def _content(address: _Address, wanted: Linked, connections: Connections) -> bytes:
    """Return the content, if it is the expected one. Raises Broken."""
    if address.base.startswith("file:"):
        folder = _folder(address.base)
        return _read_twice(lambda: link_files.read(folder, address.rest, wanted.bytes), wanted.sha256)
    name = (address.base, address.rest.partition("?")[0], wanted.sha256)
    cached, tag = _warm.find(name)
    new_tag = ""

    def read() -> bytes:
        nonlocal new_tag
        content, new_tag = connections.get(address.base, address.rest, wanted.bytes, tag)
        return cached if content is None else content  # None: the store let the link pass, and has what it had

    checked = _read_twice(read, wanted.sha256)
    if checked is not cached and new_tag and len(checked) >= limits.WARM_LEAST_BYTES:
        _warm.add(name, checked, new_tag)
    return checked


def _read_twice(read: Callable[[], Bytes], sha256: str) -> Bytes:
    """Return the result of `read`; once more where its digest is another: a bit may have flipped on the way. Raises
    Broken.
    """
    for _ in range(2):
        content = read()
        if hashlib.sha256(content).hexdigest() == sha256:
            return content
    raise Broken("is not what its digest says")


class _Warm:
    """Cache of large objects of earlier requests, up to WARM_BYTES.

    The store still decides whether a link may read its object: the request names the object's tag, and the store
    answers that nothing has changed, or refuses. So no caller gets what was read for another.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: OrderedDict[tuple[str, str, str], tuple[bytes, str]] = OrderedDict()

    def find(self, name: tuple[str, str, str]) -> tuple[bytes, str]:
        """Content and tag, both empty where it is not here."""
        with self._lock:
            if name in self._entries:
                self._entries.move_to_end(name)
            return self._entries.get(name, (b"", ""))

    def add(self, name: tuple[str, str, str], content: bytes, tag: str) -> None:
        with self._lock:
            self._entries[name] = content, tag
            self._entries.move_to_end(name)
            while sum(len(each) for each, _ in self._entries.values()) > limits.WARM_BYTES:
                self._entries.popitem(last=False)


_warm = _Warm()


def _each(count: int, fetch: Callable[[int, Connections], None], what: str = "") -> None:
    """`fetch` of 0..count, LINK_READS at once, all of them over when this returns or soon after it raises."""
    from cleave_services.link_http import Connections  # noqa: PLC0415 - TLS takes 15 ms, and most requests bring no link

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
                line.cut()  # what waits for a byte waits no longer
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
    """Memory that is used again for one object after another."""

    def __init__(self) -> None:
        self._memory: mmap.mmap | None = None

    def reserve(self, size: int) -> memoryview:
        """Return `size` bytes, which the next call reuses. In large pages; a forked process has its own."""
        if self._memory is None or len(self._memory) < size:
            length = -(-max(size, 1) // _LARGE_PAGE) * _LARGE_PAGE
            self._memory = mmap.mmap(-1, length, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            with contextlib.suppress(OSError):  # a kernel without them
                self._memory.madvise(mmap.MADV_HUGEPAGE)
        return memoryview(self._memory)[:size]
