"""Folders that are filled once for each set of arguments in a process; tests work on copies of them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Hashable
from pathlib import Path

root: Path | None = None  # tests/store/conftest.py sets it; a script fills folders where the system keeps such
_FILLED: dict[Hashable, Path] = {}


def filled(arguments: Hashable, fill: Callable[[Path], object]) -> Path:
    """Folder that `fill` filled when it was first wanted for these arguments. Nothing may change it."""
    if arguments not in _FILLED:
        folder = Path(tempfile.mkdtemp(dir=root))
        fill(folder)
        _FILLED[arguments] = folder
    return _FILLED[arguments]
