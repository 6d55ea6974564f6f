"""Shares of work over forked processes, on plain integers: every share in its place, every failure one clean error.

With real ciphertexts and at full size: tests/functional/test_workers.py, tests/evaluation/test_totals.py.
"""

from __future__ import annotations

import mmap
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace

import numpy as np
import pytest

from cleave_services.sensitive import workers
from cleave_services.sensitive.evaluate import BlockSums, Chunk, Results, RunningSums, Stopwatch, merge
from cleave_services.sensitive.workers import fair_share, processors
from cleave_shared import children, limits
from cleave_shared.children import Channel, Child, ChildLimits
from cleave_shared.errors import ProcessDied, ServiceError, WireError
from cleave_shared.fork_server import ForkServer
from tests.evaluation.plaintext import PlaintextEvaluator
from tests.functional.processes import HANGS, are_reaped, met
from tests.sharing import spread

DEGREE = 4
EVALUATOR = PlaintextEvaluator(DEGREE)


@pytest.fixture(autouse=True)
def as_in_a_function(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers are forked here, whoever embedded the service in this process before."""
    monkeypatch.setattr(workers, "_crew", None)


@pytest.fixture
def forks(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[Child, ChildLimits]]]:
    """Every child forked in this process, with its bounds; none is left at the end."""
    made: list[tuple[Child, ChildLimits]] = []
    fork = children.fork

    def counting(work: Callable[[Channel], None], bounds: ChildLimits) -> Child:
        made.append((fork(work, bounds), bounds))
        return made[-1][0]

    monkeypatch.setattr(children, "fork", counting)
    yield made
    assert are_reaped(*[child.pid for child, _ in made])


def blob(*values: int) -> bytes:
    return np.array([*values, *[0] * (DEGREE - len(values))], np.int64).tobytes()


def chunks_of(*sums: Sequence[int]) -> list[Chunk]:
    """One block per argument, one chunk per number."""
    return [Chunk(block, blob(value, block)) for block, values in enumerate(sums) for value in values]


def seen(files: dict[int, bytes]) -> dict[int, list[int]]:
    return {number: np.frombuffer(each, np.int64).tolist() for number, each in files.items()}


SUMS = ([1, 2, 3], [10], [100, 200])
EXPECTED = {0: [6, 0, 0, 0], 1: [10, 1, 0, 0], 2: [300, 4, 0, 0]}


class Counted(PlaintextEvaluator):
    """Counts what it is asked to do, and keeps only as many coefficients as it is told."""

    def __init__(self) -> None:
        super().__init__(DEGREE)
        self.adds = self.loads = 0
        self.kept: set[int] = set()

    def load(self, blob: bytes):
        self.loads += 1
        return super().load(blob)

    def add(self, total, ciphertext):
        self.adds += 1
        return super().add(total, ciphertext)

    def dump(self, ciphertext, coefficients: int) -> bytes:
        self.kept.add(coefficients)
        return super().dump(ciphertext, coefficients)


def test_sums_of_blocks() -> None:
    counted = Counted()
    sums = BlockSums(counted)
    chunks = chunks_of(*SUMS)
    assert sums.work(chunks) == len(chunks) == 6
    totals = sums.evaluate(chunks)
    assert seen(totals.files) == EXPECTED
    assert (counted.loads, counted.adds, counted.kept) == (6, 3, {DEGREE})
    assert totals.seconds.keys() == {"load", "evaluate", "save"}
    assert sums.evaluate([]).files == {}


def test_running_sums() -> None:
    sums = RunningSums(EVALUATOR)
    for number, value in ((3, 1), (5, 2), (3, 4)):
        sums.add(number, EVALUATOR.load(blob(value, 7)))
    assert seen(sums.dump(1)) == {3: [5, 0, 0, 0], 5: [2, 0, 0, 0]}


def test_a_clock_gives_each_stage_its_laps(monkeypatch: pytest.MonkeyPatch) -> None:
    moments = iter([10.0, 11.0, 13.0, 17.0, 17.0])
    monkeypatch.setattr(time, "perf_counter", lambda: next(moments))
    clock = Stopwatch()
    assert clock.seconds == {}
    for stage in ("load", "add", "load", "save"):
        clock.lap(stage)
    assert clock.seconds == {"load": 5.0, "add": 2.0, "save": 0.0}


def test_parts_are_merged() -> None:
    counted = Counted()
    parts = [
        Results({0: blob(1), 1: blob(2, 2)}, {"load": 1.0, "save": 2.0}),
        Results({1: blob(3)}, {"load": 4.0}),
        Results({1: blob(5, 7), 2: blob(8)}, {"mask": 1.0}),
    ]
    merged = merge(counted, parts, 1)
    assert seen(merged.files) == {0: [1, 0, 0, 0], 1: [10, 0, 0, 0], 2: [8, 0, 0, 0]}
    assert merged.seconds == {"load": 5.0, "save": 2.0, "mask": 1.0}
    assert (counted.loads, counted.adds, counted.kept) == (3, 2, {1})  # what one part alone has is not even read
    assert BlockSums(counted).merge(parts).files[1] == blob(10, 9)
    assert merge(counted, parts[:1], 1) is parts[0]


@pytest.mark.parametrize(("count", "processes"), [(4, 3), (1, 1), (2, 2), (9, 6), (3, 3), (6, 6)])
@pytest.mark.sampled(3)
def test_processes_add_up_to_one(count: int, processes: int, forks: list, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "MIN_WORK", 1)
    totals = workers.evaluate(BlockSums(EVALUATOR), chunks_of(*SUMS), count)
    assert seen(totals.files) == EXPECTED
    assert totals.seconds.keys() == {"load", "evaluate", "save"}
    assert all(spent >= 0 for spent in totals.seconds.values())
    assert len(forks) == processes


@pytest.mark.parametrize(("work", "processes"), [(47, 1), (1, 1), (48, 2), (71, 2), (500, 3), (72, 3)])
@pytest.mark.sampled(2)
def test_few_chunks_are_no_work_for_many(
    work: int, processes: int, forks: list, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each process beyond the first has 24 chunks at least."""
    assert workers.MIN_WORK == 24
    monkeypatch.setattr(BlockSums, "work", lambda *_: work)
    assert seen(workers.evaluate(BlockSums(EVALUATOR), chunks_of(*SUMS), 3).files) == EXPECTED
    assert len(forks) == processes


@pytest.mark.parametrize(
    ("count", "shares"),
    [
        (6, [[0, 1], [2, 3], [4, 5], [6]]),  # shares of one more would leave two idle
        (1, [[0, 1, 2, 3, 4, 5, 6]]),
        (50, [[n] for n in range(7)]),
        (7, [[n] for n in range(7)]),
        (3, [[0, 1, 2], [3, 4, 5], [6]]),
        (2, [[0, 1, 2, 3], [4, 5, 6]]),
        (0, [[0, 1, 2, 3, 4, 5, 6]]),
    ],
)
@pytest.mark.sampled(2)
def test_shares_are_consecutive_and_come_back_in_order(count: int, shares: list[list[int]], forks: list) -> None:
    done = mmap.mmap(-1, 7)  # shared by all processes, which may make no files

    def work(share: Sequence[int]) -> list[bytes]:
        if share[0] == 0:
            assert met(lambda: sum(done[:]) == len(shares) - 1)  # the first is done last
        else:
            done[share[0]] = 1
        return [str(os.getpid()).encode(), *[str(item).encode() for item in share]]

    found = spread(work, range(7), count)
    assert [[int(item) for item in part[1:]] for part in found] == shares
    assert [int(part[0]) for part in found] == [child.pid for child, _ in forks]
    assert os.getpid() not in [child.pid for child, _ in forks]
    for _, bounds in forks:
        assert bounds == ChildLimits(seconds=limits.SENSITIVE_SECONDS, memory=limits.WORKER_BYTES, confined=True)


@pytest.mark.parametrize("place", range(6))
@pytest.mark.sampled(5)
def test_a_refusal_is_the_callers_wherever_it_arises(place: int, forks: list, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "MIN_WORK", 1)
    chunks = chunks_of(*SUMS)
    chunks[place] = Chunk(chunks[place].block, b"no polynomial")
    with pytest.raises(WireError, match=r"^not a plaintext polynomial of this degree$") as refused:
        workers.evaluate(BlockSums(EVALUATOR), chunks, 3)
    assert refused.value.code == "wire"
    assert len(forks) == 3


@pytest.mark.usefixtures("expected_crashes")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
@pytest.mark.parametrize("place", [0, 2, 1])
@pytest.mark.sampled(3)
def test_a_process_that_dies_is_one_error(place: int, number: int, forks: list) -> None:
    def work(share: Sequence[int]) -> list[bytes]:
        if share[0] == place:
            os.kill(os.getpid(), number)
        return [b"done"]

    with pytest.raises(ProcessDied) as died:
        spread(work, range(3), 3)
    assert died.value.message == "a worker process died"
    assert (died.value.status, died.value.signal, died.value.late) == (500, number, False)
    assert died.value.hint
    assert died.value.__cause__ is None
    assert len(forks) == 3


def test_an_error_nobody_expected_is_told_by_its_class(forks: list) -> None:
    def work(share: Sequence[int]) -> list[bytes]:
        raise KeyError("secret value")

    with pytest.raises(ServiceError, match=r"^a forked process failed: KeyError$"):
        spread(work, range(3), 2)


@pytest.mark.parametrize("place", [0, 2])
def test_who_works_too_long_is_stopped_by_the_kernel(place: int, forks: list, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the limit, before the parent would stop waiting."""
    monkeypatch.setattr(limits, "SENSITIVE_SECONDS", 0.2)
    monkeypatch.setattr(workers, "SPARE", 60.0)

    def work(share: Sequence[int]) -> list[bytes]:
        time.sleep(300 * (share[0] == place))
        return [b"done"]

    with pytest.raises(WireError) as late:
        spread(work, range(3), 3)
    assert (late.value.code, late.value.message) == ("wire", "stopped after 0.2 s")
    assert late.value.hint == "send fewer chunks or groups per request"


class Slow:
    """Stands for forked children, of which each takes `seconds` of the clock to answer; the last one never does."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, answers: int, seconds: float = 0.0) -> None:
        self.now = 1000.0
        self.answers, self.seconds = answers, seconds
        self.bounds: list[ChildLimits] = []
        self.sends: list[float] = []
        self.waits: list[float] = []
        monkeypatch.setattr(workers, "time", SimpleNamespace(monotonic=lambda: self.now))
        monkeypatch.setattr(children, "fork", self.fork)

    def fork(self, _: object, bounds: ChildLimits) -> Slow:
        self.bounds.append(bounds)
        return self

    def __enter__(self) -> Slow:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is there."""

    def send(self, _: list[bytes], seconds: float) -> None:
        self.sends.append(seconds)

    def receive(self, seconds: float, most: int) -> list[bytes]:
        assert most == limits.WORKER_BYTES
        self.waits.append(seconds)
        if len(self.waits) > self.answers:
            raise ProcessDied("a forked process did not answer in time", late=True)
        self.now += self.seconds
        return workers.dumped(Results({}))


def test_who_answers_too_late_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the kernel does not end them, all share one deadline, a second past the limit."""
    assert workers.SPARE == 1.0
    slow = Slow(monkeypatch, answers=2, seconds=7.5)
    with pytest.raises(WireError, match=rf"^stopped after {limits.SENSITIVE_SECONDS:g} s$"):
        spread(lambda _: [], range(3), 3)
    longest = limits.SENSITIVE_SECONDS + 1
    assert slow.waits == slow.sends == [longest, longest - 7.5, longest - 15]
    assert slow.bounds == [ChildLimits(seconds=limits.SENSITIVE_SECONDS, memory=limits.WORKER_BYTES, confined=True)] * 3


def test_a_deadline_that_has_passed_is_no_error_of_the_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow(monkeypatch, answers=1, seconds=20.0)
    with pytest.raises(WireError):
        spread(lambda _: [], range(2), 2, 3.0)
    assert slow.bounds == [ChildLimits(seconds=3.0, memory=limits.WORKER_BYTES, confined=True)] * 2
    assert (slow.sends, slow.waits) == ([4.0, 0.01], [4.0, -16.0])


def test_a_prepared_process_is_served_by_one_crew(forks: list, monkeypatch: pytest.MonkeyPatch) -> None:
    server, starts = ForkServer([]), []
    start = server.start
    monkeypatch.setattr(server, "start", lambda **how: (starts.append(how), start(**how)))
    monkeypatch.setattr(workers, "_server", server)
    monkeypatch.setattr(workers, "MIN_WORK", 1)
    for count, idle in ((1, 4), (7, 7)):
        monkeypatch.setattr(workers, "_crew", None)
        monkeypatch.setattr(workers, "processors", lambda count=count: count)
        workers.prepare()
        assert workers._crew is not None
        assert (workers._crew.most_idle, workers._crew._once) == (idle, False)
    crew = workers._crew
    workers.prepare()
    assert workers._crew is crew
    assert starts == [{}] * 2
    for _ in range(2):
        assert seen(workers.evaluate(BlockSums(EVALUATOR), chunks_of(*SUMS), 2).files) == EXPECTED
    assert len(crew._idle) == 2, "the same two served both"
    assert forks == []
    crew.end()
    monkeypatch.setattr(workers, "_crew", None)
    workers.prepare(once=True)
    assert workers._crew is not None
    assert workers._crew._once
    server.stop()


@pytest.mark.usefixtures("expected_crashes")
def test_what_is_added_up_elsewhere_is_refused_here(forks: list, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sum that crashes or stalls SEAL ends one request as well as a chunk does."""
    monkeypatch.setattr(workers, "MIN_WORK", 1)
    here = os.getpid()

    class Elsewhere(BlockSums):
        def merge(self, parts: Sequence[Results]) -> Results:
            if os.getpid() != here:
                os.kill(os.getpid(), signal.SIGSEGV)
            return super().merge(parts)

    with pytest.raises(ProcessDied, match="a worker process died") as died:
        workers.evaluate(Elsewhere(EVALUATOR), chunks_of(*SUMS), 2)
    assert died.value.signal == signal.SIGSEGV


def test_a_process_cannot_send_more_than_it_may_hold(forks: list, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "WORKER_BYTES", 1 << 26)
    assert spread(lambda _: [bytes(1000)], range(1), 1) == [[bytes(1000)]]

    def lie(channel: Channel, *_: object) -> None:
        os.write(channel.fileno(), b"\0\1\0\0\0" + ((1 << 26) + 1).to_bytes(8, "little"))

    monkeypatch.setattr(workers, "_evaluate", lie)
    with pytest.raises(ServiceError, match="sent more than 67,108,864 bytes"):
        spread(lambda _: [], range(1), 1)


def test_a_process_cannot_hold_more_than_it_may(forks: list, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "WORKER_BYTES", 1 << 26)
    with pytest.raises(ServiceError, match="failed: MemoryError"):
        spread(lambda _: [bytes(1 << 27)], range(1), 1)


@pytest.mark.parametrize(
    ("memory", "count"), [("128", 1), ("1768", 1), ("1769", 1), ("3537", 1), ("3538", 2), ("10240", 5), ("99999", 6)]
)
def test_processors_of_a_function_are_what_its_memory_buys(
    memory: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", memory)
    assert processors() == count


@pytest.mark.parametrize(("own", "count"), [(1, 1), (2, 2), (6, 6), (7, 6), (64, 6)])
def test_processors_of_a_machine_are_those_this_process_may_use(
    own: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def affinity(pid: int) -> set[int]:
        asked.append(pid)
        return set(range(own))

    monkeypatch.setattr(os, "sched_getaffinity", affinity)
    assert processors() == count
    assert asked == [0]


def test_requests_under_way_share_the_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "processors", lambda: 6)
    with fair_share() as first, fair_share() as second, fair_share() as third:
        assert (first, second, third) == (6, 3, 2)
        shares: list[int] = []

        def ask() -> None:
            with fair_share() as mine:
                shares.append(mine)

        others = [threading.Thread(target=ask) for _ in range(2)]
        for other in others:
            other.start()
            other.join(HANGS)
        assert shares == [1, 1]
    with pytest.raises(ZeroDivisionError), fair_share():
        1 / 0  # noqa: B018 - raises
    with fair_share() as again:
        assert again == 6


def test_there_is_always_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "processors", lambda: 1)
    with fair_share(), fair_share() as second:
        assert second == 1


def test_what_a_process_answers_is_whole() -> None:
    """Hostile input may have taken it over: a number without its sum is no answer, nor is a sum without a number."""
    head = b'{"numbers":[3,5],"seconds":{"load":0.5}}'
    assert workers.loaded([head, b"x", b"y"]) == Results({3: b"x", 5: b"y"}, {"load": 0.5})
    for blobs in ([b"x"], [b"x", b"y", b"z"]):
        with pytest.raises(ValueError, match="zip"):
            workers.loaded([head, *blobs])
