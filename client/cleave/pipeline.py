"""The main job, top to bottom: split, ask the plain half, encrypt and ask the sensitive half, check, finish, rejoin."""

from __future__ import annotations

import contextlib
import gc
import itertools
import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Protocol

from cleave.ckks.cipher import Cipher
from cleave.ckks.job import CHECKS, Job, Slice
from cleave.ckks.secret_key import SecretKey
from cleave.split import Halves, Part, arrange, encrypted_job
from cleave.sql.finish import ResultTable, finish
from cleave.sql.plan import QueryPlan
from cleave.sql.rejoin import Groups, merge
from cleave.suppress import suppress_small, without_complements
from cleave.table.table import Table
from cleave.transport.base import Transport
from cleave_shared import limits
from cleave_shared.errors import CheckFailed, InputError, QueryRefused, ServiceError
from cleave_shared.moments import FILTERED
from cleave_shared.wire import PlainRequest, PlainResponse

# Encrypting processes: TenSEAL holds the GIL, so threads would gain nothing.
ENCRYPTORS = min(8, len(os.sched_getaffinity(0)))
# Requests of each half at once: a remote service takes them side by side, and each holds 4.4 MB here.
REQUESTS_UNDER_WAY = 4
# A job of fewer chunks is encrypted in this process: a fork costs about as much as encrypting so many.
MIN_CHUNKS_TO_FORK = 12
# Groups that need a result ciphertext each: 66 KB a group down.
MAX_ENCRYPTED_GROUPS = 5_000
_DISTRUST = "ask again, and if it happens again do not use this service"

_FORK = multiprocessing.get_context("fork")


class Progress(Protocol):
    def stage(self, name: str, total: int) -> None: ...

    def advance(self, amount: int) -> None: ...


@dataclass(frozen=True, slots=True)
class Result:
    result: ResultTable
    checks: dict[str, Any]
    plan: dict[str, Any]
    timings: dict[str, float]


class _Clock:
    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - started


def run_query(
    table: Table,
    plan: QueryPlan,
    key: SecretKey,
    transport: Transport,
    progress: Progress,
    min_group: int = 0,
) -> Result:
    """Answer `plan` over `table` through `transport`, without groups of fewer than `min_group` rows.

    Raises CheckFailed, and gives no number at all, if any check of any answer fails.
    """
    clock = _Clock()
    schema_hash = key.tag(table.schema.hash())
    with clock.stage("split"):
        halves = Halves(table, plan)
    with clock.stage("plain"):
        groups = merge(plan, _ask_plain(halves, plan, schema_hash, transport, progress))
    _check_plain(groups, table.rows)
    with clock.stage("encode"):
        arrangement = arrange(groups.runs, len(groups.keys))
        job = encrypted_job(key.profile, plan, halves, arrangement)
        slices = _slices(job, len(groups.keys))
    halves.close()
    with clock.stage("sensitive"):
        if slices:
            _ask_sensitive(job, slices, key, schema_hash, transport, progress)
    with clock.stage("finish"):
        number_of = {int(group): number for number, group in enumerate(arrangement.group_of)}
        answers = [job.figures(number_of[index]) for index in range(len(groups.counts))]
        shown, shown_answers, suppressed = suppress_small(groups, answers, min_group)
        result = finish(plan, shown, shown_answers)
    checks: dict[str, Any] = {"plain rows": "passed"}
    checks |= dict.fromkeys(CHECKS, "passed" if slices else "not needed")
    requests = {
        "profile": key.profile.name,
        "key_id": key.key_id,
        "rows": table.rows,
        "selected_rows": job.rows,
        "groups": len(groups.keys),
        "lanes": job.lanes,
        "chunks": job.chunks,
        "sensitive_requests": len(slices),
        "bytes_sent": transport.sent,
        "bytes_received": transport.received,
    }
    if min_group:
        requests = without_complements(requests, min_group, suppressed)
    return Result(result, checks, requests, clock.seconds)


def _ask_plain(
    halves: Halves, plan: QueryPlan, schema_hash: str, transport: Transport, progress: Progress
) -> list[PlainResponse]:
    aggregates = [part for aggregate in plan.plain for part in aggregate.parts]

    def ask(part: Part) -> PlainResponse:
        request = PlainRequest(
            schema_hash=schema_hash,
            rows=part.rows,
            table=part.parquet,
            where=plan.where,
            keys=list(plan.keys),
            aggregates=aggregates,
        )
        answer = transport.plain(request)
        if answer.schema_hash != schema_hash or answer.rows != part.rows:
            raise CheckFailed("plain rows", "the plain service's answer is to another request", hint=_DISTRUST)
        if sum(rows for _, rows in answer.runs) != part.rows:
            raise CheckFailed("plain rows", "the plain service numbered other rows than it was sent", hint=_DISTRUST)
        progress.advance(part.rows)
        return answer

    progress.stage("plain half", halves.rows)
    with ThreadPoolExecutor(REQUESTS_UNDER_WAY) as pool:
        gate = threading.Semaphore(REQUESTS_UNDER_WAY)  # bounds the files in memory, not only the requests

        def gated(part: Part) -> PlainResponse:
            try:
                return ask(part)
            finally:
                gate.release()

        futures = []
        for part in halves.plain_parts():
            gate.acquire()
            futures.append(pool.submit(gated, part))
        return [future.result() for future in futures]


