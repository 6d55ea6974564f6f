"""Locations that links may lead to: folders of this machine and buckets, by a table of schemes."""

from __future__ import annotations

import hashlib
import re
import threading
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import unquote, urlsplit

from cleave_services import link_files
from cleave_services.link_files import Broken
from cleave_shared import limits
from cleave_shared.requests import Linked

if TYPE_CHECKING:
    from cleave_services.link_http import Connections

_Bytes = TypeVar("_Bytes", bytes, memoryview)
PRINTABLE = re.compile(r"[!-\[\]-~]+")  # what a URL is written in; no backslash, which some take for a slash
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


class Base(ABC):
    """A location that links may lead to; their URLs begin with `url`.

    `by_program`: only the program that runs the service can allow it. `is_shared`: every process can read its objects.
    """

    by_program = False
    is_shared = False

    def __init__(self, url: str) -> None:
        """Raises ValueError for a URL that is not a location of this kind."""
        parts = urlsplit(url)
        fine = url.endswith("/") and PRINTABLE.fullmatch(url) and "?" not in url and "#" not in url
        if not (fine and self.is_host(parts.netloc)):
            raise ValueError("not the URL of a bucket or a folder")
        self.url = url
        self.path = unquote(parts.path)

    @staticmethod
    @abstractmethod
    def is_host(netloc: str) -> bool:
        """True if such a URL may name this host."""

    def contains(self, rest: str, name: str) -> bool:  # noqa: ARG002 - a prefix and a signature may stand around it
        """True if `rest` of a link may be that of the object `name`."""
        return True

    @abstractmethod
    def content(self, rest: str, wanted: Linked, connections: Connections) -> bytes:
        """The content, if it is the expected one. Raises Broken."""

    @abstractmethod
    def write(self, rest: str, content: bytes, connections: Connections) -> None:
        """Write a new object. Raises Broken."""


class _Folder(Base):
    by_program = True
    is_shared = True

    @staticmethod
    def is_host(netloc: str) -> bool:
        return not netloc

    def contains(self, rest: str, name: str) -> bool:
        return rest == name  # no prefix, nothing signed

    def content(self, rest: str, wanted: Linked, connections: Connections) -> bytes:  # noqa: ARG002 - of buckets
        return read_twice(lambda: link_files.read(self.path, rest, wanted.bytes), wanted.sha256)

    def write(self, rest: str, content: bytes, connections: Connections) -> None:  # noqa: ARG002 - of buckets
        link_files.write(self.path, rest, content)


class _Bucket(Base):
    @staticmethod
    def is_host(netloc: str) -> bool:
        host = _host(netloc)
        return host != "" and "@" not in host

    def content(self, rest: str, wanted: Linked, connections: Connections) -> bytes:
        name = (self.url, rest.partition("?")[0], wanted.sha256)
        cached, tag = _warm.find(name)
        new_tag = ""

        def read() -> bytes:
            nonlocal new_tag
            content, new_tag = connections.get(self.url, rest, wanted.bytes, tag)
            return cached if content is None else content  # None: the store accepts the link; the object is unchanged

        checked = read_twice(read, wanted.sha256)
        if checked is not cached and new_tag and len(checked) >= limits.WARM_LEAST_BYTES:
            _warm.add(name, checked, new_tag)
        return checked

    def write(self, rest: str, content: bytes, connections: Connections) -> None:
        connections.put(self.url, rest, content)


class _LocalBucket(_Bucket):
    """A store on this machine, without TLS."""

    @staticmethod
    def is_host(netloc: str) -> bool:
        return _host(netloc) in _LOOPBACK


def _host(netloc: str) -> str:
    return netloc.rpartition(":")[0] if re.search(r":\d+$", netloc) else netloc


_SCHEMES: dict[str, type[Base]] = {"file": _Folder, "https": _Bucket, "http": _LocalBucket}


def base_of(url: str) -> Base:
    """The location at a URL that ends with a slash. Raises ValueError."""
    if (kind := _SCHEMES.get(urlsplit(url).scheme)) is None:
        raise ValueError("not the URL of a bucket or a folder")
    return kind(url)


def read_twice(read: Callable[[], _Bytes], sha256: str) -> _Bytes:
    """Return the result of `read`. If its digest is wrong, read again: a bit may have flipped in transit. Raises
    Broken.
    """
    for _ in range(2):
        content = read()
        if hashlib.sha256(content).hexdigest() == sha256:
            return content
    raise Broken("is not what its digest says")


class _Warm:
    """Cache of large objects from earlier requests, up to WARM_BYTES.

    The store still decides whether a link may read its object: the request contains the object's tag, and the store
    answers "not modified", or refuses. So no caller gets an object that was read for another.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: OrderedDict[tuple[str, str, str], tuple[bytes, str]] = OrderedDict()

    def find(self, name: tuple[str, str, str]) -> tuple[bytes, str]:
        """Content and tag; both empty if not cached."""
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
