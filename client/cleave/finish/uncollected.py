"""Many objects made at once and none dropped in a circle, without looking for circles among them again and again.

Python's collector does so whenever there are a quarter more: of finishing an answer with 30,000 groups that was three
fifths of the time.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Where two threads are in such blocks, it is over for both when the first to enter leaves."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
