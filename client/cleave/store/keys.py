"""Key columns of a table: their values together identify one row. No two rows are equal in them, and none has NULL.

Values are compared here, in memory. A store only sees which segments are rewritten.
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

_NUMBER = identifier(ROW)  # no column of a stored table may have this name


@dataclass(frozen=True, slots=True)
class Keys:
    """The distinct key values of new rows. `schema`: of the key columns. `digest`: of the values in order."""

    schema: Schema
    rows: RowBatch
    digest: str

    def count_in(self, tables: Tables, opened: Opened, segments: Sequence[Segment]) -> dict[str, int]:
        """Number of rows with one of these keys, by segment id; segments without any are omitted.

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
        """SQL of the rows of `table` with one of these keys."""
        return f"SELECT * FROM {table.relation} SEMI JOIN {self._beside(table)} USING ({self._names})"

    def others(self, table: Table) -> str:
        """SQL of the rows of `table` with none of these keys, in order."""
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
    """The keys of new rows. `batches`: their columns `key`, in the order of `schema`. None if there is no row.

    `place`: a row's position in words, by its number from 0. Raises InputError for a NULL or repeated key.
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
