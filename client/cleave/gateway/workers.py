"""The gateway's workers, and the order of questions: no user can block the others."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import warnings
import weakref
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from cleave.gateway import commands
from cleave.gateway.queries import Queries
from cleave.gateway.refusal import Refused
from cleave.gateway.rights import Rights
from cleave.gateway.session import Command, Setting
from cleave.gateway.work import MOST_BYTES, Request, Setup, answer, answer_apart, record, told
from cleave.logins.users import User
from cleave_shared.children import Child, ChildLimits
from cleave_shared.crew import Crew
from cleave_shared.errors import CleaveError, CleaveWarning, ProcessDied
from cleave_shared.fork_server import ForkServer

if TYPE_CHECKING:
    from pydantic import JsonValue

_GRACE_SECONDS: Final = 10.0  # between a question's limit and the end of its worker
_MOST_FRAME: Final = 4 * MOST_BYTES
_LOOK_SECONDS: Final = 0.5  # between two checks whether a client is connected
_MOST_WAITING: Final = 64  # waiting questions of one user
_MOST_HELD: Final = 1 << 29  # bytes of answers that clients have not read
_RECORD_SECONDS: Final = 60.0  # between two records of queries in an audit log
_MOST_RECORDING: Final = 30.0  # seconds per table for one record
_READERS: Final = 2  # processes that read clients' texts; one user gets one
_READ_SECONDS: Final = 5.0  # for a text; 256 kB take about 0.1 s
_READ_MEMORY: Final = 1 << 29  # bytes of address space of a reader
_APART_MEMORY: Final = 1 << 30  # bytes of address space of a worker that is used once
_HEALTH_SECONDS: Final = 10.0  # for a worker to confirm that it has the key and reaches the store


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Reply:
    """Columns (name, DuckDB's type); frames (number of rows, bytes) in the requested form; warnings; OIDs of
    parameters.

    `count`: rows of the answer. `hidden`: only for the log.
    """

    columns: list[tuple[str, str]]
    frames: list[tuple[int, bytes]]
    warnings: list[str]
    parameters: list[int]
    count: int
    hidden: Sequence[JsonValue] = ()


class Workers:
    """A pool of `count` processes. One user gets at most all but one. Beside it, readers of clients' texts."""

    def __init__(self, server: ForkServer, setup: Setup, count: int) -> None:
        self._setup = setup
        self._crew = Crew(server.fork, count)
        self._threads = ThreadPoolExecutor(count + 1, "question")
        self._apart = Crew(server.fork, 1, once=True)  # for statements that compute something without a table
        self._readers = Crew(server.fork, _READERS)
        self._reading = ThreadPoolExecutor(_READERS, "text")
        self._free_readers = asyncio.Semaphore(_READERS)
        self._texts: defaultdict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(1))
        self._free = asyncio.Semaphore(count)
        self._turns: defaultdict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(max(1, count - 1)))
        self._waiting: defaultdict[str, int] = defaultdict(int)
        self._queries = Queries()  # since the last record
        self._is_ending = False
        self._checking: asyncio.Task[str] | None = None
        self._under_way: set[asyncio.Task[Any]] = set()
        self._held: Counter[str] = Counter()  # bytes of answers in memory, by user

    def begin(self) -> None:
        """Let a worker open the session, so that the first query finds it open. Raises its error."""
        self._readers.begin()
        self._apart.begin()
        self._in_worker({})

    async def health(self) -> str:
        """ "ok" if a worker has opened key and store, "busy" if all are answering queries, else "failed".

        Simultaneous callers share one check.
        """
        if self._checking is None or self._checking.done():
            self._checking = asyncio.create_task(self._checked())
        return await asyncio.shield(self._checking)

    async def _checked(self) -> str:
        if self._free.locked():
            return "busy"
        async with self._free:
            working = asyncio.get_running_loop().run_in_executor(self._threads, self._in_worker, {}, _HEALTH_SECONDS)
            try:
                await asyncio.wait_for(working, _HEALTH_SECONDS)
            except (CleaveError, OSError, TimeoutError):
                return "failed"
        return "ok"

    async def read(self, name: str, text: str) -> list[Command]:
        """Let a reader split a text of user `name` into commands. Raises Refused."""
        head, *questions = await self._read(name, commands.read, text)
        return [
            Command(**each | {"sql": sql.decode(), "values": _settings(each["values"])})
            for each, sql in zip(json.loads(head), questions, strict=True)
        ]

    async def start(self, name: str, given: dict[str, str]) -> dict[str, Setting]:
        """Let a reader read the settings that a client of user `name` asks for. Raises Refused."""
        (content,) = await self._read(name, commands.start, given)
        return _settings(json.loads(content))

    async def _read(self, name: str, work: Callable[..., None], given: object) -> list[bytes]:
        async with self._texts[name], self._free_readers:
            future = asyncio.get_running_loop().run_in_executor(self._reading, self._in_reader, work, given)
            try:
                return await asyncio.shield(future)
            except asyncio.CancelledError:
                await asyncio.wait([future])  # it has a deadline, and its turn until then
                future.exception()
                raise

    def _in_reader(self, work: Callable[..., None], given: object) -> list[bytes]:
        bounds = ChildLimits(seconds=_READ_SECONDS, memory=_READ_MEMORY, confined=True)
        try:
            with self._readers.worker() as child:
                child.call(work, (given,), bounds, lasting=True)
                return child.receive(_READ_SECONDS, _MOST_FRAME)
        except ProcessDied as error:
            if error.late:
                raise Refused(f"to read the statement takes longer than {_READ_SECONDS:g} s") from None
            raise Refused("the statement needs more memory to read than it may use", code="53200") from None
        except CleaveError as error:
            head = told(error)
            raise Refused(head["error"], head["hint"], head["code"]) from None

    async def ask(self, name: str, user: User, request: Request) -> Reply:
        """Answer a statement of user `name`. If it is cancelled, its worker ends at once. Raises Refused."""
        seconds = min(self._setup.seconds, request.seconds or self._setup.seconds)
        if user.fault:
            raise Refused(user.fault, code="28000")
        if self._waiting[name] >= _MOST_WAITING:
            raise Refused("too many of your queries are waiting; try again later", code="53400")
        self._waiting[name] += 1
        at_work, count = _AtWork(), None
        hidden: Sequence[JsonValue] = ()
        if (task := asyncio.current_task()) is not None:
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)
        try:
            async with asyncio.timeout(seconds + _GRACE_SECONDS) as time:
                async with self._turns[name], self._free:
                    time.reschedule(None)  # from here the worker has its own deadline
                    work = partial(self._work, self._rights(user), request, seconds, at_work)
                    reply = await self._answered(work, at_work)
                    count, hidden = reply.count, reply.hidden
                    self._hold(name, reply)
                    return reply
        except TimeoutError:
            raise Refused(f"the query waited longer than {seconds:g} s for its turn; try again later") from None
        finally:
            self._waiting[name] -= 1
            self._queries.add(at_work.reads, name, count, hidden)

    def _hold(self, name: str, reply: Reply) -> None:
        """Count an answer's bytes until it is freed. Raises Refused if its user would have more than stay free."""
        size = sum(len(content) for _, content in reply.frames)
        if self._held[name] + size > _MOST_HELD - self._held.total():
            raise Refused("too many answers wait to be taken; take or close some of yours", code="53200")
        self._held[name] += size
        weakref.finalize(reply, self._let_go, name, size)

    def _let_go(self, name: str, size: int) -> None:
        self._held[name] -= size
        if not self._held[name]:
            del self._held[name]

    def _rights(self, user: User) -> Rights:
        served, allowed = self._setup.tables, user.tables
        tables = served if allowed is None else frozenset(map(str.lower, allowed))
        tables = tables if served is None or tables is None else tables & served
        return Rights(tables, user.least, user.rows, user.columns)

    async def _answered(self, work: Callable[[], Reply], at_work: _AtWork) -> Reply:
        future = asyncio.get_running_loop().run_in_executor(self._threads, work)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            await asyncio.to_thread(at_work.stop)
            await asyncio.wait([future])
            future.exception()
            raise

    def _work(self, rights: Rights, request: Request, seconds: float, at_work: _AtWork) -> Reply:
        most = seconds + _GRACE_SECONDS
        bounds = ChildLimits(seconds=most, memory=self._setup.memory)
        try:
            reply = self._reply(self._crew, bounds, at_work, answer, (self._setup, rights, request, seconds))
            if reply is None:
                bounds = ChildLimits(seconds=seconds, memory=min(_APART_MEMORY, self._setup.memory), confined=True)
                reply = self._reply(self._apart, bounds, at_work, answer_apart, (request, self._setup.rows))
        except ProcessDied as error:
            if error.late:
                raise Refused(f"the query took longer than the {seconds:g} s it is given") from None
            raise Refused("the query needs more memory than it may use, or was stopped", code="53200") from None
        except CleaveError as error:
            head = told(error)
            raise Refused(head["error"], head["hint"], head["code"]) from None
        if not isinstance(reply, Reply):
            raise reply or AssertionError("a worker that is used once answers itself")
        return reply

    def _reply(
        self, crew: Crew, bounds: ChildLimits, at_work: _AtWork, work: Callable[..., None], arguments: Sequence[object]
    ) -> Reply | Refused | None:
        """What a worker of `crew` answers; None if the statement must run apart.

        A worker that is lost is replaced first, in the turn of the user who lost it: others find an open session.
        """
        reply, is_fit = None, False
        try:
            with crew.worker() as child, at_work.with_child(child):
                child.call(work, arguments, bounds, lasting=True)
                reply, is_fit = _received(child, bounds.seconds, at_work)
                if not is_fit:
                    child.kill()
        finally:
            unreadable = isinstance(reply, Refused) and reply.code == "58000"  # another worker would fail likewise
            if not (is_fit or unreadable or self._is_ending) and crew is self._crew:
                with contextlib.suppress(CleaveError):  # the next question has the error
                    crew.begin(partial(self._recorded_by, {}, _MOST_RECORDING))
        return reply

    async def record_until(self, ended: asyncio.Event, seconds: float = _RECORD_SECONDS) -> None:
        """Record queries in the audit logs every `seconds`."""
        while not ended.is_set():
            try:
                await asyncio.wait_for(ended.wait(), seconds)
            except TimeoutError:
                await self.record()

    async def record(self) -> None:
        """Record the queries since the last time in the audit logs. What fails is tried again the next time."""
        queries, self._queries = self._queries, Queries()
        if details := queries.details():
            failed = await asyncio.get_running_loop().run_in_executor(self._threads, self._recorded, details)
            for table, why in failed.items():
                self._queries.put_back(table, queries)
                warnings.warn(f"queries are not yet in the log of {table!r}: {why}", CleaveWarning, stacklevel=2)

    async def finish(self) -> None:
        """Record the last queries, including those that are being stopped."""
        self._is_ending = True
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=_GRACE_SECONDS)
        await self.record()

    def _recorded(self, details: dict[str, Any]) -> dict[str, str]:
        """Write records. Returns, by table, why one failed."""
        try:
            return self._in_worker(details)
        except CleaveError as error:
            return dict.fromkeys(details, error.message)

    def _in_worker(self, details: dict[str, Any], seconds: float = _MOST_RECORDING) -> dict[str, str]:
        """Let a worker record `details`, within `seconds` per table. A new worker opens the session first."""
        with self._crew.worker() as child:
            return self._recorded_by(details, seconds * (1 + len(details)), child)

    def _recorded_by(self, details: dict[str, Any], seconds: float, child: Child) -> dict[str, str]:
        child.call(record, (self._setup, details), ChildLimits(seconds, memory=self._setup.memory), lasting=True)
        (content,) = child.receive(seconds, _MOST_FRAME)
        return dict(json.loads(content))

    def close(self) -> None:
        for crew in (self._crew, self._apart, self._readers):
            crew.end()
        for threads in (self._threads, self._reading):
            threads.shutdown(wait=False, cancel_futures=True)


