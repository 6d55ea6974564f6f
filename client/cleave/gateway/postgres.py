"""PostgreSQL's protocol, version 3: logins, simple and extended queries, cancel requests.

https://www.postgresql.org/docs/current/protocol.html
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
import socket
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from cleave.front.admission import Admitted
from cleave.front.certificates import Certificate
from cleave.gateway.codecs import row
from cleave.gateway.refusal import Refused
from cleave.gateway.session import REPORTED, Command, CommandComplete, SessionSettings
from cleave.gateway.types import TEXT, described, spread
from cleave.gateway.wire import CANCEL, LOGIN_SECONDS, ClientStream, Fields, Gone, failure, message, messages_of, text
from cleave.gateway.work import Request
from cleave.gateway.workers import ClientGone, Reply, Workers, reply_while_connected
from cleave.logins.scram import Login, ScramError
from cleave.logins.users import User, Users
from cleave.transport.addresses import is_loopback
from cleave_shared.errors import CleaveError

IDLE_SECONDS: Final = 8 * 3600.0
WRONG_SECONDS = 1.0  # delay before a wrong password is refused: attempts must cost this machine little
DATABASE: Final = "cleave"
_MOST_MESSAGE: Final = 4 << 20  # bytes
_MOST_BEFORE_LOGIN: Final = 1 << 13
_MOST_TEXT: Final = 1 << 18  # characters of all statements in one message
_MOST_NAMED: Final = 1024  # prepared statements per connection; portals likewise
_MOST_KEPT: Final = 4 << 20  # bytes of their texts and parameters
_MINOR: Final = 2  # minor version of protocol 3


@dataclass(slots=True)
class Prepared:
    """A prepared statement. `command` None: an empty one. `columns` None: not described yet."""

    command: Command | None
    oids: list[int]
    columns: tuple[tuple[str, str], ...] | None = None
    size: int = field(init=False)

    def __post_init__(self) -> None:
        self.size = (self.command.size if self.command else 0) + 4 * len(self.oids)


@dataclass(slots=True)
class Portal:
    """A statement with its parameters, and the rows not yet sent."""

    prepared: Prepared
    parameters: tuple[tuple[int, bytes | None, bool], ...] = ()
    formats: tuple[int, ...] = ()
    done: CommandComplete | None = None
    reply: Reply | None = None
    sent: int = 0  # rows
    offset: int = 0  # bytes already sent of the first frame
    form: str = "rows"
    is_cursor: bool = False
    lasts: bool = False  # WITH HOLD: it stays open after the transaction
    size: int = field(init=False)

    def __post_init__(self) -> None:
        self.size = sum(len(content or b"") + 8 for _, content, _ in self.parameters)


class Client:
    """One connection."""

    def __init__(self, server: Clients, stream: ClientStream, admitted: Admitted, pid: int) -> None:
        self._server = server
        self._stream = stream
        self._admitted = admitted
        self.name = ""
        self.key = b""
        self._user: User | None = None
        self._settings = SessionSettings("", pid)
        self._statements: dict[str, Prepared] = {}
        self._portals: dict[str, Portal] = {}
        self._asking: asyncio.Future[Reply] | None = None
        self._failed = False  # after an error, until Sync

    async def serve(self) -> None:
        """Serve the connection until it ends. Raises Gone."""
        try:
            async with asyncio.timeout(LOGIN_SECONDS):
                if not await self._login():
                    return
        except (TimeoutError, OSError):
            raise Gone from None
        while await self._next():
            pass

    def stop(self) -> None:
        """Cancel the running query."""
        if self._asking is not None:
            self._asking.cancel()

    def end(self) -> None:
        """Tell the client that the gateway ends."""
        self._stream.write(failure(b"E", "FATAL", "57P01", "the gateway ends"))

    # login

    async def _login(self) -> bool:
        certificate = self._server.certificate
        context, binding = certificate.context, certificate.binding
        code, content = await self._stream.startup(context)
        if code == CANCEL:
            self._server.cancel(content)
            return False
        if code >> 16 != 3:
            return await self._refuse("0A000", "this server speaks version 3 of the protocol")
        words = content.decode("utf-8", "replace").split("\0")
        given = {name: value for name, value in zip(words[::2], words[1::2], strict=False) if name}
        user = given.pop("user", "")
        if not self._stream.is_encrypted:
            binding = None
            if not is_loopback(self._admitted.address):
                return await self._refuse("28000", "this server takes connections under TLS only", "sslmode=require")
        unknown = [name for name in given if name.startswith("_pq_.")]
        minor = min(code & 0xFFFF, _MINOR)
        if unknown or code & 0xFFFF > _MINOR:
            names = b"".join(map(text, unknown))
            self._stream.write(message(b"v", struct.pack("!II", 3 << 16 | minor, len(unknown)) + names))
        if not await self._authenticate(user, binding):
            return False
        if given.get("database", user) not in (DATABASE, user) or "replication" in given:
            return await self._refuse("3D000", f"the only database here is {DATABASE!r}")
        self._settings.user = self.name
        try:
            self._settings.values |= await self._server.workers.start(self.name, given)
        except Refused as error:
            return await self._refuse(error.code, error.message, error.hint)
        self.key = secrets.token_bytes(32 if minor >= _MINOR else 4)
        self._stream.write(message(b"R", bytes(4)))
        for name, shown in REPORTED.items():
            if name in self._settings.shown:
                self._report(shown, self._settings.shown[name])
        self._stream.write(message(b"K", struct.pack("!I", self._settings.pid) + self.key))
        self._ready()
        await self._stream.drain()
        return True

    async def _authenticate(self, name: str, binding: bytes | None) -> bool:
        try:
            users = self._server.users()
        except CleaveError:  # of the users file, which changed
            users = Users(secret=self._server.secret)
        login = Login(users.verifier(name), binding)
        offered = b"".join(map(text, login.mechanisms))
        self._stream.write(message(b"R", struct.pack("!I", 10) + offered + b"\0"))
        try:
            fields = Fields(await self._password())
            mechanism, first = fields.text(), fields.value() or b""
            self._stream.write(message(b"R", struct.pack("!I", 11) + login.first(mechanism, first)))
            signature = login.final(await self._password())
        except (ScramError, ValueError) as error:
            return await self._refuse(
                "08P01", str(error) if isinstance(error, ScramError) else "the login cannot be read"
            )
        user = users.users.get(name)
        if signature is None or user is None:
            await asyncio.sleep(WRONG_SECONDS)
            return await self._refuse("28P01", f"password authentication failed for user {name!r}")
        if user.fault:
            return await self._refuse("28000", user.fault)
        if not self._admitted.take(name):
            return await self._refuse("53300", f"too many connections of {name}", "close some, or try again later")
        self.name, self._user = name, user
        self._stream.write(message(b"R", struct.pack("!I", 12) + signature))
        return True

    async def _password(self) -> bytes:
        await self._stream.drain()
        kind, content = await self._stream.read(_MOST_BEFORE_LOGIN)
        if kind != b"p":
            raise Gone
        return content

    async def _refuse(self, code: str, said: str, hint: str = "") -> bool:
        self._stream.write(failure(b"E", "FATAL", code, said, hint))
        await self._stream.drain()
        return False

    def leave(self) -> None:
        """Return the user's connection."""
        self._admitted.leave()
        if self.name:
            self._admitted.give_back(self.name)

    # messages

    def _report(self, name: str, value: str) -> None:
        self._stream.write(message(b"S", text(name) + text(value)))

    def _ready(self) -> None:
        self._stream.write(message(b"Z", self._settings.status.encode()))

    async def _next(self) -> bool:
        """Answer the next message. False at the end of the connection."""
        try:
            async with asyncio.timeout(IDLE_SECONDS):
                kind, content = await self._stream.read(_MOST_MESSAGE)
        except TimeoutError:
            raise Gone from None
        if kind == b"X":
            return False
        if kind == b"S":
            self._failed = False
            self._end_statement()
            self._ready()
        elif kind == b"Q" or not self._failed:
            try:
                await self._answer(kind, Fields(content))
            except Refused as error:
                self._fail(error.code, error.message, error.hint, error.at)
            except (ValueError, struct.error):
                self._fail("08P01", "the message cannot be read", "")
            if kind == b"Q":
                self._end_statement()
                self._failed = False
                self._ready()
        await self._stream.drain()
        await asyncio.sleep(0)  # gives others a turn, even if this client's next messages have arrived
        return True

    def _fail(self, code: str, said: str, hint: str, at: int | None = None) -> None:
        self._failed = True
        if self._settings.status == "T":
            self._settings.status = "E"
        self._stream.write(failure(b"E", "ERROR", code, said, hint, at))

    def _end_statement(self) -> None:
        """End a message's implicit transaction, unless a transaction is open: close all portals except cursors WITH
        HOLD.
        """
        if self._settings.status == "I":
            self._portals = {name: each for name, each in self._portals.items() if each.lasts}

    async def _answer(self, kind: bytes, fields: Fields) -> None:
        match kind:
            case b"Q":
                await self._simple(fields.text())
            case b"P":
                await self._parse(fields)
            case b"B":
                self._bind(fields)
            case b"D":
                of, name = fields.take(1), fields.text()
                await (self._describe_statement(name) if of == b"S" else self._describe_portal(name))
            case b"E":
                portal = self._portal(fields.text())
                await self._execute(portal, fields.number("i"))
            case b"C":
                of, name = fields.take(1), fields.text()
                (self._statements if of == b"S" else self._portals).pop(name, None)
                self._stream.write(message(b"3"))
            case b"H" | b"d" | b"c" | b"f":
                pass
            case _:
                raise Refused("this message is not known here", code="08P01")

    async def _simple(self, sql: str) -> None:
        commands = await self._read(sql)
        for command in commands:
            await asyncio.sleep(0)  # gives others a turn
            portal = Portal(Prepared(command, []))
            await self._run(portal)
            if self._has_rows(portal):
                self._stream.write(message(b"T", self._columns(portal)))
            await self._execute(portal, 0)
        if not commands:
            self._stream.write(message(b"I"))

    async def _read(self, sql: str) -> list[Command]:
        if len(sql) > _MOST_TEXT:
            raise Refused(f"statements have at most {_MOST_TEXT:,} characters", code="54000")
        return await self._server.workers.read(self.name, sql)

    async def _parse(self, fields: Fields) -> None:
        name, sql = fields.text(), fields.text()
        oids = list(fields.several("I"))
        commands = await self._read(sql)
        if len(commands) > 1:
            raise Refused("cannot insert multiple commands into a prepared statement", code="42601")
        if name and name in self._statements:
            raise Refused(f"prepared statement {name!r} already exists", code="42P05")
        prepared = Prepared(commands[0] if commands else None, oids)
        self._require_room(self._statements, prepared)
        self._statements[name] = prepared
        self._stream.write(message(b"1"))

    def _require_room(self, there: dict[str, Any], more: Prepared | Portal) -> None:
        """Raises Refused for too many statements or portals, or too many bytes in them."""
        if len(there) >= _MOST_NAMED or more.size + sum(each.size for each in there.values()) > _MOST_KEPT:
            raise Refused("too many prepared statements or portals", "close some", "54000")

    def _bind(self, fields: Fields) -> None:
        name, of = fields.text(), fields.text()
        prepared = self._statement(of)
        forms = fields.several("h")
        values = [fields.value() for _ in range(fields.number("H"))]
        formats = spread(forms, len(values))
        oids = prepared.oids + [0] * (len(values) - len(prepared.oids))
        if len(oids) > len(values):
            raise Refused(f"{len(values)} parameters are bound, and the statement has {len(oids)}", code="08P01")
        parameters = tuple((oid, value, bool(form)) for oid, value, form in zip(oids, values, formats, strict=True))
        if name and name in self._portals:
            raise Refused(f"cursor {name!r} already exists", code="42P03")
        portal = Portal(prepared, parameters, fields.several("h"))
        self._require_room(self._portals, portal)
        self._portals[name] = portal
        self._stream.write(message(b"2"))

    def _statement(self, name: str) -> Prepared:
        if name not in self._statements:
            raise Refused(f"prepared statement {name!r} does not exist", code="26000")
        return self._statements[name]

    def _portal(self, name: str) -> Portal:
        if name not in self._portals:
            raise Refused(f"cursor {name!r} does not exist", code="34000")
        return self._portals[name]

    async def _describe_statement(self, name: str) -> None:
        prepared = self._statement(name)
        if prepared.columns is None:
            command = prepared.command or Command("EMPTY")
            self._settings.require(command)
            if command.sql:
                empty = Portal(prepared, tuple((oid, None, False) for oid in prepared.oids))
                reply = await self._ask(empty, "none")
                prepared.oids = reply.parameters
                prepared.columns = () if command.tag else tuple(reply.columns)
            elif command.tag == "FETCH":  # the name may be another cursor's by then
                await self._describe_fetch(command.name)
                return
            else:
                done = self._settings.execute(command) if command.tag == "SHOW" else None
                prepared.columns = ((done.shown[0], "VARCHAR"),) if done and done.shown else ()
        self._stream.write(message(b"t", struct.pack(f"!H{len(prepared.oids)}I", len(prepared.oids), *prepared.oids)))
        shown = prepared.columns
        self._stream.write(message(b"T", described(shown, [0] * len(shown))) if shown else message(b"n"))

    async def _describe_fetch(self, name: str) -> None:
        columns = await self._columns_ahead(self._portal(name))
        self._stream.write(message(b"t", bytes(2)) + message(b"T", described(columns, [0] * len(columns))))

    async def _columns_ahead(self, cursor: Portal) -> Sequence[tuple[str, str]]:
        """The columns of a cursor before its first FETCH."""
        if cursor.reply is None:
            cursor.prepared.columns = tuple((await self._ask(cursor, "none")).columns)
            return cursor.prepared.columns
        return cursor.reply.columns

    async def _describe_portal(self, name: str) -> None:
        portal = self._portal(name)
        if portal.is_cursor and portal.reply is None:  # the first FETCH sets its format
            columns = await self._columns_ahead(portal)
            self._stream.write(message(b"T", described(columns, [0] * len(columns))))
            return
        if not portal.is_cursor:
            await self._run(portal)
        self._stream.write(message(b"T", self._columns(portal)) if self._has_rows(portal) else message(b"n"))

    def _has_rows(self, portal: Portal) -> bool:
        return (portal.reply is not None and portal.form == "rows") or bool(portal.done and portal.done.shown)

    def _columns(self, portal: Portal) -> bytes:
        columns = portal.reply.columns if portal.reply is not None else [(portal.done.shown[0], "VARCHAR")]  # type: ignore
        return described(columns, spread(portal.formats, len(columns)))

    # statements

    async def _run(self, portal: Portal) -> None:
        """Run a portal's statement, without sending rows. A second call does nothing."""
        command = portal.prepared.command
        if portal.done is not None or portal.reply is not None or command is None:
            return
        before = self._settings.shown
        portal.done = self._settings.execute(command)
        for name, value in self._settings.shown.items():
            if name in REPORTED and value != before[name]:
                self._report(REPORTED[name], value)
        match command.tag:
            case "":
                portal.reply = await self._ask(portal, "rows")
            case "DECLARE CURSOR":
                if command.name in self._portals:
                    raise Refused(f"cursor {command.name!r} already exists", code="42P03")
                question = Command("", command.size, command.sql, command.start)
                cursor = Portal(Prepared(question, portal.prepared.oids), portal.parameters)
                cursor.is_cursor, cursor.lasts = True, command.form == "hold"
                self._require_room(self._portals, cursor)
                self._portals[command.name] = cursor
            case "FETCH":
                cursor = self._portal(command.name)
                if cursor.reply is None:
                    cursor.formats = portal.formats
                    cursor.reply = await self._ask(cursor, "rows")
                elif cursor.formats != portal.formats:
                    raise Refused("a cursor's rows are fetched in the formats of the first FETCH", code="0A000")
                portal.reply = cursor.reply
            case "CLOSE CURSOR" | "DISCARD ALL":
                if command.name == "all" or command.tag == "DISCARD ALL":
                    self._portals = {name: each for name, each in self._portals.items() if each is portal}
                else:
                    self._portal(command.name)
                    del self._portals[command.name]
                if command.tag == "DISCARD ALL":
                    self._statements.clear()
            case "DEALLOCATE ALL":
                self._statements.clear()
            case "DEALLOCATE":
                self._statement(command.name)
                del self._statements[command.name]
            case "COPY":
                portal.form = command.form
                portal.reply = await self._ask(portal, command.form)

    async def _execute(self, portal: Portal, most: int) -> None:
        """Send up to `most` rows of a portal; 0 means all."""
        await self._run(portal)
        command, done, reply = portal.prepared.command, portal.done, portal.reply
        if command is None:
            self._stream.write(message(b"I"))
        elif done is not None and done.shown is not None:
            self._stream.write(message(b"D", row([TEXT], [0])([done.shown[1]])) + message(b"C", text("SHOW")))
        elif command.tag == "FETCH":
            cursor = self._portal(command.name)
            count = await self._send(cursor, max(command.count, 0)) if command.count else 0
            self._stream.write(message(b"C", text(f"FETCH {count}")))
        elif command.tag == "COPY" and reply is not None:
            form, columns = int(command.form == "binary"), len(reply.columns)
            self._stream.write(message(b"H", struct.pack(f"!bH{columns}H", form, columns, *[form] * columns)))
            count = await self._send(portal, 0)
            self._stream.write(message(b"c") + message(b"C", text(f"COPY {count}")))
        elif done is not None:
            self._stream.write(message(b"C", text(done.tag)))
        elif reply is not None:
            count = await self._send(portal, max(most, 0))
            left = portal.sent < reply.count
            self._stream.write(message(b"s") if left else message(b"C", text(f"SELECT {count}")))

    async def _send(self, portal: Portal, most: int) -> int:
        """Send the next rows as fast as the client reads, and free what was sent."""
        reply, before = portal.reply, portal.sent
        assert reply is not None  # noqa: S101 - callers have run the statement
        while reply.frames:
            count, content = reply.frames[0]
            left = most - (portal.sent - before) if most else count
            if most and left <= 0:
                break
            if left >= count:
                part, taken = content[portal.offset :], count
                del reply.frames[0]
                portal.offset = 0
            else:
                ends = messages_of(content[portal.offset :])
                end = next(end for number, end in enumerate(ends, 1) if number == left)
                part, taken = content[portal.offset : portal.offset + end], left
                portal.offset += end
                reply.frames[0] = (count - left, content)
            portal.sent += taken
            self._stream.write(part)
            await self._stream.drain()
        return portal.sent - before

    async def _ask(self, portal: Portal, form: str) -> Reply:
        """Let a worker answer. Raises Refused, also for a cancelled query, and Gone."""
        assert self._user is not None  # noqa: S101 - logged in
        assert portal.prepared.command is not None  # noqa: S101 - an empty statement asks nothing
        settings, command = self._settings, portal.prepared.command
        request = Request(
            command.sql,
            portal.parameters,
            settings.shown,
            settings.bounds and form in ("rows", "none"),
            form,
            portal.formats,
            portal.prepared.columns or None,
            settings.seconds,
        )
        question = self._server.workers.ask(self.name, self._user, request)
        self._asking = asking = asyncio.ensure_future(question)
        try:
            reply = await reply_while_connected(asking, self._has_left)
        except ClientGone:
            raise Gone from None
        except Refused as error:  # which counts from the start of the question
            error.at = None if error.at is None or command.start is None else command.start + error.at
            raise
        except asyncio.CancelledError:
            if asking.cancelled() and not asyncio.current_task().cancelling():  # type: ignore[union-attr]
                raise Refused("canceling statement due to user request", code="57014") from None
            raise
        finally:
            self._asking = None
        for each in reply.warnings:
            self._stream.write(failure(b"N", "NOTICE", "01000", each))
        return reply

    async def _has_left(self) -> bool:
        return self._stream.is_left


