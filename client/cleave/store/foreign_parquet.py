"""Parquet that a contributor wrote, tried in a process of its own before this one opens it.

1.5 KB of Parquet may hold 8 GB: one long text, a million times. So a child with bounds on address space, processor and
time first compares what the footer states with what the manifest states, then reads every value as this process will.
A file that the child can read takes no more of this process than it took of the child, if one thread reads it.
"""

from __future__ import annotations

import hashlib
import math
import os

from cleave_shared import duckdb, limits
from cleave_shared.children import Bounds, Channel
from cleave_shared.dataclass import dataclass
from cleave_shared.errors import CheckFailed, ProcessDied
from cleave_shared.fork_server import ForkServer

_SPARE = 5.0  # seconds between the kernel's end of the child and the end of waiting for it
_REPLY = 1 << 16
_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "threads": 1,
    "async_threads": 0,
    "temp_directory": "",
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "python_enable_replacements": False,
}
_server = ForkServer([__name__])  # a fork of this process itself may have locks of DuckDB that stay held
_tried: set[bytes] = set()  # digests of files that were read, with their rows


@dataclass(frozen=True, slots=True)
class _Allowed:
    """Bytes of a file's values, as its footer states them, and of the address space of the process that reads it."""

    values: int = limits.FOREIGN_PARQUET_BYTES
    memory: int = limits.FOREIGN_BYTES


_ALLOWED = _Allowed()


def require_readable(content: bytes, rows: int) -> None:
    """Raises CheckFailed unless the file has `rows` rows, and can be read within the bounds of a contributor's file."""
    digest = hashlib.sha256(b"%d " % rows + content).digest()
    if digest in _tried:
        return
    bounds = Bounds(limits.FOREIGN_SECONDS, math.ceil(limits.FOREIGN_SECONDS), _ALLOWED.memory)
    try:
        with _server.fork(_try, (content, rows, _ALLOWED), bounds) as child:
            child.receive(limits.FOREIGN_SECONDS + _SPARE, _REPLY)
    except ProcessDied:
        raise _wrong("takes more memory or time to read than a file of its rows may") from None
    _tried.add(digest)


def _try(channel: Channel, content: bytes, rows: int, allowed: _Allowed) -> None:
    handle = os.memfd_create("parquet")
    with open(handle, "wb", closefd=False) as file:
        file.write(content)
    path = f"/proc/self/fd/{handle}"
    try:
        with duckdb.connect(":memory:", config=_CONFIG | {"memory_limit": f"{allowed.memory // 2}B"}) as connection:
            connection.execute("SET enable_progress_bar = false")
            _compare(connection, path, rows, allowed.values)
            connection.execute("CREATE TABLE read AS FROM read_parquet(?, hive_partitioning = false)", [path])
    except (duckdb.OutOfMemoryException, MemoryError):
        raise _wrong("takes more memory to read than a file of its rows may") from None
    except duckdb.Error as error:  # its message may quote values
        raise _wrong(f"cannot be read ({type(error).__name__})") from None
    channel.send([])


def _compare(connection: duckdb.DuckDBPyConnection, path: str, rows: int, most: int) -> None:
    """Compare what the footer states. Raises CheckFailed."""
    stated = connection.execute("SELECT sum(num_rows), sum(num_row_groups) FROM parquet_file_metadata(?)", [path])
    ((found, groups),) = stated.fetchall()
    if found != rows or groups > max(1, rows):
        raise _wrong("has another number of rows than its manifest states")
    parts = connection.execute("SELECT sum(total_uncompressed_size), max(num_values) FROM parquet_metadata(?)", [path])
    ((size, values),) = parts.fetchall()
    if (size or 0) > most or (values or 0) > rows:
        raise _wrong(f"states more than {most:,} bytes of values, or more values than rows")


def _wrong(what: str) -> CheckFailed:
    return CheckFailed("stored", f"a contributor's file of columns {what}")
