"""No lock that a thread here holds stops a plain request: its child is not forked from this process.

DuckDB, at work in another thread and outside the GIL, holds for moments the mutexes by which libstdc++ guards atomic
shared pointers. A child forked meanwhile waited for one in `duckdb.connect` until its time was over: once in 178
queries. Here a thread holds all of them.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Iterator

import pytest

from cleave_services.plain import contained, engine
from cleave_shared import limits
from cleave_shared.requests import PlainRequest, PlainResponse

_POOL = 16  # mutexes; gcc, libstdc++-v3/src/c++11/shared_ptr.cc


def aggregate() -> list[int]:
    request = PlainRequest(rows=[3], aggregates=["count(*)"])
    return contained.run(engine.aggregate, (request, [], limits.MAX_JSON_BYTES), PlainResponse, lambda **_: None).counts


@contextlib.contextmanager
def libstdcxx_locked() -> Iterator[None]:
    """Every mutex of the pool, held by another thread."""
    library = ctypes.CDLL("libstdc++.so.6")
    lock, unlock = library._ZNSt10_Sp_lockerC1EPKv, library._ZNSt10_Sp_lockerD1Ev
    lock.argtypes, unlock.argtypes = [ctypes.c_void_p, ctypes.c_void_p], [ctypes.c_void_p]
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        addresses: dict[int, int] = {}
        locker = ctypes.create_string_buffer(16)  # its first byte is the number of the mutex, which goes by an address
        for address in range(0, 1 << 16, 8):
            lock(locker, address)
            addresses.setdefault(locker.raw[0], address)
            unlock(locker)
        lockers = [ctypes.create_string_buffer(16) for _ in addresses]
        for locker, address in zip(lockers, addresses.values(), strict=True):
            lock(locker, address)
        if len(addresses) == _POOL:
            held.set()
        done.wait()
        for locker in lockers:
            unlock(locker)

    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(120)
    try:
        yield
    finally:
        done.set()
        thread.join()


def test_a_plain_request_is_answered_whatever_is_locked_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PLAIN_SECONDS", 5.0)
    assert aggregate() == [3]
    with libstdcxx_locked():
        assert aggregate() == [3]