def _check_plain(groups: Groups, rows: int) -> None:
    counted = [0] * len(groups.keys)
    for group, length in groups.runs:
        if group != FILTERED:
            counted[group] += length
    if counted != list(groups.counts) or sum(length for _, length in groups.runs) != rows:
        raise CheckFailed("plain rows", "the plain service's group sizes contradict its row numbers", hint=_DISTRUST)


def _slices(job: Job, groups: int) -> list[Slice]:
    if job.lanes > limits.MAX_LANES:
        raise QueryRefused(
            f"the query needs {job.lanes} encrypted columns, at most {limits.MAX_LANES} fit a ciphertext",
            hint="ask for fewer aggregates at a time",
        )
    if job.rows > limits.MAX_JOB_ROWS:
        raise InputError(f"{job.rows} rows, at most {limits.MAX_JOB_ROWS} in one query")
    if job.lanes and groups > MAX_ENCRYPTED_GROUPS:
        raise QueryRefused(
            f"{groups} groups, at most {MAX_ENCRYPTED_GROUPS} with encrypted aggregates (66 KB of answer each)",
            hint="group by something coarser or select fewer groups with WHERE",
        )
    return job.slices(REQUESTS_UNDER_WAY)


def _ask_sensitive(
    job: Job, slices: Sequence[Slice], key: SecretKey, schema_hash: str, transport: Transport, progress: Progress
) -> None:
    cipher = Cipher(key)
    progress.stage("encrypt and send", job.chunks)
    lock = threading.Lock()  # guards the job's totals

    def ask(part: Slice, chunks: list[bytes]) -> None:
        request = job.request(part, key.key_id, schema_hash, chunks)
        answer = transport.sensitive(request)
        with lock:
            job.accept(cipher, part, request, answer)
        progress.advance(part.stop - part.start)

    if job.chunks < MIN_CHUNKS_TO_FORK:
        for part in slices:
            ask(part, job.encrypt(cipher, part))
        return
    # fork before any thread of ours runs
    encryptors = [_Encryptor(job, cipher) for _ in range(min(ENCRYPTORS, len(slices)))]
    try:
        _stream(slices, encryptors, ask)
    finally:
        for encryptor in encryptors:
            encryptor.close()


def _stream(
    slices: Sequence[Slice], encryptors: Sequence[_Encryptor], ask: Callable[[Slice, list[bytes]], None]
) -> None:
    """Keep every encryptor busy and at most REQUESTS_UNDER_WAY requests; after a failure nothing more is sent."""
    remaining = iter(slices)
    lock = threading.Lock()
    failed = threading.Event()
    gate = threading.Semaphore(REQUESTS_UNDER_WAY)
    asked: list[Future[None]] = []

    def take() -> Slice | None:
        with lock:
            return None if failed.is_set() else next(remaining, None)

    def gated(part: Slice, chunks: list[bytes]) -> None:
        try:
            ask(part, chunks)
        except BaseException:
            failed.set()
            raise
        finally:
            gate.release()

    def run(encryptor: _Encryptor, pool: ThreadPoolExecutor) -> None:
        part = take()
        if part:
            encryptor.start(part)
        while part:
            chunks = encryptor.finish()
            following = take()
            if following:
                encryptor.start(following)
            gate.acquire()
            asked.append(pool.submit(gated, part, chunks))
            part = following

    with ThreadPoolExecutor(len(encryptors) + REQUESTS_UNDER_WAY) as pool:
        for future in [pool.submit(run, encryptor, pool) for encryptor in encryptors]:
            future.result()
        for future in asked:
            future.result()


class _Encryptor:
    """A forked process that encrypts slices of the job.

    It inherits the key and the lanes. Only slices go in; ciphertexts come out through a memory file both share, which
    spares pickling and four copies of each.
    """

    def __init__(self, job: Job, cipher: Cipher) -> None:
        self._pipe, theirs = _FORK.Pipe()
        self._memory = os.memfd_create("ciphertexts")
        self._process = _FORK.Process(target=_serve, args=(theirs, self._memory, job, cipher), daemon=True)
        self._process.start()
        theirs.close()

    def start(self, part: Slice) -> None:
        with contextlib.suppress(OSError):  # `finish` will tell
            self._pipe.send(part)

    def finish(self) -> list[bytes]:
        """The chunks of the slice started last. Raises ServiceError if the process died."""
        try:
            sizes: list[int] = self._pipe.recv()
        except (EOFError, OSError):
            raise ServiceError("an encrypting process died", hint="is there enough memory?") from None
        ends = itertools.accumulate(sizes)
        return [os.pread(self._memory, size, end - size) for size, end in zip(sizes, ends, strict=True)]

    def close(self) -> None:
        # told, not left to notice a closed pipe: processes forked later hold its other end open too
        with contextlib.suppress(OSError):
            self._pipe.send(None)
        self._process.join()
        self._pipe.close()
        os.close(self._memory)


def _serve(pipe: Connection, memory: int, job: Job, cipher: Cipher) -> None:
    gc.disable()  # a collection would touch, and so copy, every page inherited from the parent
    with contextlib.suppress(EOFError, OSError, KeyboardInterrupt):
        while (part := pipe.recv()) is not None:
            sizes: list[int] = []
            for chunk in job.encrypt(cipher, part):
                os.pwrite(memory, chunk, sum(sizes))
                sizes.append(len(chunk))
            pipe.send(sizes)
