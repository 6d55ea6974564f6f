"""A crew: workers are used again, or one call each, and none outlives its crew's process."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator

import pytest

from cleave_shared import children
from cleave_shared.children import Child, ChildLimits
from cleave_shared.crew import Crew
from cleave_shared.errors import ProcessDied
from cleave_shared.fork_server import ForkServer
from tests.functional.processes import HANGS, have_ended
from tests.unit import forked


@pytest.fixture
def start() -> Iterator[Callable[[], Child]]:
    server = ForkServer([])
    yield server.fork
    server.stop()


def used(crew: Crew, *, lasting: bool = True) -> int:
    """The worker that answered a call."""
    with crew.worker() as child:
        child.call(forked.tell, (), ChildLimits(seconds=HANGS), lasting=lasting)
        return int(child.receive(HANGS)[0])


def test_a_worker_answers_call_after_call(start: Callable[[], Child]) -> None:
    crew = Crew(start, 1)
    worker = used(crew)
    assert used(crew) == worker
    with crew.worker() as one, crew.worker() as other:  # and no more than one is kept
        assert one is not other
    assert len(crew._idle) == 1
    crew.end()
    assert have_ended(worker)


def test_a_worker_that_died_or_failed_is_not_used_again(start: Callable[[], Child]) -> None:
    crew = Crew(start, 2)
    first = used(crew)
    os.kill(first, signal.SIGKILL)
    assert have_ended(first)
    second = used(crew)
    assert second != first
    with pytest.raises(ProcessDied), crew.worker() as child:  # noqa: PT012 - the call is what fails
        child.call(forked.end_by, (signal.SIGKILL,))
        child.receive(HANGS)
    third = used(crew)
    assert third != second
    with crew.worker() as child:  # its caller ends it: it answered, but at too high a cost
        child.kill()
    assert not crew._idle
    assert used(crew) != third
    crew.end()


def test_a_worker_whose_server_died_is_not_used_again(start: Callable[[], Child]) -> None:
    """The kernel ends it a moment after its server; here it lives until its channel ends."""
    crew = Crew(start, 1)
    with crew.worker() as child:
        child.call(forked.outlive_the_server, lasting=True)
        worker, server = map(int, child.receive(HANGS))
    os.kill(server, signal.SIGKILL)
    assert have_ended(server)
    assert used(crew) != worker
    assert have_ended(worker)
    crew.end()


def test_a_worker_of_one_call_is_never_used_twice_and_the_next_one_waits(start: Callable[[], Child]) -> None:
    crew = Crew(start, 1, once=True)
    seen = set()
    for number in range(1, 4):
        seen.add(used(crew, lasting=number == 2))  # whatever it was told
        assert have_ended(*seen)
        assert (len(seen), len(crew._idle)) == (number, 1)
    with pytest.raises(ZeroDivisionError), crew.worker():
        1 / 0  # noqa: B018 - raises
    assert len(crew._idle) == 1
    crew.end()


def test_a_crew_that_ends_while_one_is_at_work_starts_no_other(start: Callable[[], Child]) -> None:
    crew = Crew(start, 1, once=True)
    with crew.worker():
        crew.end()
    assert not crew._idle


def test_a_worker_that_cannot_be_prepared_is_not_kept(start: Callable[[], Child]) -> None:
    crew = Crew(start, 1)
    with pytest.raises(ZeroDivisionError):
        crew.begin(lambda _: 1 / 0)
    assert not crew._idle
    crew.begin(lambda child: child.call(forked.tell, (), lasting=True) or child.receive(HANGS))
    assert len(crew._idle) == 1
    crew.end()


def test_a_crew_that_is_dropped_ends_its_workers(start: Callable[[], Child]) -> None:
    crew = Crew(start, 1)
    worker = used(crew)
    del crew
    assert have_ended(worker)


def test_bounds_count_from_the_call(start: Callable[[], Child]) -> None:
    crew = Crew(start, 1)
    with crew.worker() as child:
        child.call(forked.tell_limits, (), ChildLimits(seconds=HANGS, cpu_seconds=77, memory=1 << 30), lasting=True)
        seconds, processor, memory = map(float, child.receive(HANGS))
        assert 0 < seconds <= HANGS
        assert (processor, memory > 1 << 30) == (77, True)
        child.call(forked.tell_limits, (), ChildLimits(cpu_seconds=99, memory=1 << 40), lasting=True)
        assert list(map(float, child.receive(HANGS))) == [0, 78, memory], "a limit was raised past the hard one"
    crew.end()


def test_a_forked_process_holds_no_worker_of_its_parents(start: Callable[[], Child]) -> None:
    crew = Crew(start, 1)
    crew.begin()
    with children.fork(lambda channel: channel.send([str(len(crew._idle)).encode()])) as child:
        assert child.receive(HANGS) == [b"0"]
    worker = used(crew)
    crew.end()
    assert have_ended(worker)