def _settings(pairs: dict[str, list[Any]]) -> dict[str, Setting]:
    return {name: Setting(*pair) for name, pair in pairs.items()}


class _AtWork:
    """The worker of one question; another thread may stop it. `reads`: the stored tables that it reads."""

    def __init__(self) -> None:
        self.reads: list[str] = []
        self._lock = threading.Lock()
        self._child: Child | None = None
        self._stopped = False

    def with_child(self, child: Child) -> _AtWork:
        with self._lock:
            self._child = child
            if self._stopped:
                child.kill()
        return self

    def __enter__(self) -> _AtWork:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._child = None

    def stop(self) -> None:
        with self._lock:
            self._stopped = True
            if self._child is not None:
                self._child.kill()


class ClientGone(Exception):  # noqa: N818 - named for what happened
    """The client left before its answer was ready."""


async def reply_while_connected(asking: asyncio.Future[Reply], has_left: Callable[[], Awaitable[bool]]) -> Reply:
    """Wait for a reply. It is cancelled when the client leaves or the wait ends.

    Raises ClientGone, CancelledError if other code cancelled `asking`, and the error of `asking`.
    """
    try:
        while not (await asyncio.wait({asking}, timeout=_LOOK_SECONDS))[0]:
            if await has_left():
                raise ClientGone
        return asking.result()
    finally:
        if not asking.done():
            asking.cancel()
            await asyncio.wait({asking})


def _received(child: Child, seconds: float | None, at_work: _AtWork) -> tuple[Reply | Refused | None, bool]:
    """What a worker sends (None: another must answer), and whether the worker may be used again."""
    (content,) = child.receive(seconds, _MOST_FRAME)
    head = json.loads(content)
    if "reads" in head:
        at_work.reads = head["reads"]
        (content,) = child.receive(seconds, _MOST_FRAME)
        head = json.loads(content)
    for each in head["said"]:
        warnings.warn(each, CleaveWarning, stacklevel=2)
    if "error" in head:
        return Refused(head["error"], head["hint"], head["code"], head.get("at")), bool(head["done"])
    if "apart" in head:
        return None, bool(head["done"])
    columns = [(str(name), str(type_)) for name, type_ in head["columns"]]
    frames: list[tuple[int, bytes]] = []
    while parts := child.receive(seconds, _MOST_FRAME):
        frames.append((int(parts[0]), parts[1]))
    more = head["warnings"], head["parameters"], head["rows"], head.get("hidden", ())
    return Reply(columns, frames, *more), bool(head["done"])
