"""Propose a first schema for a table: detect how its files are written, find types, and judge each column."""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from cleave.propose.bounds import with_bounds
from cleave.propose.detect import ColumnFacts, propose_kind
from cleave.propose.entity import propose_entity
from cleave.propose.infer import infer
from cleave.propose.settling import choices, settled
from cleave.propose.sniff import skipping, sniff
from cleave.propose.trial import as_same_text, as_text, filled_rows, unreadable_rows, written_back
from cleave.table.csv_text import column_names, header_of
from cleave.table.duck import connect_reading, private
from cleave.table.faults import AnotherWidthError
from cleave.table.inputs import Frame, Input, Names, open_inputs, table_name, unreadable
from cleave.table.lazy import NAME, ArrowStream, as_arrow
from cleave.table.progress import Progress
from cleave.table.schema import Column, CsvDialect, Kind, Schema
from cleave.table.stream import open_table
from cleave.table.table import Table
from cleave.table.typed_reading import columns_of, schema_type
from cleave.table.types import FLOATS, is_number
from cleave.text.quantities import counted
from cleave_shared.errors import CleaveWarning, InputError

_NAMED = 5  # columns in a warning


@dataclass(frozen=True, slots=True)
class Examined:
    """What a proposal found out about a column; lengths are in characters, and `nulls` counts NULLs of the proposed
    type.

    `values` (two) and `changed` hold cells of the table, which only a terminal or page that a person asked for may
    show, never a log or an error. `changed` is a field and the different text that it becomes. `choices` holds the
    column as it would be with each kind that a person may choose.
    """

    rows: int
    nulls: int
    distinct: int
    average_length: float
    longest: int
    values: tuple[str, ...]
    changed: tuple[str, str] | None
    choices: Mapping[Kind, Column]

    @property
    def figures(self) -> str:
        """Counts and lengths, without a value."""
        lengths = f"{self.average_length:.1f} characters on average, {self.longest:,} at most"
        return f"{self.distinct:,} different, {self.nulls:,} NULL; {lengths}"


def propose(
    names: Names,
    kinds: Mapping[str, Kind] | None = None,
    *,
    accept: bool = False,
    reading: CsvDialect | None = None,
    table: str | None = None,
    progress: Progress | None = None,
    examined: dict[str, Examined] | None = None,
    choosing: bool = False,
) -> Schema:
    """Propose a schema for the files of one table, which queries call `table`.

    `kinds` and `accept` are a person's decisions (see `settled`). `reading` sets the lines to skip, null tokens,
    treatment of censored numbers, sheet and flattening. `examined` is filled by column, with choices if `choosing`.
    Raises InputError for a file that cannot be read or has no rows to judge by, and as `settled` does.
    """
    given = reading or CsvDialect()
    inputs = open_inputs(names, given)
    first = inputs[0]
    if all(each.read_as == first.read_as for each in inputs):  # then the schema says which sheet it is of
        given = replace(given, sheet=first.read_as.get("sheet", given.sheet))
    name = table or (table_name(inputs) if len(inputs) > 1 else None)
    if first.format.states_types:
        with closing(connect_reading()) as connection:
            types = columns_of(connection, first)
        opened = open_table(inputs, as_text(tuple(types), CsvDialect()), progress)
        return _proposed(opened, inputs, types, kinds or {}, name, accept=accept, examined=examined, choosing=choosing)
    try:
        dialect = sniff(first, given)
    except (EOFError, OSError, zlib.error) as error:
        raise unreadable(first, error) from None
    try:
        header = header_of(first, dialect)
        called = column_names(header, dialect)
        if dialect.header:
            _warn_of_names(first, header.fields, called)
        opened = open_table(inputs, as_text(called, dialect), progress)
    except AnotherWidthError as error:
        if error.name == f"{first}" and (advice := skipping(first, dialect)):
            raise InputError(error.message, hint=advice) from None
        raise
    return _proposed(opened, inputs, {}, kinds or {}, name, accept=accept, examined=examined, choosing=choosing)


