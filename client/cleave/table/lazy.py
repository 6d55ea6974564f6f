"""A table that is not read yet: its schema and its name are enough to plan a question over it."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from cleave.table.inputs import check_there, expand, table_name
from cleave.table.schema import Schema, load_schema, schema_path

if TYPE_CHECKING:
    from cleave.table.progress import Progress
    from cleave.table.stream import Stream
    from cleave.table.table import Table

_SMALL = 32 << 20  # bytes: half a second of reading


@dataclass(frozen=True, slots=True)
class LazyTable:
    """`name` is what SQL calls it. `read` may take its time; it raises InputError for what does not fit the schema.

    `stream` opens its rows to be read a batch at a time instead. `small`: it is read before anybody would look at a
    progress bar. `under_way`: by a thread, since before `read` is called.
    """

    name: str
    schema: Schema
    read: Callable[[Progress | None], Table]
    stream: Callable[[], Stream]
    small: bool = False
    under_way: bool = False


def of_files(names: Sequence[str | Path], schema: Schema | Path | None = None, name: str | None = None) -> LazyTable:
    """The table of these files; the schema is NAME.schema.toml beside them unless another is given.

    Raises InputError for files that are not there and for a schema that cannot be read.
    """
    check_there(names)
    contract = schema if isinstance(schema, Schema) else load_schema(schema or schema_path(names))

    def read(progress: Progress | None) -> Table:
        from cleave.table.table import open_table  # noqa: PLC0415 - DuckDB takes 30 ms

        return open_table(names, contract, progress)

    called = name or contract.table or table_name(names)

    def stream() -> Stream:
        from cleave.table.stream import open_stream  # noqa: PLC0415

        return open_stream(names, contract, called)

    return LazyTable(called, contract, read, stream, small=_bytes(names) <= _SMALL)


def begun(table: LazyTable) -> LazyTable:
    """A small table, read from now on by a thread: DuckDB needs no Python while it works. Any other as it is.

    Best after everything is forked that is to be forked. What goes wrong is told by `read`. The thread ends with the
    process, also where nobody reads.
    """
    if not table.small:
        return table
    import cleave.table.table  # noqa: F401, PLC0415 - here, so that no two threads import it

    done: Future[Table] = Future()

    def work() -> None:
        try:
            done.set_result(table.read(None))
        except BaseException as error:  # noqa: BLE001 - told by who waits for it
            done.set_exception(error)

    thread = threading.Thread(target=work, name="table", daemon=True)
    thread.start()

    def read(_: Progress | None) -> Table:
        thread.join()  # its end, not only its result: what is forked later is to be forked of a single one
        return done.result()

    return replace(table, read=read, small=False, under_way=True)


def _bytes(names: Sequence[str | Path]) -> float:
    """Return the bytes of all files together; infinite where one is none, as a pipe is, or is packed."""
    paths = [path for name in names for path in expand(name)]
    return sum(path.stat().st_size if path.is_file() and path.suffix != ".gz" else math.inf for path in paths)
