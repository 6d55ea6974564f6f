"""Connections and statements of MySQL's protocol, by mysql-mimic; what it leaves open is closed here.

- A client whose password is wrong is cut off: mysql-mimic would report the error and go on to take its statements.
- Parameters of prepared statements stay values until a parser puts them into the statement; mysql-mimic pastes texts in
  as they are.
- Connections and prepared statements have limits. A client that leaves stops its query.
- Statements about the session set variables and the database, one at a time. mysql-mimic would also answer SELECTs
  behind them, as Python in this process, and kill any user's connection.
"""

from __future__ import annotations

import asyncio
import hmac
import io
import re
import secrets
import socket
import struct
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric import rsa
from mysql_mimic import packets, types
from mysql_mimic.auth import Forbidden, Success
from mysql_mimic.connection import Connection
from mysql_mimic.constants import DEFAULT_SERVER_CAPABILITIES, KillKind
from mysql_mimic.control import LocalControl
from mysql_mimic.errors import ErrorCode, MysqlError
from mysql_mimic.prepared import PreparedStatement
from mysql_mimic.results import NullBitmap, ResultColumn, ResultSet
from mysql_mimic.session import Session
from mysql_mimic.stream import ConnectionClosed
from mysql_mimic.types import Capabilities, ColumnType
from mysql_mimic.utils import aiterate
from mysql_mimic.variables import SYSTEM_VARIABLES, GlobalVariables, SessionVariables
from sqlglot import exp

from cleave.front.admission import Admitted
from cleave.front.certificates import Certificate
from cleave.gateway.dialect import (
    DATABASE,
    MOST_CHARACTERS,
    NO_VARIABLES,
    SYSTEM,
    VERSION,
    Parameter,
    placeholders,
)
from cleave.gateway.mysql_stream import ENDS, LOGIN_SECONDS, MOST_BEFORE_LOGIN, Accounts, Password, Stream
from cleave.gateway.mysql_values import column_of, decimals_shown, read_parameter, text_or_bytes
from cleave.gateway.work import Request
from cleave.gateway.workers import ClientGone, Refused, Reply, Workers, reply_while_connected
from cleave.share.users import User, Users
from cleave.transport.addresses import is_loopback
from cleave_shared.errors import CleaveError, QueryRefused

IDLE_SECONDS: Final = 8 * 3600.0
_MOST_PACKET: Final = 4 * MOST_CHARACTERS + (1 << 16)
_MOST_PREPARED: Final = 1024
_MOST_REMEMBERED: Final = 4096  # passwords that were right
_MOST_SET: Final = 1 << 12  # characters of a statement about the session
_ROWS: Final = 1000
_EXPRESSIONS: Final = frozenset({"sql_mode", "session_track_system_variables"})  # JDBC sets them to CONCAT(...)
_TRANSACTION: Final = re.compile(r"SET\s+(?:(?:SESSION|LOCAL)\s+)?TRANSACTION\s", re.IGNORECASE)
_ABOUT_SESSION: Final = frozenset({"SET", "USE", "BEGIN", "START", "COMMIT", "ROLLBACK"})
_COMMENTS: Final = re.compile(r"(?:\s++|/\*.*?(?:\*/|\Z)|(?:--|#)[^\n]*+)*+", re.DOTALL)

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


class Client(Connection):
    """Connection of mysql-mimic whose user is settled before its first statement."""

    stream: Stream
    session: Statements
    code_of_refusal: ErrorCode | None = None  # of a log-in, if it is not that access is denied

    async def connection_phase(self) -> None:
        await super().connection_phase()
        if self.session.user is None:
            raise ConnectionClosed
        self.stream.most, self.stream.patience = _MOST_PACKET, IDLE_SECONDS

    def error(self, **fields: Any) -> bytes:
        """Return an error packet, without the text of an internal error."""
        if self.code_of_refusal is not None:
            fields["code"] = self.code_of_refusal
        message = fields.get("msg")
        if isinstance(message, Exception) and not isinstance(message, MysqlError):
            fields["msg"] = "the message cannot be read"
        return super().error(**fields)

    async def handle_change_user(self, data: bytes) -> None:
        self.session.leave()
        self.stream.patience = LOGIN_SECONDS
        if len(data) > MOST_BEFORE_LOGIN:
            self.stream.is_over = True
            raise MysqlError("the message is too long", ErrorCode.MALFORMED_PACKET)
        await super().handle_change_user(data + ENDS)
        self.stream.is_over = self.session.user is None
        self.stream.patience = IDLE_SECONDS

    async def handle_field_list(self, data: bytes) -> None:
        if len(data) > MOST_BEFORE_LOGIN:
            raise MysqlError("the message is too long", ErrorCode.MALFORMED_PACKET)
        await super().handle_field_list(data + ENDS)

    async def handle_reset_connection(self, data: bytes) -> None:
        self.prepared_stmts.clear()
        await self.session.reset()
        await super().handle_reset_connection(data)

    async def handle_stmt_prepare(self, data: bytes) -> None:
        if len(self.prepared_stmts) >= _MOST_PREPARED:
            raise MysqlError(f"there are {_MOST_PREPARED:,} prepared statements; close some")
        sql = self.client_charset.decode(data)
        size = sum(len(each.sql) for each in self.prepared_stmts.values())
        if size + len(sql) > MOST_CHARACTERS:
            raise MysqlError(f"prepared statements have at most {MOST_CHARACTERS:,} characters; close some")
        try:
            count = placeholders(sql)
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
                values.append(text_or_bytes(bytes(long[place]), kind, self.client_charset))
            else:
                values.append(read_parameter(reader, kind, self.client_charset, unsigned=unsigned))
        return tuple(values)


