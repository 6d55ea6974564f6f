"""What calls this program from Python: its place in the code, for warnings, and the extras it has."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from cleave_shared.errors import InputError


def stack_level() -> int:
    """Stack level of the first frame outside of this program, as seen from the function that warns."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("cleave."):
        frame, level = frame.f_back, level + 1
    return level


def imported(name: str, what: str) -> Any:
    """A library that is an extra. Raises InputError, which says `what` needs it, where it is not installed."""
    try:
        return import_module(name)
    except ImportError:
        extra = {"pyarrow": "arrow"}.get(name, name)
        raise InputError(
            f"{what} needs {name}, which is not installed", hint=f"pip install 'cleave-sql[{extra}]'"
        ) from None
