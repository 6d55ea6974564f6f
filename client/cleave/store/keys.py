"""Key columns of a table: together their values name one row. No two rows have the same, and none has NULL in them.

Values are compared here, in memory: a store sees no more than which segments are written again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass

import duckdb

from cleave.store.manifest import ROW, Segment
from cleave.store.reader import Opened
from cleave.store.rows import Rows
from cleave.store.slices import digest_of, expose
from cleave.store.tables import Tables
from cleave.table.batches import RowBatch, joined
from cleave.table.duck import identifier
from cleave.table.schema import Schema
from cleave.table.table import Table, no_table
from cleave_shared.errors import InputError

_NUMBER = identifier(ROW)  # which no column of a stored table may be called


@dataclass(frozen=True, slots=True)
class Keys:
    """The values of the key columns, `schema`, of rows that are put: each once. `digest`: of them, in their order."""

    schema: Schema
    rows: RowBatch
    digest: str

    def count_in(self, tables: Tables, opened: Opened, segments: Sequence[Segment]) -> dict[str, int]:
        """Count the rows of each of `segments` that have one of these keys, by its id, without zeros.

        Raises CheckFailed, StoreError.
        """
        counts: dict[str, int] = {}
        with closing(Rows(tables, opened)) as rows:
            for segment in segments:
                with rows.table(self._columns, segments=[segment]) as table:
                    same = (
                        f"SELECT count(*) FROM {table.relation} SEMI JOIN {self._beside(table)} USING ({self._names})"
                    )
                    ((count,),) = table.connection.execute(same).fetchall()
                if count:
                    counts[segment.id] = count
        return counts

    def replaced(self, table: Table) -> str:
        """SQL of the rows of `table` that have one of these keys."""
        return f"SELECT * FROM {table.relation} SEMI JOIN {self._beside(table)} USING ({self._names})"

    def others(self, table: Table) -> str:
        """SQL of the rows of `table` that have none of these keys, in their order."""
        numbered = f"(SELECT *, row_number() OVER () AS {_NUMBER} FROM {table.relation})"
        others = f"{numbered} ANTI JOIN {self._beside(table)} USING ({self._names})"
        return f"SELECT * EXCLUDE ({_NUMBER}) FROM {others} ORDER BY {_NUMBER}"

    @property
    def _names(self) -> str:
        return ", ".join(map(identifier, self._columns))

    @property
    def _columns(self) -> list[str]:
        return [each.name for each in self.schema.columns]

    def _beside(self, table: Table) -> str:
        """The relation of these keys in the database of `table`."""
        keys = table.join("keys", self.schema)
        expose(keys, self.rows)
        return keys.relation


def keys_of(
    batches: Iterable[RowBatch], schema: Schema, key: Sequence[str], place: Callable[[int], str]
) -> Keys | None:
    """The keys of rows whose columns `key`, in the order of `schema`, are `batches`. None: there is no row.

    `place`: words for a row, by its number from 0. Raises InputError for a key with NULL, or one that occurs twice.
    """
    schema, parts = schema.only(key), list(batches)
    if not parts:
        return None
    columns = [each.name for each in schema.columns]
    names, rows = ", ".join(map(identifier, columns)), joined(parts)
    problem = ""
    with no_table("keys", schema) as table:
        expose(table, rows)
        numbered = f"(SELECT *, row_number() OVER () - 1 AS {_NUMBER} FROM {table.relation})"
        nulls = " OR ".join(f"{identifier(each)} IS NULL" for each in columns)
        twice = f"(SELECT *, row_number() OVER (PARTITION BY {names} ORDER BY {_NUMBER}) AS nth FROM {numbered})"
        try:
            ((row,),) = table.connection.execute(f"SELECT min({_NUMBER}) FROM {numbered} WHERE {nulls}").fetchall()
            if row is not None:
                problem = "is NULL"
            elif table.connection.execute(
                f"SELECT 1 FROM {table.relation} GROUP BY {names} HAVING count(*) > 1 LIMIT 1"
            ).fetchall():
                ((row,),) = table.connection.execute(f"SELECT min({_NUMBER}) FROM {twice} WHERE nth = 2").fetchall()
                problem = "has the same values as a row before"
            else:
                return Keys(schema, rows, digest_of(table))
        except duckdb.OutOfMemoryException:
            raise InputError(
                f"the key columns {', '.join(columns)} of these rows do not fit in memory",
                hint="put the rows in several files: one with put, the others with --append",
            ) from None
    key_columns = f"key column{'s' if len(columns) > 1 else ''} {', '.join(map(repr, columns))}"
    raise InputError(f"{place(row)}, {key_columns}: {problem}", hint="a key names one row, and has no NULL")
