"""Rows of a table that no release has published: their sums by cell, and whose they are in each class of rows.

Every segment that has such rows is read whole, once. Sums and counts come from the rows, never from encrypted totals.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cleave.disclosure.crowds import Crowd
from cleave.disclosure.joining import Class, Shown
from cleave.releases.ledger import WITHHELD, MeasureTotals
from cleave.sql.tally import NOBODY
from cleave.store import measures as of_measures
from cleave.store.cells import Cells
from cleave.store.contributors import contributor_in
from cleave.store.manifest import MARK, NUMBER, Measure, Segment
from cleave.store.reader import Opened
from cleave.store.rows import Rows
from cleave.store.schemas import load_stored_schema
from cleave.store.sums import Summing
from cleave.store.tables import Tables
from cleave.table.duck import create_of_texts, identifier, literal
from cleave.table.schema import Schema
from cleave.table.table import Table
from cleave_shared.errors import CheckFailed, InputError

MOST_BITS = 126  # measures that may be NULL: each has a bit of a pattern, which is a HUGEINT
_CELL, _ROW, _MARK = identifier(NUMBER), '"number of the row"', identifier(MARK)
_PATTERN, _PERSON = '"pattern of NULLs"', '"one of the people"'
_SHARES = "shares"
_ENTRY = (np.int64, np.int64, np.bool_, np.uint64, np.int64)  # class, party, whether rows name a person, its hash, rows


@dataclass(frozen=True, slots=True)
class ReadSegment:
    """A segment that was read: the cell of each row, and which rows are published (rows,)."""

    segment: Segment
    cells: NDArray[np.uint32]
    marks: NDArray[np.bool_]

    def published(self, cells: Set[int]) -> NDArray[np.bool_]:
        """Which rows are published after all rows of `cells` are (rows,)."""
        return self.marks | np.isin(self.cells, np.fromiter(cells, np.uint32, len(cells)))


@dataclass(frozen=True, slots=True)
class UnpublishedColumns:
    """What to read. `measures`: those to release; `reads`: the columns of each. `entity` is empty if rows are counted.

    `dominance`: also find the largest share of one person.
    """

    by: tuple[str, ...]
    measures: tuple[Measure, ...]
    reads: tuple[tuple[str, ...], ...]
    entity: tuple[str, ...]
    dominance: bool

    @property
    def bits(self) -> list[int | None]:
        """The bit of each measure in a pattern."""
        numbers = iter(range(len(self.measures)))
        return [next(numbers) if each.nullable else None for each in self.measures]


class Unpublished:
    """Counts and sums of unpublished rows. Close it after use.

    `classes`: class -> its number, in this order. `sums`: for each (measure, part) the totals of all cells, shape
    (cells,).
    """

    def __init__(
        self,
        tables: Tables,
        opened: Opened,
        wanted: UnpublishedColumns,
        segments: Sequence[Segment],
        *,
        ignores_marks: bool,
    ) -> None:
        """Read the rows of `segments`. `ignores_marks`: treat all of them as unpublished.

        Raises CheckFailed, StoreError.
        """
        manifest = opened.manifest
        if len([each for each in wanted.bits if each is not None]) > MOST_BITS:
            raise InputError(f"a release has at most {MOST_BITS} columns that may be NULL")
        self.wanted = wanted
        self.cells: Cells = tables.cells(opened)
        self.classes: dict[Class, int] = {}
        self.columns = [(each.measure, each.part) for each in of_measures.columns_of(wanted.measures)]
        self.sums: list[NDArray[np.object_]] = [np.zeros(len(self.cells), object) for _ in self.columns]
        self.read: list[ReadSegment] = []
        self._entries: list[tuple[NDArray[Any], ...]] = [tuple(np.zeros(0, type_) for type_ in _ENTRY)]
        self._parties: list[str] = list(dict.fromkeys(contributor_in(each) for each in manifest.segments))
        self._schema: Schema = load_stored_schema(manifest)
        self._ignores_marks = ignores_marks
        self._shares = _shares(wanted)
        self._rows = Rows(tables, opened)
        try:
            self._gathered = self._rows.new_table(self._schema.only(()))
            self._create()
            for each in segments:
                self._add(each)
        except BaseException:
            self._rows.close()
            raise

    def close(self) -> None:
        self._gathered.__exit__(None, None, None)
        self._rows.close()

    # reading

    def _create(self) -> None:
        pairs = ", ".join(f"d{place} {type_}" for place, (_, _, type_) in enumerate(self._shares))
        if pairs:
            self._gathered.connection.execute(f"CREATE TABLE {_SHARES} (cell INTEGER, person UBIGINT, {pairs})")

    def _add(self, segment: Segment) -> None:
        wanted = self.wanted
        entity = [each for each in wanted.entity if self._schema.find(each) is not None]
        names = {*wanted.by, *entity, *(name for each in wanted.reads for name in each), MARK}
        with self._rows.table(names, segments=[segment]) as table:
            run = table.connection.execute
            run(f"CREATE TABLE taken AS SELECT row_number() OVER () - 1 AS {_ROW}, * FROM {table.relation}")
            self._number(table, segment)
            read = run(f"SELECT {_ROW} AS row, {_CELL} AS cell, {_MARK} AS mark FROM numbered").fetchnumpy()
            cells, marks = np.zeros(segment.rows, np.uint32), np.zeros(segment.rows, np.bool_)
            if np.ma.is_masked(read["cell"]) or len(read["row"]) != segment.rows:
                raise CheckFailed("stored", "a segment has a row of a cell that the table has not")
            cells[read["row"]] = read["cell"]
            if not self._ignores_marks:
                marks[read["row"]] = read["mark"]
            self.read.append(ReadSegment(segment, cells, marks))
            self._count(table, segment)

    def _number(self, table: Table, segment: Segment) -> None:
        """Make `numbered`: the rows with their cell, pattern and person."""
        wanted = self.wanted
        numbers = self._rows.index(segment).cells.tolist()
        keys = [self.cells.keys[each] for each in numbers]
        columns: list[tuple[str, str, Sequence[str | None]]] = [
            (f"k{place}", "VARCHAR", [key[place] for key in keys]) for place in range(len(wanted.by))
        ]
        columns.append((NUMBER, "INTEGER", list(map(str, numbers))))
        create_of_texts(table.connection, "cells", columns)
        same = " AND ".join(
            f"CAST(taken.{identifier(name)} AS VARCHAR) IS NOT DISTINCT FROM cells.k{place}"
            for place, name in enumerate(wanted.by)
        )
        bits = [
            f"CASE WHEN ({each.sql}) IS NULL THEN 0::HUGEINT ELSE {1 << bit}::HUGEINT END"
            for each, bit in zip(wanted.measures, wanted.bits, strict=True)
            if bit is not None
        ]
        pattern = " + ".join(bits) or "0::HUGEINT"
        table.connection.execute(
            f"CREATE TABLE numbered AS SELECT taken.*, cells.{_CELL}, {pattern} AS {_PATTERN}, "
            f"{self._person(segment)} AS {_PERSON} FROM taken LEFT JOIN cells ON ({same or 'TRUE'})"
        )
        unpublished = "" if self._ignores_marks else f" WHERE NOT {_MARK}"
        table.connection.execute(f"CREATE VIEW unpublished AS FROM numbered{unpublished}")

    def _person(self, segment: Segment) -> str:
        """SQL of a hash that identifies the person of a row; NULL if it has none.

        Two people with the same hash count as one, which is the safe side.
        """
        if not self.wanted.entity:
            return "NULL::UBIGINT"
        values = [
            literal(contributor_in(segment)) if self._schema.find(each) is None else identifier(each)
            for each in self.wanted.entity
        ]
        there = " AND ".join(f"{each} IS NOT NULL" for each in values)
        return f"CASE WHEN {there} THEN hash({', '.join(values)}) END"

    def _count(self, table: Table, segment: Segment) -> None:
        """Add the unpublished rows of a segment to the counts and sums."""
        run, party = table.connection.execute, self._parties.index(contributor_in(segment))
        home = f"{self._gathered.home}.main"
        every = "SELECT {} FROM unpublished"
        run(f"CREATE TABLE counted AS {every.format(f'{_CELL}, {_PATTERN}, {_PERSON}, count(*) AS rows')} GROUP BY ALL")
        run(f"CREATE TABLE classes AS SELECT DISTINCT {_CELL}, {_PATTERN} FROM counted")
        classes = run("FROM classes ORDER BY rowid").fetchall()
        if not classes:
            return
        known = [self.classes.setdefault((int(one), int(two)), len(self.classes)) for one, two in classes]
        found = run(
            f"SELECT classes.rowid AS class, {_PERSON} IS NOT NULL AS named, coalesce({_PERSON}, 0::UBIGINT) AS hash, "
            f"rows FROM counted JOIN classes USING ({_CELL}, {_PATTERN})"
        ).fetchnumpy()
        of_class = np.array(known, np.int64)[found["class"]]
        self._entries.append((of_class, np.full_like(of_class, party), found["named"], found["hash"], found["rows"]))
        if self._shares:
            sums = ", ".join(
                f"coalesce(sum({value}) FILTER (WHERE ({self.wanted.measures[number].sql}) IS NOT NULL), 0)"
                for number, value, _ in self._shares
            )
            run(f"INSERT INTO {home}.{_SHARES} {every.format(f'{_CELL}, {_PERSON}, {sums}')} GROUP BY ALL")
        rows_left = Table(table.name, table.schema, table.connection, segment.rows, table.engine, table.home)
        rows_left.relation = "unpublished"
        summed = Summing(rows_left, [NUMBER], self.wanted.measures).sums()
        numbers = np.array([int(key[0] or 0) for key in summed.keys], np.int64)
        for total, words in zip(self.sums, summed.columns, strict=True):
            total[numbers] += _integers(words)

    # sizes

    def crowd(self) -> Crowd:
        """The people, or rows, by number of the class."""
        classes, parties, named, hashes, rows = map(np.concatenate, zip(*self._entries, strict=True))
        if not self.wanted.entity:
            return Crowd(classes, parties, None, rows)
        people = np.unique(hashes, return_inverse=True)[1]
        return Crowd(classes, parties, np.where(named, people, NOBODY), rows)

    def dominated(self, share: Any) -> dict[int, set[int]]:
        """By measure, the cells in which one person has more than `share` of the sum of a column that it reads.

        Rows whose entity is NULL count as one person's, because they may be.
        """
        if not self._shares:
            return {}
        names = ", ".join(f"sum(d{place}) AS d{place}" for place in range(len(self._shares)))
        both = ", ".join(f"max(d{place}), sum(d{place})" for place in range(len(self._shares)))
        each = f"SELECT cell, person, {names} FROM {_SHARES} GROUP BY cell, person"
        sql = f"SELECT cell, {both} FROM ({each}) GROUP BY cell"
        cells: dict[int, set[int]] = {}
        for cell, *figures in self._gathered.connection.execute(sql).fetchall():
            for (number, _, _), most, total in zip(self._shares, figures[::2], figures[1::2], strict=True):
                if most > share * total if isinstance(most, int) else most > float(share) * total:
                    cells.setdefault(number, set()).add(int(cell))
        return cells

    def by_cell(self) -> dict[int, int]:
        """Number of rows of each cell that has unpublished rows."""
        cells = np.array([cell for cell, _ in self.classes], np.int64)
        counts = np.zeros(len(self.cells), np.int64)
        for of_class, _, _, _, rows in self._entries:
            np.add.at(counts, cells[of_class], rows)
        return {cell: int(counts[cell]) for cell in np.flatnonzero(counts).tolist()}

    def sums_of(self, cell: int, rows: int, shown: Sequence[Shown]) -> tuple[MeasureTotals, ...]:
        """The totals of each measure in a cell of `rows` rows, except those that `shown` withholds."""
        totals = {which: int(of[cell]) for which, of in zip(self.columns, self.sums, strict=True)}
        return tuple(
            MeasureTotals(
                each,
                totals.get((number, "count"), rows),
                totals[number, "sum"],
                totals[number, "square"] if each > 1 else 0,
            )
            if each
            else WITHHELD
            for number, each in enumerate(shown)
        )


def _shares(wanted: UnpublishedColumns) -> list[tuple[int, str, str]]:
    """What dominance is checked for: index of a measure, SQL of a column that it reads, and the type of its sums."""
    if not wanted.dominance:
        return []
    values = {each.name: each for each in wanted.measures if not each.derived}
    pairs = []
    for number, reads in enumerate(wanted.reads):
        for each in (values[name] for name in reads):
            type_ = "DOUBLE" if each.decimals is None else "HUGEINT"
            pairs.append((number, f"abs(CAST({of_measures.value_of(each)} AS {type_}))", type_))
    return pairs


def _integers(words: NDArray[np.uint64]) -> NDArray[np.object_]:
    """Two's complement words (words, entries), the lowest first, as integers, which are never negative."""
    total = np.zeros(words.shape[1], object)
    for place, word in enumerate(words):
        total += word.astype(object) << (64 * place)
    return total
