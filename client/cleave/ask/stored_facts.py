"""Which way a question over stored tables is answered, what that reads, and what each store learns of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from cleave.ask.describe import UNASKED, Description, Fate, Leakage, Requests, description
from cleave.ask.source import Options
from cleave.ask.works import Fetch, Way, answers_of, fetches
from cleave.finish.result import FAULTS_ONLY
from cleave.sql.plan import LocalPlan
from cleave.store.manifest import Object
from cleave.store.rows import Read
from cleave.sums.cellwise import StoredPlan
from cleave.sums.scan import plain_columns
from cleave.sums.stored import Stored
from cleave.table.schema import Column
from cleave.text.quantities import counted

SCANNED = (
    "which measures are added up, and which positions of the rows' ciphertexts, whose order is secret and random, are "
    "in one group together, of this query and of others: sets of positions intersect (--no-scan has rows fetched "
    "instead)"
)
SELECTED = "WHERE, keys, filters and aggregates over plain columns, and which of its rows are in which group"
_SQL = "WHERE, GROUP BY and the plain aggregates as SQL"
_SILENT = "neither the query nor any name or value; when it was read, and under whose credentials"
_WHEN = "when the query ran, and under whose credentials"
_FETCHED = "fetched, and read here"


def describe_stored(
    tables: Mapping[str, Stored], plan: StoredPlan | LocalPlan, options: Options, ways: Sequence[Way], *, services: bool
) -> Description:
    """Describe `plan`, which names `tables`, by their names in lower case.

    Reads the lists of cells, and where rows of some cells would be fetched the indexes that say where they are stored.
    """
    stored = tables[plan.table.lower()]
    segments = [segment for each in tables.values() for segment in each.manifest.segments]
    held = {segment.plain.name for segment in segments if segment.plain}
    fetched = fetches(tables, plan, pad=options.pad)
    reads = [each for fetch in fetched for each in fetch.reads()]
    lessons = _lessons(fetched)
    fates: dict[str, Fate] = {}
    plain_lessons: list[str] = []
    scans = isinstance(plan, StoredPlan) and plan.scans
    if isinstance(plan, StoredPlan):
        reads = [*(Read(each, each.bytes) for each in _totals(stored, plan)), *reads]
        lessons = [*_lessons_of_sums(stored, plan, services=services), *lessons]
        served = plain_columns(stored, plan) if scans else plan.plain_columns
        asks_plain = plan.asks_plain or scans
        if {each.object.name for each in reads} & held:
            plain_lessons.append("that its plain columns are fetched")
        if asks_plain:
            plain_lessons += [
                f"links to the plain columns; it reads {', '.join(served) or 'none'}",
                SELECTED if scans else f"{_SQL}; which rows are selected and in which group",
            ]
            names = {each.object.name for each in reads}
            halves = [each.plain for each in segments if each.plain and each.plain.name not in names]
            reads += [Read(each, each.bytes) for each in halves]
        fates |= dict.fromkeys(served, ("read by the plain service", "none", 0))
        answered = "rows added up by the service" if scans else "answered from its totals"
        fates |= dict.fromkeys(_summed(stored, plan), (answered, "none", 0))
    else:
        for each in answers_of(plan):
            of = tables[each.table.lower()]
            reads = [*(Read(which, which.bytes) for which in _totals(of, each)), *reads]
            lessons = [*_lessons_of_sums(of, each, services=services), *lessons]
            summed = sorted(_summed(of, each))
            fates |= {_shown(tables, each.table, name): ("answered from its totals", "none", 0) for name in summed}
        if {each.object.name for each in reads} & held:
            plain_lessons.append("that its plain columns are fetched")
    fates |= {_shown(tables, each.name, name): (_FETCHED, "none", 0) for each in fetched for name in each.columns}
    plain = [each for each in reads if each.object.name in held]
    sensitive = [each for each in reads if each.object.name not in held]
    return description(
        ", ".join(each.manifest.table for each in tables.values()),
        sum(each.manifest.rows for each in tables.values()),
        _columns(tables),
        plan,
        fates,
        "not read",
        profile=stored.profile,
        lanes=len(sensitive),
        plain=Requests(len(plain), 0, sum(each.bytes for each in plain)),
        sensitive=Requests(len(sensitive), 0, sum(each.bytes for each in sensitive)),
        leakage=Leakage(
            (*plain_lessons, _WHEN if len(plain_lessons) > 1 else _SILENT) if plain_lessons else (UNASKED,),
            (*(lessons or ["that the table's head and what is sealed of it are read"]), _SILENT),
        ),
        places=stored.tables.places,
        ways=tuple(ways),
        dollars=next((way.cost.dollars for way in ways if way.taken and way.cost), 0.0),
        trust=f"sums are {FAULTS_ONLY}" if scans else "",
    )


def _columns(tables: Mapping[str, Stored]) -> list[Column]:
    """Columns of all tables, with the table's name before theirs where there are several."""
    return [
        replace(column, name=_shown(tables, stored.manifest.table, column.name))
        for stored in tables.values()
        for column in stored.schema.columns
    ]


def _shown(tables: Mapping[str, Stored], table: str, column: str) -> str:
    return f"{tables[table.lower()].manifest.table}.{column}" if len(tables) > 1 else column


def _summed(stored: Stored, plan: StoredPlan) -> set[str]:
    """Columns whose totals, or sums of rows, answer it."""
    summed = {stored.manifest.measures[number].name for source in plan.sources for number, _ in source.terms}
    return summed if plan.scans else summed | {*plan.selecting}


def _totals(stored: Stored, plan: StoredPlan) -> list[Object]:
    """Return the bytes that are read here for sums."""
    orders = [segment.scan.order for segment in stored.manifest.segments if segment.scan is not None]
    needed = orders if plan.scans else stored.objects(plan.parts)
    return [*needed, *stored.secret_to_read] if needed else []


def _lessons_of_sums(stored: Stored, plan: StoredPlan, *, services: bool) -> list[str]:
    """List what the sensitive store or service learns from sums."""
    if plan.scans:
        return [SCANNED]
    lessons = []
    if plan.parts:
        lessons.append("that totals are read, and which of the expressions that are kept they are of")
    if services and (sums := stored.ciphertexts(plan.parts)):
        lessons.append(
            f"links to the totals of {counted(len(stored.manifest.segments), 'segment')}, of whose ciphertexts it "
            f"makes {sums}: about how many cells there are; the key's id, the profile"
        )
    if len(stored.parties) > 1:
        lessons.append("which segments are one contributor's")
    return lessons


def _lessons(fetched: Sequence[Fetch]) -> list[str]:
    """List what the stores learn from rows that are fetched."""
    if not fetched:
        return []
    which = "which of the stored columns are fetched"
    if all(each.cells is None for each in fetched):
        return [f"{which}, all of their rows"]
    return [
        f"{which}, and which of their blocks of 65,536 rows: those that the condition on plain by columns leaves "
        "(--pad reads all)"
    ]
