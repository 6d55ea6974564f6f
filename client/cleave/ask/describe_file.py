"""Describe a question over a file or frame: what it would send, how exact it is, and what each service would learn."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

from cleave.ask.describe import Description, Leakage, Requests, description
from cleave.ask.plan import AnswerPlan
from cleave.ask.question import DEFAULTS, Options
from cleave.ask.way import Cost
from cleave.ask.ways.file import FilePlace
from cleave.ask.ways.packed import Packed
from cleave.sql.plan import QueryPlan
from cleave_shared.params import SUM60_PACK, Profile

_UNREAD = "not read, stays here"


def describe_file(
    place: FilePlace, plan: AnswerPlan, options: Options = DEFAULTS, profile: Profile = SUM60_PACK
) -> Description:
    """Describe the plan.

    Raises what the query itself would raise before it sends anything: QueryRefused, InputError.
    """
    (way,) = plan.ways
    table = place.table
    if not isinstance(plan.cut, QueryPlan):
        uses = {column: use for (_, column), use in way.uses(place).items()}
        return description(table.name, table.rows, table.schema.columns, plan.cut, uses, _UNREAD, profile=None)
    with closing(Packed(table, plan.cut, options, profile)) as packed:
        place = replace(place, packed=packed)
        disclosed = way.disclosures(place, pad=options.pad)
        cost: Cost = way.work(place, pad=options.pad).cost(bucket=False, remote=True)
        return description(
            *(table.name, table.rows, table.schema.columns, packed.cut),
            {column: use for (_, column), use in way.uses(place).items()},
            _UNREAD,
            profile=None if packed.cut.sends_nothing else profile,
            lanes=packed.packing.lanes,
            selected_rows=packed.packing.rows,
            groups=len(packed.halves.keys),
            encrypted=tuple(packed.encrypted()),
            plain=Requests(len(packed.plain), sum(packed.plain)),
            sensitive=Requests(len(packed.ranges), packed.bytes_up, packed.bytes_down),
            leakage=Leakage(tuple(disclosed.plain), tuple(disclosed.sensitive)),
            dollars=cost.dollars,
        )
