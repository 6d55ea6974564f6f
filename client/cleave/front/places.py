"""Places of a server's connections, of all its protocols: who may have how many.

A connection waits until it is a user's. Over HTTP it is the user's for the time of a request, then it waits again.

Waiting connections have places of their own, so that users' connections never keep a log-in out. A new one always gets
a place: if there is none, the connection is closed that has waited longest, of the address with most of them. So
silent connections push each other out.

A user gets another place while fewer than the free ones are that user's. One user gets half of all at most, each of
two a third, and the next one still finds some (dynamic thresholds: Choudhury and Hahne, IEEE/ACM Transactions on
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

ANYONE = ""  # no user in particular: takes any place that is free
_PAUSE_SECONDS = 0.5  # after a connection that could not be taken


class Places:
    """`most`: of users, all together."""

    def __init__(self, most: int, waiting: int | None = None) -> None:
        self._most = most
        self._most_waiting = limits.WAITING_CONNECTIONS if waiting is None else waiting
        self._waiting: dict[Place, None] = {}  # the longest first
        self._users: Counter[str] = Counter()

    def enter(self, address: str, close: Callable[[], object]) -> Place:
        """A new connection from `address`. `close` ends it, at once or soon."""
        place = Place(self, address, close)
        self.wait(place)
        return place

    def wait(self, place: Place) -> None:
        self._waiting[place] = None
        if len(self._waiting) > self._most_waiting:
            counts = Counter(each.network for each in self._waiting)
            longest = max(self._waiting, key=lambda each: counts[each.network])  # the first of equals
            del self._waiting[longest]
            longest.close()

    def take(self, place: Place, user: str) -> bool:
        """Make a place `user`'s. False where that user has as many as are free."""
        mine = 0 if user == ANYONE else self._users[user]
        if mine >= self._most - self._users.total():
            return False
        self._waiting.pop(place, None)
        self._users[user] += 1
        return True

    def give_back(self, user: str) -> None:
        self._users[user] -= 1
        if not self._users[user]:
            del self._users[user]

    def leave(self, place: Place) -> None:
        self._waiting.pop(place, None)


class Place:
    """Place of one connection."""

    def __init__(self, places: Places, address: str, close: Callable[[], object]) -> None:
        self.address = address
        self.network = _network(address)
        self.close = close
        self._places = places
        self._uses = 0
        self._has_left = False

    def take(self, user: str) -> bool:
        """Check whether `user` may have it, until `give_back`. A request may take it before the last gave it back."""
        if not self._places.take(self, user):
            return False
        self._uses += 1
        return True

    def give_back(self, user: str) -> None:
        """End what `take` began, and wait again."""
        self._places.give_back(user)
        self._uses -= 1
        if not self._uses and not self._has_left:
            self._places.wait(self)

    def leave(self) -> None:
        """The connection has ended. A request that goes on is the user's until it is given back."""
        self._has_left = True
        self._places.leave(self)


async def accept(
    listener: socket.socket, places: Places, serve: Callable[[socket.socket, Place], Awaitable[None]]
) -> None:
    """Take connections until cancelled, each with its place. `serve` lives as long as its connection and closes it.

    It is cancelled where the place is needed.
    """
    loop = asyncio.get_running_loop()
    listener.setblocking(False)
    tasks: set[asyncio.Task[None]] = set()

    async def take(accepted: socket.socket, address: str) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - this is one
        place = places.enter(address, task.cancel)
        try:
            await serve(accepted, place)
        except Exception:  # noqa: BLE001, S110 - a client's bytes end its connection, nothing else
            pass
        finally:
            place.leave()

    while True:
        try:
            accepted, peer = await loop.sock_accept(listener)
        except OSError:  # too many files, or a client that has left again
            await asyncio.sleep(_PAUSE_SECONDS)
            continue
        with contextlib.suppress(OSError):
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        task = asyncio.create_task(take(accepted, str(peer[0])))
        tasks.add(task)
        task.add_done_callback(tasks.discard)


def _network(address: str) -> str:
    """The address; of IPv6 its first 64 bits, since whoever has one address there has all of these."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if parsed.version == 4 or parsed.ipv4_mapped:
        return address
    return str(ipaddress.ip_network((parsed, 64), strict=False))
