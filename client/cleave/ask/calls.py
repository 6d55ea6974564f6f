"""The code that calls this program, for warnings."""

from __future__ import annotations

import sys


def stack_level() -> int:
    """Stack level of the first frame outside of this program, as seen from the function that warns."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("cleave."):
        frame, level = frame.f_back, level + 1
    return level
