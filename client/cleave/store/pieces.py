"""Pieces of a change: each writes new segments for the table's next version.

Here are rows of a stream, rows of segments selected by SQL, and what additions to a segment share. Rows of a
contribution are in cleave.contributions.collect. A new segment and all its objects have random ids, except a plain half
that did not change.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from cleave.sql.rejoin import Texts
from cleave.store.cells import Cells
from cleave.store.drafts import Step
from cleave.store.filling import NewRows
from cleave.store.manifest import MARK, Count, Segment
from cleave.store.rows import Rows, with_mark
from cleave.store.segment import SegmentWriter
from cleave.table.duck import identifier
from cleave.table.running import fetched
from cleave.table.schema import Schema
from cleave.table.table import Table
from cleave_shared.errors import InputError


class ChangeStep(Step):
    """`keys`: the cells of the segment, with their numbers. `context`: digest of the segments that it came from."""

    context: str = ""
    segment: Segment | None = None
    keys: tuple[tuple[Count, Texts], ...] = ()


class Piece(ABC):
    """A part of a change. If it replaces segments, it makes at most one; else any number.

    `replaces`: ids of replaced segments. `same_cells`: the number of rows of each cell does not change, whatever the
    values are.
    """

    @property
    def replaces(self) -> tuple[str, ...]:
        return ()

    @property
    def same_cells(self) -> bool:
        return False

    @property
    @abstractmethod
    def rows(self) -> int:
        """Number of rows that it reads."""

    @property
    def most_rows(self) -> int:
        """Rows of its largest segment, if it encrypts them for scans."""
        return self.rows

    def take_out(self, cells: Cells) -> None:  # noqa: B027 - most pieces replace nothing
        """Subtract the rows of the replaced segments from their cells. Raises CheckFailed, StoreError."""

    def is_written(self, done: Sequence[ChangeStep]) -> bool:
        """True if `write` has nothing to add to `done`."""
        return bool(done)

    @abstractmethod
    def write(self, writer: SegmentWriter, done: Sequence[ChangeStep]) -> Generator[ChangeStep]:
        """Write what follows `done`. Raises InputError, CheckFailed, StoreError."""

    def step(self, segment: Segment, digest: str = "", keys: tuple[tuple[int, Texts], ...] = ()) -> ChangeStep:
        return ChangeStep(
            id=segment.id, rows=segment.rows, digest=digest, segment=segment, keys=keys, replaces=self.replaces
        )


@dataclass(frozen=True, slots=True)
class Addition(Piece):
    """Objects to add to a segment, or to write again, while its rows stay. `source` reads them."""

    segment: Segment
    source: Rows

    @property
    def replaces(self) -> tuple[str, ...]:
        return (self.segment.id,)

    @property
    def rows(self) -> int:
        return self.segment.rows

    @property
    def same_cells(self) -> bool:
        return True

    def take_out(self, cells: Cells) -> None:
        cells.count(self.source.index(self.segment), -1)


@dataclass(frozen=True, slots=True)
class StreamRows(Piece):
    """All rows of a stream."""

    new: NewRows

    @property
    def rows(self) -> int:
        return self.new.rows

    @property
    def most_rows(self) -> int:
        return self.new.together

    def is_written(self, done: Sequence[ChangeStep]) -> bool:
        return sum(each.rows for each in done) == self.rows

    def write(self, writer: SegmentWriter, done: Sequence[ChangeStep]) -> Generator[ChangeStep]:
        writer.advance(sum(each.rows for each in done))
        for digest, partial in self.new.segments(done, writer.begin):
            yield self.step(writer.finish(partial), digest, partial.keys)


def whole(table: Table) -> str:
    """SQL of all rows."""
    return f"FROM {table.relation}"


@dataclass(frozen=True, slots=True)
class SegmentRows(Piece):
    """The rows that `select` returns from the rows of `segments`, as one segment. `select` makes SQL over a table's
    relation.

    `source` reads the rows. `keeps_plain`: rows and plain columns do not change, so the plain object stays. `id`: of
    the new segment; None: random. `recounts`: the cells are new, and do not count the rows of `segments` yet. In a
    released table the relation has a column MARK, which `select` must return too.
    """

    source: Rows
    segments: tuple[Segment, ...]
    select: Callable[[Table], str] = whole
    keeps_plain: bool = False
    same_cells: bool = False
    id: str | None = None
    recounts: bool = False

    @property
    def replaces(self) -> tuple[str, ...]:
        return tuple(each.id for each in self.segments)

    @property
    def rows(self) -> int:
        return sum(each.rows for each in self.segments)

    def take_out(self, cells: Cells) -> None:
        for each in () if self.recounts else self.segments:
            cells.count(self.source.index(each), -1)

    def write(self, writer: SegmentWriter, done: Sequence[ChangeStep]) -> Generator[ChangeStep]:  # noqa: ARG002 - one step
        self.take_out(writer.cells)
        last = self.segments[-1]
        with self._computed(writer.schema) as table:
            if not table.rows:
                writer.advance(self.rows)
                return
            plain = last.plain if self.keeps_plain else None
            partial = writer.begin(table, self.id, last.contributor, plain)
            segment = writer.finish(partial).model_copy(update={"added": last.added})
        yield self.step(segment, keys=partial.keys)
        writer.advance(self.rows - segment.rows)

    @contextmanager
    def _computed(self, schema: Schema) -> Iterator[Table]:
        """Its rows, in order of put. Errors quote no value."""
        names = {*self.source.schema.names}
        if self.source.has_marks:
            schema = with_mark(schema)
            names.add(MARK)
        typed = [(identifier(each.name), each.type) for each in schema.columns]
        selected = ", ".join(f"CAST({name} AS {type_}) AS {name}" for name, type_ in typed)
        with self.source.new_table(schema) as table:
            into = f"{table.home}.main.{table.relation}"
            with self.source.table(names, ordered=True, segments=self.segments) as old:
                select = f"CREATE TABLE {into} AS SELECT {selected} FROM ({self.select(old)})"
                ((table.rows,),) = fetched(
                    old.connection, select, lambda why: InputError(f"the new rows cannot be computed ({why})")
                )
            yield table
