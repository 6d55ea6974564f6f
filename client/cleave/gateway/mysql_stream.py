"""Packets of MySQL's protocol and the login of a client, by mysql-mimic; what it leaves open is closed here.

- mysql-mimic looks for the end of a text without end for ever, and loses TLS's first bytes where they come early.
- Packets and waits have limits.
- Passwords travel under TLS, or on this machine under an RSA key made for the process: `caching_sha2_password`, its
  full form, which every current client speaks.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable, Sequence
from ssl import SSLContext
from typing import Final

from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA1
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from mysql_mimic.auth import AuthInfo, AuthPlugin, AuthState, Forbidden, IdentityProvider, Success
from mysql_mimic.auth import User as Account
from mysql_mimic.stream import ConnectionClosed, MysqlStream
from mysql_mimic.utils import nonce, xor

LOGIN_SECONDS: Final = 20.0
SEND_SECONDS: Final = 300.0  # for a client to take a part of an answer
MOST_BEFORE_LOGIN: Final = 1 << 13  # bytes of a packet
ENDS: Final = bytes(512)  # behind what mysql-mimic parses: it looks for the end of a text for ever
_PACKET: Final = 0xFFFFFF
_TLS_WANTED: Final = 32  # bytes of a client's wish for TLS


class Stream:
    """Packets of a bounded size, each within a time: mysql-mimic's stream, once the client has chosen TLS or not.

    Until then nothing is read ahead: the first bytes of TLS follow right behind the request for it, and TLS needs them.
    """

    def __init__(self, client: socket.socket) -> None:
        self._socket = client
        self._stream: MysqlStream | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._sent = 0  # packets, before there is a stream
        self._has_login = False
        self.most = MOST_BEFORE_LOGIN
        self.patience = LOGIN_SECONDS
        self.is_over = False

    @property
    def is_encrypted(self) -> bool:
        return self._writer is not None and self._writer.get_extra_info("ssl_object") is not None

    @property
    def is_left(self) -> bool:
        """Check whether the client has closed its side."""
        return self._stream is not None and bool(self._stream.reader.at_eof())

    async def start_tls(self, context: SSLContext) -> None:
        await self._open(context)

    async def _open(self, context: SSLContext | None) -> None:
        if self._stream is not None:
            raise ConnectionClosed
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(reader)
        try:
            transport, _ = await loop.connect_accepted_socket(
                lambda: protocol, self._socket, ssl=context, ssl_handshake_timeout=LOGIN_SECONDS if context else None
            )
        except OSError:  # SSLError is one
            self.is_over = True
            raise ConnectionClosed from None
        self._writer = asyncio.StreamWriter(transport, protocol, reader, loop)
        self._stream = stream = MysqlStream(reader, self._writer)
        stream.seq.value = 2 * self._sent
        self.write_many, self.write_text_rows, self.reset_seq = (
            stream.write_many,
            stream.write_text_rows,
            stream.reset_seq,
        )

    async def read(self) -> bytes:
        """Raises ConnectionClosed for a client that has gone, waits too long or sends what is no packet."""
        if self.is_over:
            raise ConnectionClosed
        try:
            async with asyncio.timeout(self.patience):
                if self._stream is None:
                    content = await self._read(self._received, 2 * self._sent - 1)
                    if len(content) == _TLS_WANTED:
                        return content
                    await self._open(None)
                else:
                    content = await self._read(self._stream.reader.readexactly, None)
                if not self._has_login:
                    self._has_login = True
                    content += ENDS
                return content
        except (TimeoutError, EOFError, OSError):
            raise ConnectionClosed from None

    async def _received(self, size: int) -> bytes:
        content = b""
        while len(content) < size:
            got = await asyncio.get_running_loop().sock_recv(self._socket, size - len(content))
            if not got:
                raise EOFError
            content += got
        return content

    async def _read(self, exactly: Callable[[int], Awaitable[bytes]], number: int | None) -> bytes:
        content = b""
        while True:
            (head,) = struct.unpack("<I", await exactly(4))
            size = head & _PACKET
            expected = next(self._stream.seq) if self._stream is not None else number
            if head >> 24 != expected or len(content) + size > self.most:
                self.is_over = True
                raise ConnectionClosed
            content += await exactly(size)
            if size < _PACKET:
                return content

    async def write(self, content: bytes, drain: bool = True) -> None:
        if self._stream is not None:
            await self._stream.write(content, drain=False)
            if drain:
                await self.drain()
            return
        packet = struct.pack("<I", len(content) | 2 * self._sent << 24) + content
        self._sent += 1
        async with asyncio.timeout(LOGIN_SECONDS):
            await asyncio.get_running_loop().sock_sendall(self._socket, packet)

    async def drain(self) -> None:
        """Raises ConnectionClosed for a client that takes nothing for too long."""
        if self._stream is None or self._writer is None:
            return
        try:
            async with asyncio.timeout(SEND_SECONDS):
                await self._stream.drain()
        except (TimeoutError, OSError):
            self.is_over = True
            self._writer.transport.abort()
            raise ConnectionClosed from None

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        else:
            self._socket.close()


class Password(AuthPlugin):
    """`caching_sha2_password` without its cache: the password itself is sent, under TLS or an RSA key, and compared
    with its Argon2id hash.
    """

    name = client_plugin_name = "caching_sha2_password"
    _TAKES_KEY, _SEND_PASSWORD = b"\x02", b"\x04"

    def __init__(self, stream: Stream, check: Check, key: rsa.RSAPrivateKey, *, needs_tls: bool) -> None:
        self._stream = stream
        self._check = check
        self._key = key
        self._needs_tls = needs_tls

    async def auth(self, auth_info: AuthInfo | None = None) -> AuthState:
        challenge = nonce(20)
        if auth_info is None:
            auth_info = yield challenge + b"\0"
        elif auth_info.handshake_auth_data:
            challenge = auth_info.handshake_auth_data.rstrip(b"\0")
        if not self._stream.is_encrypted and self._needs_tls:
            yield Forbidden("this server takes connections under TLS only")
            return
        if not auth_info.data.strip(b"\0"):
            yield Forbidden("a password is needed")
            return
        name = auth_info.username
        auth_info = yield self._SEND_PASSWORD
        sent = auth_info.data
        if not self._stream.is_encrypted:
            if sent == self._TAKES_KEY:
                auth_info = yield self._key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
                sent = auth_info.data
            sent = self._opened(sent, challenge)
        yield await self._check(name, sent.removesuffix(b"\0"))

    def _opened(self, sent: bytes, challenge: bytes) -> bytes:
        """The password, which is masked by the challenge, as MySQL has it. Empty where it cannot be opened."""
        try:
            masked = self._key.decrypt(sent, padding.OAEP(padding.MGF1(SHA1()), SHA1(), None))  # noqa: S303
        except ValueError:
            return b""
        repeated = challenge * (len(masked) // len(challenge) + 1)
        return xor(masked, repeated[: len(masked)])


Check = Callable[[str, bytes], Awaitable[Success | Forbidden]]


class Accounts(IdentityProvider):
    """Treat every name as a user until a password is wrong, so that names cannot be guessed."""

    def __init__(self, plugin: Password) -> None:
        self._plugin = plugin

    def get_plugins(self) -> Sequence[AuthPlugin]:
        return [self._plugin]

    async def get_user(self, username: str) -> Account | None:
        return Account(name=username, auth_plugin=self._plugin.name)
