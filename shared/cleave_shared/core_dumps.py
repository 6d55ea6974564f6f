"""No core file of a process that holds secrets."""

from __future__ import annotations

import ctypes
import resource

_libc = ctypes.CDLL(None, use_errno=True)  # prctl(2); loaded here, since a child should not load anything
_PR_SET_DUMPABLE = 4


def refuse_core_dumps() -> None:
    """No core file of this process, and only root reads its memory or traces it (proc(5), ptrace(2))."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
