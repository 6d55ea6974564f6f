"""Answer from rows that are fetched, decrypted and computed on here; the bytes and requests are known before.

Blocks are skipped if WHERE selects no row of their cells. A row is selected if every condition that AND joins is TRUE.
A condition that reads only plain --by columns has one value for all rows of a cell; if that is not TRUE, no row of the
cell is selected. Columns of other kinds never rule out a cell, because the blocks that are read would then reveal
their values. Nor do conditions that cannot be evaluated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from cleave.ask.plan import AnswerPlan
from cleave.ask.question import GroupSums, RunningQuestion
from cleave.ask.way import Disclosures, Lesson, Site, Use, Uses, WayContext, Work
from cleave.ask.ways.choosing import FEWER_BYTES, Choosing, StoredWay
from cleave.sql.nodes import ColumnRef, Node, write
from cleave.sql.plan import Cut
from cleave.sql.split import Halves
from cleave.store.reading import Reading, read_whole
from cleave.store.rows import Read, SelectedCells
from cleave.sums.needs import Available, NoSums
from cleave.sums.stored import Stored
from cleave.table.running import limited, within
from cleave.table.schema import Kind


@dataclass(frozen=True, slots=True)
class Fetch:
    """Rows to read from one table.

    `columns` are read from at least the rows of `cells` (all rows if it is None), in the order they were put if
    `ordered`.
    """

    name: str
    stored: Stored
    columns: Sequence[str]
    ordered: bool
    cells: SelectedCells | None

    def reads(self) -> list[Read]:
        """Return every request for the rows, each for some blocks or a whole object."""
        rows = self.stored.rows
        return rows.reads(rows.needed(self.columns, ordered=self.ordered), self.cells)

    def reading(self, question: RunningQuestion) -> Reading:
        """Return a reading, which can be used once and must be read to its end."""
        return self.stored.rows.reading(
            self.columns,
            ordered=self.ordered,
            progress=question.progress,
            cells=self.cells,
            deadline=question.deadline,
            once=True,
        )


@dataclass(frozen=True)
class RowsWay(StoredWay):
    """The groups and local aggregates of a divided question, or the tables with which DuckDB answers a whole
    question.
    """

    cut: Cut

    name = "rows"
    stage = "rows"

    @classmethod
    def of_part(cls, cut: Cut, available: Available) -> RowsWay | None:
        sums = cut.sums()
        needed = sums is None or sums.local or (not sums.asks_plain and available.groups(sums.selecting))
        return cls(cut) if needed else None

    @classmethod
    def plans(cls, choosing: Choosing) -> Iterator[AnswerPlan]:
        plan = choosing.by_sums(choosing.totals_of(choosing.site.stored)) if choosing.cloud_only else choosing.base
        if not isinstance(plan, AnswerPlan):
            return
        if plan.worth > 1:
            yield choosing.by_sums(NoSums(FEWER_BYTES))
        elif any(isinstance(each, RowsWay) for each in plan.ways):
            yield plan

    @classmethod
    def least(cls, choosing: Choosing) -> Iterator[int]:
        """Yield a lower limit, if totals answer too: the columns that are added up."""
        base, site = choosing.base, choosing.site
        if isinstance(base, AnswerPlan) and base.worth > 1 and (sums := base.cut.sums()) is not None:
            names = [*sums.selecting, *(name for each in sums.arguments for name in each.columns)]
            fetch = Fetch(site.name, site.stored, names, False, cells_of(site.stored, sums.conditions))
            yield sum(each.bytes for each in fetch.reads())

    @property
    def is_idle(self) -> bool:
        return self.cut.sums() is None and not any(self.cut.rows().values())

    def fetches(self, site: Site, *, pad: bool) -> list[Fetch]:
        """Return a fetch for each stored table, and none for a table that totals answer alone."""
        read = self.cut.rows()
        conditions = self.cut.conditions if len(read) == 1 and not pad else ()
        return [
            Fetch(name, site.table(name), columns, self.cut.in_file_order, cells_of(site.table(name), conditions))
            for name, columns in read.items()
            if name.lower() in site.tables
        ]

    def work(self, site: Site, *, pad: bool) -> Work:
        return Work([read for each in self.fetches(site, pad=pad) for read in each.reads()])

    def uses(self, site: Site) -> Uses:
        return {
            (each.stored.manifest.table, name): Use("fetched, and read here")
            for each in self.fetches(site, pad=True)
            for name in each.columns
        }

    def disclosures(self, site: Site, *, pad: bool) -> Disclosures:
        fetched = self.fetches(site, pad=pad)
        reads_plain = any(read.is_plain for fetch in fetched for read in fetch.reads())
        text, of_plain = "which of the stored columns are fetched", "that its plain columns are fetched"
        if all(each.cells is None for each in fetched):
            text += ", all of their rows"
        else:
            of_plain = "which of its objects WHERE on by columns leaves (--pad: all)"
            text = Lesson(
                f"{text}, and which of their blocks of 65,536 rows: those that the condition on plain by columns "
                "leaves (--pad reads all)",
                "which columns and blocks of rows are fetched (--pad: all blocks)",
            )
        return Disclosures([of_plain] if reads_plain else [], [text] if fetched else [])

    def answer(self, context: WayContext[Site]) -> GroupSums:
        """Compute the groups and local aggregates."""
        cut, question = self.cut.sums(), context.question
        if cut is None:
            raise TypeError("DuckDB answers a question as a whole, not a part of it")
        (fetch,) = self.fetches(context.place, pad=question.pad)
        reading, deadline = fetch.reading(question), question.deadline
        twice = cut.counting is not None  # groups, and what a threshold counts
        with read_whole([reading]), fetch.stored.rows.open(reading, now=twice) as table:
            context.at_work(table)

            def grouped() -> Halves:
                with limited(table.connection, deadline.left):
                    return Halves(table, replace(cut, arguments=(), plain=(), plain_columns=()))

            try:
                deadline.check()
                halves = within(deadline, grouped)
            finally:
                context.at_work(None)
        return GroupSums(cut, halves.keys, halves.counts.tolist(), local=halves.local, tally=halves.tally)


def cells_of(stored: Stored, conditions: Sequence[Node]) -> SelectedCells | None:
    """Return the cells that may have rows for which all `conditions` are TRUE; None means all cells."""
    plain = {each.name for each in stored.whole_schema.columns if each.kind is Kind.PLAIN}
    by = {name.lower(): name for name in stored.by if name in plain}
    columns = [(each, [column.name.lower() for column in each.find(ColumnRef)]) for each in conditions]
    usable = {write(each): names for each, names in columns if by.keys() >= {*names}}
    if not usable:
        return None
    names = {by[name] for names in usable.values() for name in names}
    return stored.cells_by(names).selected(tuple(usable), names)
