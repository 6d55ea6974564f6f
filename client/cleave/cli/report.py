"""The answer of a query and the plan of one, for people and as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from decimal import Decimal
from fractions import Fraction
from types import NoneType
from typing import TYPE_CHECKING, Any

from cleave import figures
from cleave.cli.console import Heading, table
from cleave.printable import printable
from cleave.quantities import counted, sized
from cleave.sql.plan import reasons_of
from cleave.table.types import is_shown_as_it_is

if TYPE_CHECKING:
    from cleave.describe import ColumnFate, Description, EncryptedColumn, Takes
    from cleave.model.ways import Way
    from cleave.pipeline import Result, Usage
    from cleave.sql.finish import ResultTable
    from cleave.sql.plan import Output

_WIDE = 120  # characters; about what a terminal shows in one line
_FAR = 40  # digits before a decimal is written with an exponent
_SERVICES = ("plain", "sensitive")
_DESTINATIONS = {"plain": "plain service", "sensitive": "sensitive service", "none": "nobody"}


def answer_text(answer: Result) -> str:
    """The rejoined table."""
    headings, rows = cells(answer.result)
    shown = table(headings, rows)
    if len(rows) == 1 and max(map(len, shown.splitlines())) > _WIDE:  # one row of many figures reads better downwards
        figure = [Heading("column"), Heading("from"), Heading("value", justify="right")]
        return table(
            figure, [[heading.name, heading.note, cell] for heading, cell in zip(headings, rows[0], strict=True)]
        )
    return shown


def cells(result: ResultTable) -> tuple[list[Heading], list[list[str]]]:
    """Headings and cells as people read them, undecided ones marked."""
    headings = [
        Heading(column.name, _origin(result, place), "left" if _is_text(column, type_) else "right")
        for place, (column, type_) in enumerate(zip(result.columns, result.types, strict=True))
    ]
    rows = [[_cell(result, row, place) for place in range(len(result.columns))] for row in range(len(result.rows))]
    if any(result.doubts):
        headings.append(Heading("row"))
        rows = [[*shown, _doubt(result.doubts_of(row))] for row, shown in enumerate(rows)]
    return headings, rows


def _origin(result: ResultTable, place: int) -> str:
    return f"{result.columns[place].source}{', scanned' if result.is_scanned(place) else ''}"


def _is_text(column: Output, type_: str) -> bool:
    return column.source == "key" or (column.source == "local" and not is_shown_as_it_is(type_))


def _cell(result: ResultTable, row: int, place: int) -> str:
    value = result.rows[row][place]
    if result.columns[place].source != "encrypted":
        return figures.plain(value)
    bound, exact = result.bounds[row][place], result.exact[row][place]
    return figures.encrypted(value, bound, exact, undecided=result.is_undecided(row, place))


def _doubt(clauses: Sequence[str]) -> str:
    return f"undecided: {', '.join(clauses)}" if clauses else ""


def answer_json(answer: Result, *, raw: bool = False) -> str:
    """The shape of `cleave query --json`. Decimals are numbers with all their digits; NaN and infinities are text.

    No digit beyond its bound is written, and the bound covers that, as in the table; `raw` writes all digits.
    """
    result = answer.result
    published = [
        [
            (value, bound) if raw else figures.published(value, bound, exact)
            for value, bound, exact in zip(*row, strict=True)
        ]
        for row in zip(result.rows, result.bounds, result.exact, strict=True)
    ]
    return dump(
        {
            "columns": [
                {"name": column.name, "source": column.source}
                | ({"reason": column.reason} if column.reason else {})
                | ({"scanned": True} if result.is_scanned(place) else {})
                for place, column in enumerate(result.columns)
            ],
            "rows": [[value for value, _ in row] for row in published],
            "bounds": [[bound for _, bound in row] for row in published],
            "exact": result.exact,
            "undecided": {
                "cells": [
                    [result.is_undecided(row, place) for place in range(len(result.columns))]
                    for row in range(len(result.rows))
                ],
                "rows": [result.doubts_of(row) for row in range(len(result.rows))],
            },
            "warnings": result.warnings,
            **({"trust": result.trust} if result.trust else {}),
            "checks": answer.checks,
            "plan": {name: fact for name, fact in asdict(answer.usage).items() if fact is not None},
            "timings": answer.timings,
        }
    )


def plan_json(plan: Description) -> str:
    facts = asdict(plan)
    facts["requests"] = {service: facts.pop(service) for service in _SERVICES}
    facts["leakage"] = {f"{service} service": facts["leakage"][service] for service in _SERVICES}
    return dump(facts)


def plan_text(plan: Description) -> str:
    """What `cleave.describe.describe_plan` found, section by section."""
    cut = ""
    if plan.selected_rows is not None and plan.groups is not None:
        cut = f", {plan.selected_rows:,} selected, {counted(plan.groups, 'group')}"
        cut += f" for {plan.sets} sets of keys" if plan.sets > 1 else ""
    sections = [f"{printable(plan.table)}: {counted(plan.rows, 'row')}{cut}{_resting(plan)}"]
    if plan.local:
        hint = [f"for the services instead: {plan.hint}"] if plan.hint else []
        lines = "\n".join(
            f"  - {printable(line)}" for line in [*reasons_of((each.name, each.reason) for each in plan.local), *hint]
        )
        how = "over rows that are fetched" if plan.places else "nothing of it sent"
        sections.append(f"Answered on this machine (local), {how}\n{lines}")
    if plan.ways:
        sections.append("Ways to answer it, and about what each takes\n" + _indented(_way_table(plan.ways)))
    if plan.takes is not None:
        sections.append(_takes(plan.takes, stored=plan.places is not None))
    if plan.trust:
        sections.append(f"How far it can be trusted\n  {plan.trust}")
    sections.append("Columns\n" + _indented(_column_table(plan.columns, sent=plan.places is None)))
    if plan.encrypted:
        sections.append("Encrypted columns made for this query\n" + _indented(_encrypted_table(plan.encrypted)))
    profile = plan.profile
    if profile is None:
        return "\n\n".join([*sections, "Neither a key nor a service is needed: nothing is sent."])
    rows = "" if plan.places else f"; {counted(profile.lanes, 'encrypted value')} per row"
    sections.append(
        f"Profile {profile.name}\n"
        f"  ring degree {profile.degree}, {profile.modulus_bits} bits of modulus, at least "
        f"{profile.security_bits} bits of estimated security\n"
        f"  a total may take {profile.capacity_bits} bits{rows}; {counted(profile.keys_uploaded, 'key')} uploaded"
    )
    sections.append(_requests(plan))
    party = "store" if plan.places else "service"
    for service, lessons in zip(_SERVICES, (plan.leakage.plain, plan.leakage.sensitive), strict=True):
        lines = "\n".join(f"  - {printable(lesson)}" for lesson in lessons)
        sections.append(f"What the {service} {party} will see\n{lines}")
    return "\n\n".join(sections)


def _takes(takes: Takes, *, stored: bool) -> str:
    where = "asking the services" if takes.cloud else "with the services in this process"
    dollars = (
        f"; about ${takes.dollars:.1e}{'' if stored else ' with both services on Lambda'}" if takes.dollars else ""
    )
    return (
        f"About {takes.seconds:.2g} s {where}, and {sized(takes.memory)} of memory{dollars}\n"
        f"  by single operations' timings: {printable(takes.timings)}"
    )


def _resting(plan: Description) -> str:
    if plan.places is None:
        return ". Nothing has been sent."
    return f", stored at {' and '.join(map(printable, dict.fromkeys(plan.places)))}. No row has been read."


def _requests(plan: Description) -> str:
    plain, sensitive = plan.plain, plan.sensitive
    if plan.places is not None:
        return (
            "Read\n"
            f"  of the plain store      {counted(plain.count, 'object')}, {sized(plain.bytes_down or 0)}\n"
            f"  of the sensitive store  {counted(sensitive.count, 'object')}, {sized(sensitive.bytes_down or 0)}"
        )
    return (
        "Requests\n"
        f"  plain service      {counted(plain.count, 'request')}, {sized(plain.bytes_up)} up\n"
        f"  sensitive service  {counted(sensitive.count, 'request')}, {sized(sensitive.bytes_up)} up, "
        f"about {sized(sensitive.bytes_down or 0)} down"
        + (f"\n  made ahead         {counted(plan.made_ahead, 'ciphertext')} (cleave warm)" if plan.made_ahead else "")
    )


def footer(answer: Result, seconds: float) -> str:
    """On how far to trust an answer, what was computed here and why, and what it took."""
    passed = [name for name, outcome in answer.checks.items() if outcome == "passed"]
    usage = answer.usage
    lines = []
    if usage.suppression:
        lines.append(usage.suppression)
    for reason in reasons_of((each.name, each.reason) for each in answer.result.columns):
        lines.append(f"{local_words(usage)}: {printable(reason)}")
    if answer.result.trust:
        lines.append(printable(answer.result.trust))
    checked = f"{counted(len(passed), 'check')} passed ({', '.join(passed)})" if passed else "Nothing was sent"
    asked = f"{counted(usage.requests, 'request')}, {sized(usage.bytes_sent)} up, {sized(usage.bytes_received)} down"
    if usage.objects_read is not None:
        read = f"{counted(usage.objects_read, 'object')} read, {sized(usage.bytes_read or 0)}"
        asked = f"{read}; {asked}" if usage.requests else f"{read}; no service asked"
    if usage.chunks_made_ahead:
        asked += f", {usage.chunks_made_ahead:,} of {counted(usage.chunks, 'ciphertext')} made ahead"
    lines.append(f"{checked}. {asked}, {seconds:.2f} s.")
    return "\n".join(lines)


def local_words(usage: Usage) -> str:
    """What is true of outputs that this machine computed, other than from groups alone."""
    return "local, nothing of it sent" if usage.objects_read is None else "local, over rows fetched and decrypted here"


def _column_table(columns: Iterable[ColumnFate], *, sent: bool) -> str:
    headings = [Heading(name) for name in ("column", "kind", "type", "fate")]
    if not sent:
        return table(headings, [[each.name, each.kind, each.type, each.fate] for each in columns])
    return table(
        [*headings, Heading("to"), Heading("bytes", justify="right")],
        [
            [
                column.name,
                column.kind,
                column.type,
                column.fate,
                _DESTINATIONS[column.destination],
                f"{column.bytes:,}",
            ]
            for column in columns
        ],
    )


def _way_table(ways: Iterable[Way]) -> str:
    figures = ("reads", "requests", "seconds", "dollars")
    headings = [Heading("way"), *(Heading(name, justify="right") for name in figures), Heading("")]
    return table(headings, [_way(each) for each in ways])


def _way(way: Way) -> list[str]:
    cost, told = way.cost, printable(f"{'taken: ' if way.taken else ''}{way.reason}")
    if cost is None:
        return [way.name, "", "", "", "", f"not possible: {told}"]
    dollars = f"{cost.dollars:.1e}" if cost.dollars else "0"
    return [way.name, sized(cost.bytes), f"{cost.requests:,}", f"{cost.seconds:.2g}", dollars, told]


def _encrypted_table(columns: Iterable[EncryptedColumn]) -> str:
    headings = [
        Heading("of"),
        Heading("type"),
        Heading("total of"),
        Heading("scale", justify="right"),
        Heading("error of a total", justify="right"),
    ]
    return table(
        headings,
        [
            [
                column.argument,
                column.type,
                column.moment,
                f"2^{column.log2_scale}",
                "exact" if column.exact else f"at most {column.bound:.1e}",
            ]
            for column in columns
        ],
    )


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())


def dump(value: Any) -> str:
    """JSON as the standard has it: json.dumps would lose digits of decimals and write NaN, which JSON does not have."""
    if (write := _BY_TYPE.get(type(value))) is not None:
        return write(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(str(key))}: {dump(item)}" for key, item in value.items()) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return _dump_list(value)
    if isinstance(value, Fraction):
        return dump(value.numerator) if value.denominator == 1 else dump(float(value))
    return json.dumps(figures.plain(value))


def _dump_list(value: Sequence[Any]) -> str:
    return "[" + ", ".join(map(dump, value)) + "]"


def _dump_float(value: float) -> str:
    return repr(value) if math.isfinite(value) else json.dumps(figures.plain(value))


def _dump_decimal(value: Decimal) -> str:
    if not value.is_finite():
        return json.dumps(figures.plain(value))
    return f"{value:f}" if abs(value.adjusted()) < _FAR else str(value).replace("E+", "e").replace("E", "e")


# An answer has as many of these as it has cells, several times over.
_BY_TYPE: dict[type, Callable[[Any], str]] = {
    NoneType: lambda _: "null",
    bool: lambda value: "true" if value else "false",
    int: repr,
    float: _dump_float,
    Decimal: _dump_decimal,
    str: json.dumps,
    list: _dump_list,
    tuple: _dump_list,
}
