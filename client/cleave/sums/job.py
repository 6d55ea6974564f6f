"""A scan with more calls than a client makes itself: it is stored, run by a state machine, and can be resumed.

  results/SET/JOB   sealed: the question, and the names below; written before the machine starts
  results/SET/...   a question and space for the answer of each step (cleave_shared.jobs), and the list of batches

A job's name follows from the table's version and the question. So the same question resumes it, from any process or
machine with the same key. A job ends when its answer is read; then all its objects are deleted. Links are signed when
the job starts. They are valid for LINK_SECONDS, or as long as the credentials that signed them.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import chain, repeat
from typing import Any, Literal, cast

from pydantic import ValidationError

from cleave.deadline import Deadline
from cleave.objects.locate import scheme_of
from cleave.objects.storage import ConflictError, JobStorage, NotStoredError, Storage
from cleave.store.lanes import SCAN_ROWS
from cleave.store.manifest import StoredModel, new_id
from cleave.store.vault import Vault
from cleave.sums.machine import Execution, Machine
from cleave.sums.needs import CutSums
from cleave.sums.remote import read_kept
from cleave.sums.scan import Scan, ScanAnswer, ScanCall, select
from cleave.sums.scanned import PartialSum, Shape, SumCall, weights_of
from cleave.sums.stored import Stored
from cleave.table.progress import Progress
from cleave_shared import limits, wire
from cleave_shared.errors import CheckFailed, CleaveWarning, InputError, ServiceError, WireError
from cleave_shared.jobs import Answered, CallStep, Reduced, ReduceRequest, ReduceStep
from cleave_shared.requests import Linked, StoredAnswer
from cleave_shared.wire import Hex

LINK_SECONDS = 12 * 3600
CALLS_OF_A_BATCH = 40  # fewer if links are long, see `_of_one_state`
_WAITS = (0.2, 0.5, 1.0, 2.0, 5.0)  # seconds between checks of an execution; the last is repeated
_WRITERS = 8
_GOES_ON = "the job goes on: ask the same again to take it up, or end it with --stop-job"
ResultIndex = tuple[int, int]  # a step, and an index in its answer's ciphertexts


class _Batch(StoredModel):
    """`calls`: each with its segment, without the masks, which only the service needs. `shape`: of the answer to all
    calls.

    `results`: names of its answer, one per attempt. `mark`: of the question that it answers.
    """

    calls: tuple[tuple[Hex, SumCall], ...]
    shape: Shape
    results: tuple[str, ...]
    mark: str


class _State(StoredModel):
    """`wire`: version of questions and answers. `execution`: its name. `content`: its input. `counts`: rows of each
    group. `shape`: of the whole answer.

    `results`: names of the final answer, one per attempt; empty if the batches are not added up. `objects`: names of
    all objects of the job.
    """

    wire: int
    execution: str
    content: dict[str, Any]
    counts: tuple[int, ...]
    batches: tuple[_Batch, ...]
    shape: Shape
    results: tuple[str, ...]
    mark: str
    objects: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class JobAnswer:
    """Ciphertexts, their shape, and the calls that they answer."""

    shape: Shape
    files: list[bytes]
    calls: Sequence[tuple[str, SumCall]]  # with the segment


class ScanJob:
    """One question about one version of a table."""

    def __init__(self, storage: JobStorage, folder: str, vault: Vault, machine: Machine, question: str) -> None:
        """`folder`: of the table, tables/SET. `question`: includes the table's version."""
        self._storage = storage
        self._set = folder.removeprefix("tables/")
        self._vault = vault
        self._machine = machine
        self._name = vault.pseudorandom(f"job/{question}", 16).hex()  # only the owner can derive the question from it
        self._state_name = f"results/{self._set}/{self._name}"

    def scan(self, stored: Stored, needs: CutSums, progress: Progress, deadline: Deadline) -> ScanAnswer:
        """Run or resume the job for `needs`. Raises CheckFailed, and what `run` raises."""
        scanning = Scan(stored, needs, select(stored, needs))
        calls = partial(scanning.calls, weights_of(len(scanning.rows)), LINK_SECONDS)  # as long as a job may take
        key = (stored.manifest.profile, stored.manifest.table_id)
        advance, done = progress.stage("scan", stored.manifest.rows, "rows"), 0

        def show(batches: int, of: int) -> None:
            nonlocal done
            now = stored.manifest.rows * batches // of
            advance(now - done)
            done = now

        for answer in self.run(calls, scanning.rows, SCAN_ROWS, key, deadline, show):
            scanning.sums.accept(answer.shape, answer.files, answer.calls)
        return scanning.answer()

    def run(
        self,
        calls: Callable[[], Iterable[ScanCall]],
        counts: Sequence[int],
        window: int,
        key: tuple[str, str],
        deadline: Deadline,
        show: Callable[[int, int], None],
    ) -> list[JobAnswer]:
        """The answers to `calls`. `calls` is only used if the job does not exist yet. `counts`: rows of each group.

        `key`: profile and key id. Raises ServiceError for a failed job, OutOfTime for a running one, InputError if its
        groups differ from the stored job's, CheckFailed for answers that are not the job's.
        """
        state = self._load() or self._begin(calls(), counts, window, key)
        if state.wire != wire.VERSION:
            raise _of_another_release()
        if list(state.counts) != list(counts):
            raise InputError(
                "the job was started for different groups", hint="end it with --stop-job and run the query again"
            )
        self._machine.start(state.execution, state.content)
        over = self._wait(state, deadline, show)
        if over.status != "SUCCEEDED":
            self._forget(state)
            raise ServiceError(
                f"the job ended as {over.status}" + (f": {over.error}" if over.error and over.error.isalnum() else ""),
                hint="Step Functions shows which step failed, and its function's log why; then run the query again",
            )
        answers = list(self._collect(state, over.output))
        self._forget(state)
        return answers

    def stop(self) -> bool:
        """Stop the job and delete its objects. False if there is no job."""
        state = self._load()
        if state is None:
            return False
        self._machine.stop(state.execution)
        self._forget(state)
        return True

    def _load(self) -> _State | None:
        try:
            sealed = self._storage.read(self._state_name, most=limits.MAX_MANIFEST_BYTES)
        except NotStoredError:
            return None
        try:
            return _State.model_validate_json(self._vault.open("job", self._state_name, sealed))
        except ValidationError:
            raise _of_another_release() from None

    def _begin(self, calls: Iterable[ScanCall], counts: Sequence[int], window: int, key: tuple[str, str]) -> _State:
        self._warn_of_early_end()
        written: list[str] = []
        try:
            state = self._written(calls, counts, window, key, written)
            self._storage.write(
                self._state_name, self._vault.seal("job", self._state_name, state.model_dump_json().encode())
            )
        except BaseException as error:
            self._storage.delete(written)
            if isinstance(error, ConflictError) and (there := self._load()):
                return there  # another process runs the same question
            raise
        return state

    def _warn_of_early_end(self) -> None:
        end = self._storage.signing_ends()
        if end is None:
            when = "with the AWS session that signs them, and nothing tells when that is"
        elif end < datetime.now(UTC) + timedelta(seconds=LINK_SECONDS):
            when = f"at {end.astimezone(UTC):%Y-%m-%d %H:%M} UTC, with the AWS session that signs them"
        else:
            return
        text = f"the job's links end {when}; its steps fail after that: sign in for longer, or with a user's access key"
        warnings.warn(text, CleaveWarning, stacklevel=2)

    def _written(
        self, calls: Iterable[ScanCall], counts: Sequence[int], window: int, key: tuple[str, str], written: list[str]
    ) -> _State:
        batches: list[_Batch] = []
        listed = []
        with ThreadPoolExecutor(_WRITERS) as pool:
            for some in _batched(calls, window):
                for batch in _of_one_state(list(pool.map(self._call, some, repeat(written)))):
                    shape, terms = reduced([each.call.about.shape for each in batch], window)
                    step, results, mark = self._reduce(
                        len(batches), [each.results for each in batch], "scan", terms, key, written
                    )
                    steps = [each.step | {"number": number} for number, each in enumerate(batch)]
                    listed.append({"calls": steps, "reduce": step})
                    calls_of = tuple((each.call.segment, _unmasked(each.call.about)) for each in batch)
                    batches.append(_Batch(calls=calls_of, shape=shape, results=results, mark=mark))
        if not batches:
            raise InputError("the query selects no rows", hint="run it without --job")
        if len(batches) > limits.MAX_REDUCED:
            raise InputError(
                f"the job has {len(batches)} batches of calls, at most {limits.MAX_REDUCED:,} are possible"
            )
        shape, terms = reduced([each.shape for each in batches], window)
        final: tuple[dict[str, Any], tuple[str, ...], str] = {}, (), ""
        if shape.results <= limits.MAX_STORED_SUMS:
            final = self._reduce(0, [each.results for each in batches], "reduced", terms, key, written)
        batches_name = self._write(json.dumps(listed).encode(), written)
        return _State(
            wire=wire.VERSION,
            execution=f"{self._name}-{new_id()[:8]}",
            content={"batches": self._storage.key(batches_name), "reduce": final[0]},
            counts=tuple(counts),
            batches=tuple(batches),
            shape=shape,
            results=final[1],
            mark=final[2],
            objects=tuple(written),
        )

    def _call(self, call: ScanCall, written: list[str]) -> _Calling:
        results = self._room()
        step = CallStep(
            step="call",
            set=self._set,
            number=0,
            question=self._put(wire.dump_frames(call.request()), written),
            results=[self._storage.put_link(name, LINK_SECONDS) for name in results],
        )
        written += results
        return _Calling(call, asdict(step), results)

    def _reduce(
        self,
        number: int,
        results: Sequence[Sequence[str]],
        kind: Literal["scan", "reduced"],
        terms: list[list[ResultIndex]],
        key: tuple[str, str],
        written: list[str],
    ) -> tuple[dict[str, Any], tuple[str, ...], str]:
        """A step that adds up the answers in `results`, names for its own answer, and its mark."""
        answers = [[self._storage.link(name, LINK_SECONDS) for name in each] for each in results]
        request = ReduceRequest(profile=key[0], key_id=key[1], answers=answers, kind=kind, sums=terms)
        content = wire.dump_frames(request)
        own = self._room()
        step = ReduceStep(
            step="reduce",
            set=self._set,
            number=number,
            question=self._put(content, written),
            results=[self._storage.put_link(name, LINK_SECONDS) for name in own],
            parts=[],
        )
        written += own
        listed = asdict(step)
        del listed["parts"]
        return listed, own, wire.mark(content, wire.FRAMES_TYPE).hex()

    def _room(self) -> tuple[str, ...]:
        """Names for a step's answer, one per attempt."""
        return tuple(f"results/{self._set}/{new_id()}" for _ in range(limits.MAX_STEP_ATTEMPTS))

    def _put(self, content: bytes, written: list[str]) -> Linked:
        name = self._write(content, written)
        digest = hashlib.sha256(content).hexdigest()
        return Linked(link=self._storage.link(name, LINK_SECONDS), bytes=len(content), sha256=digest)

    def _write(self, content: bytes, written: list[str]) -> str:
        name = f"results/{self._set}/{new_id()}"
        self._storage.write(name, content)
        written.append(name)
        return name

    def _wait(self, state: _State, deadline: Deadline, show: Callable[[int, int], None]) -> Execution:
        waits = chain(_WAITS, repeat(_WAITS[-1]))
        while True:
            execution = self._machine.find(state.execution)
            if execution is not None and execution.is_over:
                return execution
            try:
                deadline.sleep(next(waits))
            except ServiceError as error:
                raise type(error)(f"{error.message}; {_GOES_ON}", hint=error.hint) from None
            done, batches = self._machine.progress(state.execution)
            show(done, batches or len(state.batches))

    def _collect(self, state: _State, output: Any) -> Iterator[JobAnswer]:
        """Raises CheckFailed for an answer that the machine did not announce."""
        try:
            if state.results:
                calls = [each for batch in state.batches for each in batch.calls]
                yield JobAnswer(state.shape, self._read(state, wire.validate(Answered, output)), calls)
                return
            parts = {part.number: part for part in map(partial(wire.validate, Answered), output["reduce"]["parts"])}
            for number, batch in enumerate(state.batches):
                yield JobAnswer(batch.shape, self._read(batch, parts[number]), batch.calls)
        except (WireError, KeyError, TypeError, IndexError):
            raise _foreign() from None

    def _read(self, step: _Batch | _State, answered: Answered) -> list[bytes]:
        claim = StoredAnswer(bytes=answered.bytes, sha256=answered.sha256)
        sums = read_kept(self._storage, step.results[answered.attempt], claim, Reduced, bytes.fromhex(step.mark))
        files = [blob for each in sums.totals for blob in each] if sums is not None else []
        if len(files) != step.shape.results:
            raise _foreign()
        return files

    def _forget(self, state: _State) -> None:
        """Delete the state last: after a crash the next call still finds the rest and deletes it."""
        self._storage.delete(state.objects)
        self._storage.delete([self._state_name])


