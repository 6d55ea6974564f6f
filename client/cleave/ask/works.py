"""Bytes that each way to answer a query over stored tables reads: exact bytes and requests, before anything is read.

Lists of cells are read, and where rows of some cells would be fetched the indexes that say where they are stored.

Blocks of cells whose rows a WHERE cannot select are not read. A row is selected where every conjunct of WHERE is TRUE.
Conjuncts that read plain by columns alone are the same for all rows of a cell: where one of them is not TRUE, no row of
the cell is selected. By columns of other kinds rule nothing out, for what is read would then depend on their values;
nor does what cannot be evaluated.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import duckdb
import numpy as np
from numpy.typing import NDArray

from cleave.ask.prices import CALL_DOLLARS, GET_DOLLARS, OUT_DOLLARS
from cleave.processes.deadline import Deadline
from cleave.sql.nodes import Column, Node, write
from cleave.sql.plan import LocalPlan
from cleave.store.manifest import NUMBER
from cleave.store.reading import Reading
from cleave.store.rows import Read
from cleave.sums.cellwise import StoredPlan
from cleave.sums.scan import answer_of_scan, lanes_of_parts
from cleave.sums.sources import Part
from cleave.sums.stored import Stored
from cleave.table.duck import identifier
from cleave.table.progress import Progress
from cleave.table.schema import Kind
from cleave_shared import limits

Cells = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Fetch:
    """Rows that are read of one table: `columns`, of `cells` at least (None: all), in the order they were put if
    `ordered`.
    """

    name: str
    stored: Stored
    columns: Sequence[str]
    ordered: bool
    cells: Cells | None

    def reads(self) -> list[Read]:
        """Every request for them, of blocks or of an object."""
        rows = self.stored.rows
        return rows.reads(rows.needed(self.columns, ordered=self.ordered), self.cells)

    def reading(self, progress: Progress, deadline: Deadline) -> Reading:
        """A reading that is made once, and to its end."""
        return self.stored.rows.reading(
            self.columns,
            ordered=self.ordered,
            progress=progress,
            cells=self.cells,
            deadline=deadline,
            once=True,
        )


def fetches(tables: Mapping[str, Stored], plan: StoredPlan | LocalPlan, *, pad: bool) -> list[Fetch]:
    """The rows that `plan` reads of each of `tables`, by name in lower case; none for one that only sums answer."""
    if isinstance(plan, StoredPlan):
        if not plan.fetches:
            return []
        stored = tables[plan.table.lower()]
        cells, ordered = None if pad else cells_of(stored, plan.conditions), any(each.ordered for each in plan.local)
        return [Fetch(plan.table, stored, plan.fetched_columns, ordered, cells)]
    fetched = []
    for name, columns in plan.reads.items():
        if name.lower() in tables:
            stored = tables[name.lower()]
            cells = cells_of(stored, plan.conditions) if len(plan.reads) == 1 and not pad else None
            fetched.append(Fetch(name, stored, columns, True, cells))
    return fetched


def work_of(tables: Mapping[str, Stored], plan: StoredPlan | LocalPlan, *, pad: bool, services: bool) -> Work:
    """Return the work of answering `plan`. `services`: there are some."""
    work = rows_work(tables, plan, pad=pad)
    if isinstance(plan, LocalPlan):
        return sum((work_of(tables, each, pad=pad, services=services) for each in answers_of(plan)), work)
    stored = tables[plan.table.lower()]
    if plan.scans or plan.parts:
        work += Work([each.bytes for each in stored.secret_to_read])
    if plan.scans:
        return work + scan_work(stored, plan, groups_of(stored, plan) or 1)
    if plan.parts:
        work += totals_work(stored, plan.parts, services=services)
    return work + plain_work(stored) if plan.asks_plain else work


def answers_of(plan: StoredPlan | LocalPlan) -> list[StoredPlan]:
    """The plans whose answers are tables of a statement."""
    inner = plan.inner.values() if isinstance(plan, LocalPlan) else ()
    return [each for each in inner if isinstance(each, StoredPlan)]


def rows_work(tables: Mapping[str, Stored], plan: StoredPlan | LocalPlan, *, pad: bool) -> Work:
    """Return the rows' part of the work of `plan`."""
    return Work([read.bytes for each in fetches(tables, plan, pad=pad) for read in each.reads()])


def least_of_rows(stored: Stored) -> int:
    """Bytes that are read of the rows of however few cells: the indexes."""
    return sum(each.index.bytes for each in stored.manifest.segments)


