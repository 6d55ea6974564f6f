"""Between a client and S3: does to a request, or to its answer, what networks, proxies and S3 itself do."""

from __future__ import annotations

import http.client
import random
import socket
import struct
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

_ERROR = '<?xml version="1.0"?><Error><Code>{code}</Code><Message>canary-secret of {code}</Message></Error>'
# name: (status, code). Nothing of the request has happened.
REFUSED = {
    "slow down": (503, "SlowDown"),
    "internal error": (500, "InternalError"),
    "forbidden": (403, "AccessDenied"),
    "credentials expired": (400, "ExpiredToken"),
    "clock is wrong": (403, "RequestTimeTooSkewed"),
    "precondition failed": (412, "PreconditionFailed"),
    "conflict": (409, "ConditionalRequestConflict"),
    "no such key": (404, "NoSuchKey"),
    "no such bucket": (404, "NoSuchBucket"),
}
WAITS = ("hang", "drip")
OTHERS = ("reset", "reset after", "cut", "flip", "page", "empty", "redirect", "headers only")
KINDS = (*REFUSED, *OTHERS, *WAITS)
LONGEST = 30.0  # of a wait, so that no thread stays for ever


class Proxy:
    """`fault`, a kind of KINDS, hits request number `at`; `lasting`: and all after it. `requests` counts them."""

    def __init__(self, endpoint: str, seed: int = 0) -> None:
        self.fault: str | None = None
        self.at = 0
        self.lasting = False
        self.requests = 0
        self.heads: list[bytes] | None = None  # what was asked, and its headers, where somebody wants to know
        self._rng = random.Random(seed)
        self._lock = threading.Lock()
        self._over = threading.Event()
        target = urlsplit(endpoint)
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one_request(self) -> None:
                try:
                    super().handle_one_request()
                except OSError:  # whom it answers has left
                    self.close_connection = True

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name
                pass

            def _any(self) -> None:
                proxy._serve(self, str(target.hostname), int(target.port or 80))

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _any  # noqa: N815 - http.server's names

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Proxy:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._server.shutdown()
        self._server.server_close()

    def arm(self, fault: str | None, at: int = 0, *, lasting: bool = False) -> None:
        with self._lock:
            self.fault, self.at, self.lasting, self.requests = fault, at, lasting, 0

    def _serve(self, handler: BaseHTTPRequestHandler, host: str, port: int) -> None:
        with self._lock:
            number = self.requests
            self.requests += 1
            hit = self.fault is not None and (number == self.at or (self.lasting and number > self.at))
            fault = self.fault if hit else None
            if self.heads is not None:
                self.heads.append(f"{handler.requestline}\n{handler.headers}".encode())
        body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        if fault == "reset":
            return _reset(handler)
        if fault == "hang":
            self._over.wait(LONGEST)
            return _reset(handler)
        if fault in REFUSED:
            status, code = REFUSED[fault]
            return _answer(handler, status, _ERROR.format(code=code).encode())
        if fault == "redirect":
            return _answer(handler, 307, b"", {"Location": "http://127.0.0.1:9/elsewhere"})
        if fault == "page":
            return _answer(handler, 200, b"<html><h1>Welcome to the hotel's network</h1></html>")
        status, headers, content = _forward(handler, host, port, body)
        if fault == "reset after":
            return _reset(handler)
        if fault == "empty":
            content = b""
        if fault == "flip" and content:
            place = self._rng.randrange(len(content))
            content = content[:place] + bytes([content[place] ^ 1 << self._rng.randrange(8)]) + content[place + 1 :]
        if fault in ("cut", "headers only", "drip") and handler.command != "HEAD":
            return self._part(handler, status, headers, content, fault)
        return _answer(handler, status, content, headers)

    def _part(
        self, handler: BaseHTTPRequestHandler, status: int, headers: dict[str, str], content: bytes, fault: str
    ) -> None:
        """The answer's first bytes, of all that it promises."""
        _begin(handler, status, len(content) or 1, headers)
        if fault == "cut":
            handler.wfile.write(content[: self._rng.randrange(len(content) + 1)])
        until = time.monotonic() + LONGEST
        for place in range(len(content) if fault == "drip" else 0):
            handler.wfile.write(content[place : place + 1])
            handler.wfile.flush()
            if self._over.wait(0.2) or time.monotonic() > until:
                break
        _reset(handler)


def _forward(handler: BaseHTTPRequestHandler, host: str, port: int, body: bytes) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection(host, port, timeout=60)
    try:
        connection.request(handler.command, handler.path, body or None, dict(handler.headers.items()))
        answer = connection.getresponse()
        content = answer.read()
        kept = {k: v for k, v in answer.getheaders() if k.lower() in ("etag", "content-type", "content-range")}
        return answer.status, kept, content
    finally:
        connection.close()


def _begin(handler: BaseHTTPRequestHandler, status: int, length: int, headers: dict[str, str]) -> None:
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name, value)
    handler.send_header("Content-Length", str(length))
    handler.end_headers()


def _answer(
    handler: BaseHTTPRequestHandler, status: int, content: bytes, headers: dict[str, str] | None = None
) -> None:
    _begin(handler, status, len(content), headers or {"Content-Type": "application/xml"})
    if handler.command != "HEAD":
        handler.wfile.write(content)


def _reset(handler: BaseHTTPRequestHandler) -> None:
    """RST instead of FIN."""
    handler.wfile.flush()
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.connection.close()
    handler.close_connection = True
