"""How work under way reports how far it is."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol


class Progress(Protocol):
    def stage(self, name: str, total: int, unit: str = "") -> Callable[[int], None]:
        """Start a stage, beside those under way; what it returns advances it."""
        ...


class Silent:
    """Progress that is not shown."""

    def stage(self, name: str, total: int, unit: str = "") -> Callable[[int], None]:  # noqa: ARG002 - shows nothing
        return lambda _: None


Bars = Callable[[], AbstractContextManager[Progress]]  # opens a display for one piece of work


def no_bars() -> AbstractContextManager[Progress]:
    return contextlib.nullcontext(Silent())
