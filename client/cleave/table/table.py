"""A CSV file read under its schema into an in-memory DuckDB table. Nothing is written to disk."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import duckdb

from cleave.table.cast import Cast, cast
from cleave.table.schema import Column, Schema
from cleave.table.source import check_readable, column_names, connect_in_memory, duckdb_source, identifier
from cleave_shared import limits
from cleave_shared.errors import InputError

_BATCH = 50  # columns asked about in one query: DuckDB plans hundreds of aggregates slowly


class Table:
    """`relation` in `connection` holds the rows in the order of the file, the columns named and typed by the schema."""

    relation = "source"

    def __init__(
        self, path: Path, schema: Schema, connection: duckdb.DuckDBPyConnection, rows: int, scratch: int
    ) -> None:
        self.path = path
        self.name = path.stem
        self.schema = schema
        self.connection = connection
        self.rows = rows
        self._scratch = scratch

    def parquet(self, relation: str, columns: Sequence[str], start: int, stop: int) -> bytes:
        """Rows `start`..`stop` of `columns` as a Parquet file that never was on a disk.

        Counted by LIMIT, not by rowid: a column of the file may be called that.
        """
        names = ", ".join(identifier(name) for name in columns)
        self.connection.execute(
            f"COPY (SELECT {names} FROM {relation} LIMIT {stop - start} OFFSET {start}) "
            f"TO '{_scratch_path(self._scratch)}' (FORMAT parquet, COMPRESSION zstd, USE_TMP_FILE false)"
        )
        return os.pread(self._scratch, os.fstat(self._scratch).st_size, 0)

    def __enter__(self) -> Table:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.connection.close()
        os.close(self._scratch)


def _scratch_path(scratch: int) -> str:
    return f"/proc/self/fd/{scratch}"


def open_table(path: Path, schema: Schema) -> Table:
    """Read the whole file.

    Raises InputError naming file, line and column of what does not fit the schema, never a value.
    """
    check_readable(path)
    names = column_names(path, schema.dialect)
    places = _match_columns(path, names, schema)
    casts = [cast(f"c{place}", column, schema.dialect) for place, column in zip(places, schema.columns, strict=True)]
    connection = connect_in_memory()
    scratch = os.memfd_create("parquet")
    try:
        _load(connection, path, schema, casts, len(names))
        (rows,) = connection.execute(f"SELECT count(*) FROM {Table.relation}").fetchall()[0]
        if rows > limits.MAX_JOB_ROWS:
            raise InputError(f"{path}: has {rows} rows, at most {limits.MAX_JOB_ROWS} are supported")
        _check_declared(connection, path, schema, rows)
        # from here on the memory file is all that DuckDB may write
        connection.execute(f"SET allowed_paths = ['{_scratch_path(scratch)}']")
        connection.execute("SET enable_external_access = false")
    except BaseException:
        connection.close()
        os.close(scratch)
        raise
    return Table(path, schema, connection, rows, scratch)


def _match_columns(path: Path, names: tuple[str, ...], schema: Schema) -> list[int]:
    """Where each column of the schema stands in the file."""
    places = {name.lower(): index for index, name in enumerate(names)}
    known = {column.name.lower() for column in schema.columns}
    if not known.intersection(places):  # then these may be the cells of a first row, which no message may quote
        raise InputError(
            f"{path}, line 1: names none of the schema's columns",
            hint="is the line with the names missing? else check delimiter under [csv], and whose schema it is",
        )
    if unknown := [name for name in names if name.lower() not in known]:
        raise InputError(
            f"{path}, line 1, column {unknown[0]!r}: is not named in the schema{_and_others(unknown)}",
            hint='add it to the schema, with kind = "local" if it must not leave; `cleave schema` proposes',
        )
    if missing := [column.name for column in schema.columns if column.name.lower() not in places]:
        raise InputError(
            f"{path}, line 1, column {missing[0]!r}: is in the schema and not in the file{_and_others(missing)}",
            hint="remove it from the schema, or check delimiter and header under [csv]",
        )
    return [places[column.name.lower()] for column in schema.columns]


def _and_others(names: list[str]) -> str:
    return f" (nor are {len(names) - 1} others)" if len(names) > 1 else ""


def _load(connection: duckdb.DuckDBPyConnection, path: Path, schema: Schema, casts: list[Cast], width: int) -> None:
    values = ", ".join(
        f"{one.value} AS {identifier(column.name)}" for one, column in zip(casts, schema.columns, strict=True)
    )
    problem = None
    with duckdb_source(path, schema.dialect, width) as source:
        try:
            connection.execute(f"CREATE TABLE {Table.relation} AS SELECT {values} FROM {source}")
        except duckdb.OutOfMemoryException:
            problem = "memory"
        except duckdb.Error:
            problem = "content"  # DuckDB's message quotes the line: it is neither kept nor chained
    if problem == "memory":
        raise InputError(f"{path}: does not fit in memory", hint="close other programs, or split the file")
    if problem:
        from cleave.table.blame import explain  # noqa: PLC0415 - only for a file that cannot be read

        raise explain(connection, path, schema, casts)


def _check_declared(connection: duckdb.DuckDBPyConnection, path: Path, schema: Schema, rows: int) -> None:
    """Refuse what the schema rules out: a value outside stated bounds, a NULL where there may be none."""
    declared = [one for one in schema.columns if not (one.nullable and one.lower is None and one.upper is None)]
    for start in range(0, len(declared), _BATCH):
        batch = declared[start : start + _BATCH]
        figures = ", ".join("count({0}), min({0}), max({0})".format(identifier(one.name)) for one in batch)
        found = connection.execute(f"SELECT {figures} FROM {Table.relation}").fetchall()[0]
        for column, filled, least, most in zip(batch, found[::3], found[1::3], found[2::3], strict=True):
            if broken := _broken(column, rows - filled, least, most):
                raise _outside(connection, path, schema, column, *broken)


def _broken(column: Column, nulls: int, least: Any, most: Any) -> tuple[str, str] | None:
    """What is wrong with the column and SQL of the row (over `field` and `place`), None where nothing is."""
    if nulls and not column.nullable:
        return "is NULL, which the schema rules out", "min(place) FILTER (WHERE field IS NULL)"
    as_stored = float if isinstance(least, float) else lambda bound: bound
    # `not (a <= b)`: NaN, which DuckDB sorts last, is within no bounds
    if column.lower is not None and least is not None and not as_stored(column.lower) <= least:
        return "the value is below lower, as the schema states it", "arg_min(place, field)"
    if column.upper is not None and most is not None and not most <= as_stored(column.upper):
        return "the value is above upper, as the schema states it", "arg_max(place, field)"
    return None


def _outside(
    connection: duckdb.DuckDBPyConnection, path: Path, schema: Schema, column: Column, problem: str, which: str
) -> InputError:
    from cleave.table.blame import line_of  # noqa: PLC0415 - only for a file that does not fit

    # not rowid: a column of the file may be called that
    numbered = f"SELECT {identifier(column.name)} AS field, row_number() OVER () - 1 AS place FROM {Table.relation}"
    (row,) = connection.execute(f"SELECT {which} FROM ({numbered})").fetchall()[0]
    null = which.startswith("min")
    return InputError(
        f"{path}, line {line_of(path, schema.dialect, row)}, column {column.name!r}: {problem}",
        hint="fill the field, or set nullable = true in the schema"
        if null
        else "correct the value, or widen the bound",
    )
