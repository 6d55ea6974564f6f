"""A crew of workers: children that wait for calls, so that no call waits for a process to start.

  crew = Crew(server.fork, 4)
  with crew.worker() as child:
      child.call(work, (argument,), Bounds(seconds=25), lasting=True)
      (blob,) = child.receive(26)

A worker that ends in its block, by an error, a deadline or `Child.kill`, is not used again. `once`: each worker is used
once, and the next one starts when a block ends. That is for hostile input, which may take over a forked child.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import weakref
from collections.abc import Callable, Iterator

from cleave_shared.children import Child
from cleave_shared.errors import ServiceError

_crews: weakref.WeakSet[Crew] = weakref.WeakSet()


class Crew:
    """`start` makes a worker. At most `most_idle` workers wait for calls. Thread-safe. The workers end with this
    process.
    """

    def __init__(self, start: Callable[[], Child], most_idle: int, *, once: bool = False) -> None:
        self._start = start
        self.most_idle = most_idle
        self._once = once
        self._idle: list[Child] = []
        self._ends = 0
        self._lock = threading.Lock()
        _crews.add(self)

    def __del__(self) -> None:
        self.end()  # a thread may have kept a worker since the last end

    def begin(self, prepare: Callable[[Child], object] = lambda _: None) -> None:
        """Start a worker in advance, if there is room for it, and `prepare` it. Raises the errors of both."""
        self._begin(self._ends, prepare)

    @contextlib.contextmanager
    def worker(self) -> Iterator[Child]:
        """An idle worker, else a new one. Raises ServiceError if none can be started."""
        ends = self._ends
        try:
            with contextlib.ExitStack() as stack:
                child = stack.enter_context(self._taken() or self._start())
                yield child
                stack.pop_all()
                if self._once:
                    child.release()  # its server ends it, without a wait here
                else:
                    self._keep(child, ends)
        finally:
            if self._once:
                with contextlib.suppress(ServiceError):  # the error is raised when a worker is needed
                    self._begin(ends)

    def end(self) -> None:
        """End all idle workers, and busy ones after their work."""
        with self._lock:
            self._ends += 1
            while self._idle:
                self._idle.pop().__exit__(None, None, None)

    def _begin(self, ends: int, prepare: Callable[[Child], object] = lambda _: None) -> None:
        if ends == self._ends and len(self._idle) < self.most_idle:
            with contextlib.ExitStack() as stack:
                child = stack.enter_context(self._start())
                prepare(child)
                stack.pop_all()
            self._keep(child, ends)

    def _taken(self) -> Child | None:
        while True:
            with self._lock:
                if not self._idle:
                    return None
                child = self._idle.pop()
            if child.is_idle():
                return child
            child.__exit__(None, None, None)  # it only raises if the worker has died

    def _keep(self, child: Child, ends: int) -> None:
        with self._lock:
            if ends == self._ends and len(self._idle) < self.most_idle and child.is_idle():
                self._idle.append(child)
                return
        child.__exit__(None, None, None)

    def _forget(self) -> None:
        """In a process forked from this one: it has no workers, so it closes its copies of their channels."""
        self._lock = threading.Lock()  # it may be locked
        while self._idle:
            self._idle.pop().release()


def _forget_all() -> None:
    for crew in list(_crews):
        crew._forget()


def _end_all() -> None:
    for crew in list(_crews):
        crew.end()


os.register_at_fork(after_in_child=_forget_all)
atexit.register(_end_all)
