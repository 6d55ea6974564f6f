"""The cells of a table: the combinations of its by columns, each with a number, and how many rows each has."""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field

from cleave.sql.rejoin import Texts
from cleave.store.index import Index
from cleave.table.duck import create_of_texts, identifier
from cleave.table.schema import Column
from cleave_shared import duckdb
from cleave_shared.errors import CheckFailed

MOST_CELLS = 1 << 18  # of a table: what their keys and totals take of the memory is bounded by it


@dataclass(slots=True)
class Cells:
    """`keys[c]` has DuckDB's text of the by columns' values of cell c. Numbers are given in random order, and given
    again once a cell has lost all its rows: then no segment has a total in it.
    """

    keys: list[Texts] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.keys)

    def add(self, keys: Sequence[Texts], rows: Sequence[int]) -> list[int]:
        """Count `rows` more rows of the cells of `keys`, new ones among them; their numbers."""
        numbers = {key: number for number, key in enumerate(self.keys)}
        fresh = [key for key in keys if key not in numbers]
        secrets.SystemRandom().shuffle(fresh)  # a number must not tell where a key stands among all
        wanted = {*keys}
        free = [cell for cell, left in enumerate(self.rows) if not left and self.keys[cell] not in wanted]
        for key in fresh:
            if free:
                numbers[key] = free.pop()
                self.keys[numbers[key]] = key
            else:
                numbers[key] = len(self.keys)
                self.keys.append(key)
                self.rows.append(0)
        found = [numbers[key] for key in keys]
        for number, more in zip(found, rows, strict=True):
            self.rows[number] += more
        return found

    def count(self, index: Index, times: int = 1) -> None:
        """Add the rows of a segment `times` times; -1: take them out."""
        for number, rows in zip(index.cells.tolist(), index.rows.tolist(), strict=True):
            self.rows[number] += times * rows

    def copy(self) -> Cells:
        """As it is now."""
        return Cells(list(self.keys), list(self.rows))

    def create(
        self,
        connection: duckdb.DuckDBPyConnection,
        relation: str,
        number: str,
        by: Sequence[tuple[int, Column]] = (),
    ) -> None:
        """Make `relation` of the cells that have rows: their numbers, in column `number`, and `by`: (place in the keys,
        column).

        Raises CheckFailed for a key that is not of its column's type.
        """
        filled = [cell for cell, rows in enumerate(self.rows) if rows]
        numbers, given = ("range(?)", len(self)) if len(filled) == len(self) else ("?::BIGINT[]", filled)
        connection.execute(f"CREATE TABLE {relation} AS SELECT unnest({numbers}) AS {identifier(number)}", [given])
        if by:
            self.extend(connection, relation, by)

    def extend(self, connection: duckdb.DuckDBPyConnection, relation: str, by: Sequence[tuple[int, Column]]) -> None:
        """Add columns `by` to `relation`, which `create` made of the same cells. Raises CheckFailed as it does."""
        columns = [
            (each.name, each.type, [key[place] for key, rows in zip(self.keys, self.rows, strict=True) if rows])
            for place, each in by
        ]
        try:
            create_of_texts(connection, "more", columns)
        except duckdb.Error as error:  # its message may quote values
            raise CheckFailed("stored", f"a cell's key is not of its type ({type(error).__name__})") from None
        connection.execute(  # DuckDB keeps the order that rows were put in
            f"CREATE TABLE extended AS FROM {relation} POSITIONAL JOIN more; DROP TABLE more; "
            f"DROP TABLE {relation}; ALTER TABLE extended RENAME TO {relation}"
        )

    def dump(self) -> bytes:
        return json.dumps({"keys": self.keys, "rows": self.rows}, ensure_ascii=False, separators=(",", ":")).encode()


def load_cells(content: bytes) -> Cells:
    """Of what `dump` made; it was sealed, so nobody else made it."""
    found = json.loads(content)
    return Cells([tuple(key) for key in found["keys"]], found["rows"])
