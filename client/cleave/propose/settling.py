"""Apply the kinds that a person gives to columns, by name or pattern, in a proposal or in a written schema."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from cleave.propose.bounds import with_bounds
from cleave.propose.trial import as_text
from cleave.table.inputs import Names, open_inputs
from cleave.table.progress import Progress
from cleave.table.schema import Column, CsvDialect, Kind, Schema, unfit
from cleave.table.stream import open_table
from cleave.table.table import Table
from cleave.table.types import is_number
from cleave_shared.errors import InputError

_PATTERN = re.compile(r"[*?\[]")
_DECIDED = re.compile(r"decided: \w+; (proposed .*)", re.DOTALL)
_SHOWN = 20  # columns that a hint names


def settled(columns: Sequence[Column], kinds: Mapping[str, Kind], shown: object, *, accept: bool) -> tuple[Column, ...]:
    """Return `columns` with the kinds that a person chose by name or pattern. With `accept`, no column stays unsure.

    A name goes before a pattern. Raises InputError for a name that no column has, for two kinds of one column, and for
    a kind that a type cannot have; the message names the file as `shown`.
    """
    chosen = _by_column(kinds, [column.name for column in columns], shown)
    return tuple(_settled(column, chosen.get(column.name), shown, accept=accept) for column in columns)


def settle(
    names: Names, schema: Schema, kinds: Mapping[str, Kind], *, accept: bool, progress: Progress | None = None
) -> tuple[Column, ...]:
    """Return the columns of a written schema that change.

    Numbers that are now computed on get bounds from the values of the files `names`, which are read only for this.
    Raises InputError as `settled` does, and for a file that cannot be read.
    """
    shown = ", ".join(map(str, names)) if isinstance(names, list) else names
    before, after = schema.columns, settled(schema.columns, kinds, shown, accept=accept)
    changed = [new for new, old in zip(after, before, strict=True) if new != old]
    bare = [each for each in changed if is_number(each.type) and each.lower is None and each.upper is None]
    if not any(each.kind in (Kind.PLAIN, Kind.ENCRYPTED) for each in bare):
        return tuple(changed)
    inputs = open_inputs(names, schema.dialect)
    with open_table(inputs, as_text([each.name for each in before], schema.dialect), progress) as text:
        stated = {each.name: each for each in with_bounds(text, bare, schema.dialect)}
    return tuple(stated.get(each.name, each) for each in changed)


def choices(text: Table, columns: Sequence[Column], dialect: CsvDialect) -> dict[str, dict[Kind, Column]]:
    """Return each proposed column as it would be with each kind that its type allows, by name and kind.

    `columns` have no bounds yet; `text` is the file as text.
    """
    chosen: dict[str, dict[Kind, Column]] = {column.name: {} for column in columns}
    for kind in Kind:
        able = [_settled(each, kind, "", accept=False) for each in columns if not unfit(kind, each.type)]
        for column in with_bounds(text, able, dialect):
            chosen[column.name][kind] = column
    return chosen


def _by_column(kinds: Mapping[str, Kind], names: Sequence[str], shown: object) -> dict[str, Kind]:
    by_name: dict[str, Kind] = {}
    by_pattern: dict[str, tuple[str, Kind]] = {}
    folded = {name.lower(): name for name in names}
    for given, kind in kinds.items():
        if given.lower() in folded:
            by_name[folded[given.lower()]] = kind
            continue
        matching = [name for name in names if _PATTERN.search(given) and fnmatchcase(name.lower(), given.lower())]
        if not matching:
            more = ", ..." if len(names) > _SHOWN else ""
            problem = "no column matches" if _PATTERN.search(given) else "there is no column"
            raise InputError(
                f"{shown}: {problem} {given!r} to give a kind to",
                hint=f"the file names {', '.join(names[:_SHOWN])}{more}",
            )
        for name in matching:
            other, before = by_pattern.setdefault(name, (given, kind))
            if before is not kind:
                raise InputError(f"{shown}, column {name!r}: {other!r} makes it {before}, {given!r} makes it {kind}")
    return {name: kind for name, (_, kind) in by_pattern.items()} | by_name


def _settled(column: Column, kind: Kind | None, shown: object, *, accept: bool) -> Column:
    if kind is None:
        if not (accept and column.unsure):
            return column
        return replace(column, unsure=False, reason=f"{column.reason}; accepted")
    if problem := unfit(kind, column.type):
        raise InputError(f"{shown}, column {column.name!r}: {problem}")
    before = _DECIDED.fullmatch(column.reason)
    proposed = before[1] if before else f"proposed {column.kind}: {column.reason}"
    return replace(column, kind=kind, unsure=False, reason=f"decided: {kind}; {proposed}")
