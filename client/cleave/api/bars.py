"""Progress in a notebook or on a terminal, through rich; nothing where nobody watches or nothing takes long."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from importlib.util import find_spec
from types import TracebackType
from typing import TYPE_CHECKING

from cleave.table.progress import Bars, Silent

if TYPE_CHECKING:
    from cleave.cli.console import BarProgress
    from cleave.table.progress import Progress

_PATIENCE = 0.5  # seconds: what ends before leaves no trace in a notebook's cell


def bars(wanted: bool | None) -> Bars:
    """None: where a person sees them, which is a notebook that has ipywidgets or an interactive prompt."""

    def shown() -> AbstractContextManager[Progress]:
        if wanted or (wanted is None and _is_watched()):
            return _Patient()
        return nullcontext(Silent())

    return shown


def _is_watched() -> bool:
    if "ipykernel.zmqshell" in sys.modules:
        return find_spec("ipywidgets") is not None  # rich draws through it
    return hasattr(sys, "ps1") and sys.stderr.isatty()


class _Patient:
    """Bars that are drawn with the first progress after `_PATIENCE`."""

    def __init__(self) -> None:
        self._due = time.monotonic() + _PATIENCE
        self._lock = threading.Lock()
        self._open = ExitStack()
        self._drawn: BarProgress | None = None
        self._stages: list[_Stage] = []

    def stage(self, name: str, total: int, unit: str = "") -> Callable[[int], None]:
        stage = _Stage(name, total, unit)
        with self._lock:
            self._stages.append(stage)

        def advance(amount: int) -> None:
            with self._lock:
                stage.done += amount
                if time.monotonic() >= self._due:
                    self._draw()

        return advance

    def _draw(self) -> None:
        if self._drawn is None:
            from cleave.cli.console import BarProgress  # noqa: PLC0415 - rich takes 40 ms

            self._drawn = self._open.enter_context(BarProgress())
        for stage in self._stages:
            if stage.advance is None:
                stage.advance = self._drawn.stage(stage.name, stage.total, stage.unit)
            if stage.done > stage.shown:
                stage.advance(stage.done - stage.shown)
                stage.shown = stage.done

    def __enter__(self) -> _Patient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()


class _Stage:
    def __init__(self, name: str, total: int, unit: str) -> None:
        self.name = name
        self.total = total
        self.unit = unit
        self.done = 0
        self.shown = 0
        self.advance: Callable[[int], None] | None = None
