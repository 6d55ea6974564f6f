"""Progress in a notebook or on a terminal, through rich; nothing where nobody watches."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from importlib.util import find_spec
from typing import TYPE_CHECKING

from cleave.session import Bars, Silent

if TYPE_CHECKING:
    from cleave.pipeline import Progress


def bars(wanted: bool | None) -> Bars:
    """None: where a person sees them, which is a notebook that has ipywidgets or an interactive prompt."""

    def shown() -> AbstractContextManager[Progress]:
        if wanted or (wanted is None and _is_watched()):
            from cleave.cli.console import BarProgress  # noqa: PLC0415 - rich takes 40 ms

            return BarProgress()
        return nullcontext(Silent())

    return shown


def _is_watched() -> bool:
    kernel = sys.modules.get("ipykernel.zmqshell")
    if kernel is not None:
        return find_spec("ipywidgets") is not None  # rich draws through it
    return hasattr(sys, "ps1") and sys.stderr.isatty()
