"""A table that is not read yet: its schema and its name are enough to plan a question over it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cleave.table.inputs import check_there, table_name
from cleave.table.schema import Schema, load_schema, schema_path

if TYPE_CHECKING:
    from cleave.table.reading import Progress
    from cleave.table.table import Table


@dataclass(frozen=True, slots=True)
class LazyTable:
    """`name` is what SQL calls it. `read` may take its time; it raises InputError for what does not fit the schema."""

    name: str
    schema: Schema
    read: Callable[[Progress | None], Table]


def of_files(names: Sequence[str | Path], schema: Schema | Path | None = None, name: str | None = None) -> LazyTable:
    """The table of these files; the schema is NAME.schema.toml beside them unless another is given.

    Raises InputError for files that are not there and for a schema that cannot be read.
    """
    check_there(names)
    contract = schema if isinstance(schema, Schema) else load_schema(schema or schema_path(names))

    def read(progress: Progress | None) -> Table:
        from cleave.table.table import open_table  # noqa: PLC0415 - DuckDB takes 30 ms

        return open_table(names, contract, progress)

    return LazyTable(name or contract.table or table_name(names), contract, read)
