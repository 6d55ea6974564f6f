"""A frame in place of a file: a pandas DataFrame, an Arrow table, or whatever hands itself over as Arrow's C stream.

All go by way of Arrow, so there is one set of rules:

    whole numbers, floats, booleans, decimals, dates, times, timestamps, text    the type of the same name
    category, dictionary                                                         the type of what it stands for
    timestamps with a time zone                                                  TIMESTAMP WITH TIME ZONE
    timedelta64, durations and intervals                                         INTERVAL
    lists, structs and the like                                                  VARCHAR, their text

NULL is None, NaN, NaT or NA in pandas, and Arrow's null; NaN in an Arrow column of floats is a number, as in DuckDB.
The index of a DataFrame is not read.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard

from cleave.table.inputs import Frame
from cleave.table.lazy import LazyTable
from cleave.table.schema import Schema, load_schema, read_schema
from cleave_shared.errors import InputError

if TYPE_CHECKING:
    from cleave.table.progress import Progress
    from cleave.table.stream import Stream
    from cleave.table.table import Table

NAME = "frame"  # what SQL calls it where nothing else is said


class ArrowStream(Protocol):
    """A table by the Arrow PyCapsule interface: pyarrow, polars, pandas, DuckDB and others have it."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


# What a caller may say of a column: its kind, or all that [columns.NAME] of a schema file may hold but the type.
Described = Mapping[str, str | Mapping[str, Any]]


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
    return _lazy(frame, contract, name)


def of_local_frame(data: ArrowStream, name: str) -> LazyTable:
    """A frame of which nothing leaves this machine: every column is local, so none needs a kind."""
    frame = as_arrow(data)
    return _lazy(frame, _described(frame, dict.fromkeys(frame.arrow.column_names, "local")), name)


def _lazy(frame: Frame, schema: Schema, name: str | None) -> LazyTable:
    called = name or schema.table or NAME

    def read(progress: Progress | None) -> Table:
        from cleave.table.table import open_frame  # noqa: PLC0415 - DuckDB takes 30 ms

        return open_frame(frame, schema, called, progress)

    def stream() -> Stream:
        from cleave.table.stream import stream_frame  # noqa: PLC0415

        return stream_frame(frame, schema, called)

    return LazyTable(called, schema, read, stream)


def _described(frame: Frame, kinds: Described) -> Schema:
    """The schema of kinds and the frame's types. A column without a kind, or a kind without a column, is refused."""
    from cleave.table.duck import connect_reading  # noqa: PLC0415
    from cleave.table.typed import columns, schema_type  # noqa: PLC0415 - DuckDB takes 30 ms

    with closing(connect_reading()) as connection:
        types = {name: schema_type(type_, frame, name) for name, type_ in columns(connection, frame).items()}
    if missing := [name for name in kinds if name not in types]:
        raise InputError(f"{frame}: has no column {missing[0]!r}, which the schema names")
    if unknown := [name for name in types if name not in kinds]:
        others = f" (nor are {len(unknown) - 1} others)" if len(unknown) > 1 else ""
        raise InputError(
            f"{frame}, column {unknown[0]!r}: is not named in the schema{others}",
            hint='give it a kind: "plain", "encrypted", "sealed", or "local" if it must not leave this machine',
        )
    said = {name: dict(kind) if isinstance(kind, Mapping) else {"kind": kind} for name, kind in kinds.items()}
    return read_schema({"columns": {name: {"type": type_} | said[name] for name, type_ in types.items()}}, str(frame))


def as_arrow(data: ArrowStream) -> Frame:
    shown = f"the {type(data).__name__}"
    try:
        import pyarrow as pa  # noqa: PLC0415 - an extra
    except ImportError:
        raise InputError(
            f"{shown}: is read by pyarrow, which is not installed",
            hint="pip install 'cleave-sql[pandas]' or 'cleave-sql[arrow]'",
        ) from None
    import duckdb  # noqa: PLC0415 - 30 ms

    from cleave.table.arrow import of_pandas, readable  # noqa: PLC0415 - needs pyarrow

    if _is_pandas(data):
        table = of_pandas(data, shown)
    else:
        try:
            table = pa.table(data)
        except (pa.ArrowException, duckdb.Error, OSError, TypeError, ValueError):
            raise InputError(f"{shown}: cannot be read as an Arrow table") from None
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
    """Without importing pandas: whoever has a DataFrame has done so."""
    return any(
        each.__module__.split(".")[0] == "pandas" and each.__name__ == "DataFrame" for each in type(data).__mro__
    )
