"""A first schema for a table: its files sniffed, their columns typed, judged one by one, and settled by a person."""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from cleave.propose.bounds import with_bounds
from cleave.propose.detect import Facts, propose_kind
from cleave.propose.entity import propose_entity
from cleave.propose.infer import infer
from cleave.propose.sniff import skipping, sniff
from cleave.propose.trial import as_same_text, unreadable_rows, written_back
from cleave.table.csv_text import column_names, header_of
from cleave.table.duck import connect_reading, private
from cleave.table.inputs import Frame, Input, Names, open_inputs, table_name, unreadable
from cleave.table.lazy import NAME, ArrowStream, as_arrow
from cleave.table.progress import Progress
from cleave.table.schema import Column, CsvDialect, Kind, Schema
from cleave.table.stream import open_table
from cleave.table.table import Table
from cleave.table.typed_reading import columns_of, schema_type
from cleave.table.types import FLOATS, can_be_encrypted, is_number
from cleave_shared.errors import InputError


@dataclass(frozen=True, slots=True)
class Example:
    """Cells of a column, for a terminal only: two values, and a field with the other text that comes back of it."""

    values: tuple[str, ...]
    changed: tuple[str, str] | None


def propose(
    names: Names,
    kinds: Mapping[str, Kind] | None = None,
    *,
    accept: bool = False,
    reading: CsvDialect | None = None,
    table: str | None = None,
    progress: Progress | None = None,
    examples: dict[str, Example] | None = None,
) -> Schema:
    """A schema for the files of one table; `table`: what queries are to call it. `examples` is filled, by column.

    `kinds` and `accept`: what a person decided, see `settled`. Of `reading` lines to skip, null tokens, what becomes of
    censored numbers, sheet and flatten count.

    Raises InputError for a file that cannot be read or has no rows to judge by, and as `settled` does.
    """
    given = reading or CsvDialect()
    inputs = open_inputs(names, sheet=given.sheet, flatten=given.flatten)
    first = inputs[0]
    if len({each.sheet for each in inputs}) == 1:  # then the schema says which sheet it is of
        given = replace(given, sheet=first.sheet or given.sheet)
    name = table or (table_name(inputs) if len(inputs) > 1 else None)
    if first.parquet:
        with closing(connect_reading()) as connection:
            types = columns_of(connection, first)
        opened = open_table(inputs, as_text(tuple(types), CsvDialect()), progress)
        return _proposed(opened, inputs, types, kinds or {}, name, accept=accept, examples=examples)
    try:
        dialect = sniff(first, given)
    except (EOFError, OSError, zlib.error) as error:
        raise unreadable(first, error) from None
    try:
        opened = open_table(inputs, as_text(column_names(header_of(first, dialect), dialect), dialect), progress)
    except InputError as error:
        if error.message.startswith(f"{first}") and (advice := skipping(first, dialect)):
            raise InputError(error.message, hint=advice) from None
        raise
    return _proposed(opened, inputs, {}, kinds or {}, name, accept=accept, examples=examples)


def propose_frame(
    data: ArrowStream, kinds: Mapping[str, Kind] | None = None, *, accept: bool = False, table: str | None = None
) -> Schema:
    """Propose a schema for a pandas DataFrame, an Arrow table or any object with Arrow's stream interface.

    Raises InputError as `propose` does, and for a column of a type that a schema does not have.
    """
    frame = as_arrow(data)
    with private() as connection:
        types = columns_of(connection, frame)
    opened = open_table(frame, as_text(tuple(types), CsvDialect()), name=NAME)
    return _proposed(opened, [frame], types, kinds or {}, table, accept=accept)


def _proposed(
    opened: Table,
    sources: Sequence[Input | Frame],
    types: Mapping[str, str],
    kinds: Mapping[str, Kind],
    name: str | None,
    *,
    accept: bool,
    examples: dict[str, Example] | None = None,
) -> Schema:
    """`types`: by column, as the sources state them; of a CSV none."""
    source = sources[0]
    with opened as text:
        if text.rows == 0:
            raise InputError(
                f"{source}: has no rows, so there is nothing to judge its columns by",
                hint="add rows, or write the schema by hand",
            )
        dialect, facts = infer(text)
        if types:
            facts = [_typed(text, source, each, types[each.name], dialect) for each in facts]
        else:
            facts = [written_back(text, each, dialect) for each in facts]
        if examples is not None:
            examples |= {each.name: Example(tuple(dict.fromkeys(each.sample))[:2], each.changed) for each in facts}
        columns = [_column(fact) for fact in facts]
        for mend in (_sealed, _as_text):
            refused = unreadable_rows(text, sources, columns, dialect, typed=bool(types))
            columns = [
                mend(column, fact, count) if count else column
                for column, fact, count in zip(columns, facts, refused, strict=True)
            ]
        decided = settled(columns, kinds, source, accept=accept)
        privacy = propose_entity(decided)
        privacy = replace(privacy, unsure=False) if accept else privacy
        return Schema(with_bounds(text, decided, dialect), dialect, name, privacy=privacy)


