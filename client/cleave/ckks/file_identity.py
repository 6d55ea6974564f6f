"""What tells a file from every other, of the same content and name too, for as long as the machine runs.

A file's number is given again once it is deleted, and its times can be set, all but the one of its birth, which the
kernel alone writes: statx(2), for which Python has no call.
"""

from __future__ import annotations

import ctypes
import os
import secrets
import struct
from pathlib import Path

_libc = ctypes.CDLL(None, use_errno=True)  # loaded here, since a forked child should not load anything
_AT_EMPTY_PATH, _STATX_BTIME, _BYTES = 0x1000, 0x800, 256
_BORN = struct.Struct("<qI")  # seconds, nanoseconds
_BORN_AT = 80
_BOOT = Path("/proc/sys/kernel/random/boot_id")


def boot() -> str:
    """Of this start of the machine; where none is told, one that nobody else has."""
    try:
        return _BOOT.read_text().strip() or secrets.token_hex(16)
    except OSError:
        return secrets.token_hex(16)


def identity(handle: int) -> tuple[int, ...]:
    """Of an open file: device, number, time of birth. Raises OSError where its file system does not tell that."""
    status = os.fstat(handle)
    buffer = ctypes.create_string_buffer(_BYTES)
    if _libc.statx(handle, b"", _AT_EMPTY_PATH, _STATX_BTIME, buffer):
        raise OSError(ctypes.get_errno(), "its file system does not tell when a file was made")
    (told,) = struct.unpack_from("<I", buffer)
    if not told & _STATX_BTIME:
        raise OSError(0, "its file system does not tell when a file was made")
    return status.st_dev, status.st_ino, *_BORN.unpack_from(buffer, _BORN_AT)
