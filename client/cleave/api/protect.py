"""Protection of the user's process, as the command `cleave` has it: only on request."""

from __future__ import annotations

from cleave_shared import children


def protect() -> None:
    """No core dump of this process from now on, and only root traces it or reads its memory.

    It holds for all that runs in the process and until it ends: debuggers and profilers that attach from outside, like
    gdb and py-spy, no longer can. RLIMIT_CORE 0 and PR_SET_DUMPABLE 0: see setrlimit(2), prctl(2).
    """
    children.refuse_core_dumps()
