"""Rows of a table that no release has published: their sums by cell, and the number of people in each class of rows.

Every segment that has such rows is read whole, once. Sums and counts come from the rows, never from encrypted totals.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cleave.disclosure.joining import Class, Shown, Size
from cleave.releases.ledger import WITHHELD, MeasureTotals
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
_PEOPLE, _SHARES = "people", "shares"


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

    `classes`: class -> party -> rows. `sums`: for each (measure, part) the totals of all cells, shape (cells,).
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
        self.classes: dict[Class, dict[int, int]] = {}
        self.columns = [(each.measure, each.part) for each in of_measures.columns_of(wanted.measures)]
        self.sums: list[NDArray[np.object_]] = [np.zeros(len(self.cells), object) for _ in self.columns]
        self.read: list[ReadSegment] = []
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
        self._gathered.connection.execute(
            f"CREATE TABLE {_PEOPLE} (cell INTEGER, pattern HUGEINT, party INTEGER, person UBIGINT)"
        )
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
        classes = run(f"{every.format(f'{_CELL}, {_PATTERN}, count(*)')} GROUP BY ALL").fetchall()
        for cell, pattern, rows in classes:
            of = self.classes.setdefault((int(cell), int(pattern)), {})
            of[party] = of.get(party, 0) + int(rows)
        if not classes:
            return
        if self.wanted.entity:
            distinct = every.format(f"DISTINCT {_CELL}, {_PATTERN}, {party}, {_PERSON}")
            run(f"INSERT INTO {home}.{_PEOPLE} {distinct} WHERE {_PERSON} IS NOT NULL")
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

    def of(self, labels: Mapping[Class, int]) -> dict[int, Size]:
        """See `cleave.disclosure.joining.Sizes`."""
        rows: dict[int, dict[int, int]] = {label: {} for label in labels.values()}
        for each, label in labels.items():
            for party, count in self.classes[each].items():
                rows[label][party] = rows[label].get(party, 0) + count
        if not self.wanted.entity:
            totals = {label: sum(by_party.values()) for label, by_party in rows.items()}
            less = {
                (label, party): totals[label] - count
                for label, by_party in rows.items()
                for party, count in by_party.items()
            }
        else:
            totals, less = self._people(labels)
        sizes = {}
        for label, by_party in rows.items():
            others = {party: less.get((label, party), 0) if len(by_party) > 1 else None for party in by_party}
            sizes[label] = Size(totals.get(label, 0), others)
        return sizes

    def _people(self, labels: Mapping[Class, int]) -> tuple[dict[int, int], dict[tuple[int, int], int]]:
        """People by label, and by (label, party) the people of whom other parties have rows."""
        run = self._gathered.connection.execute
        lists = [[cell for cell, _ in labels], [pattern for _, pattern in labels], list(labels.values())]
        run(
            "CREATE OR REPLACE TABLE labels AS SELECT unnest($1::INTEGER[]) AS cell, unnest($2::HUGEINT[]) AS pattern, "
            "unnest($3::INTEGER[]) AS label",
            lists,
        )
        count = (
            f"SELECT label, count(DISTINCT person) FROM {_PEOPLE} JOIN labels USING (cell, pattern) {{}} GROUP BY label"
        )
        totals = {int(label): int(people) for label, people in run(count.format("")).fetchall()}
        less: dict[tuple[int, int], int] = {}
        for party in range(len(self._parties)) if len(self._parties) > 1 else ():
            counts = run(count.format(f"WHERE party <> {party}")).fetchall()
            less |= {(int(label), party): int(each) for label, each in counts}
        return totals, less

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
        rows: dict[int, int] = {}
        for (cell, _), by_party in self.classes.items():
            rows[cell] = rows.get(cell, 0) + sum(by_party.values())
        return rows

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
