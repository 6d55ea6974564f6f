"""A table that is not read yet. Its schema and name are enough to plan a question.

The source is files or a frame: a pandas DataFrame, an Arrow table, or any object with Arrow's C stream. All frames are
read through Arrow, so one set of rules applies:

  whole numbers, floats, booleans, decimals, dates, times, timestamps, text    the same type
  category, dictionary                                                         the type of its values
  timestamps with a time zone                                                  TIMESTAMP WITH TIME ZONE
  timedelta64, durations and intervals                                         INTERVAL
  lists, structs and other nested types                                        VARCHAR, their text

NULL is None, NaN, NaT or NA in pandas, and null in Arrow. NaN in an Arrow column of floats is a number, as in DuckDB.
The index of a DataFrame is not read.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard

import duckdb

from cleave.table.duck import connect_ahead, private
from cleave.table.inputs import Frame, Names, check_reading, expand, table_name
from cleave.table.schema import CsvDialect, Schema, load_schema, read_schema, schema_path
from cleave_shared.errors import InputError

if TYPE_CHECKING:
    from cleave.table.progress import Progress
    from cleave.table.stream import Stream
    from cleave.table.table import Table

_SMALL = 32 << 20  # bytes, read in half a second


@dataclass(frozen=True, slots=True)
class LazyTable:
    """`name`: the table's name in SQL. `source`: its files, or a frame.

    `small`: it is read too fast for a progress bar. `prefetched`: waits for the thread that already reads it.
    """

    name: str
    schema: Schema
    source: Names | Frame
    small: bool = False
    prefetched: Callable[[], Table] | None = None

    def read(self, progress: Progress | None) -> Table:
        """Read all rows. Raises InputError for a value that does not fit the schema."""
        from cleave.table.stream import open_table  # noqa: PLC0415 - DuckDB takes 30 ms

        return self.prefetched() if self.prefetched else open_table(self.source, self.schema, progress, self.name)

    def stream(self) -> Stream:
        """Open the rows as a stream of batches."""
        from cleave.table.stream import open_stream  # noqa: PLC0415

        return open_stream(self.source, self.schema, self.name)


def of_files(
    names: Sequence[str | Path],
    schema: Schema | Path | None = None,
    name: str | None = None,
    *,
    sheet: str | None = None,
    flatten: bool = False,
) -> LazyTable:
    """The table of these files. Without `schema`, the schema is NAME.schema.toml beside them.

    `sheet` (of Excel files) and `flatten` (nested JSON objects) override the schema. Raises InputError for a missing
    file, a file of another kind, and a schema that cannot be read.
    """
    check_reading(names, CsvDialect(sheet=sheet or "", flatten=flatten))
    contract = schema if isinstance(schema, Schema) else load_schema(schema or schema_path(names))
    contract = contract.read_as(sheet, flatten)
    called = name or contract.table or table_name(names)
    return LazyTable(called, contract, names, small=_bytes(names) <= _SMALL)


def prefetch(table: LazyTable) -> LazyTable:
    """Start to read a small table in a thread, since DuckDB releases Python's GIL. Any other table is returned
    unchanged.

    Call it after the last fork. `read` raises the thread's error. The thread ends with the process at the latest.
    """
    if not table.small:
        return table
    import cleave.table.stream  # noqa: F401, PLC0415 - before the thread starts, so that no two import it

    done: Future[Table] = Future()

    def work() -> None:
        try:
            connect_ahead()  # first: planning needs it before anything needs the rows
            done.set_result(table.read(None))
        except BaseException as error:  # noqa: BLE001 - `read` raises it
            done.set_exception(error)

    thread = threading.Thread(target=work, name="table", daemon=True)
    thread.start()

    def end() -> Table:
        thread.join()  # wait for the thread to end: a later fork needs a single thread
        return done.result()

    return replace(table, small=False, prefetched=end)


def _bytes(names: Sequence[str | Path]) -> float:
    """Size of all files in bytes; infinite if one is compressed or not a regular file."""
    paths = [path for name in names for path in expand(name)]
    return sum(path.stat().st_size if os.path.isfile(path) and path.suffix != ".gz" else math.inf for path in paths)


NAME = "frame"  # default name in SQL


class ArrowStream(Protocol):
    """Any table with the Arrow PyCapsule interface: of pyarrow, polars, pandas, DuckDB and others."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


