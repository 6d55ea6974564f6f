"""The cells of a table: combinations of values of the by columns. Each has a number and a row count.

A segment's index has its rows per cell, and its runs of rows with equal plain by columns. Rows are sorted by these. So
a condition on plain by columns selects runs, and blocks without selected runs need not be read. Other by columns do not
affect the order or the selection, because reads must not depend on their values.
"""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

import duckdb
import numpy as np
from numpy.typing import NDArray

from cleave.sql.rejoin import Texts
from cleave.store.manifest import Segment
from cleave.store.padding import room_of_keys, text_bytes
from cleave.store.schemas import BY
from cleave.store.sealed import BLOCK_ROWS
from cleave.table.duck import create_of_texts, identifier
from cleave.table.schema import Column
from cleave_shared import limits
from cleave_shared.duckdb_errors import failed
from cleave_shared.errors import CheckFailed, InputError

MOST_CELLS = 1 << 18  # of a table; it limits the memory for keys and totals
PAGE = 1 << 12  # cells of a stored page
MOST_CHOOSING = 512  # combinations of plain by values by which a page of segments is chosen
_MOST_TEXT = limits.MAX_KEY_BYTES + 2  # with quotes


Blocks = tuple[int, int]  # (first block, one after the last block)


@dataclass(frozen=True, slots=True)
class Index:
    """`rows`: the number of rows of each of `cells`. `runs`: in the order of the rows, (one of its cells, its rows).
    Empty: a single run.
    """

    cells: NDArray[np.int64]
    rows: NDArray[np.int64]
    runs: NDArray[np.int64]  # (runs, 2)

    def dump(self) -> str:
        """As base64 of numbers of 4 bytes: how many cells there are, each cell and its rows, then the runs."""
        cells = np.stack([self.cells, self.rows], axis=1)
        numbers = np.concatenate([[len(cells)], cells.reshape(-1), self.runs.reshape(-1)])
        return base64.b64encode(numbers.astype("<u4").tobytes()).decode()

    def blocks_of(self, selected: NDArray[np.bool_]) -> list[Blocks]:
        """The blocks with rows of `selected` cells, in order; consecutive blocks are merged.

        `selected`: by cell number; equal for all cells of a run.
        """
        if not len(self.runs):
            return [(0, -(-int(self.rows.sum()) // BLOCK_ROWS))] if selected[self.cells].any() else []
        ends = np.cumsum(self.runs[:, 1])
        nonempty = selected[self.runs[:, 0]] & (self.runs[:, 1] > 0)
        starts = (ends - self.runs[:, 1])[nonempty] // BLOCK_ROWS
        stops = (ends[nonempty] - 1) // BLOCK_ROWS + 1
        apart = starts[1:] > stops[:-1]
        firsts, lasts = np.append(True, apart)[: len(starts)], np.append(apart, True)[: len(stops)]
        return list(zip(starts[firsts].tolist(), stops[lasts].tolist(), strict=True))


def index_of(segment: Segment) -> Index:
    """Raises CheckFailed if it does not fit the segment."""
    numbers = numbers_in(segment.index)
    count = int(numbers[0]) if len(numbers) else 0
    cells, runs = numbers[1 : 1 + 2 * count].reshape(-1, 2), numbers[1 + 2 * count :]
    whole = len(numbers) > 0 and len(cells) == count and len(runs) % 2 == 0
    index = Index(cells[:, 0], cells[:, 1], runs[: len(runs) // 2 * 2].reshape(-1, 2))
    if not whole or any(each.sum() != segment.rows for each in (index.rows, index.runs[:, 1])[: 1 + bool(len(runs))]):
        raise CheckFailed("stored", "a segment's index does not have the rows that the table's manifest says")
    return index


def numbers_in(text: str) -> NDArray[np.int64]:
    """Numbers of 4 bytes, in base64. Raises CheckFailed."""
    try:
        return np.frombuffer(base64.b64decode(text, validate=True), "<u4").astype(np.int64)
    except ValueError:
        raise CheckFailed("stored", "numbers of a table's manifest are damaged") from None


def choosing_cells(segments: Iterable[Segment], cells: Cells, plain: Sequence[int]) -> str | None:
    """For each combination of plain by values in `segments` a cell with rows there, as SegmentPage has them; None if
    there are more than MOST_CHOOSING.

    `plain`: places of the plain by columns in the keys of `cells`. The number does not depend on other by columns.
    """
    found: dict[tuple[str | None, ...], int] = {}
    for segment in segments:
        index = index_of(segment)
        for cell in (index.runs[:, 0] if len(index.runs) else index.cells[:1]).tolist():
            found.setdefault(tuple(cells.keys[cell][place] for place in plain), cell)
        if len(found) > MOST_CHOOSING:
            return None
    return base64.b64encode(np.asarray([*found.values()], "<u4").tobytes()).decode()


@dataclass(slots=True)
class Cells:
    """`keys[c]`: DuckDB's text of the by columns' values of cell c. Numbers are random. A number is reused after its
    cell has lost all rows, because no segment has a total for it then. Until then a stored list has () for its key: the
    values of deleted rows are not stored (without by columns, the key of the only cell is () anyway).
    """

    keys: list[Texts] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.keys)

    def add(self, by: Sequence[str], keys: Sequence[Texts], rows: Sequence[int]) -> list[int]:
        """Add `rows` to the cells of `keys`, creating new cells. Returns their numbers. `by`: names of the by columns.

        Raises InputError as `require_cells` does; then these cells are of no use.
        """
        numbers = {key: number for number, key in enumerate(self.keys)}
        fresh = [key for key in keys if key not in numbers]
        secrets.SystemRandom().shuffle(fresh)  # a number must not reveal a key's rank
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
        if fresh:
            require_cells(by, len(self), longest_texts(self.keys, len(by)))
        cells = [numbers[key] for key in keys]
        for number, more in zip(cells, rows, strict=True):
            self.rows[number] += more
        return cells

    def claim(self, by: Sequence[str], keys: Sequence[tuple[int, Texts]]) -> bool:
        """Give cells these numbers and keys. False, and nothing is done, if one of the numbers or keys is in use
        otherwise. Raises InputError as `require_cells` does.
        """
        filled = {key: number for number, key in enumerate(self.keys) if self.rows[number]}
        for number, key in keys:
            if filled.get(key, number) != number:
                return False
            if number < len(self) and self.rows[number] and self.keys[number] != key:
                return False
        wanted = {key: number for number, key in keys}
        for number, key in enumerate(self.keys):
            if not self.rows[number] and wanted.get(key, number) != number:
                self.keys[number] = ()
        more = max((number + 1 for number, _ in keys), default=0) - len(self)
        self.keys += [()] * max(0, more)
        self.rows += [0] * max(0, more)
        for number, key in keys:
            self.keys[number] = key
        if more > 0:
            require_cells(by, len(self), longest_texts(self.keys, len(by)))
        return True

    def count(self, index: Index, times: int = 1) -> None:
        """Add the rows of a segment `times` times; -1 removes them."""
        for number, rows in zip(index.cells.tolist(), index.rows.tolist(), strict=True):
            self.rows[number] += times * rows

    def copy(self) -> Cells:
        return Cells(list(self.keys), list(self.rows))

    def create(self, connection: duckdb.DuckDBPyConnection, relation: str, number: str) -> None:
        """Create `relation` with the numbers of all cells that have rows, in column `number`."""
        filled = [cell for cell, rows in enumerate(self.rows) if rows]
        numbers, values = ("range(?)", len(self)) if len(filled) == len(self) else ("?::BIGINT[]", filled)
        connection.execute(f"CREATE TABLE {relation} AS SELECT unnest({numbers}) AS {identifier(number)}", [values])

    def extend(self, connection: duckdb.DuckDBPyConnection, relation: str, by: Sequence[tuple[int, Column]]) -> None:
        """Add the columns `by` (index in the keys, column) to `relation`, which `create` made from the same cells.

        Raises CheckFailed for a key that does not fit its column's type.
        """
        columns = [
            (each.name, each.type, [key[place] for key, rows in zip(self.keys, self.rows, strict=True) if rows])
            for place, each in by
        ]
        try:
            create_of_texts(connection, "more", columns)
        except duckdb.Error as error:  # its message may quote values
            raise CheckFailed("stored", f"a cell's key is not of its type ({failed(error).why})") from None
        connection.execute(  # DuckDB keeps the order of inserted rows
            f"CREATE TABLE extended AS FROM {relation} POSITIONAL JOIN more; DROP TABLE more; "
            f"DROP TABLE {relation}; ALTER TABLE extended RENAME TO {relation}"
        )

    def pages(self) -> list[bytes]:
        """Records of up to PAGE cells each, in order; at least one."""
        keys = [key if rows else () for key, rows in zip(self.keys, self.rows, strict=True)]
        fields = [
            {"keys": keys[start : start + PAGE], "rows": self.rows[start : start + PAGE]}
            for start in range(0, max(1, len(self)), PAGE)
        ]
        return [json.dumps(each, ensure_ascii=False, separators=(",", ":")).encode() for each in fields]

    @property
    def longest(self) -> int:
        """Bytes of the longest text of a key that is stored."""
        texts = {text for key, rows in zip(self.keys, self.rows, strict=True) if rows for text in key}
        return max(map(text_bytes, texts), default=0)


def longest_texts(keys: Collection[Texts], columns: int) -> list[int]:
    """Bytes of the longest text of each by column, as in a record."""
    return [max((text_bytes(each) for each in {key[at] for key in keys if key}), default=0) for at in range(columns)]


def longest_in(by: Sequence[str]) -> str:
    """SQL of the figures of `longest_texts`, over a relation of the by columns."""
    return ", ".join(f"coalesce(max({_bytes_of(each)}), 0)" for each in by)


def is_too_long(name: str) -> str:
    """SQL: TRUE where the value of a by column is longer than a table may have."""
    return f"coalesce({_bytes_of(name)} > {_MOST_TEXT}, FALSE)"


def _bytes_of(name: str) -> str:
    return f"strlen(CAST(to_json(CAST({identifier(name)} AS VARCHAR)) AS VARCHAR))"


def too_long(by: Sequence[str], longest: Sequence[int]) -> list[str]:
    """The by columns with a value that is longer than a table may have."""
    return [name for name, size in zip(by, longest, strict=True) if size > _MOST_TEXT]


def require_cells(by: Sequence[str], cells: int, longest: Sequence[int], place: str = "") -> None:
    """Raise InputError for too many cells, for a by value that is too long, and if all would take too many bytes.

    `longest`: as `longest_texts`. `place`: where a row with a long value is.
    """
    if names := too_long(by, longest):
        raise InputError(
            f"{f'{place}, ' if place else ''}column {names[0]!r}: the value has more than {limits.MAX_KEY_BYTES:,} "
            "bytes, too many for a by column",
            hint=BY,
        )
    if cells > MOST_CELLS:
        raise too_many_cells(by)
    if room_of_keys(cells * len(by), max(longest, default=0)) > limits.MAX_KEYS_BYTES:
        raise InputError(
            f"by {', '.join(by)}: {cells:,} combinations of values would take more than "
            f"{limits.MAX_KEYS_BYTES:,} bytes, because all are stored as long as the longest value",
            hint=f"shorten the longest values, or store by fewer columns; {BY}",
        )


def too_many_cells(by: Sequence[str]) -> InputError:
    return InputError(f"by {', '.join(by)}: there are more than {MOST_CELLS:,} combinations of values", hint=BY)


def load_cells(pages: Iterable[bytes]) -> Cells:
    """Read the result of `Cells.pages`. They were sealed, so nobody else wrote them."""
    cells = Cells()
    for content in pages:
        fields = json.loads(content)
        cells.keys += map(tuple, fields["keys"])
        cells.rows += fields["rows"]
    return cells