def _of_another_release() -> InputError:
    return InputError("the job was started by another release", hint="end it with --stop-job, or use that release")


@dataclass(frozen=True, slots=True)
class _Calling:
    """A call, its step, and names for its answer. The step's number in its batch is set later."""

    call: ScanCall
    step: dict[str, Any]
    results: tuple[str, ...]

    @property
    def bytes(self) -> int:
        """Bytes of a state: the step and its answer."""
        return len(json.dumps(self.step)) + limits.ANSWERED_BYTES


def reduced(shapes: Sequence[Shape], window: int) -> tuple[Shape, list[list[ResultIndex]]]:
    """The shape of the sum of several steps' answers, and the terms of each of its ciphertexts. `window`: maximum rows
    in a sum.
    """
    lanes = sorted({lane for shape in shapes for lane in shape.lanes})
    places = [shape.places() for shape in shapes]
    by_lane: dict[int, tuple[PartialSum, ...]] = {}
    terms: list[list[ResultIndex]] = []
    for lane in lanes:
        having = [(step, shape.lanes[lane]) for step, shape in enumerate(shapes) if lane in shape.lanes]
        terms.append([(step, places[step][lane]) for step, _ in having])
        sums: dict[int, list[tuple[int, list[ResultIndex]]]] = {}  # by group: (rows, terms)
        for step, pieces in having:
            for at, (group, rows) in enumerate(pieces, 1):
                partial = sums.setdefault(group, [])
                term = (step, places[step][lane] + at)
                if partial and partial[-1][0] + rows <= window:
                    partial[-1] = (partial[-1][0] + rows, [*partial[-1][1], term])
                else:
                    partial.append((rows, [term]))
        by_lane[lane] = tuple((group, rows) for group, each in sums.items() for rows, _ in each)
        terms += [added for each in sums.values() for _, added in each]
    return Shape(by_lane), terms


