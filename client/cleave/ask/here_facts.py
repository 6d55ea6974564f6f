"""Describe what a query over a file or frame would send, how exactly, and what each service would learn."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

from cleave.aggregates.base import SIGMAS
from cleave.aggregates.columns import Exact
from cleave.ask.describe import UNASKED, Description, EncryptedColumn, Fate, Leakage, Requests, description
from cleave.ask.prices import CALL_DOLLARS, OUT_DOLLARS
from cleave.ask.source import DEFAULTS, Options
from cleave.ckks.columns import Columns
from cleave.ckks.encode import Scale, scales_of
from cleave.ckks.layout import FRESH_VARIANCE, ROUNDING_UNITS, WideLane, fields_of
from cleave.ckks.packing import Packing, bytes_of_chunk, plan_packing
from cleave.sql.plan import Argument, LocalPlan, QueryPlan
from cleave.sql.split import Halves, split
from cleave.table.schema import Kind, Schema
from cleave.table.table import Table
from cleave.text.quantities import counted
from cleave.transport.base import REQUESTS_UNDER_WAY
from cleave_shared import limits
from cleave_shared.params import SUM60_PACK, Profile

_READ, _UNREAD = "read here, nothing of it sent", "not read, stays here"


def describe_here(
    table: Table, plan: QueryPlan | LocalPlan, options: Options = DEFAULTS, profile: Profile = SUM60_PACK
) -> Description:
    """Raises what the query itself would before it sends anything: QueryRefused, InputError."""
    if isinstance(plan, LocalPlan):
        fates: dict[str, Fate] = dict.fromkeys(plan.columns, (_READ, "none", 0))
        return description(table.name, table.rows, table.schema.columns, plan, fates, _UNREAD, profile=None)
    plan, halves = split(table, plan)
    plain = [len(part.parquet or b"") for part in halves.plain_parts] if plan.asks_plain else []
    columns = Columns(plan.domains, plan.encrypted)
    packing = plan_packing(columns.types, halves.counts, profile, pad=options.pad)
    parts = packing.ranges(REQUESTS_UNDER_WAY)
    scales = scales_of(packing.layout, columns.encode(halves.names, halves.values()))
    down = sum(len(part.runs) for part in parts) * limits.RESULT_BYTES
    described = description(
        *(table.name, table.rows, table.schema.columns, plan),
        dict(_fates(table, plan, halves, columns, packing)),
        _UNREAD,
        profile=None if plan.sends_nothing else profile,
        lanes=packing.lanes,
        selected_rows=packing.rows,
        groups=len(halves.keys),
        encrypted=tuple(_encrypted(plan, columns, packing, scales)),
        plain=Requests(len(plain), sum(plain)),
        sensitive=Requests(len(parts), packing.chunks * bytes_of_chunk(profile), down),
        leakage=leakage(plan, None if options.min_group else table.rows, packing),
        dollars=(len(parts) + len(plain)) * CALL_DOLLARS + down * OUT_DOLLARS,
    )
    halves.close()
    return described


def _fates(
    table: Table, plan: QueryPlan, halves: Halves, columns: Columns, packing: Packing
) -> Iterator[tuple[str, Fate]]:
    read = {name for argument in plan.arguments for name in argument.columns}
    here = {name for each in plan.local for name in each.columns}
    encrypted = Counter[str]()
    for packed, size in zip(columns.names, _bytes(packing), strict=True):
        for number in packed.arguments:
            for name in _behind(plan.arguments[number], table.schema):
                encrypted[name] += size
    for column in table.schema.columns:
        name = column.name
        if name in plan.plain_columns:
            yield name, ("sent in the clear", "plain", halves.plain_bytes(name))
        elif encrypted[name]:
            yield name, ("encrypted", "sensitive", encrypted[name])
        elif name in plan.selecting:
            yield name, ("read here to select and group rows", "none", 0)
        elif name in read and column.kind is Kind.PLAIN:
            yield name, ("read here for an encrypted column", "none", 0)
        elif name in read or name in here:  # an argument of declared NULLs and range asks nothing more
            yield name, (_READ, "none", 0)


def _behind(argument: Argument, schema: Schema) -> tuple[str, ...]:
    """The columns an argument is encrypted for: those of its columns that are, or all where it is of plain ones."""
    encrypted = [name for name in argument.columns if schema.column(name).kind is Kind.ENCRYPTED]
    return tuple(encrypted) or argument.columns


def _bytes(packing: Packing) -> list[int]:
    """Every encrypted column's share of what is sent, by the bits it takes of a row."""
    bits = [
        packing.profile.capacity_bits if isinstance(place, WideLane) else sum(field.width for field in fields_of(place))
        for place in packing.layout.by_column
    ]
    sent = packing.chunks * bytes_of_chunk(packing.profile)
    return [round(sent * taken / max(1, sum(bits))) for taken in bits]


def _encrypted(
    plan: QueryPlan, columns: Columns, packing: Packing, scales: Sequence[Scale]
) -> Iterator[EncryptedColumn]:
    noise = SIGMAS * math.sqrt(FRESH_VARIANCE * int(packing.placement.terms().sum()))
    for name, type_, place, scale, size, reading in zip(
        columns.names, columns.types, packing.layout.by_column, scales, _bytes(packing), columns.decodings, strict=True
    ):
        arguments = [plan.arguments[number] for number in name.arguments]
        exact = isinstance(type_, Exact)
        lost = float(ROUNDING_UNITS) + (noise if isinstance(place, WideLane) else 0.0)
        yield EncryptedColumn(
            argument=", ".join(argument.sql for argument in arguments),
            type=", ".join(argument.type for argument in arguments),
            moment=name.moment,
            exact=exact,
            log2_scale=packing.layout.guard if exact else scale.exponent,
            bytes=size,
            bound=0.0 if exact else _ldexp(lost, -scale.exponent) * float(reading.unit),
        )


def _ldexp(value: float, exponent: int) -> float:
    try:
        return math.ldexp(value, exponent)
    except OverflowError:
        return math.inf


def leakage(plan: QueryPlan, rows: int | None, packing: Packing) -> Leakage:
    """List what each service learns, as SECURITY.md explains it. `rows` None: leave their number out."""
    plain = [UNASKED]
    if plan.asks_plain:
        plain = [
            f"the plain columns the query reads, with names and values: {', '.join(plan.plain_columns) or 'none'}",
            "the number of rows" + ("" if rows is None else f": {rows}"),
            "WHERE, GROUP BY and the plain aggregates as SQL; which rows are selected and in which group",
        ]
    sensitive = [UNASKED]
    if packing.chunks:
        sensitive = [
            f"the number of ciphertexts: {packing.chunks}, in {counted(packing.blocks, 'block')} that are added up; "
            "it follows from the number of selected rows, from the query and the schema and, where groups outnumber "
            f"the places in a ciphertext ({packing.placement.capacity:,}), from the number and sizes of the groups",
            "neither the groups nor their sizes, nor any name, nor the SQL",
            "the key's id, the profile, a keyed tag of the schema, sizes and times of requests",
        ]
    return Leakage(tuple(plain), tuple(sensitive))
