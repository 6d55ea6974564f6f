"""The main job, top to bottom: split, pack, ask both services at once, check, finish, rejoin."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, TypeVar

from cleave.ckks.checks import CHECKS
from cleave.ckks.cipher import Cipher
from cleave.ckks.columns import Asked, Columns
from cleave.ckks.encode import encode
from cleave.ckks.encryptors import Encryptors
from cleave.ckks.job import Job
from cleave.ckks.packing import DIGITS, Packing, Part, plan_packing
from cleave.ckks.secret_key import SecretKey
from cleave.quantities import counted
from cleave.split import Halves, PlainPart, split
from cleave.sql.plan import LocalPlan, QueryPlan
from cleave.sql.rejoin import rejoin
from cleave.sql.sets import Regrouped, regroup
from cleave.suppress import suppress_small
from cleave.table.asked import limited, run_select
from cleave.table.duck import connect_ahead
from cleave.table.table import Table
from cleave.transport.base import QUERY_SECONDS, Transport
from cleave.transport.deadline import Deadline, OutOfTime, Stopped
from cleave.verdict import Verdict
from cleave_shared import duckdb
from cleave_shared.dataclass import dataclass
from cleave_shared.errors import CheckFailed, CleaveError, InputError, QueryRefused
from cleave_shared.params import Profile
from cleave_shared.wire import PlainRequest, PlainResponse

if TYPE_CHECKING:
    from cleave.sql.finish import ResultTable

MOST_DIGITS = 17  # of a double
# Requests of each half at once: a remote service takes them side by side, and each holds 4.4 MB here.
REQUESTS_UNDER_WAY = 4


Answered = TypeVar("Answered")


class Progress(Protocol):
    def stage(self, name: str, total: int, unit: str = "") -> Callable[[int], None]:
        """Start a stage, beside those under way; what it returns advances it."""
        ...


@dataclass(frozen=True, slots=True)
class Options:
    """`pad` rounds the number of chunks up to a power of two; `digits` must be certain of what takes half a lane.

    Groups of fewer than `min_group` rows are left out of the answer; 0: as the table has it, which is none but for a
    stored one with contributors.
    """

    pad: bool = False
    digits: int = DIGITS
    min_group: int = 0

    def __post_init__(self) -> None:
        """Raises InputError."""
        if not 1 <= self.digits <= MOST_DIGITS:
            raise InputError(f"sums of floats keep 1 to {MOST_DIGITS} digits, not {self.digits}")
        if self.min_group < 0:
            raise InputError("the least rows of a group cannot be negative")


DEFAULTS = Options()


_UNASKED = dict.fromkeys(("plain groups", *CHECKS), "not needed")


@dataclass(frozen=True, slots=True)
class Usage:
    """What one query took. None where a minimum group size hides it, since with the counts that are shown it could
    tell the size of a suppressed group; the last three of these are None where none was asked for. `withheld_groups`
    are large enough, but a suppressed one would follow from them. `objects_read`, `bytes_read`: of what rests in
    stores; None where rows came from files.
    """

    profile: str | None  # None where nothing was sent: no key was needed
    key_id: str | None
    rows: int | None
    selected_rows: int | None
    groups: int | None
    lanes: int
    blocks: int
    chunks: int
    sensitive_requests: int
    requests: int
    bytes_sent: int
    bytes_received: int
    min_group: int | None = None
    suppressed_groups: int | None = None
    withheld_groups: int | None = None
    objects_read: int | None = None
    bytes_read: int | None = None

    @property
    def suppression(self) -> str:
        """A sentence on what a minimum group size left out, "" where none was asked for."""
        if self.suppressed_groups is None:
            return ""
        small = f"{counted(self.suppressed_groups, 'group')} of fewer than {self.min_group} rows"
        if not self.withheld_groups:
            return f"{small} not shown."
        return f"{small} and {counted(self.withheld_groups, 'group')} from which one of them would follow not shown."


@dataclass(frozen=True, slots=True)
class Result:
    result: ResultTable
    checks: dict[str, str]  # name of a check -> passed, or not needed
    usage: Usage
    timings: dict[str, float]  # seconds by stage


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
    """What `plan` and `query` alike send to the sensitive service: known before a value is encoded."""
    return plan_packing(columns.types, halves.counts, profile, pad=options.pad, digits=options.digits)


def run_query(
    table: Table,
    plan: QueryPlan,
    key: SecretKey,
    transport: Transport,
    progress: Progress,
    options: Options = DEFAULTS,
    deadline: Deadline | None = None,
) -> Result:
    """Answer `plan` over `table` through `transport`, whose deadline is `deadline`: it bounds encrypting as well.

    Raises CheckFailed, and gives no number at all, if any check of any answer fails; but not before every answer is in
    (see cleave.verdict). Where the deadline ends work of DuckDB's here, duckdb.InterruptException.
    """
    clock = _Clock()
    deadline = deadline or Deadline(QUERY_SECONDS)
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
    from cleave.sql.finish import finish  # noqa: PLC0415
    from cleave.sql.finish.uncollected import uncollected  # noqa: PLC0415

    with clock.stage("finish"), uncollected():
        groups = rejoin(plan, responses, halves.keys, halves.counts.tolist())
        halves.close()
        answered = _with_local(regroup(plan, groups, responses), halves)
        shown, members, suppressed = suppress_small(answered, answered.members, groups.counts, options.min_group)
        result = finish(plan, shown, Figures(columns, job, members, groups.counts))
    checks = {"plain groups": "passed" if halves.asks_plain else "not needed"}
    checks |= dict.fromkeys(CHECKS, "passed" if job else "not needed")
    hides = options.min_group > 0
    usage = Usage(
        profile=key.profile.name,
        key_id=key.key_id,
        rows=None if hides else table.rows,
        selected_rows=None if hides else int(halves.counts.sum()),
        groups=None if hides else len(groups.keys),
        lanes=packing.lanes,
        blocks=packing.blocks,
        chunks=packing.chunks,
        sensitive_requests=len(parts),
        requests=transport.requests,
        bytes_sent=transport.sent,
        bytes_received=transport.received,
        min_group=options.min_group if hides else None,
        suppressed_groups=suppressed.small if hides else None,
        withheld_groups=suppressed.withheld if hides else None,
    )
    return Result(result, checks, usage, clock.seconds)


def run_local(
    table: Table, plan: QueryPlan | LocalPlan, options: Options = DEFAULTS, deadline: Deadline | None = None
) -> Result:
    """Answer a plan that sends nothing, on this machine.

    Raises InputError where it cannot be computed on these rows, QueryRefused for a minimum group size where whole rows
    are asked for, OutOfTime once `deadline` is over.
    """
    deadline = deadline or Deadline(QUERY_SECONDS)
    clock = _Clock()

    def run() -> Result:
        if isinstance(plan, LocalPlan):
            # in a thread of its own: some of DuckDB's functions do not look whether they are interrupted
            return deadline.call(lambda: _run_whole(table, plan, options, deadline, clock))
        with limited(table.connection, deadline.left):
            return _run_grouped(table, plan, options, clock)

    return within(deadline, run)


def within(deadline: Deadline, work: Callable[[], Answered]) -> Answered:
    """`work` of DuckDB's on this machine, which is interrupted once `deadline` is over. Raises OutOfTime, Stopped."""
    try:
        return work()
    except (duckdb.InterruptException, OutOfTime):
        pass
    except CleaveError:
        raise  # DuckDB has ended, and a store may be asked why
    except BaseException:
        deadline.stop()
        raise
    with contextlib.suppress(OutOfTime):
        deadline.check()
        raise Stopped("the query was stopped")
    raise OutOfTime(
        f"the query was not answered within the {deadline.seconds:g} seconds it was given",
        hint="give it more with --timeout SECONDS; DuckDB on this machine was at work",
    )