def _unmasked(question: SumCall) -> SumCall:
    return replace(question, cut=replace(question.cut, numbers=b""))


def _batched(calls: Iterable[ScanCall], window: int) -> Iterator[list[ScanCall]]:
    """Batches of calls whose answers one step can add up: limited in calls and in resulting ciphertexts."""
    batch: list[ScanCall] = []
    for call in calls:
        longer = [*batch, call]
        fits = reduced([each.about.shape for each in longer], window)[0].results <= limits.MAX_STORED_SUMS
        if batch and not (fits and len(longer) <= CALLS_OF_A_BATCH):
            yield batch
            longer = [call]
        batch = longer
    if batch:
        yield batch


def _of_one_state(calls: Sequence[_Calling]) -> Iterator[list[_Calling]]:
    """Divide the calls, in order, into batches. A batch and the step that adds it up fit one state of the machine."""
    batch: list[_Calling] = []
    size = most = max(each.bytes for each in calls)  # the adding step has as many links as a call
    for call in calls:
        if batch and size + call.bytes > limits.MAX_STATE_BYTES:
            yield batch
            batch, size = [], most
        batch.append(call)
        size += call.bytes
    yield batch


def _foreign() -> CheckFailed:
    return CheckFailed(
        "scan",
        "the stored answer is not this job's",
        hint="end it with --stop-job and run the query again",
    )


def job_of(storage: Storage, folder: str, stored: Stored, machine: Machine, sql: str) -> ScanJob:
    """The job that answers `sql` over this version. Raises InputError for a table in a folder."""
    if not scheme_of(storage.location).runs_jobs:
        raise InputError(
            "a job reads and writes in S3", hint="leave --job out, or put the table into s3://bucket/prefix"
        )
    manifest = stored.manifest
    identity = json.dumps([manifest.version, [each.id for each in manifest.segments], sql])
    return ScanJob(cast("JobStorage", storage), folder, stored.vault, machine, identity)
