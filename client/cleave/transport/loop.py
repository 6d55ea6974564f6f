"""An event loop in a thread of its own: what waits there can be ended at any moment, which no blocking call allows."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from cleave.processes.deadline import Deadline, Stopped

T = TypeVar("T")


class Loop:
    """Starts with its first use, so that nothing runs where a process forks before it asks. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._closed = False

    def run(self, work: Coroutine[Any, Any, T], deadline: Deadline) -> T:
        """`work`'s result or error, or as Deadline.check raises; then it is cancelled where it stands."""
        with self._lock:
            if self._closed:
                work.close()
                raise Stopped("the connection to the services is closed")
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                # a daemon: nothing that still waits may keep the process from ending
                self._thread = threading.Thread(target=self._serve, args=[self._loop], name="transport", daemon=True)
                self._thread.start()
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        return deadline.result(future)

    def close(self, last: Coroutine[Any, Any, None]) -> None:
        """Cancel what is under way, then run `last` and end. Takes a second at most."""
        with self._lock:
            self._closed = True
            loop, self._loop = self._loop, None
        if loop is None or self._thread is None:
            last.close()
            return
        future = asyncio.run_coroutine_threadsafe(self._end(last), loop)
        try:
            future.result(0.5)
        except TimeoutError:
            future.cancel()
        loop.call_soon_threadsafe(loop.stop)
        self._thread.join(0.5)
        if not self._thread.is_alive():
            last.close()  # where it did not come to it

    @staticmethod
    def _serve(loop: asyncio.AbstractEventLoop) -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:  # which ends what is left when the loop is stopped
            runner.get_loop().run_forever()

    @staticmethod
    async def _end(last: Coroutine[Any, Any, None]) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await last
