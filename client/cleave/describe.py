"""What a query would send where, at what precision, and what each service would learn. Sends nothing, needs no key."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from cleave.aggregates.base import SIGMAS
from cleave.aggregates.columns import Exact
from cleave.ckks.columns import Columns
from cleave.ckks.encode import Scale, scales_of
from cleave.ckks.layout import FRESH_VARIANCE, ROUNDING_UNITS, WidePlace, fields_of
from cleave.ckks.packing import Packing, bytes_of_chunk
from cleave.pipeline import DEFAULTS, Options, columns_of, packing_of
from cleave.split import Halves
from cleave.sql.plan import QueryPlan
from cleave.table.schema import Kind
from cleave.table.table import Table
from cleave_shared import limits
from cleave_shared.params import SUM60_PACK, Profile


def describe_plan(
    table: Table, plan: QueryPlan, streams: int, options: Options = DEFAULTS, profile: Profile = SUM60_PACK
) -> dict[str, Any]:
    halves = Halves(table, plan)
    parts = [(part.rows, len(part.parquet or b"")) for part in halves.plain_parts()] if halves.asks_plain else []
    columns = columns_of(plan)
    packing = packing_of(columns, halves, profile, options)
    scales = scales_of(packing.layout, columns.encode([each.sql for each in plan.arguments], halves.values()))
    requests = packing.parts(streams)
    described = {
        "table": table.name,
        "rows": table.rows,
        "selected_rows": packing.rows,
        "groups": len(halves.keys),
        "columns": _columns(table, plan, halves, columns, packing),
        "encrypted": _encrypted(plan, columns, packing, scales),
        "profile": {
            "name": profile.name,
            "degree": profile.degree,
            "modulus_bits": sum(profile.prime_bits),
            "security_bits": min(profile.estimated_bits),
            "capacity_bits": profile.capacity_bits,
            "lanes": packing.lanes,
            "keys_uploaded": 0,
        },
        "requests": {
            "plain": {"count": len(parts), "bytes_up": sum(size for _, size in parts)},
            "sensitive": {
                "count": len(requests),
                "bytes_up": packing.chunks * bytes_of_chunk(profile),
                "bytes_down": sum(len(part.pieces) for part in requests) * limits.RESULT_BYTES,
            },
        },
        "leakage": leakage(plan, table.rows, packing),
    }
    halves.close()
    return described


def _columns(table: Table, plan: QueryPlan, halves: Halves, columns: Columns, packing: Packing) -> list[dict[str, Any]]:
    encrypted: dict[str, int] = {name.lower(): 0 for argument in plan.arguments for name in argument.columns}
    for made, size in zip(columns.names, _bytes(packing), strict=True):
        for argument in made.arguments:
            for read in plan.arguments[argument].columns:
                encrypted[read.lower()] += size
    plain = {name.lower() for name in plan.plain_columns}
    described = []
    for column in table.schema.columns:
        name = column.name.lower()
        size = 0
        if name in plain:
            fate, destination, size = "sent in the clear", "plain", halves.plain_bytes(column.name)
        elif name in encrypted and column.kind is Kind.PLAIN:
            fate, destination = "read here for an encrypted column", "none"
        elif name in encrypted and not encrypted[name]:  # its NULLs and its range are declared: nothing is left to ask
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


def _bytes(packing: Packing) -> list[int]:
    """Every encrypted column's share of what is sent, by the bits it takes of a row."""
    bits = [
        packing.profile.capacity_bits
        if isinstance(place, WidePlace)
        else sum(field.width for field in fields_of(place))
        for place in packing.layout.places
    ]
    sent = packing.chunks * bytes_of_chunk(packing.profile)
    return [round(sent * taken / max(1, sum(bits))) for taken in bits]


def _encrypted(plan: QueryPlan, columns: Columns, packing: Packing, scales: Sequence[Scale]) -> list[dict[str, Any]]:
    """One entry per encrypted column: of which arguments, its scale, and the bound of its total over all rows."""
    described = []
    noise = SIGMAS * math.sqrt(FRESH_VARIANCE * int(packing.placement.terms().sum()))
    for name, type_, place, scale, size, reading in zip(
        columns.names, columns.types, packing.layout.places, scales, _bytes(packing), columns.readings, strict=True
    ):
        arguments = [plan.arguments[number] for number in name.arguments]
        exact = isinstance(type_, Exact)
        lost = float(ROUNDING_UNITS) + (noise if isinstance(place, WidePlace) else 0.0)
        described.append(
            {
                "argument": ", ".join(argument.sql for argument in arguments),
                "type": ", ".join(argument.type for argument in arguments),
                "moment": name.moment,
                "exact": exact,
                "log2_scale": packing.layout.guard if exact else scale.exponent,
                "bytes": size,
                "bound": 0.0 if exact else _ldexp(lost, -scale.exponent) * float(reading.unit),
            }
        )
    return described


def _ldexp(value: float, exponent: int) -> float:
    try:
        return math.ldexp(value, exponent)
    except OverflowError:
        return math.inf


def leakage(plan: QueryPlan, rows: int, packing: Packing) -> dict[str, list[str]]:
    """What each service learns. The client prints it; SECURITY.md explains it."""
    plain = ["nothing: it is not asked"]
    if plan.plain_columns or plan.plain:
        plain = [
            f"the plain columns the query reads, with names and values: {', '.join(plan.plain_columns) or 'none'}",
            f"the number of rows: {rows}",
            "WHERE, GROUP BY and the plain aggregates as SQL; which rows are selected and in which group",
        ]
    sensitive = ["nothing: it is not asked"]
    if packing.chunks:
        sensitive = [
            f"the number of ciphertexts: {packing.chunks}, in {_counted(packing.blocks, 'block')} that are added up; "
            "it follows from the number of selected rows, from the question and the schema and, where groups outnumber "
            f"the places in a ciphertext ({packing.placement.capacity:,}), from the number and sizes of the groups",
            "neither the groups nor their sizes, nor any name, nor the SQL",
            "the key's id, the profile, a keyed tag of the schema, sizes and times of requests",
        ]
    return {"plain service": plain, "sensitive service": sensitive}


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
