"""MySQL's protocol, by mysql-mimic; what it leaves to its users, or leaves open, is here.

- A client whose password is wrong is cut off: mysql-mimic would report the error and go on to take its statements.
- Parameters of prepared statements stay values until a parser puts them into the statement; mysql-mimic pastes texts in
  as they are.
- It looks for the end of a text without end for ever, and loses TLS's first bytes where they come early.
- Packets, waits, connections and prepared statements have limits. A client that leaves stops its question.
- Passwords travel under TLS, or on this machine under an RSA key made for the process: `caching_sha2_password`, its
  full form, which every current client speaks.
"""

from __future__ import annotations

import asyncio
import datetime
import hmac
import io
import re
import secrets
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from decimal import Decimal
from ssl import SSLContext
from typing import Any, Final, cast

from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA1
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from mysql_mimic import packets, types
from mysql_mimic.auth import AuthInfo, AuthPlugin, AuthState, Forbidden, IdentityProvider, Success
from mysql_mimic.auth import User as Account
from mysql_mimic.charset import CharacterSet
from mysql_mimic.connection import Connection
from mysql_mimic.constants import DEFAULT_SERVER_CAPABILITIES, KillKind
from mysql_mimic.control import LocalControl
from mysql_mimic.errors import ErrorCode, MysqlError
from mysql_mimic.prepared import PreparedStatement
from mysql_mimic.results import NullBitmap, ResultColumn, ResultSet
from mysql_mimic.session import Session
from mysql_mimic.stream import ConnectionClosed, MysqlStream
from mysql_mimic.types import Capabilities, ColumnType
from mysql_mimic.utils import aiterate, nonce, xor
from mysql_mimic.variables import SYSTEM_VARIABLES, GlobalVariables, SessionVariables
from sqlglot import exp

from cleave.gateway.dialect import (
    DATABASE,
    MOST_CHARACTERS,
    NO_VARIABLES,
    SYSTEM,
    VERSION,
    Parameter,
    placeholders,
)
from cleave.gateway.system import type_of
from cleave.gateway.workers import ClientGone, Refused, Reply, Workers, reply_while_connected
from cleave.share.users import User, Users
from cleave.table.types import decimals_of
from cleave.transport.addresses import is_loopback
from cleave_shared.errors import CleaveError, QueryRefused

LOGIN_SECONDS: Final = 20.0
IDLE_SECONDS: Final = 8 * 3600.0
SEND_SECONDS: Final = 300.0  # for a client to take a part of an answer
MOST_CONNECTIONS: Final = 256
_MOST_BEFORE_LOGIN: Final = 1 << 13  # bytes of a packet
_ENDS: Final = bytes(512)  # behind what mysql-mimic parses: it looks for the end of a text for ever
_MOST_PACKET: Final = 4 * MOST_CHARACTERS + (1 << 16)
_MOST_PREPARED: Final = 1024
_MOST_REMEMBERED: Final = 4096  # passwords that were right
_MOST_SET: Final = 1 << 14  # characters of a statement about the session
_PAUSE_SECONDS: Final = 0.5  # after a connection that could not be taken
_ROWS: Final = 1000
_PACKET: Final = 0xFFFFFF
_TLS_WANTED: Final = 32  # bytes of a client's wish for TLS
_EXPRESSIONS: Final = frozenset({"sql_mode", "session_track_system_variables"})  # JDBC sets them to CONCAT(...)
_TRANSACTION: Final = re.compile(r"SET\s+(?:(?:SESSION|LOCAL)\s+)?TRANSACTION\s", re.IGNORECASE)
_ABOUT_SESSION: Final = frozenset({"SET", "USE", "BEGIN", "START", "COMMIT", "ROLLBACK"})

