"""What counts as exhausted: errors of the system by their number, of libraries by their words, and nothing else."""

from __future__ import annotations

import errno
import os

import pytest

from cleave_shared.children import ChildLimits, answer_calls, fork
from cleave_shared.errors import Exhausted, InputError, QueryRefused, ServiceError
from cleave_shared.exhaustion import exhausted, is_met
from tests.functional.processes import HANGS
from tests.unit import forked

THREADS, FILES, MEMORY = "no more threads or processes", "no more files", "not enough memory"


def system(number: int) -> OSError:
    return OSError(number, os.strerror(number))


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (RuntimeError("can't start new thread"), THREADS),
        (system(errno.EAGAIN), THREADS),  # of fork
        (system(errno.EMFILE), FILES),
        (system(errno.ENFILE), FILES),
        (ImportError("libx.so: cannot open shared object file: Error 24"), FILES),
        (RuntimeError("random_device::random_device(const std::string&): device not available"), FILES),
        (MemoryError(), MEMORY),
        (system(errno.ENOMEM), MEMORY),
        (ImportError("x.so: failed to map segment from shared object"), MEMORY),
        (RuntimeError("std::bad_alloc"), MEMORY),
    ],
)
def test_errors_of_exhaustion_name_what_ran_out(error: Exception, words: str) -> None:
    told = exhausted(error)
    assert told is not None
    assert words in told.message
    assert told.exit_code == 6
    assert told.hint
    assert exhausted(told) is told


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("x"),
        system(errno.ENOENT),
        BlockingIOError(errno.EAGAIN, "write could not complete without blocking", 3),  # of a stream
        InputError("the column 'Too many open files' is not there"),
        ServiceError("std::bad_alloc"),
    ],
)
def test_other_errors_name_nothing_that_ran_out(error: Exception) -> None:
    assert exhausted(error) is None


@pytest.mark.parametrize(
    ("cause", "is_one"),
    [
        (system(errno.EMFILE), True),
        (RuntimeError("can't start new thread"), True),
        (MemoryError(), False),
        (system(errno.EAGAIN), False),
        (system(errno.ENOENT), False),
    ],
)
def test_an_error_of_cleave_by_what_it_was_raised_from(cause: Exception, is_one: bool) -> None:
    """A lock that another process has is EAGAIN too; a file that does not fit in memory has better words."""
    error = InputError("a.csv: cannot be read")
    error.__context__, error.__suppress_context__ = cause, True  # as `raise ... from None` leaves it
    assert (exhausted(error) is not None) is is_one


def test_a_shortage_is_met_whatever_was_made_of_it() -> None:
    error = QueryRefused("DuckDB refuses the query")
    assert not is_met(error)
    error.__context__ = MemoryError()
    assert is_met(error)
    assert is_met(Exhausted("there is not enough memory here"))


@pytest.mark.parametrize(("memory", "spent"), [(1 << 40, b"00"), (1 << 32, b"01")])
def test_memory_that_was_given_back_counts(memory: int, spent: bytes) -> None:
    with fork(answer_calls) as child:
        child.call(forked.tell_spent, (3 << 30,), ChildLimits(memory=memory))
        assert child.receive(HANGS) == [spent]
