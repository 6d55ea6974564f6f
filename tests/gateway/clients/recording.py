"""A proxy before a PostgreSQL server: it keeps what a client sends and gets, as lines of JSON.

A file's first line is about the client and the server, with the OIDs of tables. A line with `startup` begins a
connection; every other line is an exchange: what the client sent (`>`) until the server had answered all (`<`).
"""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.gateway.wire import FromServer, Message, Reader, from_client

MOST_ROWS: Final = 100  # of an exchange are kept
_CANCEL, _SSL, _GSS = 80877102, 80877103, 80877104


@dataclass
class Session:
    """One connection's exchanges, by two threads."""

    startup: dict[str, str] = field(default_factory=dict)
    status: dict[str, str] = field(default_factory=dict)
    exchanges: list[tuple[list[Message], list[Message]]] = field(default_factory=list)
    read: FromServer = field(default_factory=FromServer)
    waiting: int = 0
    is_open: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    def sent(self, message: Message) -> None:
        with self.lock:
            if not self.exchanges or (self.exchanges[-1][1] and not self.waiting):
                self.exchanges.append(([], []))
            self.exchanges[-1][0].append(message)
            self.waiting += message[0] in "QS"
            self.read.sent(message)

    def got(self, tag: str, body: bytes) -> None:
        with self.lock:
            if not self.is_open:
                self.is_open = tag == "Z"
                if tag == "S":
                    fields = Reader(body)
                    name = fields.name()
                    self.status[name] = fields.name()
                return
            self.exchanges[-1][1].append(self.read(tag, body))
            self.waiting -= tag == "Z"

    def lines(self) -> Iterator[str]:
        yield json.dumps({"startup": self.startup, "status": self.status}, ensure_ascii=False)
        for sent, got in self.exchanges:
            if sent == [["X"]]:
                continue
            kept: list[Message] = []
            rows = 0
            for message in got:
                rows = rows + 1 if message[0] == "D" else 0
                if rows <= MOST_ROWS:
                    kept.append(message)
                elif rows == MOST_ROWS + 1:
                    kept.append(["..."])
            yield json.dumps({">": sent, "<": kept}, ensure_ascii=False, separators=(",", ":"))


class Recorder:
    """What has passed since it was last taken."""

    def __init__(self, port: int) -> None:
        self.server = port
        self.sessions: list[Session] = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.listener.getsockname()[1]
        self.threads: list[threading.Thread] = []

    def taken(self, about: dict[str, Any]) -> str:
        """The lines of a file."""
        for thread in self.threads:
            thread.join(60)
        lines = [json.dumps(about, ensure_ascii=False)]
        seen: set[str] = set()
        for each in self.sessions:
            sent = {repr(messages) for messages, _ in each.exchanges}
            if sent - seen:  # a pool's further connections say nothing new
                lines += each.lines()
            seen |= sent
        self.sessions, self.threads = [], []
        return "\n".join(lines) + "\n"

    def serve(self) -> None:
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self.one, args=(client,), daemon=True)
            self.threads.append(thread)
            thread.start()

    def one(self, client: socket.socket) -> None:
        server = socket.create_connection(("127.0.0.1", self.server))
        with client, server:
            while True:
                (size,) = struct.unpack("!I", exactly(client, 4))
                body = exactly(client, size - 4)
                server.sendall(struct.pack("!I", size) + body)
                (code,) = struct.unpack("!I", body[:4])
                if code == _CANCEL:
                    return
                if code not in (_SSL, _GSS):
                    break
                client.sendall(exactly(server, 1))  # "N"
            texts = body[4:].split(b"\0")
            pairs = [each.decode() for each in texts if each]
            session = Session(dict(zip(pairs[::2], pairs[1::2], strict=True)))
            self.sessions.append(session)
            back = threading.Thread(target=self.back, args=(server, client, session), daemon=True)
            back.start()
            try:
                while True:
                    tag, rest = message(client)
                    session.sent(from_client(tag, rest))
                    server.sendall(tag.encode() + struct.pack("!I", len(rest) + 4) + rest)
            except OSError:
                with suppress(OSError):
                    server.shutdown(socket.SHUT_WR)
            back.join(60)

    def back(self, server: socket.socket, client: socket.socket, session: Session) -> None:
        try:
            while True:
                tag, body = message(server)
                session.got(tag, body)
                client.sendall(tag.encode() + struct.pack("!I", len(body) + 4) + body)
        except OSError:
            with suppress(OSError):  # some clients wait for this end
                client.shutdown(socket.SHUT_WR)


def exactly(connection: socket.socket, size: int) -> bytes:
    held = bytearray()
    while len(held) < size:
        more = connection.recv(size - len(held))
        if not more:
            raise ConnectionError
        held += more
    return bytes(held)


def message(connection: socket.socket) -> tuple[str, bytes]:
    tag = exactly(connection, 1).decode()
    (size,) = struct.unpack("!I", exactly(connection, 4))
    return tag, exactly(connection, size - 4)


@contextmanager
def recorder(port: int) -> Iterator[Recorder]:
    held = Recorder(port)
    thread = threading.Thread(target=held.serve, daemon=True)
    thread.start()
    try:
        yield held
    finally:
        held.listener.shutdown(socket.SHUT_RDWR)
        held.listener.close()
        thread.join()


def read(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What a file says of its client, and its other lines."""
    about, *lines = map(json.loads, path.read_text().splitlines())
    return about, lines
