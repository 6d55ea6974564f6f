"""A table that is not read yet: its schema and its name are enough to plan a question over it.

It is of files or of a frame: a pandas DataFrame, an Arrow table, or anything that has Arrow's C stream. All frames go
by way of Arrow, so there is one set of rules:

    whole numbers, floats, booleans, decimals, dates, times, timestamps, text    the type of the same name
    category, dictionary                                                         the type of what it stands for
    timestamps with a time zone                                                  TIMESTAMP WITH TIME ZONE
    timedelta64, durations and intervals                                         INTERVAL
    lists, structs and the like                                                  VARCHAR, their text

NULL is None, NaN, NaT or NA in pandas, and Arrow's null; NaN in an Arrow column of floats is a number, as in DuckDB.
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
from cleave.table.inputs import Frame, Names, check_reading, check_there, expand, table_name
from cleave.table.schema import Schema, load_schema, read_schema, schema_path
from cleave_shared.errors import InputError

if TYPE_CHECKING:
    from cleave.table.progress import Progress
    from cleave.table.stream import Stream
    from cleave.table.table import Table

_SMALL = 32 << 20  # bytes: half a second of reading


@dataclass(frozen=True, slots=True)
class LazyTable:
    """`name` is what SQL calls it; `source`: its files, or a frame.

    `small`: reading it needs no progress bar. `prefetched`: waits for the thread that reads it already.
    """

    name: str
    schema: Schema
    source: Names | Frame
    small: bool = False
    prefetched: Callable[[], Table] | None = None

    def read(self, progress: Progress | None) -> Table:
        """Read all rows. Raises InputError for what does not fit the schema."""
        from cleave.table.stream import open_table  # noqa: PLC0415 - DuckDB takes 30 ms

        return self.prefetched() if self.prefetched else open_table(self.source, self.schema, progress, self.name)

    def stream(self) -> Stream:
        """Open its rows as a stream, read a batch at a time."""
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
    """The table of these files; the schema is NAME.schema.toml beside them unless another is given.

    `sheet` of Excel files and `flatten` of nested JSON objects: what else the schema says. Raises InputError for files
    that are not there or not of that kind, and for a schema that cannot be read.
    """
    check_there(names)
    check_reading(names, sheet, flatten=flatten)
    contract = schema if isinstance(schema, Schema) else load_schema(schema or schema_path(names))
    contract = contract.read_as(sheet, flatten)
    called = name or contract.table or table_name(names)
    return LazyTable(called, contract, names, small=_bytes(names) <= _SMALL)


def prefetch(table: LazyTable) -> LazyTable:
    """Read a small table in a thread from now on: DuckDB needs no Python while it works. Return any other as it is.

    Call it after the last fork. `read` raises what goes wrong. The thread ends with the process at the latest.
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
        thread.join()  # its end, not only its result: a later fork needs a single thread
        return done.result()

    return replace(table, small=False, prefetched=end)


def _bytes(names: Sequence[str | Path]) -> float:
    """Return the bytes of all files together; infinite where one is none, as a pipe is, or is packed."""
    paths = [path for name in names for path in expand(name)]
    return sum(path.stat().st_size if os.path.isfile(path) and path.suffix != ".gz" else math.inf for path in paths)


NAME = "frame"  # what SQL calls it where nothing else is said


class ArrowStream(Protocol):
    """A table by the Arrow PyCapsule interface: pyarrow, polars, pandas, DuckDB and others have it."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


# What a caller may say of a column: its kind, or all that [columns.NAME] of a schema file may hold but the type.
Described = Mapping[str, str | Mapping[str, Any]]


def hint_of_no_table(data: object) -> str:
    """Return a hint for data of a kind that is no table."""
    if hasattr(data, "collect"):  # of polars, DuckDB's relations and others
        return "it has no rows yet: pass what its .collect() returns"
    if isinstance(data, Mapping) or (isinstance(data, Sequence) and data and isinstance(data[0], Mapping)):
        return "make a frame of it: pandas.DataFrame(data) or pyarrow.table(data)"
    return "a DataFrame, an Arrow table, a path or several paths are tables"


def is_frame(data: object) -> TypeGuard[ArrowStream]:
    return hasattr(data, "__arrow_c_stream__") or _is_pandas(data)


def of_frame(data: ArrowStream, schema: Schema | Path | Described, name: str | None = None) -> LazyTable:
    """A frame as a table; of a schema given as column -> kind, the types are the frame's.

    Raises InputError for a column of mixed or unknown types, by its name and row, and for one that the schema does
    not name. The values are copied when the table is read, with the first question.
    """
    frame = as_arrow(data)
    if isinstance(schema, Mapping):
        contract = _described(frame, schema)
    else:
        contract = schema if isinstance(schema, Schema) else load_schema(schema)
    return LazyTable(name or contract.table or NAME, contract, frame)


def of_local_frame(data: ArrowStream, name: str) -> LazyTable:
    """Return a frame as a table that stays on this machine: every column is local, so none needs a kind."""
    frame = as_arrow(data)
    return LazyTable(name, _described(frame, dict.fromkeys(frame.arrow.column_names, "local")), frame)


def _described(frame: Frame, kinds: Described) -> Schema:
    """The schema of kinds and the frame's types. A column without a kind, or a kind without a column, is refused."""
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
            raise InputError(f"{shown}, column {name!r}: is there twice (upper and lower case are the same to SQL)")
        seen.add(name.lower())


def _is_pandas(data: object) -> bool:
    """Check without importing pandas: a caller with a DataFrame has done so."""
    return any(
        each.__module__.split(".")[0] == "pandas" and each.__name__ == "DataFrame" for each in type(data).__mro__
    )
