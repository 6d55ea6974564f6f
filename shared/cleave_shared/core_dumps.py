"""Protects processes with secrets from core dumps."""

from __future__ import annotations

import ctypes
import resource

_libc = ctypes.CDLL(None, use_errno=True)  # prctl(2); loaded here, because a child should load nothing
_PR_SET_DUMPABLE = 4


def refuse_core_dumps() -> None:
    """No core file of this process; only root can read its memory or trace it (proc(5), ptrace(2))."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
