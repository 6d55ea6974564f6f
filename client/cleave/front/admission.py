"""Limits on a server's connections, for all its protocols: how many may wait, and how many each user may have.

A connection waits until it belongs to a user. Over HTTP it belongs to the user during a request, then it waits again.

Waiting connections have a separate limit, so users' connections never block a log-in. A new connection always waits.
Beyond the limit, the address with the most waiting connections loses its oldest one. So silent connections push each
other out.

A user gets another connection while that user has fewer than are free. So one user gets half of all at most, each of
two users a third, and the next user still finds some (dynamic thresholds: Choudhury and Hahne, IEEE/ACM Transactions on
Networking 6, 1998).
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
from collections import Counter
from collections.abc import Awaitable, Callable

from cleave_shared import limits

ANYONE = ""  # no specific user: takes any free connection
_PAUSE_SECONDS = 0.5  # after a failed accept


class Admission:
    """`most`: connections of all users together."""

    def __init__(self, most: int, waiting: int | None = None) -> None:
        self._most = most
        self._most_waiting = limits.WAITING_CONNECTIONS if waiting is None else waiting
        self._waiting: dict[Admitted, None] = {}  # oldest first
        self._users: Counter[str] = Counter()

    def enter(self, address: str, close: Callable[[], object]) -> Admitted:
        """A new connection from `address`. `close` must end it, at once or soon."""
        admitted = Admitted(self, address, close)
        self.wait(admitted)
        return admitted

    def wait(self, admitted: Admitted) -> None:
        self._waiting[admitted] = None
        if len(self._waiting) > self._most_waiting:
            counts = Counter(each.network for each in self._waiting)
            longest = max(self._waiting, key=lambda each: counts[each.network])  # the first of equals
            del self._waiting[longest]
            longest.close()

    def take(self, admitted: Admitted, user: str) -> bool:
        """Give a connection to `user`. False if that user already has as many connections as are free."""
        mine = 0 if user == ANYONE else self._users[user]
        if mine >= self._most - self._users.total():
            return False
        self._waiting.pop(admitted, None)
        self._users[user] += 1
        return True

    def give_back(self, user: str) -> None:
        self._users[user] -= 1
        if not self._users[user]:
            del self._users[user]

    def leave(self, admitted: Admitted) -> None:
        self._waiting.pop(admitted, None)


class Admitted:
    """One accepted connection."""

    def __init__(self, admission: Admission, address: str, close: Callable[[], object]) -> None:
        self.address = address
        self.network = _network(address)
        self.close = close
        self._admission = admission
        self._uses = 0
        self._has_left = False

    def take(self, user: str) -> bool:
        """Give the connection to `user` until `give_back`; False if refused. The next request may take it before the
        last gives it back.
        """
        if not self._admission.take(self, user):
            return False
        self._uses += 1
        return True

    def give_back(self, user: str) -> None:
        """Undo one `take`. After the last one the connection waits again."""
        self._admission.give_back(user)
        self._uses -= 1
        if not self._uses and not self._has_left:
            self._admission.wait(self)

    def leave(self) -> None:
        """The connection has ended. A running request still belongs to its user until `give_back`."""
        self._has_left = True
        self._admission.leave(self)


async def accept(
    listener: socket.socket, admission: Admission, serve: Callable[[socket.socket, Admitted], Awaitable[None]]
) -> None:
    """Accept connections until cancelled. `serve` runs as long as its connection, and closes it.

    `serve` is cancelled if a new connection pushes this one out.
    """
    loop = asyncio.get_running_loop()
    listener.setblocking(False)
    tasks: set[asyncio.Task[None]] = set()

    async def take(accepted: socket.socket, address: str) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - this is one
        admitted = admission.enter(address, task.cancel)
        try:
            await serve(accepted, admitted)
        except Exception:  # noqa: BLE001, S110 - a client's bytes end its own connection only
            pass
        finally:
            admitted.leave()

    while True:
        try:
            accepted, peer = await loop.sock_accept(listener)
        except OSError:  # too many open files, or the client is gone already
            await asyncio.sleep(_PAUSE_SECONDS)
            continue
        with contextlib.suppress(OSError):
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        task = asyncio.create_task(take(accepted, str(peer[0])))
        tasks.add(task)
        task.add_done_callback(tasks.discard)


def _network(address: str) -> str:
    """The address; for IPv6 its first 64 bits, because one customer usually has all addresses with these bits."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if parsed.version == 4 or parsed.ipv4_mapped:
        return address
    return str(ipaddress.ip_network((parsed, 64), strict=False))
