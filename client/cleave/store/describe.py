"""Which way a question over a stored table is answered, what that reads, and what each store learns of it."""

from __future__ import annotations

from collections.abc import Sequence

from cleave.describe import ColumnFate, Description, Leakage, LocalOutput, Parameters, Requests
from cleave.pipeline import Options
from cleave.quantities import counted
from cleave.sql.finish.result import FAULTS_ONLY
from cleave.sql.plan import LocalPlan
from cleave.store.cellwise import StoredPlan
from cleave.store.manifest import Object
from cleave.store.pruning import cells_of, cells_of_whole
from cleave.store.rows import Read
from cleave.store.scan import plain_columns
from cleave.store.stored import Stored
from cleave.store.works import columns_read
from cleave.table.schema import Kind
from cleave.ways import Way

SCANNED = (
    "which measures are added up, and which positions of the rows' ciphertexts, whose order is secret and random, are "
    "in one group together, of this question and of others: sets of positions intersect (--no-scan has rows fetched "
    "instead)"
)
SELECTED = "WHERE, keys, filters and aggregates over plain columns, and which of its rows are in which group"
_SQL = "WHERE, GROUP BY and the plain aggregates as SQL"
_SILENT = "neither the question nor any name or value; when it was read, and under whose credentials"
_WHEN = "when it was asked, and under whose credentials"
_UNASKED = ("nothing: it is not asked",)


def describe_stored(
    stored: Stored,
    plan: StoredPlan | LocalPlan,
    options: Options,
    ways: Sequence[Way],
    *,
    services: bool,
) -> Description:
    """Reads the list of cells, and where rows of some cells would be fetched the indexes that tell where they lie."""
    manifest = stored.manifest
    held = {segment.plain.name for segment in manifest.segments if segment.plain}
    reads: list[Read] = [Read(each, each.bytes) for each in _totals(stored, plan)]
    fetched, lessons = _fetched(stored, plan, options, reads)
    totals: set[str] = set()
    scans = isinstance(plan, StoredPlan) and plan.scans
    if isinstance(plan, StoredPlan):
        totals = {manifest.measures[number].name for source in plan.sources for number, _ in source.terms}
        totals |= set() if scans else {*plan.selecting}
        if plan.parts and not scans:
            lessons.insert(0, "that totals are read, and which of the expressions that are kept they are of")
        if plan.scans:
            lessons.insert(0, SCANNED)
        elif services and (sums := stored.sums_asked(plan.parts)):
            lessons.append(
                f"links to the totals of {counted(len(manifest.segments), 'segment')}, of whose ciphertexts it makes "
                f"{sums}: about how many cells there are; the key's id, the profile"
            )
    served: Sequence[str] = ()
    if isinstance(plan, StoredPlan):
        served = plain_columns(stored, plan) if scans else plan.plain_columns
    objects = {each.object.name for each in reads}
    told = ["that its plain columns are fetched"] if objects & held else []
    if isinstance(plan, StoredPlan) and (plan.asks_plain or scans):
        told += [
            f"links to the plain columns, of which it reads {', '.join(served) or 'none'}",
            SELECTED if scans else f"{_SQL}; which rows are selected and in which group",
        ]
        asked = [each.plain for each in manifest.segments if each.plain and each.plain.name not in objects]
        reads += [Read(each, each.bytes) for each in asked]
    plain = [each for each in reads if each.object.name in held]
    sensitive = [each for each in reads if each.object.name not in held]
    answered = "rows added up by the service" if scans else "answered from its totals"
    fates = dict.fromkeys(totals, answered) | dict.fromkeys(fetched, "fetched, and read here")
    fates |= {name: "read by the plain service" for name in served if name not in fates}
    profile = stored.profile
    return Description(
        table=manifest.table,
        rows=manifest.rows,
        selected_rows=None,
        groups=None,
        local=tuple(LocalOutput(each.name, each.reason) for each in plan.outputs if each.source == "local"),
        hint=plan.hint if isinstance(plan, LocalPlan) else "",
        columns=tuple(
            ColumnFate(each.name, str(each.kind), each.type, fates.get(each.name, "not read"), "none", 0)
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
            lanes=len(sensitive),
            keys_uploaded=0,
        ),
        plain=Requests(len(plain), 0, sum(each.bytes for each in plain)),
        sensitive=Requests(len(sensitive), 0, sum(each.bytes for each in sensitive)),
        leakage=Leakage(
            (*told, _WHEN if len(told) > 1 else _SILENT) if told else _UNASKED,
            (*(lessons or ["that the table's head and what is sealed of it are read"]), _SILENT),
        ),
        places=stored.places,
        ways=tuple(ways),
        dollars=next((way.cost.dollars for way in ways if way.taken and way.cost), 0.0),
        trust=f"sums are {FAULTS_ONLY}" if scans else "",
    )


def orders(stored: Stored) -> list[Object]:
    """What a scan reads here."""
    return [segment.scan.order for segment in stored.manifest.segments if segment.scan is not None]


def _totals(stored: Stored, plan: StoredPlan | LocalPlan) -> list[Object]:
    if not isinstance(plan, StoredPlan):
        return []
    needed = orders(stored) if plan.scans else stored.total_objects(plan.parts)
    return [*needed, *stored.secret_to_read] if needed else []


def _fetched(
    stored: Stored, plan: StoredPlan | LocalPlan, options: Options, reads: list[Read]
) -> tuple[tuple[str, ...], list[str]]:
    """The columns whose rows are read, added to `reads`, and what that tells."""
    if isinstance(plan, StoredPlan):
        if not plan.fetches:
            return (), []
        columns, cells = plan.fetched_columns, None if options.pad else cells_of(stored, plan.where)
        ordered = not all(each.exact for each in plan.local)
    else:
        columns, ordered = tuple(columns_read(stored, plan)), True
        cells = None if options.pad else cells_of_whole(stored, plan)
    reads += stored.rows.reads(stored.rows.needed(columns, ordered=ordered), cells)
    if cells is None:
        return columns, ["which of the stored columns are fetched, all of their rows"]
    return columns, [
        "which of the stored columns are fetched, and which of their blocks of 65,536 rows: those that the condition "
        "on plain by columns leaves (--pad reads all)"
    ]