# What has a parser that can be sent round for ever (attributes of connections, of questions) is not offered.
_CAPABILITIES: Final = DEFAULT_SERVER_CAPABILITIES & ~(
    Capabilities.CLIENT_CONNECT_ATTRS
    | Capabilities.CLIENT_QUERY_ATTRIBUTES
    | Capabilities.CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA
    | Capabilities.CLIENT_ZSTD_COMPRESSION_ALGORITHM
)
_VARIABLES: Final = SYSTEM_VARIABLES | {
    "version": (str, VERSION, False),
    "version_comment": (str, "Cleave", False),
    "license": (str, "Apache-2.0", False),
    "max_allowed_packet": (int, _MOST_PACKET, False),
    "lower_case_table_names": (int, 2, False),
    "default_storage_engine": (str, "Cleave", False),
    "default_tmp_storage_engine": (str, "Cleave", False),
    "transaction_read_only": (bool, True, True),
    "read_only": (bool, True, False),
    "tx_isolation": (str, "READ-COMMITTED", True),
    "tx_read_only": (bool, True, True),
    "query_cache_size": (int, 0, True),
    "query_cache_type": (str, "OFF", True),
    "session_track_schema": (bool, False, True),
    "session_track_system_variables": (str, "", True),
    "sql_safe_updates": (bool, False, True),
    "character_set_filesystem": (str, "binary", True),
    "character_set_system": (str, "utf8mb3", False),
    "have_ssl": (str, "YES", False),
    "hostname": (str, "cleave", False),
    "port": (int, 0, False),
    "socket": (str, "", False),
    "ssl_cipher": (str, "", False),
    "innodb_version": (str, "", False),
    "cleave_bounds": (bool, False, True),
}


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
        self.most = _MOST_BEFORE_LOGIN
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
                    content += _ENDS
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
        if await self._check(name, sent.removesuffix(b"\0")):
            yield Success(name)
        else:
            yield Forbidden()

    def _opened(self, sent: bytes, challenge: bytes) -> bytes:
        """The password, which is masked by the challenge, as MySQL has it. Empty where it cannot be opened."""
        try:
            masked = self._key.decrypt(sent, padding.OAEP(padding.MGF1(SHA1()), SHA1(), None))  # noqa: S303
        except ValueError:
            return b""
        repeated = challenge * (len(masked) // len(challenge) + 1)
        return xor(masked, repeated[: len(masked)])


Check = Callable[[str, bytes], Any]


class Accounts(IdentityProvider):
    """Treat every name as a user until a password is wrong, so that names cannot be guessed."""

    def __init__(self, plugin: Password) -> None:
        self._plugin = plugin

    def get_plugins(self) -> Sequence[AuthPlugin]:
        return [self._plugin]

    async def get_user(self, username: str) -> Account | None:
        return Account(name=username, auth_plugin=self._plugin.name)


class Client(Connection):
    """Connection of mysql-mimic whose user is settled before its first statement."""

    stream: Stream
    session: Statements

    async def connection_phase(self) -> None:
        await super().connection_phase()
        if self.session.user is None:
            raise ConnectionClosed
        self.stream.most, self.stream.patience = _MOST_PACKET, IDLE_SECONDS

    def error(self, **fields: Any) -> bytes:
        """Return an error packet, without the text of an internal error."""
        message = fields.get("msg")
        if isinstance(message, Exception) and not isinstance(message, MysqlError):
            fields["msg"] = "the message cannot be read"
        return super().error(**fields)

    async def handle_change_user(self, data: bytes) -> None:
        self.session.leave()
        if len(data) > _MOST_BEFORE_LOGIN:
            self.stream.is_over = True
            raise MysqlError("the message is too long", ErrorCode.MALFORMED_PACKET)
        await super().handle_change_user(data + _ENDS)
        self.stream.is_over = self.session.user is None

    async def handle_field_list(self, data: bytes) -> None:
        if len(data) > _MOST_BEFORE_LOGIN:
            raise MysqlError("the message is too long", ErrorCode.MALFORMED_PACKET)
        await super().handle_field_list(data + _ENDS)

    async def handle_reset_connection(self, data: bytes) -> None:
        self.prepared_stmts.clear()
        await self.session.reset()
        await super().handle_reset_connection(data)

    async def handle_stmt_prepare(self, data: bytes) -> None:
        if len(self.prepared_stmts) >= _MOST_PREPARED:
            raise MysqlError(f"there are {_MOST_PREPARED:,} prepared statements; close some")
        sql = self.client_charset.decode(data)
        try:
            count = len(placeholders(sql))
        except QueryRefused as error:
            raise MysqlError(error.message, ErrorCode.PARSE_ERROR) from None
        statement = PreparedStatement(next(self.prepared_stmt_seq), sql, count)
        self.prepared_stmts[statement.stmt_id] = statement
        *response, end = self.com_stmt_prepare_response(statement)
        if not count or not self.deprecate_eof():  # mysql-mimic sends an EOF in any case
            response.append(end)
        for packet in response:
            await self.stream.write(packet, drain=False)
        await self.stream.drain()

    async def handle_stmt_send_long_data(self, data: bytes) -> None:
        held = sum(len(each) for one in self.prepared_stmts.values() for each in (one.param_buffers or {}).values())
        if held + len(data) > _MOST_PACKET:
            self.stream.is_over = True  # this message has no answer
            return
        await super().handle_stmt_send_long_data(data)

    async def handle_stmt_execute(self, data: bytes) -> None:
        """Execute like mysql-mimic, but hand parameters on as values."""
        reader = io.BytesIO(data)
        try:
            statement = self.get_stmt(types.read_uint_4(reader))
            has_cursor = types.read_uint_1(reader) & 1
            types.read_uint_4(reader)
            parameters = self._parameters(reader, statement)
        except (struct.error, IndexError, ValueError, UnicodeDecodeError):
            raise MysqlError("the parameters cannot be read", ErrorCode.MALFORMED_PACKET) from None
        statement.param_buffers = None
        result_set = await self.session.ask(statement.sql, parameters)
        if not result_set:
            await self.stream.write(self.ok())
            return
        rows = _packets(result_set, packets.make_binary_resultrow)
        if has_cursor:
            await self._define(result_set)
            statement.cursor = rows
            await self.stream.write(self.ok_or_eof(flags=types.ServerStatus.SERVER_STATUS_CURSOR_EXISTS))
            return
        await self._send(result_set, rows)

    async def write_text_resultset(self, result_set: ResultSet) -> None:
        await self._send(result_set, _packets(result_set, packets.make_text_resultset_row))

    async def _send(self, result_set: ResultSet, rows: AsyncIterator[bytes]) -> None:
        await self._define(result_set)
        if not self.deprecate_eof():
            await self.stream.write(self.eof(), drain=False)
        async for row in rows:
            await self.stream.write(row, drain=False)
        await self.stream.write(self.ok_or_eof())

    async def _define(self, result_set: ResultSet) -> None:
        columns = result_set.columns
        await self.stream.write(types.uint_len(len(columns)), drain=False)
        for column, places in zip(columns, self.session.decimals or [0] * len(columns), strict=True):
            content = packets.make_column_definition_41(
                server_charset=self.server_charset,
                name=column.name,
                column_type=column.type,
                character_set=column.character_set,
                decimals=places,
            )
            await self.stream.write(content, drain=False)

    def _parameters(self, reader: io.BytesIO, statement: PreparedStatement) -> tuple[Parameter, ...]:
        """https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_com_stmt_execute.html"""
        count = statement.num_params
        if not count:
            return ()
        nulls = NullBitmap.from_buffer(reader, count)
        if not types.read_uint_1(reader):
            raise ValueError
        kinds = []
        for _ in range(count):
            kind, flags = ColumnType(types.read_uint_1(reader)), types.read_uint_1(reader)
            kinds.append((kind, bool(flags & 0x80)))
        long = statement.param_buffers or {}
        values: list[Parameter] = []
        for place, (kind, unsigned) in enumerate(kinds):
            if nulls.is_flipped(place):
                values.append(None)
            elif place in long:
                values.append(_text_or_bytes(bytes(long[place]), kind, self.client_charset))
            else:
                values.append(_read(reader, kind, self.client_charset, unsigned=unsigned))
        return tuple(values)


async def _packets(result_set: ResultSet, make: Callable[..., bytes]) -> AsyncIterator[bytes]:
    async for row in aiterate(result_set.rows):
        yield make(row, result_set.columns)


_BLOBS: Final = frozenset(
    {ColumnType.BLOB, ColumnType.TINY_BLOB, ColumnType.MEDIUM_BLOB, ColumnType.LONG_BLOB, ColumnType.GEOMETRY}
)
_NUMBERS: Final = {  # as `struct` calls them
    **{ColumnType.TINY: "b", ColumnType.SHORT: "h", ColumnType.YEAR: "h", ColumnType.INT24: "i", ColumnType.LONG: "i"},
    **{ColumnType.LONGLONG: "q", ColumnType.FLOAT: "f", ColumnType.DOUBLE: "d"},
}


def _read(reader: io.BytesIO, kind: ColumnType, charset: CharacterSet, *, unsigned: bool) -> Parameter:
    """https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_binary_resultset.html"""
    if code := _NUMBERS.get(kind):
        form = f"<{code.upper() if unsigned and code not in 'fd' else code}"
        (number,) = struct.unpack(form, reader.read(struct.calcsize(form)))
        return cast("int | float", number)
    match kind:
        case ColumnType.BOOL:
            return bool(types.read_uint_1(reader))
        case ColumnType.DATE | ColumnType.DATETIME | ColumnType.TIMESTAMP:
            return _moment(types.read_str_len(reader))
        case ColumnType.TIME:
            return _span(types.read_str_len(reader))
        case ColumnType.NULL:
            return None
    return _text_or_bytes(types.read_str_len(reader), kind, charset)


def _text_or_bytes(content: bytes, kind: ColumnType, charset: CharacterSet) -> Parameter:
    if kind in (ColumnType.DECIMAL, ColumnType.NEWDECIMAL):
        value = Decimal(content.decode("ascii")) if len(content) < 100 else Decimal("NaN")
        if not value.is_finite():
            raise ValueError
        return value
    if kind in _BLOBS:
        try:
            return charset.decode(content)  # drivers send long texts as blobs
        except UnicodeDecodeError:
            return content
    return charset.decode(content)


def _moment(content: bytes) -> datetime.date | None:
    if not content:
        return None  # MySQL's zero date
    year, month, day = struct.unpack_from("<HBB", content)
    if len(content) == 4:
        return datetime.date(year, month, day)
    hour, minute, second = struct.unpack_from("<BBB", content, 4)
    micro = struct.unpack_from("<I", content, 7)[0] if len(content) > 7 else 0
    return datetime.datetime(year, month, day, hour, minute, second, micro)  # noqa: DTZ001 - MySQL's has no zone


def _span(content: bytes) -> datetime.timedelta:
    if not content:
        return datetime.timedelta()
    negative, days, hours, minutes, seconds = struct.unpack_from("<BIBBB", content)
    micro = struct.unpack_from("<I", content, 8)[0] if len(content) > 8 else 0
    span = datetime.timedelta(days, seconds, micro, 0, minutes, hours)
    return -span if negative else span


class Statements(Session):
    """The statements of one connection. Those about the session are answered here, all others by a worker."""

    def __init__(self, server: Clients) -> None:
        super().__init__(SessionVariables(GlobalVariables(_VARIABLES)))
        self._server = server
        self._warnings: list[str] = []
        self.decimals: list[int] = []  # of the last answer's columns
        self._asking: asyncio.Future[Reply] | None = None

    def stop(self) -> None:
        """End the query under way."""
        if self._asking is not None:
            self._asking.cancel()

    @property
    def user(self) -> User | None:
        return self._server.logged_in.get(id(self)) if self.username else None

    def leave(self) -> None:
        self.username = None
        self._server.logged_in.pop(id(self), None)

    async def close(self) -> None:
        self.leave()
        await super().close()

    async def reset(self) -> None:
        self._warnings = []
        self.variables.set("cleave_bounds", False)
        self.variables.set("sql_select_limit", None)

    async def use(self, database: str) -> None:
        if database.lower() not in {DATABASE, *SYSTEM}:
            raise MysqlError(f"Unknown database '{database}'", ErrorCode.NO_DB_ERROR)
        self.database = database

    async def handle_query(self, sql: str, attrs: dict[str, str]) -> Any:
        del attrs
        self.decimals = []
        words = _without_comments(sql).split(None, 2)
        first = words[0].upper().rstrip(";") if words else ""
        if not first:
            return None
        if first == "KILL":
            return await self._kill(words[1:])
        if [each.upper().rstrip(";") for each in words[:2]] == ["SHOW", "WARNINGS"]:
            rows = [("Note", 0, each) for each in self._warnings]
            columns = [("Level", ColumnType.VARCHAR), ("Code", ColumnType.LONGLONG), ("Message", ColumnType.VARCHAR)]
            return ResultSet(rows, [ResultColumn(name, type_) for name, type_ in columns])
        if first in _ABOUT_SESSION and len(sql) <= _MOST_SET:
            return await self._set(sql)
        return await self.ask(sql, ())

    async def _set(self, sql: str) -> Any:
        if _TRANSACTION.match(_without_comments(sql)):
            return None  # nothing is ever written
        try:
            return await super().handle_query(sql, {})
        except MysqlError:
            raise
        except Exception:  # noqa: BLE001 - of a parser that a client's bytes went through
            raise MysqlError("the statement cannot be read", ErrorCode.PARSE_ERROR) from None

    def _set_variable(self, setitem: exp.SetItem) -> None:
        """Set a variable. Of MySQL's there are hundreds that change nothing here."""
        name = setitem.this.left.name.lower()
        if isinstance(setitem.this.left, exp.Parameter):
            raise MysqlError(f"@{name} cannot be set ({NO_VARIABLES})", ErrorCode.UNKNOWN_SYSTEM_VARIABLE)
        if name in self.variables.schema and name not in _EXPRESSIONS:
            super()._set_variable(setitem)
        elif name.startswith("cleave_"):
            raise MysqlError(f"there is no variable {name}", ErrorCode.UNKNOWN_SYSTEM_VARIABLE)

    async def _kill(self, words: Sequence[str]) -> None:
        """End a question, or a connection, of the same user."""
        kind, number = (words[0].upper(), words[1]) if len(words) > 1 else ("CONNECTION", (words or [""])[0])
        number = number.rstrip("; ")
        other = self._server.clients.get(int(number)) if number.isdecimal() else None
        if kind not in ("CONNECTION", "QUERY") or other is None or other.session.username != self.username:
            raise MysqlError("there is no such connection of yours")
        if kind == "CONNECTION":
            other.kill(KillKind.CONNECTION)
        else:
            other.session.stop()

    async def ask(self, sql: str, parameters: tuple[Parameter, ...]) -> ResultSet:
        """Have a worker answer. Raises MysqlError; ConnectionClosed where the client has gone meanwhile."""
        user, name = self.user, self.username
        if user is None or name is None:
            raise MysqlError("Access denied", ErrorCode.ACCESS_DENIED_ERROR)
        variables = dict(self.variables.list())
        limit, seconds = variables.get("sql_select_limit"), variables.get("max_execution_time")
        question = self._server.workers.ask(
            name,
            user,
            sql,
            parameters,
            variables=variables
            | {"database": self.database, "user": f"{name}@%", "connection_id": self.connection.connection_id},
            bounds=bool(variables.get("cleave_bounds")),
            most=int(limit) if limit is not None and limit < 1 << 62 else None,
            seconds=seconds / 1000 if seconds else None,
        )
        try:
            reply = await self._replied(question)
        except Refused as error:
            self._warnings = []
            raise MysqlError(str(error), ErrorCode.UNKNOWN_ERROR) from None
        self._warnings = reply.warnings
        self.decimals = [_decimals(type_) for _, type_ in reply.columns]
        return ResultSet(self._rows(reply), [_column(name, type_) for name, type_ in reply.columns])

    async def _has_left(self) -> bool:
        return bool(self.connection.stream.is_left)

    async def _replied(self, question: Coroutine[Any, Any, Reply]) -> Reply:
        """Wait for the reply. Raises Refused, MysqlError for a query that was killed, ConnectionClosed."""
        self._asking = asking = asyncio.ensure_future(question)
        try:
            return await reply_while_connected(asking, self._has_left)
        except ClientGone:
            self.connection.stream.is_over = True
            raise ConnectionClosed from None
        except asyncio.CancelledError:
            if asking.cancelled() and not asyncio.current_task().cancelling():  # type: ignore[union-attr]
                raise MysqlError("the query was killed", ErrorCode.SESSION_WAS_KILLED) from None
            raise
        finally:
            self._asking = None

    async def _rows(self, reply: Reply) -> AsyncIterator[Sequence[Any]]:
        """Rows, no faster than the client takes them."""
        for place, row in enumerate(reply.rows, 1):
            yield row
            if not place % _ROWS:
                await self.connection.stream.drain()


def _without_comments(sql: str) -> str:
    """`sql` from its first word on."""
    text = sql.lstrip()
    while text.startswith(("/*", "--", "#")):
        _, end, text = text.partition("*/" if text.startswith("/*") else "\n")
        text = text.lstrip() if end else ""
    return text


class Clients:
    """Accepts connections. `logged_in`: users by session."""

    def __init__(self, workers: Workers, users: Callable[[], Users], tls: SSLContext) -> None:
        self.workers = workers
        self.logged_in: dict[int, User] = {}
        self.clients: dict[int, Client] = {}
        self._control = LocalControl()
        self._users = users
        self._tls = tls
        self._key = rsa.generate_private_key(65537, 2048)  # of this process
        self._checks = asyncio.Semaphore(2)  # each takes 64 MiB
        self._secret = secrets.token_bytes(32)
        self._right: set[bytes] = set()

    async def serve(self, listener: socket.socket) -> None:
        """Take connections until it is cancelled."""
        loop = asyncio.get_running_loop()
        tasks = set()
        while True:
            try:
                accepted, _ = await loop.sock_accept(listener)
            except OSError:  # too many files, or a client that has left again
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            task = asyncio.create_task(self._accept(accepted))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    async def _accept(self, accepted: socket.socket) -> None:
        stream = Stream(accepted)
        session = Statements(self)

        async def check(name: str, password: bytes) -> bool:
            async with self._checks:
                user = await asyncio.to_thread(self._checked, name, password)
            if user is not None:
                self.logged_in[id(session)] = user
            return user is not None

        plugin = Password(stream, check, self._key, needs_tls=not _is_local(accepted))
        client = Client(stream, session, self._control, Accounts(plugin), _CAPABILITIES, ssl=self._tls)
        try:
            if len(self.clients) >= MOST_CONNECTIONS:
                await stream.write(client.error(msg="Too many connections", code=ErrorCode.CON_COUNT_ERROR))
                return
            client.connection_id = await self._control.add(client)
            self.clients[client.connection_id] = client
            await client.start()
        except (Exception, asyncio.CancelledError):  # noqa: BLE001 - a client's bytes end its connection, nothing else
            stream.is_over = True
        finally:
            session.leave()
            self.clients.pop(client.connection_id, None)
            await self._control.remove(client.connection_id)
            stream.close()

    def _checked(self, name: str, password: bytes) -> User | None:
        """Return the user of that password. A password that was right before is checked again without Argon2."""
        try:
            users = self._users()
        except CleaveError:  # of the file of users, meanwhile
            return None
        user = users.users.get(name)
        seen = hmac.digest(self._secret, f"{user and user.password}\0".encode() + password, "sha256")
        if user is not None and seen in self._right:
            return user
        user = users.with_password(name, password)
        if user is not None and len(self._right) < _MOST_REMEMBERED:
            self._right.add(seen)
        return user


def _is_local(client: socket.socket) -> bool:
    try:
        return is_loopback(client.getpeername()[0])
    except OSError:  # it has left again
        return False


def _column(name: str, duck: str) -> ResultColumn:
    """Description and encoders of a column."""
    data_type = type_of(duck)[0]
    kind = _KINDS.get(data_type, ColumnType.VAR_STRING)
    if duck == "BLOB":
        return ResultColumn(name, ColumnType.BLOB, CharacterSet.binary, _as_bytes, _long_bytes)
    if data_type == "float":
        kind = ColumnType.DOUBLE  # which loses no digit
    text = _TEXT.get(data_type, _as_text)
    return ResultColumn(name, kind, CharacterSet.utf8mb4, text, _BINARY.get(data_type, _long_text))


def _decimals(duck: str) -> int:
    """Decimals that a column's description states: drivers cut a time's microseconds to as many."""
    data_type = type_of(duck)[0]
    return decimals_of(duck) or 0 if data_type == "decimal" else _DECIMALS.get(data_type, 0)


_KINDS: Final = {
    "tinyint": ColumnType.LONG,
    "smallint": ColumnType.LONG,
    "int": ColumnType.LONG,
    "bigint": ColumnType.LONGLONG,
    "decimal": ColumnType.NEWDECIMAL,
    "double": ColumnType.DOUBLE,
    "date": ColumnType.DATE,
    "datetime": ColumnType.DATETIME,
    "time": ColumnType.TIME,
    "json": ColumnType.JSON,
}
_DECIMALS: Final = {"datetime": 6, "time": 6, "double": 31, "float": 31}  # 31: as many as there are
_BITS: Final = {"true": "1", "false": "0"}


def _as_text(_: ResultColumn, text: str) -> bytes:
    return text.encode()


def _as_bit(_: ResultColumn, text: str) -> bytes:
    return _BITS.get(text, text).encode()


def _as_moment(_: ResultColumn, text: str) -> bytes:
    return text.removesuffix("+00").encode()


def _as_bytes(_: ResultColumn, text: str) -> bytes:
    """Bytes of DuckDB's text of a BLOB: `\\xAB` for what is no printable character of ASCII."""
    parts = text.split("\\x")
    return parts[0].encode() + b"".join(bytes.fromhex(each[:2]) + each[2:].encode() for each in parts[1:])


def _long_text(_: ResultColumn, text: str) -> bytes:
    return types.str_len(text.encode())


def _long_bytes(column: ResultColumn, text: str) -> bytes:
    return types.str_len(_as_bytes(column, text))


def _binary(kind: ColumnType, convert: Callable[[str], Any]) -> Callable[[ResultColumn, str], bytes]:
    """mysql-mimic's encoding of a value that is made of a text."""
    plain = ResultColumn("", kind)
    return lambda _, text: plain.binary_encode(convert(text))


def _whole(text: str) -> int:
    return int(_BITS.get(text, text))


def _moment_of(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text.removesuffix("+00"))


def _clock(text: str) -> datetime.timedelta:
    hour, minute, second = text.split(":")  # 24:00:00 is one
    return datetime.timedelta(hours=int(hour), minutes=int(minute), seconds=float(second))


_TEXT: Final = {"tinyint": _as_bit, "datetime": _as_moment}
_BINARY: Final = {
    **dict.fromkeys(("tinyint", "smallint", "int"), _binary(ColumnType.LONG, _whole)),
    "bigint": _binary(ColumnType.LONGLONG, int),
    **dict.fromkeys(("double", "float"), _binary(ColumnType.DOUBLE, float)),
    "date": _binary(ColumnType.DATE, datetime.date.fromisoformat),
    "datetime": _binary(ColumnType.DATETIME, _moment_of),
    "time": _binary(ColumnType.TIME, _clock),
}