def _run_whole(table: Table, plan: LocalPlan, options: Options, deadline: Deadline, clock: _Clock) -> Result:
    if options.min_group > 1:  # of one row every group is
        raise QueryRefused(
            f"a minimum group size cannot be kept: {plan.reason}, and DuckDB answers the question as a whole",
            hint=plan.hint or "ask for aggregates over groups",
        )
    with clock.stage("local"):
        rows = run_select(table, plan.table, plan.sql, plan.types, deadline.left)
    from cleave.sql.finish import ResultTable  # noqa: PLC0415 - see import_finish

    exact = [type_ not in ("FLOAT", "DOUBLE") for type_ in plan.types]
    result = ResultTable(
        columns=list(plan.outputs),
        types=list(plan.types),
        rows=rows,
        bounds=[[0.0 if each else None for each in exact] for _ in rows],
        exact=[[True if each else None for each in exact] for _ in rows],
    )
    return Result(result, _UNASKED, _nothing_sent(table.rows), clock.seconds)


def _run_grouped(table: Table, plan: QueryPlan, options: Options, clock: _Clock) -> Result:
    with clock.stage("split"):
        halves = Halves(table, plan)
    from cleave.sql.finish import finish  # noqa: PLC0415 - see import_finish
    from cleave.sql.finish.uncollected import uncollected  # noqa: PLC0415

    with clock.stage("finish"), uncollected():
        groups = rejoin(plan, [], halves.keys, halves.counts.tolist())
        halves.close()
        answered = _with_local(regroup(plan, groups, []), halves)
        shown, members, suppressed = suppress_small(answered, answered.members, groups.counts, options.min_group)
        result = finish(plan, shown, [()] * len(members))
    hides = options.min_group > 0
    usage = replace(
        _nothing_sent(None if hides else table.rows),
        selected_rows=None if hides else int(halves.counts.sum()),
        groups=None if hides else len(groups.keys),
        min_group=options.min_group if hides else None,
        suppressed_groups=suppressed.small if hides else None,
        withheld_groups=suppressed.withheld if hides else None,
    )
    return Result(result, _UNASKED, usage, clock.seconds)


def import_finish() -> None:
    """What only an answer needs takes 40 ms to import."""
    from cleave.ckks import figures  # noqa: F401, PLC0415
    from cleave.sql import finish  # noqa: F401, PLC0415


def _prepare_finish() -> None:
    import_finish()
    connect_ahead()


def _with_local(answered: Regrouped, halves: Halves) -> Regrouped:
    return replace(answered, groups=replace(answered.groups, local=halves.local))


def _nothing_sent(rows: int | None) -> Usage:
    return Usage(None, None, rows, None, None, *[0] * 7)


def _ask_plain(
    halves: Halves,
    plan: QueryPlan,
    schema_hash: str,
    transport: Transport,
    progress: Progress,
    failed: _Failed,
    clock: _Clock,
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
