"""Plan of a query as text, in short or in full, and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from cleave.shown.answer import dump
from cleave.sql.plan import reasons_of
from cleave.text.printable import printable
from cleave.text.quantities import counted, sized
from cleave.text.tabular import GAP, Heading, table

if TYPE_CHECKING:
    from cleave.ask.describe import ColumnFate, Description, EncryptedColumn
    from cleave.ask.plan import Considered

_SERVICES = ("plain", "sensitive")
_DESTINATIONS = {"plain": "plain service", "sensitive": "sensitive service", "none": "no one"}


def plan_lines(plan: Description) -> str:
    """The short text: what leaves, who receives it, its size, what each party learns, the way, and a sentence
    to sign.
    """
    lines = [
        ("leaves", _leaves(plan)),
        ("to", _to(plan)),
        ("how much", _how_much(plan)),
        *_learned(plan),
        ("way", _way_taken(plan)),
        *([("groups", plan.threshold)] if plan.threshold else []),
        ("in short", _in_short(plan)),
    ]
    return "\n".join(f"{name:<10}{printable(line)}" for name, line in lines)


def _sent(plan: Description, destination: str) -> list[str]:
    return [each.name for each in plan.columns if each.destination == destination]


def _leaves(plan: Description) -> str:
    if plan.places is not None:
        return "no value of the table: its rows were stored before; requests leave, with SQL over plain columns if any"
    if plan.profile is None:
        return "nothing"
    clear, encrypted = (_sent(plan, service) for service in _SERVICES)
    parts = [f"encrypted: {', '.join(encrypted)}"] if encrypted else []
    parts += [f"in the clear: {', '.join(clear)}"] if clear else []
    if not parts:
        parts = ["encrypted counts of rows"] if plan.sensitive.count else ["no column"]
    return "; ".join(parts)


def _to(plan: Description) -> str:
    if plan.places is not None:
        places = " and ".join(dict.fromkeys(plan.places))
        return f"{places}: sensitive objects and plain columns of {plan.table!r}, {counted(plan.rows, 'row')}"
    requests = zip(_SERVICES, (plan.plain, plan.sensitive), strict=True)
    return " and ".join(f"the {service} service" for service, each in requests if each.count) or "no one"


def _how_much(plan: Description) -> str:
    dollars = f"; {_dollars(plan)}" if plan.dollars else ""
    if plan.places is not None:
        read = (
            f"{counted(each.count, 'object')}, {sized(each.bytes_down or 0)} {kind}"
            for kind, each in (("plain", plan.plain), ("sensitive", plan.sensitive))
        )
        return f"reads {' and '.join(read)}{dollars}"
    requests, sent = plan.plain.count + plan.sensitive.count, plan.plain.bytes_up + plan.sensitive.bytes_up
    if not requests:
        return "0 requests"
    down = plan.sensitive.bytes_down or 0
    return f"{counted(requests, 'request')}, {sized(sent)} up, about {sized(down)} of sums down{dollars}"


def _learned(plan: Description) -> list[tuple[str, str]]:
    """One line per fact that a party learns. Its name is on the first."""
    party = "store" if plan.places else "service"
    names = [f"{service} {party}" for service in _SERVICES]
    lines = [
        (name if number == 0 else "", getattr(lesson, "short", lesson))
        for name, service in zip(names, _SERVICES, strict=True)
        for number, lesson in enumerate(getattr(plan.leakage, service))
    ]
    width = max(map(len, names)) + GAP
    return [("" if number else "learned", f"{name:<{width}}{text}") for number, (name, text) in enumerate(lines)]


def _way_taken(plan: Description) -> str:
    local = "; ".join(reasons_of((each.name, each.reason) for each in plan.local))
    taken = next((f"{way.name}: {way.reason}" for way in plan.ways if way.taken), "")
    if not taken:
        remote = "sums of ciphertexts that are made for this query" if plan.sensitive.count else "the plain service"
        taken = "this machine" if plan.profile is None else remote
    return f"{taken}; local: {local}" if local else taken


def _in_short(plan: Description) -> str:
    protected = [each.name for each in plan.columns if each.kind != "plain" and not each.fate.startswith("not read")]
    names = ", ".join(protected) or "a protected column"
    if plan.profile is None and plan.places is None:
        return "Nothing leaves this machine."
    if plan.places is not None:
        return (
            f"No value of {names} can be read outside this machine; plain columns are stored in the clear, and the "
            "stores learn what is read."
        )
    clear = _sent(plan, "plain")
    what = f"the plain service sees {', '.join(clear)}" if clear else "no column is sent in the clear"
    return f"No value of {names} leaves this machine unencrypted; {what}."


def _dollars(plan: Description) -> str:
    lambda_ = "" if plan.places else " with both services on Lambda"
    return f"${plan.dollars:.1e} at list price{lambda_}, without the functions' time"


def plan_json(plan: Description) -> str:
    facts = asdict(plan)
    facts["requests"] = {service: facts.pop(service) for service in _SERVICES}
    facts["leakage"] = {f"{service} service": facts["leakage"][service] for service in _SERVICES}
    return dump(facts)


def plan_text(plan: Description) -> str:
    """The full text, section by section."""
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
        how = "over what is fetched" if plan.places else "nothing of it sent"
        sections.append(f"Answered on this machine (local), {how}\n{lines}")
    if plan.ways:
        sections.append("Ways to answer it, and what each reads\n" + _indented(_way_table(plan.ways)))
    if plan.threshold:
        sections.append(f"What is not shown\n  {printable(plan.threshold)}")
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
    if plan.dollars:
        sections.append(_dollars(plan))
    return "\n\n".join(sections)


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
    )


def _column_table(columns: Sequence[ColumnFate], *, sent: bool) -> str:
    headings = [Heading(name) for name in ("column", "kind", "type", "fate")]
    rows = [[each.name, each.kind, each.type, each.fate] for each in columns]
    if sent:
        headings += [Heading("to"), Heading("bytes", justify="right")]
        places = [[_DESTINATIONS[each.destination], f"{each.bytes:,}"] for each in columns]
        rows = [[*row, *place] for row, place in zip(rows, places, strict=True)]
    return table(headings, rows)


def _way_table(ways: Iterable[Considered]) -> str:
    figures = ("reads", "requests", "dollars")
    headings = [Heading("way"), *(Heading(name, justify="right") for name in figures), Heading("")]
    return table(headings, [_way(each) for each in ways])


def _way(way: Considered) -> list[str]:
    cost, reason = way.cost, printable(f"{'taken: ' if way.taken else ''}{way.reason}")
    if cost is None:
        return [way.name, "", "", "", f"not possible: {reason}"]
    dollars = f"{cost.dollars:.1e}" if cost.dollars else "0"
    return [way.name, sized(cost.bytes), f"{cost.requests:,}", dollars, reason]


def _encrypted_table(columns: Iterable[EncryptedColumn]) -> str:
    headings = [Heading(name) for name in ("of", "type", "total of")]
    headings += [Heading(name, justify="right") for name in ("scale", "error of a total")]

    def row(column: EncryptedColumn) -> list[str]:
        error = "exact" if column.exact else f"at most {column.bound:.1e}"
        return [column.argument, column.type, column.moment, f"2^{column.log2_scale}", error]

    return table(headings, [row(each) for each in columns])


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())