def _typed(text: Table, source: Input | Frame, facts: Facts, type_: str, dialect: CsvDialect) -> Facts:
    """Take a column's type from a Parquet file or a frame; its text is examined as a CSV's is."""
    if type_ == "VARCHAR":
        return as_same_text(text, facts, dialect)
    return replace(facts, type=schema_type(type_, source, facts.name), note="", unit="", format=None)


def _sealed(column: Column, facts: Facts, count: int) -> Column:
    """A column of floats, `count` of which cannot be encrypted."""
    if facts.type not in FLOATS:
        return column
    reason = f"{column.reason}; {count:,} values are NaN or infinite, which cannot be encrypted: sealed"
    return replace(column, kind=Kind.SEALED, reason=reason, unsure=True)


def _as_text(_: Column, facts: Facts, count: int) -> Column:
    """The column as text, because its type cannot hold `count` of its values."""
    note = f"{count:,} value{'' if count == 1 else 's'} that {facts.type} cannot hold, kept as text"
    return _column(replace(facts, type="VARCHAR", note=note, unit="", format=None))


def _column(facts: Facts) -> Column:
    proposal = propose_kind(facts)
    reason = f"{proposal.reason}; {facts.note}" if facts.note else proposal.reason
    return Column(
        facts.name,
        proposal.kind,
        facts.type,
        reason=reason,
        unsure=proposal.unsure or facts.changed is not None,
        unit=facts.unit if is_number(facts.type) else "",
        format=facts.format,
    )


_PATTERN = re.compile(r"[*?\[]")
_DECIDED = re.compile(r"decided: \w+; (proposed .*)", re.DOTALL)
_SHOWN = 20  # columns that a hint names


def settled(columns: Sequence[Column], kinds: Mapping[str, Kind], shown: object, *, accept: bool) -> tuple[Column, ...]:
    """`columns` with the kinds that a person gave by name or pattern; with `accept` no other stays unsure.

    A name counts before a pattern. Raises InputError for one that is no column's, for two kinds of one column and for
    a kind that a type cannot have; `shown` is how it names the file.
    """
    chosen = _by_column(kinds, [column.name for column in columns], shown)
    return tuple(_settled(column, chosen.get(column.name), shown, accept=accept) for column in columns)


def settle(
    names: Names, schema: Schema, kinds: Mapping[str, Kind], *, accept: bool, progress: Progress | None = None
) -> tuple[Column, ...]:
    """The columns of a written schema that change. Numbers that are now computed on get bounds, by the values of the
    files `names`, which are read for nothing else.

    Raises InputError as `settled` does, and for a file that cannot be read.
    """
    shown = ", ".join(map(str, names)) if isinstance(names, list) else names
    before, after = schema.columns, settled(schema.columns, kinds, shown, accept=accept)
    changed = [new for new, old in zip(after, before, strict=True) if new != old]
    bare = [each for each in changed if is_number(each.type) and each.lower is None and each.upper is None]
    if not any(each.kind in (Kind.PLAIN, Kind.ENCRYPTED) for each in bare):
        return tuple(changed)
    inputs = open_inputs(names, sheet=schema.dialect.sheet, flatten=schema.dialect.flatten)
    with open_table(inputs, as_text([each.name for each in before], schema.dialect), progress) as text:
        stated = {each.name: each for each in with_bounds(text, bare, schema.dialect)}
    return tuple(stated.get(each.name, each) for each in changed)


def as_text(names: Sequence[str], dialect: CsvDialect) -> Schema:
    """A schema under which every field is read as it is written."""
    return Schema(tuple(Column(name, Kind.LOCAL, "VARCHAR") for name in names), dialect)


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
    if kind is Kind.ENCRYPTED and not can_be_encrypted(column.type):
        raise InputError(
            f"{shown}, column {column.name!r}: {column.type} cannot be encrypted for arithmetic",
            hint="numbers, booleans, dates and times can; seal it or keep it local",
        )
    before = _DECIDED.fullmatch(column.reason)
    proposed = before[1] if before else f"proposed {column.kind}: {column.reason}"
    return replace(column, kind=kind, unsure=False, reason=f"decided: {kind}; {proposed}")
