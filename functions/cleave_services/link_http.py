"""GET and PUT over presigned links, with the standard library only, because functions contain no HTTP client.

No redirects, proxies, cookies or encodings; certificates are checked. Errors name the store's status only.
"""

from __future__ import annotations

import contextlib
import http.client
import re
import socket
import ssl
import threading
import time
from functools import cache
from urllib.parse import urlsplit

from cleave_services.link_files import Broken

_TAG = re.compile(r'"[!#-~]{1,100}"')  # a strong tag; S3's have hexadecimal digits
_ATTEMPTS = 3
_PAUSE = 0.1  # seconds before the second attempt; twice as long before the third
_SILENCE = 10.0  # seconds without a byte
_PASSING = (500, 502, 503, 504)  # S3: InternalError, SlowDown
_HINTS = {
    400: "the link may have expired: send the request again, and check the clock of the client",
    403: "the link has expired, or its signer may not read or write that object: send the request again, and check "
    "the clock of the client",
    404: "the object is gone: send the request again, and verify the table if it stays so",
    412: "an object of that name already exists",
}


class Connections:
    """Connections of one thread, reused for objects of the same host. Another thread may call `cut`."""

    def __init__(self, until: float, stopped: threading.Event) -> None:
        """`until`: deadline, in time.monotonic's seconds. `stopped`: once set, there are no further attempts."""
        self._until = until
        self._stopped = stopped
        self._open: dict[str, http.client.HTTPConnection] = {}
        self._line: socket.socket | None = None  # of an answer after which the connection closes

    def get(self, base: str, rest: str, size: int, cached: str = "") -> tuple[bytes | None, str]:
        """Exactly `size` bytes, and the store's tag for them. The bytes are None if the tag is still `cached`.

        Raises Broken.
        """
        return self._try(base, "GET", rest, None, size, cached)

    def put(self, base: str, rest: str, content: bytes) -> None:
        """Raises Broken, also if an object of that name exists."""
        self._try(base, "PUT", rest, content, 0)

    def close(self) -> None:
        for connection in self._open.values():
            connection.close()

    def cut(self) -> None:
        for line in (self._line, *(connection.sock for connection in [*self._open.values()])):
            if line is not None:
                with contextlib.suppress(OSError):
                    line.shutdown(socket.SHUT_RDWR)

    def _try(
        self, base: str, method: str, rest: str, content: bytes | None, size: int, cached: str = ""
    ) -> tuple[bytes | None, str]:
        for attempt in range(_ATTEMPTS):
            last = attempt + 1 == _ATTEMPTS
            try:
                return self._once(base, method, rest, content, size, cached)
            except _Passing as passing:
                self._drop(base)
                if last or self._left() <= 0 or self._stopped.wait(_PAUSE * 2**attempt):
                    raise Broken(passing.reason, "send the request again") from None
            except BaseException:
                self._drop(base)  # the rest of an answer must not be read as the next one
                raise
        raise AssertionError

    def _once(
        self, base: str, method: str, rest: str, content: bytes | None, size: int, cached: str
    ) -> tuple[bytes | None, str]:
        connection = self._connection(base)
        headers = {"accept-encoding": "identity", "user-agent": "cleave"}
        if content is not None:
            headers["if-none-match"] = "*"
        elif cached:
            headers["if-none-match"] = cached
        try:
            connection.timeout = max(0.01, min(_SILENCE, self._left()))
            connection.request(method, urlsplit(base).path + rest, content, headers)
            self._line = connection.sock
            with connection.getresponse() as answer:
                tag = answer.getheader("etag", "")
                body = None if cached and answer.status == 304 else _body(answer, size)
        except ssl.SSLCertVerificationError:
            raise Broken("could not be had: its store has no certificate to trust") from None
        except (OSError, http.client.HTTPException) as error:
            raise _Passing(f"could not be had from the store ({type(error).__name__})") from None
        return body, tag if _TAG.fullmatch(tag) else ""

    def _connection(self, base: str) -> http.client.HTTPConnection:
        if base not in self._open:
            parts = urlsplit(base)
            host, port = parts.hostname or "", parts.port
            self._open[base] = (
                http.client.HTTPSConnection(host, port, timeout=_SILENCE, context=_tls())
                if parts.scheme == "https"
                else http.client.HTTPConnection(host, port, timeout=_SILENCE)
            )
        return self._open[base]

    def _drop(self, base: str) -> None:
        if connection := self._open.pop(base, None):
            connection.close()

    def _left(self) -> float:
        return self._until - time.monotonic()


def _body(answer: http.client.HTTPResponse, size: int) -> bytes:
    if answer.status != 200:
        raise _refused(answer.status)
    if answer.getheader("content-encoding", "identity").lower() != "identity":
        raise Broken("comes in an encoding")
    if answer.length is not None and answer.length != size:
        raise Broken("has another size than the request says")
    body = answer.read(size + 1)
    if len(body) != size:
        raise Broken("has another size than the request says")
    return body


class _Passing(Broken):
    """A failure that another attempt may fix."""


def _refused(status: int) -> Broken:
    kind = _Passing if status in _PASSING else Broken
    return kind(f"could not be had: the store answered {status}", _HINTS.get(status))


@cache
def _tls() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context
