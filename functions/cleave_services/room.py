"""Memory that objects are read into one after another: fresh pages take as long as what is read into them."""

from __future__ import annotations

import contextlib
import mmap

_LARGE_PAGE = 2 << 20


class Room:
    def __init__(self) -> None:
        self._memory: mmap.mmap | None = None

    def of(self, size: int) -> memoryview:
        """So many bytes, until it is asked again. In large pages, and a forked process has its own."""
        if self._memory is None or len(self._memory) < size:
            length = -(-max(size, 1) // _LARGE_PAGE) * _LARGE_PAGE
            self._memory = mmap.mmap(-1, length, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            with contextlib.suppress(OSError):  # a kernel without them
                self._memory.madvise(mmap.MADV_HUGEPAGE)
        return memoryview(self._memory)[:size]
