"""What each way to answer a question over a stored table reads: exact bytes and requests, before anything is read.

The list of cells is read, and where rows of some cells would be fetched the indexes that say where they are stored.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from cleave.sql.plan import LocalPlan
from cleave.store.cellwise import StoredPlan
from cleave.store.pruning import cells_of, cells_of_whole
from cleave.store.scan import answer_of_scan, lanes_of_parts
from cleave.store.sources import Part
from cleave.store.stored import Stored
from cleave.table.duck import identifier
from cleave.ways import Work
from cleave_shared import limits

Cells = NDArray[np.bool_]
NOTHING = Work()


def work_of(stored: Stored, plan: StoredPlan | LocalPlan, *, pad: bool, services: bool) -> Work:
    """What answering `plan` reads. `services`: there are some."""
    work = rows_work(stored, plan, pad=pad)
    if isinstance(plan, LocalPlan):
        return work
    if plan.scans or plan.parts:
        work += Work([each.bytes for each in stored.secret_to_read])
    if plan.scans:
        return work + scan_work(stored, plan, groups_of(stored, plan) or 1)
    if plan.parts:
        work += totals_work(stored, plan.parts, services=services)
    return work + plain_work(stored) if plan.asks_plain else work


def rows_work(stored: Stored, plan: StoredPlan | LocalPlan, *, pad: bool) -> Work:
    """What `plan` reads of rows."""
    if isinstance(plan, LocalPlan):
        columns, ordered = columns_read(stored, plan), True
        cells = None if pad else cells_of_whole(stored, plan)
    elif plan.fetches:
        columns, ordered = plan.fetched_columns, not all(each.exact for each in plan.local)
        cells = None if pad else cells_of(stored, plan.where)
    else:
        return NOTHING
    return Work([each.bytes for each in stored.rows.reads(stored.rows.needed(columns, ordered=ordered), cells)])


def columns_read(stored: Stored, plan: LocalPlan) -> Sequence[str]:
    """The columns whose rows are fetched. A join may name a column that it does not read, as USING does."""
    return [each.name for each in stored.schema.columns] if plan.others else plan.columns


def least_of_rows(stored: Stored) -> int:
    """Bytes that are read of the rows of however few cells: the indexes."""
    return sum(each.index.bytes for each in stored.manifest.segments)


def totals_work(stored: Stored, parts: Collection[Part], *, services: bool) -> Work:
    """Read the totals `parts` of every cell. `services` add up those of several segments where they are stored."""
    objects = stored.total_objects(tuple(parts))
    sums = stored.sums_asked(tuple(parts)) if services else 0
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
