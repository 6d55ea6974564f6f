"""Sums over a file or frame: split, pack, encrypt, ask both services at once, check. Top to bottom."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from cleave.ask.finish import import_finish
from cleave.ask.result import Clock, Options, Usage
from cleave.ask.source import GroupSums, Question
from cleave.ask.verdict import Verdict
from cleave.ckks.checks import CHECKS
from cleave.ckks.cipher import Cipher
from cleave.ckks.columns import Asked, Columns
from cleave.ckks.encode import encode
from cleave.ckks.encryptors import Encryptors
from cleave.ckks.job import Job
from cleave.ckks.packing import Packing, Part, plan_packing
from cleave.ckks.secret_key import SecretKey
from cleave.processes.deadline import Deadline
from cleave.sql.plan import QueryPlan
from cleave.sql.split import Halves, PlainPart, split
from cleave.table.asked import limited
from cleave.table.duck import connect_ahead
from cleave.table.progress import Progress
from cleave.table.table import Table
from cleave.transport.base import Transport
from cleave_shared.errors import CheckFailed
from cleave_shared.params import Profile
from cleave_shared.wire import PlainRequest, PlainResponse

# Requests of each half at once: a remote service takes them side by side, and each holds 4.4 MB here.
REQUESTS_UNDER_WAY = 4


class _Failed(threading.Event):
    """Once set, neither half asks anything more, and no thread waits for an answer any longer."""

    def __init__(self, transport: Transport) -> None:
        super().__init__()
        self._transport = transport

    @contextlib.contextmanager
    def on_error(self) -> Iterator[None]:
        """Set it where the block raises, inside of what would then wait for threads; those raise the same error."""
        try:
            yield
        except BaseException as error:
            self._transport.stop(error if isinstance(error, Exception) else None)
            self.set()
            raise

    def set(self) -> None:
        super().set()
        self._transport.stop()


def columns_of(plan: QueryPlan) -> Columns:
    return Columns(
        [argument.domain for argument in plan.arguments],
        [Asked(each.aggregate, each.arguments) for each in plan.encrypted],
    )


def packing_of(columns: Columns, halves: Halves, profile: Profile, options: Options) -> Packing:
    """Packing of the values for the sensitive service, the same for `plan` and `query`. It needs no encoded value."""
    return plan_packing(columns.types, halves.counts, profile, pad=options.pad)


def encrypted_sums(
    table: Table, plan: QueryPlan, key: SecretKey, transport: Transport, question: Question
) -> GroupSums:
    """What both services answer to `plan` over `table`, through `transport`, whose deadline is the question's: it
    bounds encrypting as well.

    Raises CheckFailed, and gives no number at all, if any check of any answer fails; but not before every answer is in
    (see cleave.ask.verdict). Where the deadline ends work of DuckDB's here, duckdb.InterruptException.
    """
    clock, deadline, progress, options = question.clock, question.deadline, question.progress, question.options
    schema_hash = key.tag(table.schema.hash())
    with clock.stage("split"), limited(table.connection, deadline.left):  # its thread has ended before anything forks
        plan, halves = split(table, plan)
    with clock.stage("encode"):
        columns = columns_of(plan)
        packing = packing_of(columns, halves, key.profile, options)
        values = columns.encode([argument.sql for argument in plan.arguments], halves.values())
        job = Job(packing, encode(packing, values), Cipher(key)) if packing.chunks else None
        del values
    parts = packing.parts(REQUESTS_UNDER_WAY)
    failed = _Failed(transport)
    verdict = Verdict()
    with contextlib.ExitStack() as stack:
        stack.callback(verdict.settle)  # also where something else ended the asking
        # forks before any thread of ours runs
        encryptors = stack.enter_context(Encryptors(job, parts)) if job else None
        pool = stack.enter_context(ThreadPoolExecutor(2))
        with clock.stage("ask"), failed.on_error():
            plain = pool.submit(_ask_plain, halves, plan, schema_hash, transport, progress, failed, clock)
            if job and encryptors:
                with clock.stage("sensitive"):
                    _ask_sensitive(
                        *(job, encryptors, key, schema_hash, transport, progress, failed, verdict, deadline),
                        lambda: pool.submit(_prepare_finish),
                    )
            responses = plain.result()
    from cleave.ckks.figures import Figures  # noqa: PLC0415 - see import_finish

    return GroupSums(
        plan=plan,
        keys=halves.keys,
        counts=halves.counts.tolist(),
        responses=responses,
        local=halves.local,
        figures=lambda members, groups: Figures(columns, job, members, groups.counts),
        usage=Usage(
            profile=key.profile.name,
            key_id=key.key_id,
            rows=table.rows,
            lanes=packing.lanes,
            blocks=packing.blocks,
            chunks=packing.chunks,
            sensitive_requests=len(parts),
            requests=transport.requests,
            bytes_sent=transport.sent,
            bytes_received=transport.received,
        ),
        checks={"plain groups": "passed" if halves.asks_plain else "not needed"}
        | dict.fromkeys(CHECKS, "passed" if job else "not needed"),
        release=halves.close,
    )


def _prepare_finish() -> None:
    import_finish()
    connect_ahead()


def _ask_plain(
    halves: Halves,
    plan: QueryPlan,
    schema_hash: str,
    transport: Transport,
    progress: Progress,
    failed: _Failed,
    clock: Clock,
) -> list[PlainResponse]:
    if not halves.asks_plain:
        return []
    aggregates = [part for aggregate in plan.plain for part in aggregate.parts]
    advance = progress.stage("plain half", halves.rows)
    gate = threading.Semaphore(REQUESTS_UNDER_WAY)  # after a failure no more is asked

    def ask(part: PlainPart) -> PlainResponse:
        try:
            with failed.on_error():
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
                    raise CheckFailed("plain groups", "the plain service's answer is to another request")
        finally:
            gate.release()
        advance(part.rows)
        return answer

    futures: list[Future[PlainResponse]] = []
    with clock.stage("plain"), ThreadPoolExecutor(REQUESTS_UNDER_WAY) as pool, failed.on_error():
        # All of them before any is asked: a row too large for a request is refused before anything has left.
        for part in halves.plain_parts:
            gate.acquire()
            if failed.is_set():
                break
            futures.append(pool.submit(ask, part))
    return [future.result() for future in futures]


def _ask_sensitive(
    job: Job,
    encryptors: Encryptors[Part],
    key: SecretKey,
    schema_hash: str,
    transport: Transport,
    progress: Progress,
    failed: _Failed,
    verdict: Verdict,
    deadline: Deadline,
    meanwhile: Callable[[], object],
) -> None:
    advance = progress.stage("encrypt and send", job.packing.chunks)
    lock = threading.Lock()  # guards the job's totals

    def ask(part: Part, chunks: Sequence[bytes | memoryview]) -> None:
        request = job.request(part, key.key_id, schema_hash, chunks)
        if part.start == 0:
            meanwhile()  # the processor is the service's from here on
        answer = transport.sensitive(request)
        with lock, verdict.holding():
            job.accept(part, request, answer)
        advance(part.stop - part.start)

    with failed.on_error():
        encryptors.each(ask, REQUESTS_UNDER_WAY, failed, deadline)
