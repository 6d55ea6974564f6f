"""What each way to answer a question over a stored table takes, counted for the cost model before anything is read.

The list of cells is, and where rows of some cells would be fetched the indexes that tell where they lie.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from benchmarks.lab.model.cost import NOTHING, Work
from benchmarks.lab.model.files import TABLE_VALUE
from benchmarks.lab.model.operations import Operation
from cleave.ckks.packing import bytes_of_chunk
from cleave.sql.nodes import Column
from cleave.sql.plan import LocalPlan
from cleave.sql.read import expression_of
from cleave.sums.cellwise import StoredPlan
from cleave.sums.pruning import cells_of, cells_of_whole
from cleave.sums.scan import lanes_of_parts, plain_columns, results_of
from cleave.sums.sources import Part
from cleave.sums.stored import Stored
from cleave.table.duck import identifier
from cleave_shared import limits

Cells = NDArray[np.bool_]
_FETCHED_VALUE = 16  # bytes of a sealed value on its way, of two segments at most: sealed and opened
_GROUPS = 8  # of a scan by keys that nobody has looked at: the plain service tells how many there are
_ANY = Work({Operation.STORED: 1.0})


def work_of(
    stored: Stored, plan: StoredPlan | LocalPlan, *, pad: bool, services: bool, groups: int | None = None
) -> Work:
    """Of answering `plan`; None: its `groups` are not known yet, and a scan by keys is taken to have a few."""
    if isinstance(plan, LocalPlan):
        cells = None if pad else cells_of_whole(stored, plan)
        return _ANY + rows_work(stored, plan.columns, cells, ordered=True)
    made = float(_groups_known(stored, plan) if groups is None else groups)
    finishing = {Operation.GROUP: made * len(plan.outputs), Operation.FIGURE: made * len(plan.encrypted)}
    work = _ANY + Work(finishing) + _fetched(stored, plan, pad=pad)
    if plan.scans:
        return work + scan_work(stored, plan, groups or _GROUPS if plan.keys else 1)
    if plan.over_cells and plan.tells_cells_apart:
        count = float(len(stored.cells))
        known = {column.name for column in expression_of(plan.where).find(Column)} if plan.where else set()
        more = [name for name in stored.manifest.by if name in plan.cell_columns and name not in known]
        here = {Operation.CELL: count, Operation.LIST: 0.0 if known else 1.0, Operation.LISTED: count * len(more)}
        work += Work(here)
    if plan.parts:
        work += totals_work(stored, plan.parts, services=services)
    if plan.asks_plain:
        work += _plain_work(stored, len(plan.plain_columns))
    return work


def _groups_known(stored: Stored, plan: StoredPlan) -> int:
    """As many as there are cells, where every cell is a group; else few, as far as is known."""
    keys = {each.lower() for each in plan.keys}
    return len(stored.cells) if keys and {identifier(each).lower() for each in stored.manifest.by} <= keys else 1


def totals_work(stored: Stored, parts: Collection[Part], *, services: bool) -> Work:
    """Of the totals `parts` of every cell; `services`: those of several segments are added up where they rest."""
    objects = stored.objects(tuple(parts))
    here = {
        Operation.TOTALS: 1.0 if objects else 0.0,
        Operation.TOTAL: float(len(stored.cells) * len(parts)) if objects else 0.0,
    }
    total, one = sum(each.bytes for each in objects), bytes_of_chunk(stored.profile)
    sums = stored.ciphertexts(tuple(parts)) if services else 0
    degree = _scale(stored)
    if not sums:
        return Work(here | {Operation.DECRYPT: degree * (total // one)}, [each.bytes for each in objects])
    there = {Operation.SUMS: 1.0, Operation.ADD: degree * (total // one), Operation.RESULT: degree * sums}
    return Work(here, (), there, 1, total, len(objects), sums * limits.RESULT_BYTES)


def rows_work(
    stored: Stored, columns: Collection[str], cells: Cells | None, *, ordered: bool, locals_: int = 1
) -> Work:
    """Of the rows of `cells` (None: of all), from which `locals_` aggregates are computed."""
    needed = stored.rows.needed(columns, ordered=ordered)
    reads = stored.rows.reads(needed, cells)
    segments = stored.manifest.segments
    rows = stored.manifest.rows if cells is None else int(np.asarray(stored.cells.rows)[cells].sum())
    counts = {
        Operation.FETCH: 1.0,
        Operation.SEGMENT: float(len(segments)),
        Operation.VALUE: float(rows * len(needed.sealed)),
        Operation.BESIDE: float(stored.manifest.rows * len(needed.plain)),  # plain halves are read whole
        Operation.INDEXED: float(0 if cells is None else sum(each.cells for each in segments)),
        Operation.PLACE: float(rows if needed.ordered else 0),
        Operation.LOCAL: float(rows * locals_),
    }
    wanted = len(needed.sealed) + len(needed.plain)
    under_way = min(rows, sum(sorted(each.rows for each in segments)[-2:]))
    memory = int(rows * wanted * TABLE_VALUE) + under_way * len(needed.sealed) * _FETCHED_VALUE
    return Work(counts, [each.bytes for each in reads], memory=memory)


def scan_work(stored: Stored, plan: StoredPlan, groups: int) -> Work:
    """Of sums of rows that the plain service selects into `groups` groups."""
    segments, degree = stored.manifest.segments, _scale(stored)
    wanted = [parts for parts in plan.parts_by_filter().values() if parts]
    lanes = lanes_of_parts(stored, plan)
    scans = [each.scan for each in segments if each.scan]
    parts = [part for scan in scans for lane in lanes for part in scan.lanes[lane]]
    linked = sum(part.bytes for part in parts)
    chunks = sum(stored.row_lanes.chunks(segment.rows) for segment in segments)
    masks = chunks * (groups + 1)
    taken = sum(len(lanes_of_parts(stored, replace(plan, parts=tuple(parts)))) for parts in wanted)
    each_result = [results_of(stored, plan, segment.rows, groups) for segment in segments]
    results = sum(each_result)
    calls = sum(-(-each // limits.MAX_SCAN_RESULTS) for each in each_result)
    rows = stored.manifest.rows
    columns = max(1, len(plain_columns(stored, plan)))
    here = {
        Operation.SELECT: 1.0,
        Operation.ORDER: float(rows * len(wanted)),
        Operation.RESULT: degree * results,
    }
    there = {
        Operation.SELECT_VALUE: float(rows * columns),
        Operation.SCAN: float(calls),
        Operation.ADD: degree * chunks * taken,
        Operation.MASK: degree * masks * len(wanted),
        Operation.MULTIPLY: degree * masks * taken,
    }
    plain = sum(each.plain.bytes for each in segments if each.plain)
    told = 2 * sum((each.rows // 8) * groups.bit_length() for each in segments) * len(wanted)
    order = [scan.order.bytes for scan in scans]
    answered = results * limits.MASKED_RESULT_BYTES + told
    at_once = sum(
        max(1, stored.row_lanes.chunks(segment.rows) // limits.SCAN_CHUNKS_OF_A_PROCESS) for segment in segments
    )
    return Work(here, order, there, 1 + calls, linked + plain, len(parts) + len(segments), answered, at_once=at_once)


def _plain_work(stored: Stored, columns: int) -> Work:
    held = [each.plain for each in stored.manifest.segments if each.plain]
    there = {Operation.PLAIN: 1.0, Operation.PLAIN_VALUE: float(stored.manifest.rows * max(1, columns))}
    return Work({}, (), there, 1, sum(each.bytes for each in held), len(held), 0)


def _fetched(stored: Stored, plan: StoredPlan, *, pad: bool) -> Work:
    """What `plan` fetches beside totals."""
    if not plan.fetches:
        return NOTHING
    ordered = not all(each.exact for each in plan.local)
    cells = None if pad else cells_of(stored, plan.where)
    return rows_work(stored, plan.fetched_columns, cells, ordered=ordered, locals_=1 + len(plan.local))


def _scale(stored: Stored) -> float:
    return stored.profile.degree / 8192
