"""Find the code outside this program that called it, for warnings."""

from __future__ import annotations

import sys


def stack_level() -> int:
    """Return the stack level of the first frame outside this program, counted from the function that warns."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("cleave."):
        frame, level = frame.f_back, level + 1
    return level
