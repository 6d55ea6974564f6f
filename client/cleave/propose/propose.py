"""A first schema for a table: its files sniffed, their columns typed and judged one by one."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace

from cleave.propose.bounds import with_bounds
from cleave.propose.detect import Facts, propose_kind
from cleave.propose.infer import infer
from cleave.propose.sniff import sniff
from cleave.table import typed
from cleave.table.duck import connect_reading
from cleave.table.inputs import Frame, Input, Names, open_inputs, table_name, unreadable
from cleave.table.progress import Progress
from cleave.table.schema import Column, CsvDialect, Kind, Schema
from cleave.table.source import column_names
from cleave.table.table import open_frame, open_table
from cleave.table.types import can_be_encrypted, decimals_of, is_number
from cleave.text.nearest import did_you_mean
from cleave_shared.errors import InputError


def propose(
    names: Names | Frame,
    kinds: Mapping[str, Kind] | None = None,
    *,
    skip: int = 0,
    table: str | None = None,
    progress: Progress | None = None,
) -> Schema:
    """A schema for a frame, or the files of one table, `skip` lines before each header; `table`: its name in SQL.

    `kinds`: what a person decided, by column name; it is not judged again.

    Raises InputError for a file that cannot be read or has no rows to judge by, and for a kind that is given to no
    column of the file or cannot be given to its type.
    """
    inputs = [] if isinstance(names, Frame) else open_inputs(names)
    first = names if isinstance(names, Frame) else inputs[0]
    types: dict[str, str] = {}
    dialect = CsvDialect()
    if isinstance(first, Frame) or first.parquet:
        with closing(connect_reading()) as connection:
            types = typed.columns(connection, first)
    else:
        try:
            dialect = sniff(first, skip)
        except (EOFError, OSError, zlib.error) as error:
            raise unreadable(first, error) from None
    found = tuple(types) if isinstance(first, Frame) or first.parquet else column_names(first, dialect)
    decided = {name.lower(): kind for name, kind in (kinds or {}).items()}
    if strange := [name for name in kinds or {} if name.lower() not in {known.lower() for known in found}]:
        known = f"the file names {', '.join(found[:20])}{', ...' if len(found) > 20 else ''}"
        hint = did_you_mean(strange[0], found) or known
        raise InputError(f"{first}: there is no column {strange[0]!r} to give a kind to", hint=hint)
    as_text = Schema(tuple(Column(name, Kind.LOCAL, "VARCHAR") for name in found), dialect)
    opened = (
        open_frame(first, as_text, "", progress) if isinstance(first, Frame) else open_table(inputs, as_text, progress)
    )
    with opened as text:
        if text.rows == 0:
            raise InputError(
                f"{first}: has a header and no rows, so there is nothing to judge its columns by",
                hint="add rows, or write the schema by hand",
            )
        dialect, facts = infer(text)
        facts = [_typed(first, each, types.get(each.name, "VARCHAR")) for each in facts]
        columns = [_decided(first, _column(fact), decided.get(fact.name.lower())) for fact in facts]
        stated = with_bounds(text, columns, dialect)
    name = table or (table_name(inputs) if len(inputs) > 1 else None)
    return Schema(stated, dialect, name)


def _typed(source: Input | Frame, facts: Facts, type_: str) -> Facts:
    """What a Parquet file says of a column's type counts; text in one is looked into like a CSV's."""
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


def _decided(source: Input | Frame, column: Column, kind: Kind | None) -> Column:
    if kind is None:
        return column
    if kind is Kind.ENCRYPTED and not can_be_encrypted(column.type):
        raise InputError(
            f"{source}, column {column.name!r}: {column.type} cannot be encrypted for arithmetic",
            hint="numbers, booleans, dates and times can; seal it or keep it local",
        )
    return replace(column, kind=kind, unsure=False, reason=f"decided: {kind}; proposed {column.kind}: {column.reason}")
