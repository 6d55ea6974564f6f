"""What a query would send where, at what precision, and what each service would learn. Sends nothing, needs no key."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal

from cleave.aggregates.base import SIGMAS
from cleave.aggregates.columns import Exact
from cleave.ckks.columns import Columns
from cleave.ckks.encode import Scale, scales_of
from cleave.ckks.layout import FRESH_VARIANCE, ROUNDING_UNITS, WidePlace, fields_of
from cleave.ckks.packing import Packing, Part, bytes_of_chunk
from cleave.pipeline import DEFAULTS, Options, columns_of, packing_of
from cleave.quantities import counted
from cleave.split import Halves, split
from cleave.sql.plan import Argument, LocalPlan, QueryPlan
from cleave.table.schema import Kind, Schema
from cleave.table.table import Table
from cleave.ways import CALL_DOLLARS, OUT_DOLLARS, Way
from cleave_shared import limits
from cleave_shared.dataclass import dataclass
from cleave_shared.params import SUM60_PACK, Profile


@dataclass(frozen=True, slots=True)
class ColumnFate:
    """What becomes of a column of the table; `bytes` are what of it is sent."""

    name: str
    kind: str
    type: str
    fate: str
    destination: Literal["plain", "sensitive", "none"]
    bytes: int


@dataclass(frozen=True, slots=True)
class EncryptedColumn:
    """A column made for the query: of which arguments, and the bound of its total over all rows."""

    argument: str
    type: str
    moment: str
    exact: bool
    log2_scale: int
    bytes: int
    bound: float


@dataclass(frozen=True, slots=True)
class Parameters:
    name: str
    degree: int
    modulus_bits: int
    security_bits: int
    capacity_bits: int
    lanes: int
    keys_uploaded: int


@dataclass(frozen=True, slots=True)
class Requests:
    """To one service; `bytes_down` None: not foreseen."""

    count: int
    bytes_up: int
    bytes_down: int | None = None


@dataclass(frozen=True, slots=True)
class Leakage:
    """What each service learns, in sentences."""

    plain: tuple[str, ...]
    sensitive: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LocalOutput:
    """An output that this machine computes, and why."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Description:
    """`selected_rows` and `groups` None: the question is answered here as a whole. `profile` None: nothing is sent.

    `sets`: how many sets of keys (GROUPING SETS, ROLLUP, CUBE) are put together from these groups, those of all keys.
    `ways`: of a stored table, how it could be answered and what each would take, the one that is taken first.
    `dollars`: at list price, of requests and transfer; of a question over files with both services on Lambda.
    `hint`: what the services could answer instead of a question that is answered here as a whole. `places`: of a stored
    table, where its sensitive and its plain half rest; requests are then of objects. `trust`: what the answer is not
    checked against, where that is more than usual.
    """

    table: str
    rows: int
    selected_rows: int | None
    groups: int | None
    local: tuple[LocalOutput, ...]
    hint: str
    columns: tuple[ColumnFate, ...]
    encrypted: tuple[EncryptedColumn, ...]
    profile: Parameters | None
    plain: Requests
    sensitive: Requests
    leakage: Leakage
    sets: int = 1
    places: tuple[str, str] | None = None
    ways: tuple[Way, ...] = ()
    dollars: float = 0.0
    trust: str = ""


_READ, _UNREAD = "read here, nothing of it sent", "not read, stays here"
_UNASKED = Leakage(("nothing: it is not asked",), ("nothing: it is not asked",))


def describe_plan(
    table: Table,
    plan: QueryPlan | LocalPlan,
    streams: int,
    options: Options = DEFAULTS,
    profile: Profile = SUM60_PACK,
) -> Description:
    """Raises what the query itself would before it sends anything: QueryRefused, InputError."""
    if isinstance(plan, LocalPlan):
        return _whole(table, plan)
    sending = _sending(table, plan, streams, options, profile)
    plan, halves, packing, columns = sending.plan, sending.halves, sending.packing, sending.columns
    scales = scales_of(packing.layout, columns.encode([each.sql for each in plan.arguments], halves.values()))
    description = Description(
        table=table.name,
        rows=table.rows,
        selected_rows=packing.rows,
        groups=len(halves.keys),
        local=_local(plan),
        hint="",
        columns=tuple(_columns(table, plan, halves, columns, packing)),
        encrypted=tuple(_encrypted(plan, columns, packing, scales)),
        profile=Parameters(
            name=profile.name,
            degree=profile.degree,
            modulus_bits=sum(profile.prime_bits),
            security_bits=min(profile.estimated_bits),
            capacity_bits=profile.capacity_bits,
            lanes=packing.lanes,
            keys_uploaded=0,
        )
        if not plan.sends_nothing
        else None,
        plain=Requests(len(sending.plain), sum(size for _, size in sending.plain)),
        sensitive=Requests(
            len(sending.parts),
            packing.chunks * bytes_of_chunk(profile),
            sum(len(part.pieces) for part in sending.parts) * limits.RESULT_BYTES,
        ),
        sets=1 if plan.sets is None else len(plan.sets),
        leakage=leakage(plan, None if options.min_group else table.rows, packing),
        dollars=(len(sending.parts) + len(sending.plain)) * CALL_DOLLARS
        + sum(len(part.pieces) for part in sending.parts) * limits.RESULT_BYTES * OUT_DOLLARS,
    )
    halves.close()
    return description