def propose_frame(
    data: ArrowStream, kinds: Mapping[str, Kind] | None = None, *, accept: bool = False, table: str | None = None
) -> Schema:
    """Propose a schema for a pandas DataFrame, an Arrow table or any object that exports an Arrow stream.

    Raises InputError as `propose` does, and for a column of a type that a schema does not have.
    """
    frame = as_arrow(data)
    with private() as connection:
        types = columns_of(connection, frame)
    opened = open_table(frame, as_text(tuple(types), CsvDialect()), name=NAME)
    return _proposed(opened, [frame], types, kinds or {}, table, accept=accept)


def _warn_of_names(source: Input, header: Sequence[str], names: Sequence[str]) -> None:
    """Warn of columns whose names are not the header's, because it repeats a name or leaves it empty."""
    changed = [
        f"column {place} is called {name!r}: {f'{field!r} is taken' if field.strip() else 'it has no name'}"
        for place, (field, name) in enumerate(zip(header, names, strict=True), 1)
        if name != field.strip()
    ]
    if changed:
        more = f"; and {len(changed) - _NAMED} more" if len(changed) > _NAMED else ""
        warnings.warn(f"{source}: {'; '.join(changed[:_NAMED])}{more}", CleaveWarning, stacklevel=2)


def _proposed(
    opened: Table,
    sources: Sequence[Input | Frame],
    types: Mapping[str, str],
    kinds: Mapping[str, Kind],
    name: str | None,
    *,
    accept: bool,
    examined: dict[str, Examined] | None = None,
    choosing: bool = False,
) -> Schema:
    """Propose a schema. `types` holds the types that the sources state, by column; a CSV states none."""
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
        columns = [_column(fact) for fact in facts]
        for mend in (_sealed, _as_text):
            refused = unreadable_rows(text, sources, columns, dialect, typed=bool(types))
            columns = [
                mend(column, fact, count) if count else column
                for column, fact, count in zip(columns, facts, refused, strict=True)
            ]
        if examined is not None:
            examined |= _examined(text, facts, columns, dialect, choosing=choosing)
        decided = settled(columns, kinds, source, accept=accept)
        privacy = propose_entity(decided)
        privacy = replace(privacy, unsure=False) if accept else privacy
        return Schema(with_bounds(text, decided, dialect), dialect, name, privacy=privacy)


def _examined(
    text: Table, facts: Sequence[ColumnFacts], columns: Sequence[Column], dialect: CsvDialect, *, choosing: bool
) -> dict[str, Examined]:
    chosen = choices(text, columns, dialect) if choosing else {}
    filled = filled_rows(text, columns, dialect)
    return {
        each.name: Examined(
            text.rows,
            text.rows - count,
            each.distinct,
            each.average_length,
            each.longest,
            tuple(dict.fromkeys(each.sample))[:2],
            each.changed,
            chosen.get(each.name, {}),
        )
        for each, count in zip(facts, filled, strict=True)
    }


def _typed(text: Table, source: Input | Frame, facts: ColumnFacts, type_: str, dialect: CsvDialect) -> ColumnFacts:
    """Take a column's type from a Parquet file or frame, and examine its text as that of a CSV."""
    if type_ == "VARCHAR":
        return as_same_text(text, facts, dialect)
    return replace(facts, type=schema_type(type_, source, facts.name), note="", unit="", format=None)


def _sealed(column: Column, facts: ColumnFacts, count: int) -> Column:
    """Return a column as sealed if it is of floats, `count` of which cannot be encrypted."""
    if facts.type not in FLOATS:
        return column
    which = f"{counted(count, 'value')} {'is' if count == 1 else 'are'} NaN or infinite"
    reason = f"{column.reason}; {which}, which cannot be encrypted: sealed"
    return replace(column, kind=Kind.SEALED, reason=reason, unsure=True)


def _as_text(_: Column, facts: ColumnFacts, count: int) -> Column:
    """Return the column as text, because its type cannot hold `count` of its values."""
    note = f"{counted(count, 'value')} that {facts.type} cannot hold, kept as text"
    return _column(replace(facts, type="VARCHAR", note=note, unit="", format=None))


def _column(facts: ColumnFacts) -> Column:
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
