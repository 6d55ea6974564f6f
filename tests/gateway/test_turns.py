"""What a client may take of the process that speaks to all of them: no turn of others, and no fast guesses."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from cleave.front.admission import Admission
from cleave.front.certificates import Certificate
from cleave.gateway import postgres, wire
from cleave.gateway.postgres import Clients, Portal, Prepared
from cleave.gateway.wire import ClientStream, Gone
from cleave.logins.scram import Verifier
from cleave.logins.users import User, Users
from tests.functional.processes import HANGS
from tests.gateway.conftest import PASSWORD
from tests.gateway.fakes import Readers
from tests.gateway.test_users import Raw, proven

USERS = Users(secret="0" * 64, users={"owner": User(password=str(Verifier.of(PASSWORD.encode())))})


class Near(Raw):
    """A client of a server in this process."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection


def served(client: Callable[[Near], Any]) -> Any:
    """What `client` returns, of a server whose workers only read texts. It has a thread of its own."""

    async def run() -> Any:
        readers: Any = Readers()
        here, there = socket.socketpair()
        here.setblocking(False)
        clients = Clients(readers, lambda: USERS, Certificate(None, None))
        admitted = Admission(1).enter("127.0.0.1", here.close)
        with there:
            serving = asyncio.create_task(clients.serve(here, admitted))
            said = await asyncio.to_thread(client, Near(there))
        await serving
        return said

    return asyncio.run(run())


def login(raw: Near, user: str, password: str) -> tuple[bytes, bytes]:
    raw.startup(user)
    raw.read()
    raw.send(b"p", proven(b"n=,r=abcdefgh", raw.first()[1][4:], password))
    return raw.read()


def readies(raw: Near, count: int) -> Iterator[int]:
    while count:
        if raw.read()[0] == b"Z":
            count -= 1
            yield 1


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    pauses: list[float] = []
    sleep = asyncio.sleep

    async def at_once(seconds: float) -> None:
        pauses.append(seconds)
        await sleep(0)

    monkeypatch.setattr(asyncio, "sleep", at_once)
    return pauses


@pytest.mark.parametrize(
    ("user", "password", "waits"), [("owner", PASSWORD, 0), ("owner", "wrong", 1), ("nobody", PASSWORD, 1)]
)
def test_a_wrong_login_is_answered_later(slept: list[float], user: str, password: str, waits: int) -> None:
    """As long for a name that is no user's; trying passwords costs the server nothing else."""
    kind, _ = served(lambda raw: login(raw, user, password))
    assert kind == (b"E" if waits else b"R")
    assert slept.count(postgres.WRONG_SECONDS) == waits


def test_many_messages_leave_others_their_turn(slept: list[float]) -> None:
    """Also where they are here at once; each statement of a simple query is one."""
    messages = b"S\0\0\0\4" * 500
    sql = b"RESET jit;" * 500 + b"\0"

    def client(raw: Near) -> int:
        login(raw, "owner", PASSWORD)
        while raw.read()[0] != b"Z":
            pass
        raw.socket.sendall(messages + b"Q" + struct.pack("!I", len(sql) + 4) + sql)
        return sum(readies(raw, 501))

    assert served(client) == 501
    assert slept.count(0) >= 1000


def test_sizes_are_counted_once() -> None:
    """A portal may have 65,535 parameters, and each new one needs the sizes of all."""

    class Counted(tuple[tuple[int, bytes | None, bool], ...]):
        reads = 0

        def __iter__(self) -> Iterator[tuple[int, bytes | None, bool]]:
            self.reads += 1
            return super().__iter__()

    parameters = Counted([(25, b"four", False)] * 3)
    portal = Portal(Prepared(None, []), parameters)
    assert [portal.size, portal.size, portal.size] == [36] * 3
    assert parameters.reads == 1


UNREAD = 1 << 24  # bytes: more than any buffer of a socket


async def drained(stream: ClientStream) -> None:
    with pytest.raises(Gone):
        await stream.drain()


async def closed(stream: ClientStream) -> None:
    stream.close()


@pytest.mark.parametrize("end", [drained, closed])
def test_who_takes_nothing_keeps_no_connection(
    monkeypatch: pytest.MonkeyPatch, end: Callable[[ClientStream], Awaitable[None]]
) -> None:
    """Nor what was written to it, once the server waited long enough, or closed it."""
    monkeypatch.setattr(wire, "SEND_SECONDS", 0.1)

    async def run(here: socket.socket, there: socket.socket) -> None:
        stream = ClientStream(here)
        there.sendall(struct.pack("!II", 8, 3 << 16))
        await stream.startup(Certificate(None, None).context)
        stream.write(bytes(UNREAD))
        await end(stream)
        async with asyncio.timeout(HANGS):
            while here.fileno() >= 0:
                await asyncio.sleep(0.01)

    here, there = socket.socketpair()
    here.setblocking(False)
    with there:
        asyncio.run(run(here, there))
        assert len(b"".join(iter(lambda: there.recv(1 << 20), b""))) < UNREAD


def test_who_never_began_is_let_go_at_once() -> None:
    here, there = socket.socketpair()
    with there:
        ClientStream(here).close()
        assert there.recv(1) == b""