@dataclass(frozen=True, slots=True)
class _Sending:
    """What a query becomes before anything is encrypted. `plain`: rows and bytes of each request to that service."""

    plan: QueryPlan
    halves: Halves
    columns: Columns
    packing: Packing
    parts: Sequence[Part]
    plain: list[tuple[int, int]]


def _sending(table: Table, query: QueryPlan, streams: int, options: Options, profile: Profile) -> _Sending:
    plan, halves = split(table, query)
    plain = [(part.rows, len(part.parquet or b"")) for part in halves.plain_parts] if plan.asks_plain else []
    columns = columns_of(plan)
    packing = packing_of(columns, halves, profile, options)
    return _Sending(plan, halves, columns, packing, packing.parts(streams), plain)


def _whole(table: Table, plan: LocalPlan) -> Description:
    return Description(
        table=table.name,
        rows=table.rows,
        selected_rows=None,
        groups=None,
        local=_local(plan),
        hint=plan.hint,
        columns=tuple(
            ColumnFate(each.name, str(each.kind), each.type, _READ if each.name in plan.columns else _UNREAD, "none", 0)
            for each in table.schema.columns
        ),
        encrypted=(),
        profile=None,
        plain=Requests(0, 0),
        sensitive=Requests(0, 0),
        leakage=_UNASKED,
    )


def _local(plan: QueryPlan | LocalPlan) -> tuple[LocalOutput, ...]:
    outputs = [LocalOutput(each.name, each.reason) for each in plan.outputs if each.reason]
    if isinstance(plan, QueryPlan):
        shown = {place for final in plan.finals for place in final.local}
        reasons = dict.fromkeys(each.reason for place, each in enumerate(plan.local) if place not in shown)
        outputs += [LocalOutput("HAVING or ORDER BY", reason) for reason in reasons]
    return tuple(outputs)


def _columns(table: Table, plan: QueryPlan, halves: Halves, columns: Columns, packing: Packing) -> Iterator[ColumnFate]:
    read = {name for argument in plan.arguments for name in argument.columns}
    here = {name for each in plan.local for name in each.columns}
    encrypted = Counter[str]()
    for made, size in zip(columns.names, _bytes(packing), strict=True):
        for number in made.arguments:
            for name in _behind(plan.arguments[number], table.schema):
                encrypted[name] += size
    for column in table.schema.columns:
        name, size = column.name, 0
        destination: Literal["plain", "sensitive", "none"] = "none"
        if name in plan.plain_columns:
            fate, destination, size = "sent in the clear", "plain", halves.plain_bytes(name)
        elif encrypted[name]:
            fate, destination, size = "encrypted", "sensitive", encrypted[name]
        elif name in plan.selecting:
            fate = "read here to select and group rows"
        elif name in read and column.kind is Kind.PLAIN:
            fate = "read here for an encrypted column"
        elif name in read or name in here:  # an argument of declared NULLs and range asks nothing more
            fate = _READ
        else:
            fate = _UNREAD
        yield ColumnFate(name, str(column.kind), column.type, fate, destination, size)


def _behind(argument: Argument, schema: Schema) -> tuple[str, ...]:
    """The columns an argument is encrypted for: those of its columns that are, or all where it is of plain ones."""
    encrypted = [name for name in argument.columns if schema.column(name).kind is Kind.ENCRYPTED]
    return tuple(encrypted) or argument.columns


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


def _encrypted(
    plan: QueryPlan, columns: Columns, packing: Packing, scales: Sequence[Scale]
) -> Iterator[EncryptedColumn]:
    noise = SIGMAS * math.sqrt(FRESH_VARIANCE * int(packing.placement.terms().sum()))
    for name, type_, place, scale, size, reading in zip(
        columns.names, columns.types, packing.layout.places, scales, _bytes(packing), columns.readings, strict=True
    ):
        arguments = [plan.arguments[number] for number in name.arguments]
        exact = isinstance(type_, Exact)
        lost = float(ROUNDING_UNITS) + (noise if isinstance(place, WidePlace) else 0.0)
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
    """SECURITY.md explains it. `rows` None: how many there are is not to be told here."""
    plain = list(_UNASKED.plain)
    if plan.asks_plain:
        plain = [
            f"the plain columns the query reads, with names and values: {', '.join(plan.plain_columns) or 'none'}",
            "the number of rows" + ("" if rows is None else f": {rows}"),
            "WHERE, GROUP BY and the plain aggregates as SQL; which rows are selected and in which group",
        ]
    sensitive = list(_UNASKED.sensitive)
    if packing.chunks:
        sensitive = [
            f"the number of ciphertexts: {packing.chunks}, in {counted(packing.blocks, 'block')} that are added up; "
            "it follows from the number of selected rows, from the question and the schema and, where groups outnumber "
            f"the places in a ciphertext ({packing.placement.capacity:,}), from the number and sizes of the groups",
            "neither the groups nor their sizes, nor any name, nor the SQL",
            "the key's id, the profile, a keyed tag of the schema, sizes and times of requests",
        ]
    return Leakage(tuple(plain), tuple(sensitive))