# A column's kind, or the keys of [columns.NAME] in a schema file, without the type.
ColumnKinds = Mapping[str, str | Mapping[str, Any]]


def hint_of_no_table(data: object) -> str:
    """Return a hint for data of a kind that is no table."""
    if hasattr(data, "collect"):  # of polars, DuckDB's relations and others
        return "it has no rows yet: pass what its .collect() returns"
    if isinstance(data, Mapping) or (isinstance(data, Sequence) and data and isinstance(data[0], Mapping)):
        return "make a frame of it: pandas.DataFrame(data) or pyarrow.table(data)"
    return "a DataFrame, an Arrow table, a path or several paths are tables"


def is_frame(data: object) -> TypeGuard[ArrowStream]:
    return hasattr(data, "__arrow_c_stream__") or _is_pandas(data)


def of_frame(data: ArrowStream, schema: Schema | Path | ColumnKinds, name: str | None = None) -> LazyTable:
    """A frame as a table. If the schema only states kinds, the types are the frame's.

    Raises InputError for a column of mixed or unknown types (with its row) and for a column that the schema does not
    name. The first question reads and copies the values.
    """
    frame = as_arrow(data)
    if isinstance(schema, Mapping):
        contract = _described(frame, schema)
    else:
        contract = schema if isinstance(schema, Schema) else load_schema(schema)
    return LazyTable(name or contract.table or NAME, contract, frame)


def of_local_frame(data: ArrowStream, name: str) -> LazyTable:
    """A frame as a table that stays on this machine: every column is local, so none needs a kind."""
    frame = as_arrow(data)
    return LazyTable(name, _described(frame, dict.fromkeys(frame.arrow.column_names, "local")), frame)


def _described(frame: Frame, kinds: ColumnKinds) -> Schema:
    """The schema from given kinds and the frame's types. Raises InputError if a column has no kind, or a kind no
    column.
    """
    from cleave.table.typed_reading import columns_of, schema_type  # noqa: PLC0415 - DuckDB takes 30 ms

    with private() as connection:
        types = {name: schema_type(type_, frame, name) for name, type_ in columns_of(connection, frame).items()}
    if missing := [name for name in kinds if name not in types]:
        raise InputError(f"{frame}: has no column {missing[0]!r}, which the schema names")
    if unknown := [name for name in types if name not in kinds]:
        others = f" (nor are {len(unknown) - 1} others)" if len(unknown) > 1 else ""
        raise InputError(
            f"{frame}, column {unknown[0]!r}: is not named in the schema{others}",
            hint='give it a kind: "plain", "encrypted", "sealed", or "local" if it must not leave this machine',
        )
    stated = {name: dict(kind) if isinstance(kind, Mapping) else {"kind": kind} for name, kind in kinds.items()}
    return read_schema({"columns": {name: {"type": type_} | stated[name] for name, type_ in types.items()}}, str(frame))


def as_arrow(data: ArrowStream) -> Frame:
    shown = f"the {type(data).__name__}"
    try:
        import pyarrow as pa  # noqa: PLC0415 - an extra
    except ImportError:
        from cleave_shared.installed import install_command  # noqa: PLC0415 - only here

        hint = install_command("arrow", "pyarrow")
        raise InputError(f"{shown}: is read by pyarrow, which is not installed", hint=hint) from None

    from cleave.table.arrow import of_pandas, readable  # noqa: PLC0415 - needs pyarrow

    if _is_pandas(data):
        table = of_pandas(data, shown)
    else:
        try:
            table = pa.table(data)
        except (pa.ArrowException, duckdb.Error, OSError, TypeError, ValueError):
            raise InputError(f"{shown}: cannot be read as an Arrow table", hint=hint_of_no_table(data)) from None
    _check_names(table.column_names, shown)
    return Frame(readable(table, shown), shown)


def _check_names(names: list[str], shown: str) -> None:
    if not names:
        raise InputError(f"{shown}: has no columns")
    seen: set[str] = set()
    for name in names:
        if name.lower() in seen:
            raise InputError(f"{shown}, column {name!r}: exists twice (SQL ignores upper and lower case)")
        seen.add(name.lower())


def _is_pandas(data: object) -> bool:
    """Check without importing pandas: the caller of a DataFrame has imported it."""
    return any(
        each.__module__.split(".")[0] == "pandas" and each.__name__ == "DataFrame" for each in type(data).__mro__
    )
