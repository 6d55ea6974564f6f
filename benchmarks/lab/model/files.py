"""What a question over files is counted to take: the operations of each step, the memory they need, and the calls."""

from __future__ import annotations

from benchmarks.lab.model.cost import Work
from benchmarks.lab.model.operations import Operation
from cleave.ckks.columns import Columns
from cleave.ckks.encryptors import MIN_CHUNKS_TO_FORK
from cleave.ckks.packing import Packing, bytes_of_chunk, plan_packing
from cleave.sql.plan import LocalPlan, QueryPlan
from cleave.sql.split import split
from cleave.table.table import Table
from cleave_shared import limits
from cleave_shared.params import SUM60_PACK

# Bytes, fitted to the peaks of 22 commands (`make bench-model` compares):
TABLE_VALUE = 10.3  # of a value of the table, in DuckDB; 9 of a number, 11 and more of a text
_MADE_VALUE = 15  # of an encrypted column's value on its way: read, encoded, and as the process that has it forks
_FIGURE = 620  # of a figure of a group
_PLAIN, _PLAIN_ROW = 14_000_000, 31  # of the plain half: its process, and a row of it at both ends
_COPIES, _UNDER_WAY = 4, 4 * limits.MAX_BODY_BYTES  # of requests that are under way

_ALONE = 1_250_000  # values, or 8 MB, of a CSV file: what DuckDB gives to one thread


def work_of(table: Table, plan: QueryPlan | LocalPlan, streams: int) -> Work:
    """Count what answering a question over files takes. Raises as `cleave.ask.here_facts.describe_here` does."""
    if isinstance(plan, LocalPlan):
        return work_here(table, plan)
    plan, halves = split(table, plan)
    plain = [(part.rows, len(part.parquet or b"")) for part in halves.plain_parts] if plan.asks_plain else []
    packing = plan_packing(Columns(plan.domains, plan.encrypted).types, halves.counts, SUM60_PACK)
    halves.close()
    return work_of_files(table, plan, packing, len(halves.keys), plain, len(packing.parts(streams)))


def work_of_files(
    table: Table,
    plan: QueryPlan,
    packing: Packing,
    groups: int,
    plain_parts: list[tuple[int, int]],
    calls: int,
) -> Work:
    """`plain_parts`: rows and bytes of each request to the plain service; `calls`: requests to the sensitive one."""
    one, scale = bytes_of_chunk(packing.profile), packing.profile.degree / 8192
    sent_rows, sent_plain = sum(rows for rows, _ in plain_parts), sum(size for _, size in plain_parts)
    results = packing.blocks * packing.lanes
    names = {*plan.selecting, *(name for each in plan.arguments for name in each.columns)}
    columns = len(packing.columns)
    here = {
        Operation.QUESTION: 1.0,
        **_read(table),
        Operation.SPLIT: float(table.rows * max(1, len(names))),
        Operation.ENCODE: float(packing.rows * columns),
        Operation.GROUP: float(groups * len(plan.outputs)),
    }
    there: dict[Operation, float] = {}
    chunks = scale * packing.chunks
    if packing.chunks:
        here[Operation.ASK] = 1.0
        together = packing.chunks >= MIN_CHUNKS_TO_FORK
        here[Operation.ENCRYPT if together else Operation.ENCRYPT_ALONE] = chunks
        there |= {Operation.ADD: chunks, Operation.RESULT: scale * results}
    if plain_parts:
        here[Operation.PLAIN_ROW] = float(sent_rows)
        there[Operation.PLAIN] = float(len(plain_parts))
        there[Operation.PLAIN_VALUE] = float(sent_rows * max(1, len(plan.plain_columns)))
    sent = packing.chunks * one + sent_plain
    memory = table.rows * len(table.schema.columns) * TABLE_VALUE + packing.rows * columns * _MADE_VALUE
    memory += groups * len(plan.outputs) * _FIGURE + _COPIES * min(_UNDER_WAY, sent)
    if plain_parts:
        memory += _PLAIN + _PLAIN_ROW * sent_rows
    return Work(
        here,
        (),
        there,
        calls + len(plain_parts),
        answered=results * limits.RESULT_BYTES,
        sent=sent,
        memory=int(memory),
    )


def work_here(table: Table, plan: LocalPlan | QueryPlan) -> Work:
    """Of what DuckDB answers on this machine alone."""
    read = table.rows * len(table.schema.columns)
    counts = {
        Operation.QUESTION: 1.0,
        **_read(table),
        Operation.LOCAL: float(table.rows * max(1, len(plan.outputs))),
    }
    return Work(counts, memory=int(read * TABLE_VALUE))


def _read(table: Table) -> dict[Operation, float]:
    """Up to _ALONE values are read by one core, and so many take as long as twice as many by two."""
    values = table.rows * len(table.schema.columns)
    alone = max(0, min(values, 2 * _ALONE - values))
    return {Operation.READ_ALONE: float(alone), Operation.READ: float(values - alone)}