class Clients:
    """Accepts connections."""

    def __init__(self, workers: Workers, users: Callable[[], Users], certificate: Certificate) -> None:
        self.workers = workers
        self.users = users
        self.certificate = certificate
        self.secret = secrets.token_hex(32)  # used while the users file cannot be read
        self._clients: dict[int, Client] = {}
        self._tasks: set[asyncio.Task[Any]] = set()

    async def serve(self, accepted: socket.socket, admitted: Admitted) -> None:
        """Serve one connection until it ends."""
        pid = next(pid for pid in iter(lambda: 1 + secrets.randbelow((1 << 31) - 1), 0) if pid not in self._clients)
        stream = ClientStream(accepted)
        client = self._clients[pid] = Client(self, stream, admitted, pid)
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - this is one
        self._tasks.add(task)
        try:
            await client.serve()
        except Gone:
            pass
        finally:
            self._tasks.discard(task)
            del self._clients[pid]
            client.leave()
            stream.close()

    def cancel(self, content: bytes) -> None:
        """Cancel the query of the connection that a cancel request names, if its key is right."""
        client = self._clients.get(int.from_bytes(content[:4], "big"))
        if hmac.compare_digest(content[4:], client.key if client else b"") and client and client.key:
            client.stop()

    def end(self) -> None:
        for client in self._clients.values():
            client.end()
        for task in self._tasks:
            task.cancel()
