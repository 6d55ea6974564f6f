"""Jobs for encrypting processes: what each makes of a part."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

FOREVER = 600.0


def never(*_: Any) -> Any:
    time.sleep(FOREVER)


def one_chunk(_: Any) -> list[bytes]:
    return [b"chunk"]


def three_chunks(part: Any) -> list[bytes]:
    return [bytes([part.start, number]) * 5000 for number in range(3)]


class Work:
    """A job of no plaintexts."""

    def __init__(self, encrypt: Callable[[Any], Any]) -> None:
        self.encrypt = encrypt

    @contextlib.contextmanager
    def shared(self) -> Iterator[tuple[int, Callable[..., Work], tuple[Any, ...]]]:
        memory = os.memfd_create("plaintexts")
        try:
            yield memory, in_worker, (self.encrypt,)
        finally:
            os.close(memory)


def in_worker(_memory: int, encrypt: Callable[[Any], Any]) -> Work:
    return Work(encrypt)
