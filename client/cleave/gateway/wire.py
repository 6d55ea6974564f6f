"""Messages of PostgreSQL's protocol, without their meaning: limited in size and time, in the clear or with TLS.

https://www.postgresql.org/docs/current/protocol-message-formats.html
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Iterator
from ssl import SSLContext
from typing import Final

LOGIN_SECONDS: Final = 20.0  # for a whole login
SEND_SECONDS: Final = 60.0  # for a client to send the rest of a message, or to read about 128 kB of an answer
CANCEL: Final = 80877102
_TLS, _GSS = 80877103, 80877104
_MOST_STARTUP: Final = 10_000  # bytes, as in PostgreSQL


class Gone(Exception):  # noqa: N818 - named for what happened
    """The client left, is too slow, or sent an invalid message: the connection ends without an answer."""


class ClientStream:
    """One connection. Nothing is read ahead before the client chooses TLS or not, because TLS needs the bytes that
    follow.
    """

    def __init__(self, client: socket.socket) -> None:
        self._socket = client
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    @property
    def is_left(self) -> bool:
        """True if the client has closed its side."""
        return self._reader is not None and self._reader.at_eof()

    @property
    def is_encrypted(self) -> bool:
        return self._writer is not None and self._writer.get_extra_info("ssl_object") is not None

    async def startup(self, context: SSLContext) -> tuple[int, bytes]:
        """The code of the client's first message (CANCEL, or the protocol version) and its content. Raises Gone."""
        wishes = {_TLS, _GSS}
        while True:
            size, code = struct.unpack("!II", await self._received(8))
            if not 8 <= size <= _MOST_STARTUP:
                raise Gone
            content = await self._received(size - 8)
            if code not in wishes:
                break
            wishes -= {code} if code == _GSS else wishes
            await asyncio.get_running_loop().sock_sendall(self._socket, b"N" if code == _GSS else b"S")
            if code == _TLS:
                await self._open(context)
        if self._writer is None:
            await self._open(None)
        return code, content

    async def _received(self, size: int) -> bytes:
        if self._reader is not None:
            return await self._read(size)
        content = b""
        while len(content) < size:
            got = await asyncio.get_running_loop().sock_recv(self._socket, size - len(content))
            if not got:
                raise Gone
            content += got
        return content

    async def _open(self, context: SSLContext | None) -> None:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(reader)
        seconds = LOGIN_SECONDS if context else None
        transport, _ = await loop.connect_accepted_socket(
            lambda: protocol, self._socket, ssl=context, ssl_handshake_timeout=seconds
        )
        self._reader, self._writer = reader, asyncio.StreamWriter(transport, protocol, reader, loop)

    async def read(self, most: int) -> tuple[bytes, bytes]:
        """Kind and content of the next message. Raises Gone, also if it has more than `most` bytes."""
        kind, size = struct.unpack("!cI", await self._read(5))
        if not 4 <= size <= most:
            raise Gone
        try:
            async with asyncio.timeout(SEND_SECONDS):
                return kind, await self._read(size - 4)
        except TimeoutError:
            raise Gone from None

    async def _read(self, size: int) -> bytes:
        assert self._reader is not None  # noqa: S101 - `startup` was called before
        try:
            return await self._reader.readexactly(size)
        except (EOFError, OSError):
            raise Gone from None

    def write(self, content: bytes) -> None:
        if self._writer is not None:
            self._writer.write(content)

    async def drain(self) -> None:
        """Wait until the client has read most of what was written. Raises Gone if it reads nothing for too long."""
        assert self._writer is not None  # noqa: S101 - as above
        try:
            async with asyncio.timeout(SEND_SECONDS):
                await self._writer.drain()
        except (TimeoutError, OSError):
            self._writer.transport.abort()
            raise Gone from None

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            asyncio.get_running_loop().call_later(SEND_SECONDS, self._writer.transport.abort)
        else:
            self._socket.close()


def message(kind: bytes, content: bytes = b"") -> bytes:
    return kind + struct.pack("!I", len(content) + 4) + content


def text(value: str) -> bytes:
    """A text in a message. Texts end with NUL there, so `value` is cut at its first NUL."""
    return value.encode("utf-8", "replace").partition(b"\0")[0] + b"\0"


def failure(kind: bytes, severity: str, code: str, said: str, hint: str = "", at: int | None = None) -> bytes:
    """An error (`kind` E) or a notice (N). `code`: SQLSTATE. `at`: index of a character in the client's text."""
    fields = {b"S": severity, b"V": severity, b"C": code, b"M": said, **({b"H": hint} if hint else {})}
    if at is not None:
        fields[b"P"] = str(at + 1)
    return message(kind, b"".join(name + text(value) for name, value in fields.items()) + b"\0")


class Fields:
    """Reads the content of a message. Methods raise ValueError if it is too short."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._place = 0

    @property
    def is_read(self) -> bool:
        return self._place == len(self._content)

    def take(self, size: int) -> bytes:
        if not 0 <= size <= len(self._content) - self._place:
            raise ValueError
        self._place += size
        return self._content[self._place - size : self._place]

    def text(self) -> str:
        return self.take(self._content.index(0, self._place) - self._place + 1)[:-1].decode()

    def number(self, form: str = "h") -> int:
        (number,) = struct.unpack(f"!{form}", self.take(struct.calcsize(f"!{form}")))
        return int(number)

    def several(self, form: str) -> tuple[int, ...]:
        """Numbers after their 2-byte count."""
        count = self.number("H")
        return struct.unpack(f"!{count}{form}", self.take(count * struct.calcsize(f"!{form}")))

    def value(self) -> bytes | None:
        """A value after its 4-byte length; None for NULL."""
        size = self.number("i")
        return None if size == -1 else self.take(size)


def messages_of(content: bytes) -> Iterator[int]:
    """Yield the end of each of several messages."""
    place = 0
    while place < len(content):
        place += 1 + struct.unpack_from("!I", content, place + 1)[0]
        yield place
