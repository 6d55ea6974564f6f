"""A server on 127.0.0.1 that answers by a script and keeps what it was asked: for failures no real service shows."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from cleave_shared.wire import FRAMES_TYPE


@dataclass(frozen=True)
class Reply:
    """`missing` bytes of the body are announced and never sent; `cut` closes without a word; `stall` waits, seconds.

    `drip`: after the headers, or "headers" before they end, a byte every 50 ms until the client has had enough.
    """

    status: int = 200
    body: bytes = b""
    content_type: str = FRAMES_TYPE
    headers: Mapping[str, str] = field(default_factory=dict)
    missing: int = 0
    cut: bool = False
    stall: float = 0
    drip: str = ""


# What S3 answers where nothing is stored.
LISTED = Reply(
    body=b'<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><IsTruncated>false</IsTruncated>'
    b"<KeyCount>0</KeyCount></ListBucketResult>",
    content_type="application/xml",
)


@dataclass(frozen=True)
class Asked:
    path: str
    headers: Mapping[str, str]
    body: bytes


class Scripted(ThreadingHTTPServer):
    """Gives `replies` in order and the last one for ever."""

    daemon_threads = False  # closing the server waits for its threads, so no socket outlives a test

    def __init__(self, replies: list[Reply]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.replies = replies
        self.asked: list[Asked] = []
        self.lock = threading.Lock()
        self.ended = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def take(self, asked: Asked) -> Reply:
        with self.lock:
            self.asked.append(asked)
            return self.replies[min(len(self.asked), len(self.replies)) - 1]

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hangs up, or speaks TLS to us, is part of the script."""


class _Handler(BaseHTTPRequestHandler):
    server: Scripted
    protocol_version = "HTTP/1.1"
    timeout = 120

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        reply = self.server.take(Asked(self.path, dict(self.headers.items()), body))
        self.close_connection = True
        if reply.stall:
            self.server.ended.wait(reply.stall)
        if reply.cut:
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        if reply.drip == "headers":
            self.wfile.write(b"HTTP/1.1 200 OK\r\nx-slow: ")
            self._drip()
            return
        self.send_response(reply.status)
        self.send_header("content-type", reply.content_type)
        self.send_header("connection", "close")
        self.send_header("content-length", str(len(reply.body) + reply.missing))
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(reply.body)
        if reply.drip:
            self._drip()

    do_GET = do_PUT = do_POST  # noqa: N815 - the base class's names

    def _drip(self) -> None:
        """Ends with the test, or with an error once nobody listens."""
        while not self.server.ended.wait(0.05):
            self.wfile.write(b"x")
            self.wfile.flush()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Tests print nothing."""


@contextlib.contextmanager
def scripted(*replies: Reply, tls: ssl.SSLContext | None = None) -> Iterator[Scripted]:
    server = Scripted(list(replies))
    if tls:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.ended.set()
        server.shutdown()
        thread.join()
        server.server_close()
