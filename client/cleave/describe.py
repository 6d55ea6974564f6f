"""What a query would send where, at what precision, and what each service would learn. Sends nothing, needs no key."""

from __future__ import annotations

import math
from typing import Any

from cleave.aggregates.base import SIGMAS
from cleave.ckks.job import Job, bytes_of_chunk
from cleave.ckks.layout import FRESH_VARIANCE, ROUNDING_VARIANCE
from cleave.split import Halves, arrange, encrypted_job
from cleave.sql.plan import QueryPlan
from cleave.table.schema import Kind
from cleave.table.table import Table
from cleave_shared import limits
from cleave_shared.moments import FILTERED, Run
from cleave_shared.params import SUM60_PACK, Profile


def describe_plan(table: Table, plan: QueryPlan, streams: int, profile: Profile = SUM60_PACK) -> dict[str, Any]:
    halves = Halves(table, plan)
    parts = [(part.rows, len(part.parquet or b"")) for part in halves.plain_parts()]
    counts = _group_sizes(table, plan)
    selected = sum(counts)
    runs: list[Run] = list(enumerate(counts))
    if selected < table.rows:
        runs.append((FILTERED, table.rows - selected))
    job = encrypted_job(profile, plan, halves, arrange(runs, len(counts)))
    slices = job.slices(streams)
    results = sum(len({group for group, _ in part.runs} - {FILTERED}) + 1 for part in slices)  # and the sentinel
    described = {
        "table": table.name,
        "rows": table.rows,
        "selected_rows": selected,
        "groups": len(counts),
        "columns": _columns(table, plan, halves, job),
        "encrypted": _encrypted(plan, job),
        "profile": {
            "name": profile.name,
            "degree": profile.degree,
            "modulus_bits": sum(profile.prime_bits),
            "security_bits": min(profile.estimated_bits),
            "capacity_bits": profile.capacity_bits,
            "lanes": job.lanes,
            "keys_uploaded": 0,
        },
        "requests": {
            "plain": {"count": len(parts), "bytes_up": sum(size for _, size in parts)},
            "sensitive": {
                "count": len(slices),
                "bytes_up": sum(part.stop - part.start for part in slices) * bytes_of_chunk(profile),
                "bytes_down": results * limits.RESULT_BYTES,
            },
        },
        "leakage": leakage(plan, table.rows, selected, len(counts), job.lanes),
    }
    halves.close()
    return described


def _group_sizes(table: Table, plan: QueryPlan) -> list[int]:
    where = f"WHERE {plan.where}" if plan.where else ""
    grouped = f"GROUP BY {', '.join(f'({key})' for key in plan.keys)}" if plan.keys else ""
    rows = table.connection.execute(f"SELECT count(*) FROM {table.relation} {where} {grouped}").fetchall()
    return [int(count) for (count,) in rows]


def _columns(table: Table, plan: QueryPlan, halves: Halves, job: Job) -> list[dict[str, Any]]:
    encrypted: dict[str, int] = {name.lower(): 0 for argument in plan.arguments for name in argument.columns}
    for each in job.described():
        for place in each.name.arguments:
            for name in plan.arguments[place].columns:
                encrypted[name.lower()] += each.bytes
    plain = {name.lower() for name in plan.plain_columns}
    described = []
    for column in table.schema.columns:
        name = column.name.lower()
        size = 0
        if name in plain:
            fate, destination, size = "sent in the clear", "plain", halves.plain_bytes(column.name)
        elif name in encrypted and column.kind is Kind.PLAIN:
            fate, destination = "read here for an encrypted column", "none"
        elif name in encrypted and not encrypted[name]:  # COUNT of a column without NULLs is the number of rows
            fate, destination = "read here, nothing of it sent", "none"
        elif name in encrypted:
            fate, destination, size = "encrypted", "sensitive", encrypted[name]
        else:
            fate, destination = "not read, stays here", "none"
        described.append(
            {
                "name": column.name,
                "kind": str(column.kind),
                "type": column.type,
                "fate": fate,
                "destination": destination,
                "bytes": size,
            }
        )
    return described


def _encrypted(plan: QueryPlan, job: Job) -> list[dict[str, Any]]:
    """One entry an encrypted column: what of which argument, its scale, and the bound of its total over all rows."""
    described = []
    error = SIGMAS * math.sqrt((FRESH_VARIANCE + ROUNDING_VARIANCE) * job.rows)
    for each in job.described():
        arguments = [plan.arguments[place] for place in each.name.arguments]
        described.append(
            {
                "argument": ", ".join(argument.sql for argument in arguments),
                "type": ", ".join(argument.type for argument in arguments),
                "moment": each.name.moment,
                "exact": each.exact,
                "log2_scale": each.scale,
                "bytes": each.bytes,
                "bound": 0.0 if each.exact else _ldexp(error, -each.scale) * each.unit,
            }
        )
    return described


def _ldexp(value: float, exponent: int) -> float:
    try:
        return math.ldexp(value, exponent)
    except OverflowError:
        return math.inf


def leakage(plan: QueryPlan, rows: int, selected: int, groups: int, lanes: int) -> dict[str, list[str]]:
    """What each service learns. The client prints it; SECURITY.md explains it."""
    columns = ", ".join(plan.plain_columns) or "none"
    plain = [
        f"the plain columns the query reads, with names and values: {columns}",
        f"the number of rows: {rows}",
        "WHERE, GROUP BY and the plain aggregates as SQL; which rows are selected and in which group",
    ]
    sensitive = ["nothing: no encrypted column is asked for"]
    if lanes:
        sensitive = [
            f"the number of selected rows: {selected}",
            f"the sizes of {groups} group{'' if groups == 1 else 's'} under random numbers, not their names",
            f"the number of encrypted values a row has: {lanes} (narrow columns share one; it depends on the "
            "aggregates asked for, on how wide the columns' ranges are, and on whether they have NULLs at all)",
            "the key's id, the profile, a keyed tag of the schema, sizes and times of requests",
        ]
    both = ["services that work together can match groups by their sizes, and so learn the group of each encrypted row"]
    return {"plain service": plain, "sensitive service": sensitive, "both together": both if lanes else []}
