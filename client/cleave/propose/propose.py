"""A first schema for a CSV file: sniffed, typed, judged column by column."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from cleave.propose.bounds import with_bounds
from cleave.propose.detect import Facts, propose_kind
from cleave.propose.infer import infer
from cleave.propose.sniff import sniff
from cleave.table.schema import Column, Kind, Schema
from cleave.table.source import column_names
from cleave.table.table import open_table
from cleave.table.types import can_be_encrypted, decimals_of
from cleave_shared.errors import InputError


def propose(path: Path, kinds: Mapping[str, Kind] | None = None) -> Schema:
    """`kinds`: what a person decided, by column name; it is not judged again.

    Raises InputError for a file that cannot be read or has no rows to judge by, and for a kind that is given to no
    column of the file or cannot be given to its type.
    """
    dialect = sniff(path)
    names = column_names(path, dialect)
    decided = {name.lower(): kind for name, kind in (kinds or {}).items()}
    if strange := [name for name in kinds or {} if name.lower() not in {known.lower() for known in names}]:
        hint = f"the file names {', '.join(names[:20])}{', ...' if len(names) > 20 else ''}"
        raise InputError(f"{path}: there is no column {strange[0]!r} to give a kind to", hint=hint)
    as_text = Schema(tuple(Column(name, Kind.LOCAL, "VARCHAR") for name in names), dialect)
    with open_table(path, as_text) as text:
        if text.rows == 0:
            raise InputError(
                f"{path}: has a header and no rows, so there is nothing to judge its columns by",
                hint="add rows, or write the schema by hand",
            )
        dialect, facts = infer(text)
        columns = [_decided(path, _column(fact), decided.get(fact.name.lower())) for fact in facts]
        return Schema(with_bounds(text, columns, dialect), dialect)


def _column(facts: Facts) -> Column:
    proposal = propose_kind(facts)
    reason = f"{proposal.reason}; {facts.note}" if facts.note else proposal.reason
    decimals = decimals_of(facts.type)
    return Column(facts.name, proposal.kind, facts.type, decimals, reason=reason, unsure=proposal.unsure)


def _decided(path: Path, column: Column, kind: Kind | None) -> Column:
    if kind is None:
        return column
    if kind is Kind.ENCRYPTED and not can_be_encrypted(column.type):
        raise InputError(
            f"{path}, column {column.name!r}: {column.type} cannot be encrypted for arithmetic",
            hint="numbers and booleans can; seal it or keep it local",
        )
    return replace(column, kind=kind, unsure=False, reason=f"decided: {kind}; proposed {column.kind}: {column.reason}")
