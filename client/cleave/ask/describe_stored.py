"""Describe a question over stored tables: the ways to answer it, what they read, and what each store learns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cleave.ask.describe import UNASKED, Description, Leakage, Requests, description
from cleave.ask.plan import AnswerPlan, Considered
from cleave.ask.way import Lesson, Site
from cleave.finish.result import FAULTS_ONLY

_SILENT = Lesson(
    "neither the query nor any name or value; when it was read, and under whose credentials",
    "no query, name or value; when, and under whose credentials",
)
_WHEN = "when the query ran, and under whose credentials"


def describe_stored(
    site: Site, plan: AnswerPlan, considered: Sequence[Considered] = (), *, pad: bool = False
) -> Description:
    """Describe a plan over stored tables.

    This reads the cell lists and, if rows of only some cells would be fetched, the indexes that locate them.
    """
    tables = list(site.tables.values())
    work = plan.work(site, pad=pad)
    fetched = {each.object.name for each in work.reads}
    read = [(each.object, each.bytes) for each in work.reads]
    read += [(each, each.bytes) for each in work.linked if each.name not in fetched]
    halves = {each.object.name for each in work.reads if each.is_plain}
    if work.linked:
        halves |= {each.plain.name for table in tables for each in table.manifest.segments if each.plain}
    plain = [size for which, size in read if which.name in halves]
    sensitive = [size for which, size in read if which.name not in halves]
    disclosed = [each.disclosures(site, pad=pad) for each in plan.ways]
    to_plain = [text for each in disclosed for text in each.plain]
    to_sensitive = [text for each in disclosed for text in each.sensitive]
    when = _WHEN if any(each.queried for each in disclosed) else _SILENT

    def shown(table: str, column: str) -> str:
        return f"{table}.{column}" if len(tables) > 1 else column

    return description(
        ", ".join(each.manifest.table for each in tables),
        sum(each.manifest.rows for each in tables),
        [
            replace(column, name=shown(each.manifest.table, column.name))
            for each in tables
            for column in site.schema_of(each).columns
        ],
        plan.cut,
        {shown(*column): use for way in plan.ways for column, use in way.uses(site).items()},
        "not read",
        profile=site.stored.profile,
        lanes=len(sensitive),
        plain=Requests(len(plain), 0, sum(plain)),
        sensitive=Requests(len(sensitive), 0, sum(sensitive)),
        leakage=Leakage(
            (*to_plain, when) if to_plain else (UNASKED,),
            (*(to_sensitive or ["that the table's head and what is sealed of it are read"]), _SILENT),
        ),
        places=site.stored.tables.places,
        ways=tuple(considered),
        dollars=next((each.cost.dollars for each in considered if each.taken and each.cost), 0.0),
        trust=f"sums are {FAULTS_ONLY}" if plan.scanned else "",
    )
