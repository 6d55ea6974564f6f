"""What a stored table consists of, as its sealed manifest tells it.

    head        in the clear, the one object that changes: which manifest is the table's, marked by the owner
    manifest    sealed: schema, by columns, measures, segments and what each consists of
    cells       sealed: the by columns' values of every cell, and its rows
    segment     index  sealed: its cells' rows and where each chunk lies
                lanes  CKKS: the rows' values, one object per lane and range of chunks
                totals CKKS: every measure's totals of every cell
                sealed sealed: Parquet of the columns of kind sealed
                order  sealed: which row of the plain half each row is
                plain  Parquet, in the plain store

Every object but the head is written once, under a random name, before the manifest that names it. So a reader sees the
table as it was or as it is.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

FORMAT = 1

Hex = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
Count = Annotated[int, Field(ge=0)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Object(_Part):
    """One stored object. The digest makes it the one that was written: the manifest that holds it is authenticated."""

    name: Annotated[str, Field(pattern=r"^tables/[0-9a-f]{32}/[0-9a-f]{32}$")]
    bytes: Count
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Measure(_Part):
    """An expression whose totals are kept per cell: an encrypted column, or a derived one of the schema.

    `sql` over the table's columns. An exact one (`decimals` not None) is counted in units of its last decimal within
    `lower`..`upper`; of a double x the totals are of round((x - centre) * 2^exponent), of its square
    as many bits are kept. `square` False: only sums are kept.
    """

    name: str
    sql: str
    type: str
    decimals: int | None
    lower: int | float | None
    upper: int | float | None
    nullable: bool
    square: bool
    derived: bool  # no column of the table: only its totals are kept
    centre: float = 0.0
    exponent: int = 0


class Totals(_Part):
    """The totals of measures `first`..`stop` over a segment: an object for each lane.

    `sums` and `weighted`: of every lane the sum of its entries, plain and by secret weights, by which a sum that a
    service made of several segments is known to be theirs.
    """

    first: Count
    stop: Count
    lanes: tuple[Object, ...]
    sums: tuple[int, ...]
    weighted: tuple[int, ...]


class Segment(_Part):
    """Rows that were stored together."""

    id: Hex
    added: str  # ISO 8601, UTC
    rows: Count
    cells: Count  # of the table when it was written: its totals have an entry for each
    index: Object
    lanes: tuple[tuple[Object, ...], ...]  # by lane, then by range of chunks
    totals: tuple[Totals, ...]  # of all measures there were, then of each that was derived later
    sealed: Object | None
    order: Object | None
    plain: Object | None


class Event(_Part):
    version: Count
    at: str
    what: str  # put, append, derive
    rows: Count


class Manifest(_Part):
    format: Literal[1] = 1
    table: str
    table_id: Hex
    version: Annotated[int, Field(ge=1)]
    profile: str
    schema_toml: str
    by: tuple[str, ...]
    measures: tuple[Measure, ...]
    lossless: bool
    cells: Object
    segments: tuple[Segment, ...]
    history: tuple[Event, ...]

    @property
    def rows(self) -> int:
        return sum(segment.rows for segment in self.segments)

    @property
    def bytes(self) -> int:
        """Of everything it stands on, in either store."""
        return sum(each.bytes for each in self._parts())

    def objects(self) -> set[str]:
        """The names of all it stands on, in either store."""
        return {each.name for each in self._parts()}

    def _parts(self) -> Iterator[Object]:
        yield self.cells
        for segment in self.segments:
            totals = [lane for each in segment.totals for lane in each.lanes]
            parts = [segment.index, *totals, segment.sealed, segment.order, segment.plain]
            yield from (part for part in parts if part is not None)
            yield from (part for lane in segment.lanes for part in lane)


def new_id() -> str:
    return secrets.token_hex(16)


def described(name: str, content: bytes) -> Object:
    return Object(name=name, bytes=len(content), sha256=hashlib.sha256(content).hexdigest())