async def _packets(result_set: ResultSet, make: Callable[..., bytes]) -> AsyncIterator[bytes]:
    async for row in aiterate(result_set.rows):
        yield make(row, result_set.columns)


class Statements(Session):
    """The statements of one connection. Those about the session are answered here, all others by a worker."""

    def __init__(self, server: Clients, admitted: Admitted) -> None:
        super().__init__(SessionVariables(GlobalVariables(_VARIABLES)))
        self.middlewares = [
            self._set_middleware,
            self._use_middleware,
            self._begin_middleware,
            self._commit_middleware,
            self._rollback_middleware,
        ]
        self._server = server
        self._admitted = admitted
        self._holder: str | None = None  # user who has the connection
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
        if self._holder is not None:
            self._admitted.give_back(self._holder)
            self._holder = None

    def enter(self, name: str, user: User) -> bool:
        """Log a user in. False where that user has too many connections."""
        if not self._admitted.take(name):
            return False
        self._holder = name
        self._server.logged_in[id(self)] = user
        return True

    async def close(self) -> None:
        self._admitted.leave()  # before it would wait again
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

    def _parse(self, sql: str) -> list[exp.Expression]:
        statements = super()._parse(sql)
        if len(statements) > 1:
            raise MysqlError("there are several statements; send one after the other", ErrorCode.PARSE_ERROR)
        return statements

    async def query(self, expression: exp.Expression, sql: str, attrs: dict[str, str]) -> Any:
        """Refuse what is not about the session, though it begins with such a word."""
        del expression, sql, attrs
        raise MysqlError("the statement cannot be read", ErrorCode.PARSE_ERROR)

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
        request = Request(
            sql,
            parameters,
            variables=variables
            | {"database": self.database, "user": f"{name}@%", "connection_id": self.connection.connection_id},
            bounds=bool(variables.get("cleave_bounds")),
            most=int(limit) if limit is not None and limit < 1 << 62 else None,
            seconds=seconds / 1000 if seconds else None,
        )
        try:
            reply = await self._replied(self._server.workers.ask(name, user, request))
        except Refused as error:
            self._warnings = []
            raise MysqlError(str(error), ErrorCode.UNKNOWN_ERROR) from None
        self._warnings = reply.warnings
        self.decimals = [decimals_shown(type_) for _, type_ in reply.columns]
        return ResultSet(self._rows(reply), [column_of(name, type_) for name, type_ in reply.columns])

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
    """`sql` from its first word on. Takes time in proportion to its length: it runs where all clients are served."""
    match = _COMMENTS.match(sql)
    return sql[match.end() :] if match else sql


class Clients:
    """Accepts connections. `logged_in`: users by session."""

    def __init__(self, workers: Workers, users: Callable[[], Users], certificate: Certificate) -> None:
        self.workers = workers
        self.logged_in: dict[int, User] = {}
        self.clients: dict[int, Client] = {}
        self._control = LocalControl()
        self._users = users
        self._certificate = certificate
        self._key = rsa.generate_private_key(65537, 2048)  # of this process
        self._checks = asyncio.Semaphore(2)  # each takes 64 MiB
        self._secret = secrets.token_bytes(32)
        self._right: set[bytes] = set()

    async def serve(self, accepted: socket.socket, admitted: Admitted) -> None:
        """Serve one connection until it ends."""
        stream = Stream(accepted)
        session = Statements(self, admitted)

        async def check(name: str, password: bytes) -> Success | Forbidden:
            async with self._checks:
                user = await asyncio.to_thread(self._checked, name, password)
            if user is None:
                return Forbidden()
            if not session.enter(name, user):
                client.code_of_refusal = ErrorCode.CON_COUNT_ERROR
                return Forbidden(f"Too many connections of {name}: close some, or try again later")
            return Success(name)

        plugin = Password(stream, check, self._key, needs_tls=not is_loopback(admitted.address))
        context = self._certificate.context
        client = Client(stream, session, self._control, Accounts(plugin), _CAPABILITIES, ssl=context)
        try:
            client.connection_id = await self._control.add(client)
            self.clients[client.connection_id] = client
            await client.start()
        finally:
            stream.is_over = True
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
