"""Errors for exhausted resources: threads, processes, open files, memory."""

from __future__ import annotations

import errno
import os
import resource
from pathlib import Path

from cleave_shared.errors import CleaveError, Exhausted

_THREADS = (
    "no more threads or processes can be started here",
    "raise the limit (ulimit -u, --pids-limit of a container, TasksMax of a service), or end other programs",
)
_FILES = ("no more files can be opened here", "raise the limit (ulimit -n), or end other programs")
_MEMORY = (
    "there is not enough memory here",
    "raise the limit (ulimit -v, --memory of a container), or end other programs",
)
_WORDS = {
    "can't start new thread": _THREADS,
    "Too many open files": _FILES,
    "cannot open shared object file: Error 24": _FILES,
    "random_device": _FILES,  # SEAL opens /dev/urandom for each key and each encryption
    "failed to map segment": _MEMORY,
    "Cannot allocate memory": _MEMORY,
    "std::bad_alloc": _MEMORY,
    "Out of Memory Error": _MEMORY,
}
"""In texts of errors that have no number: of Python's threads, of the loader, of DuckDB and SEAL."""
_NUMBERS = {errno.EMFILE: _FILES, errno.ENFILE: _FILES, errno.ENOMEM: _MEMORY}


def exhausted(error: BaseException) -> Exhausted | None:
    """The error that says which resource ran out; None if `error` has another cause.

    Cleave's own errors are examined too: they may be caused by exhausted threads or files.
    """
    if isinstance(error, Exhausted):
        return error
    words = _kind(error)
    below = error.__cause__ or error.__context__
    while words is None and below is not None and isinstance(error, CleaveError):
        words = _kind(below)
        # Cleave's error explains memory better, and EAGAIN can be another process's lock
        words = None if words is _MEMORY or isinstance(below, BlockingIOError) else words
        below = below.__cause__ or below.__context__
    return Exhausted(words[0], hint=words[1]) if words else None


def is_met(error: BaseException) -> bool:
    """True if a resource ran out, for this error or for one that led to it."""
    below: BaseException | None = error
    while below is not None:
        if isinstance(below, Exhausted) or _kind(below):
            return True
        below = below.__cause__ or below.__context__
    return False


def is_spent() -> bool:
    """True if this process's address space was ever above half of its limit, whoever handled the errors since.

    Memory that was freed may stay with the allocator, so that later work finds too little.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return False
    lines = Path("/proc/self/status").read_text("ascii", "replace").splitlines()
    sizes = [1024 * int(line.split()[1]) for line in lines if line.startswith(("VmPeak:", "VmSize:"))]
    return max(sizes, default=0) > limit // 2


def _kind(error: BaseException) -> tuple[str, str] | None:
    if isinstance(error, MemoryError):
        return _MEMORY
    if isinstance(error, BlockingIOError):  # of fork; a stream's has its own message
        return _THREADS if error.strerror == os.strerror(errno.EAGAIN) else None
    if isinstance(error, OSError) and error.errno is not None:
        return _NUMBERS.get(error.errno)
    if isinstance(error, CleaveError):
        return None
    return next((words for text, words in _WORDS.items() if text in str(error)), None)
