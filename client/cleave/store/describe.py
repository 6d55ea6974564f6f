"""Which way a question over a stored table is answered, what that reads, and what each store learns of it."""

from __future__ import annotations

from cleave.describe import ColumnFate, Description, Leakage, LocalOutput, Parameters, Requests
from cleave.sql.plan import LocalPlan
from cleave.store.cellwise import Cellwise
from cleave.store.stored import Stored
from cleave.table.schema import Kind

_SILENT = "neither the question nor any name or value; when it was read, and under whose credentials"


def describe_stored(stored: Stored, plan: Cellwise | LocalPlan) -> Description:
    """Nothing but the manifest is read for it."""
    manifest = stored.manifest
    local: tuple[LocalOutput, ...] = ()
    if isinstance(plan, Cellwise):
        objects, plain = stored.total_objects(plan.parts), []
        read = {manifest.measures[source.measure].name for source in plan.sources} | {*plan.plan.selecting}
        fate, hint = "answered from its totals", ""
        learned = "that totals are read, and which of the expressions that are kept they are of"
    else:
        needed = stored.rows.needed(plan.columns)
        every = stored.rows.objects(needed)
        held = {segment.plain.name for segment in manifest.segments if segment.plain}
        objects, plain = (
            [each for each in every if each.name not in held],
            [each for each in every if each.name in held],
        )
        read = {*plan.columns}
        fate, hint = "fetched, and read here", plan.hint
        local = tuple(LocalOutput(each.name, each.reason) for each in plan.outputs)
        learned = "which of the stored columns are fetched, all of their rows"
    profile = stored.profile
    return Description(
        table=manifest.table,
        rows=manifest.rows,
        selected_rows=None,
        groups=None,
        local=local,
        hint=hint,
        columns=tuple(
            ColumnFate(each.name, str(each.kind), each.type, fate if each.name in read else "not read", "none", 0)
            for each in stored.schema.columns
            if each.kind is not Kind.LOCAL
        ),
        encrypted=(),
        profile=Parameters(
            name=profile.name,
            degree=profile.degree,
            modulus_bits=sum(profile.prime_bits),
            security_bits=min(profile.estimated_bits),
            capacity_bits=profile.capacity_bits,
            lanes=len(objects),
            keys_uploaded=0,
        ),
        plain=Requests(len(plain), 0, sum(each.bytes for each in plain)),
        sensitive=Requests(len(objects), 0, sum(each.bytes for each in objects)),
        leakage=Leakage(
            ("that its plain columns are fetched", _SILENT) if plain else ("nothing: it is not asked",),
            (learned, _SILENT),
        ),
    )
