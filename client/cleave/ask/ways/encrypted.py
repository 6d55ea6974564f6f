"""Compute sums over a file or frame: pack, encrypt, ask both services at once, and check. Read it from top to
bottom.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from cleave.ask.question import GroupSums, RunningQuestion, Usage
from cleave.ckks.checks import CHECKS
from cleave.ckks.cipher import Cipher
from cleave.ckks.columns import Columns
from cleave.ckks.encode import encode
from cleave.ckks.encryptors import Encryptors
from cleave.ckks.job import Job
from cleave.ckks.packing import ChunkRange, plan_packing
from cleave.ckks.secret_key import SecretKey
from cleave.sql.plan import QueryPlan
from cleave.sql.split import Halves, PlainPart
from cleave.transport.base import Transport
from cleave_shared import limits
from cleave_shared.errors import CheckFailed
from cleave_shared.requests import PlainRequest, PlainResponse


class _Failed(threading.Event):
    """An event that stops both halves: once it is set, they ask nothing more, and no thread waits for an answer."""

    def __init__(self, transport: Transport) -> None:
        super().__init__()
        self._transport = transport

    @contextlib.contextmanager
    def on_error(self) -> Iterator[None]:
        """Set the event if the block raises, before the block waits for its threads; those then raise the same
        error.
        """
        try:
            yield
        except BaseException as error:
            self._transport.stop(error if isinstance(error, Exception) else None)
            self.set()
            raise

    def set(self) -> None:
        super().set()
        self._transport.stop()


def encrypted_sums(
    halves: Halves, plan: QueryPlan, key: SecretKey, transport: Transport, question: RunningQuestion
) -> GroupSums:
    """Return the sums of both services for `plan`, by which `halves` were split.

    The deadline of `transport` is the question's, and also limits encryption. Raises CheckFailed, and returns no number
    at all, if any check of any answer fails, but only when every answer is in (see `Verdict`). Raises
    duckdb.InterruptException if the deadline ends work of DuckDB on this machine.
    """
    clock = question.clock
    with clock.stage("encode"):
        values = halves.values()
        columns = Columns(plan.domains, plan.encrypted)
        packing = plan_packing(columns.types, halves.counts, key.profile, pad=question.pad)
        encoded = columns.encode(halves.names, values)
        del values
        job = Job(packing, encode(packing, encoded), Cipher(key)) if packing.chunks else None
        del encoded
    parts = packing.ranges(limits.REQUESTS_UNDER_WAY)
    both = _Both(halves, plan, transport, question, _Failed(transport), Verdict())
    with contextlib.ExitStack() as stack:
        stack.callback(both.verdict.settle)  # also where something else ended the asking
        # forks before any thread of ours runs
        encryptors = stack.enter_context(Encryptors(job, parts)) if job else None
        pool = stack.enter_context(ThreadPoolExecutor(2))
        with clock.stage("ask"), both.failed.on_error():
            plain = pool.submit(both.ask_plain)
            if job and encryptors:
                with clock.stage("sensitive"):
                    both.ask_sensitive(job, encryptors, key.key_id, lambda: pool.submit(import_finish))
            responses = plain.result()
    from cleave.ckks.figures import Figures  # noqa: PLC0415 - see import_finish

    return GroupSums(
        plan,
        keys=halves.keys,
        counts=halves.counts.tolist(),
        responses=responses,
        local=halves.local,
        tally=halves.tally,
        figures=partial(Figures, columns, job),
        usage=Usage(
            profile=key.profile.name,
            key_id=key.key_id,
            rows=halves.rows,
            lanes=packing.lanes,
            blocks=packing.blocks,
            chunks=packing.chunks,
            sensitive_requests=len(parts),
            requests=transport.requests,
            bytes_sent=transport.sent,
            bytes_received=transport.received,
        ),
        checks={"plain groups": "passed" if plan.asks_plain else "not needed"}
        | dict.fromkeys(CHECKS, "passed" if job else "not needed"),
        release=halves.close,
    )


@dataclass(frozen=True, slots=True)
class _Both:
    """Both services, asked about one question at the same time."""

    halves: Halves
    plan: QueryPlan
    transport: Transport
    question: RunningQuestion
    failed: _Failed
    verdict: Verdict

    def ask_plain(self) -> list[PlainResponse]:
        plan = self.plan
        if not plan.asks_plain:
            return []
        aggregates = [part for aggregate in plan.plain for part in aggregate.parts]
        advance = self.question.progress.stage("plain half", self.halves.rows)
        gate = threading.Semaphore(limits.REQUESTS_UNDER_WAY)  # after a failure no more is asked

        def ask(part: PlainPart) -> PlainResponse:
            try:
                with self.failed.on_error():
                    request = PlainRequest(
                        objects=[] if part.parquet is None else [part.parquet],
                        rows=[part.rows],
                        columns=[] if part.parquet is None else list(plan.plain_columns),
                        where=plan.where,
                        keys=list(plan.keys),
                        aggregates=aggregates,
                    )
                    answer = self.transport.plain(request)
                    if answer.label != request.label or answer.rows != part.rows:
                        raise CheckFailed("plain groups", "the plain service's answer is to another request")
            finally:
                gate.release()
            advance(part.rows)
            return answer

        futures: list[Future[PlainResponse]] = []
        stage = self.question.clock.stage("plain")
        with stage, ThreadPoolExecutor(limits.REQUESTS_UNDER_WAY) as pool, self.failed.on_error():
            # All of them before any is asked: a row too large for a request is refused before anything has left.
            for part in self.halves.plain_parts:
                gate.acquire()
                if self.failed.is_set():
                    break
                futures.append(pool.submit(ask, part))
        return [future.result() for future in futures]

    def ask_sensitive(
        self, job: Job, encryptors: Encryptors[ChunkRange], key_id: str, meanwhile: Callable[[], object]
    ) -> None:
        advance = self.question.progress.stage("encrypt and send", job.packing.chunks)
        lock = threading.Lock()  # guards the job's totals

        def ask(part: ChunkRange, chunks: Sequence[bytes | memoryview]) -> None:
            request = job.request(part, key_id, chunks)
            if part.start == 0:
                meanwhile()  # the processor is the service's from here on
            answer = self.transport.sensitive(request)
            with lock, self.verdict.holding():
                job.accept(part, request, answer)
            advance(part.stop - part.start)

        with self.failed.on_error():
            encryptors.each(ask, limits.REQUESTS_UNDER_WAY, self.failed, self.question.deadline)


class Verdict:
    """The first failed check of a query, raised only when every answer is in. Thread-safe.

    If a query ended at the first answer that fails a check, the service would learn which answer failed. A service that
    chooses its answers would then learn a bit of an encrypted value from each such query. An attack of this kind, which
    counted the requests before a query gave up, read sentinel bits correctly 20 times out of 20. So a failure is held
    back while everything is asked, sent and received as if there were none. Afterwards a session makes a new key; the
    key of a stored table whose sums failed a check should be rotated.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failure: CheckFailed | None = None

    @contextlib.contextmanager
    def holding(self) -> Iterator[None]:
        """Hold a CheckFailed of the block back until `settle`; let any other error pass."""
        try:
            yield
        except CheckFailed as failure:
            with self._lock:
                self._failure = self._failure or failure

    def settle(self) -> None:
        """Raise the failure that was held back.

        Call it when every answer is in, and before raising any other error that ended the question.
        """
        if self._failure is not None:
            raise self._failure


def import_finish() -> None:
    """Import the modules that only an answer needs, which takes 40 ms."""
    from cleave.ask import finishing  # noqa: F401, PLC0415
    from cleave.ckks import figures  # noqa: F401, PLC0415