def totals_work(stored: Stored, parts: Collection[Part], *, services: bool) -> Work:
    """Read the totals `parts` of every cell. `services` add up those of several segments where they are stored."""
    objects = stored.objects(tuple(parts))
    sums = stored.ciphertexts(tuple(parts)) if services else 0
    if not sums:
        return Work([each.bytes for each in objects])
    return Work((), 1, sum(each.bytes for each in objects), len(objects), sums * limits.RESULT_BYTES)


def scan_work(stored: Stored, plan: StoredPlan, groups: int) -> Work:
    """Sums of rows that the plain service selects into `groups` groups."""
    segments = stored.manifest.segments
    lanes = lanes_of_parts(stored, plan)
    parts = [part for each in segments if each.scan for lane in lanes for part in each.scan.lanes[lane]]
    answer = answer_of_scan(stored, plan, groups)
    order = [each.scan.order.bytes for each in segments if each.scan]
    linked = sum(part.bytes for part in parts)
    work = Work(order, answer.calls, linked, len(parts), answer.bytes)
    return work + plain_work(stored, answer.selects)


def plain_work(stored: Stored, requests: int = 1) -> Work:
    """Read the plain columns by the plain service."""
    held = [each.plain for each in stored.manifest.segments if each.plain]
    return Work((), requests, sum(each.bytes for each in held), len(held))


def groups_of(stored: Stored, plan: StoredPlan) -> int | None:
    """Most groups that there can be; None: not known before the plain service has counted them."""
    if not plan.keys:
        return 1
    by = {identifier(each).lower() for each in stored.manifest.by}
    return max(1, len(stored.cells)) if {each.lower() for each in plan.keys} <= by else None


@dataclass(frozen=True, slots=True)
class Work:
    """Work of a way. `reads`: bytes of each object, or range of one, that is read here. Services read `linked` bytes
    of `objects` objects in `calls` calls, and answer `answered` bytes at most.
    """

    reads: Sequence[int] = ()
    calls: int = 0
    linked: int = 0
    objects: int = 0
    answered: int = 0

    def __add__(self, other: Work) -> Work:
        return Work(
            (*self.reads, *other.reads),
            self.calls + other.calls,
            self.linked + other.linked,
            self.objects + other.objects,
            self.answered + other.answered,
        )

    @property
    def bytes(self) -> int:
        """Bytes of stored objects that are read, here or by a service."""
        return sum(self.reads) + self.linked


@dataclass(frozen=True, slots=True)
class Cost:
    """`bytes` come to this machine in `requests` requests. `dollars`: of reads, calls and transfer at list price."""

    bytes: int
    requests: int
    dollars: float


def cost_of(work: Work, *, bucket: bool, elsewhere: bool) -> Cost:
    """`bucket`: the store is one, and no folder. `elsewhere`: the services are not in this process."""
    read, answered = sum(work.reads), work.answered if elsewhere else work.linked
    dollars = 0.0
    if bucket:
        dollars += (len(work.reads) + work.objects) * GET_DOLLARS + read * OUT_DOLLARS
    if elsewhere:
        dollars += work.calls * CALL_DOLLARS
    if bucket or elsewhere:
        dollars += answered * OUT_DOLLARS
    return Cost(read + answered, len(work.reads) + work.calls, dollars)


@dataclass(frozen=True, slots=True)
class Way:
    """`cost` None: the question cannot be answered so, and `reason` says why; else why it is `taken` or not."""

    name: str
    cost: Cost | None
    taken: bool
    reason: str


def cells_of(stored: Stored, conditions: Sequence[Node]) -> Cells | None:
    """By number, the cells with rows for which all `conditions` may be TRUE; None: all cells."""
    plain = {each.name for each in stored.schema.columns if each.kind is Kind.PLAIN}
    by = {name.lower(): name for name in stored.manifest.by if name in plain}
    columns = [(each, [column.name.lower() for column in each.find(Column)]) for each in conditions]
    usable = {write(each): names for each, names in columns if by.keys() >= {*names}}
    if not usable:
        return None
    left = np.ones(len(stored.cells), np.bool_)
    table = stored.cell_table({by[name] for names in usable.values() for name in names})
    for condition in usable:
        with suppress(duckdb.Error):  # then it rules nothing out
            statement = f"SELECT {identifier(NUMBER)} AS number FROM {table.relation} WHERE ({condition}) IS TRUE"
            numbers = table.connection.execute(statement).fetchnumpy()["number"]
            true = np.zeros(len(left), np.bool_)
            true[numbers.astype(np.int64)] = True
            left &= true
    return None if left.all() else left
