"""A first schema for a table: its files sniffed, their columns typed and judged one by one."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace

from cleave.propose.bounds import with_bounds
from cleave.propose.detect import Facts, propose_kind
from cleave.propose.infer import infer
from cleave.propose.settle import as_text, settled
from cleave.propose.sniff import skipping, sniff
from cleave.table import typed
from cleave.table.duck import connect_reading
from cleave.table.frames import NAME, ArrowStream, as_arrow
from cleave.table.inputs import Frame, Input, Names, open_inputs, table_name, unreadable
from cleave.table.progress import Progress
from cleave.table.schema import Column, CsvDialect, Kind, Schema
from cleave.table.source import column_names
from cleave.table.table import Table, open_frame, open_table
from cleave.table.types import decimals_of, is_number
from cleave_shared.dataclass import dataclass
from cleave_shared.errors import InputError


def propose(
    names: Names,
    kinds: Mapping[str, Kind] | None = None,
    *,
    accept: bool = False,
    reading: CsvDialect | None = None,
    table: str | None = None,
    progress: Progress | None = None,
) -> Schema:
    """A schema for the files of one table; `table`: what queries are to call it.

    `kinds` and `accept`: what a person decided, see `settled`. Of `reading` lines to skip, null tokens and what becomes
    of censored numbers count.

    Raises InputError for a file that cannot be read or has no rows to judge by, and as `settled` does.
    """
    inputs = open_inputs(names)
    first = inputs[0]
    name = table or (table_name(inputs) if len(inputs) > 1 else None)
    if first.parquet:
        with closing(connect_reading()) as connection:
            types = typed.columns(connection, first)
        opened = open_table(inputs, as_text(tuple(types), CsvDialect()), progress)
        return _proposed(opened, first, types, Decisions(kinds or {}, accept), name)
    try:
        dialect = sniff(first, reading or CsvDialect())
    except (EOFError, OSError, zlib.error) as error:
        raise unreadable(first, error) from None
    try:
        opened = open_table(inputs, as_text(column_names(first, dialect), dialect), progress)
    except InputError as error:
        if advice := skipping(first, dialect):
            raise InputError(
                error.message, hint=f"if lines before or after the table are no part of it: {advice}"
            ) from None
        raise
    return _proposed(opened, first, {}, Decisions(kinds or {}, accept), name)


def propose_frame(
    data: ArrowStream, kinds: Mapping[str, Kind] | None = None, *, accept: bool = False, table: str | None = None
) -> Schema:
    """The same for a pandas DataFrame, an Arrow table or whatever hands itself over as one.

    Raises InputError as `propose` does, and for a column of a type that a schema does not have.
    """
    frame = as_arrow(data)
    with closing(connect_reading()) as connection:
        types = typed.columns(connection, frame)
    opened = open_frame(frame, as_text(tuple(types), CsvDialect()), NAME)
    return _proposed(opened, frame, types, Decisions(kinds or {}, accept), table)


@dataclass(frozen=True, slots=True)
class Decisions:
    """Decisions of a person, as `settled` takes them."""

    kinds: Mapping[str, Kind]
    accept: bool


def _proposed(
    opened: Table, source: Input | Frame, types: Mapping[str, str], decisions: Decisions, name: str | None
) -> Schema:
    """`types`: by column, as the source states them; of a CSV none."""
    with opened as text:
        if text.rows == 0:
            raise InputError(
                f"{source}: has no rows, so there is nothing to judge its columns by",
                hint="add rows, or write the schema by hand",
            )
        dialect, facts = infer(text)
        facts = [_typed(source, each, types.get(each.name, "VARCHAR")) for each in facts]
        columns = settled([_column(fact) for fact in facts], decisions.kinds, source, accept=decisions.accept)
        return Schema(with_bounds(text, columns, dialect), dialect, name)


def _typed(source: Input | Frame, facts: Facts, type_: str) -> Facts:
    """Take a column's type from a Parquet file; its text is examined as a CSV's is."""
    if type_ == "VARCHAR":
        return facts
    return replace(facts, type=typed.schema_type(type_, source, facts.name), note="", unit="", format=None)


def _column(facts: Facts) -> Column:
    proposal = propose_kind(facts)
    reason = f"{proposal.reason}; {facts.note}" if facts.note else proposal.reason
    decimals = decimals_of(facts.type)
    return Column(
        facts.name,
        proposal.kind,
        facts.type,
        decimals,
        reason=reason,
        unsure=proposal.unsure,
        unit=facts.unit if is_number(facts.type) else "",
        format=facts.format,
    )
