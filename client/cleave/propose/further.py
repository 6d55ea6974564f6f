"""Read a further table that a question names. It is never sent anywhere, so its types may be guessed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from cleave.files import names_file
from cleave.table.inputs import check_there
from cleave.table.lazy import LazyTable, of_files
from cleave.table.schema import Kind, Schema, schema_path


def further_of(word: str) -> LazyTable:
    """Read a table given as FILE[=SCHEMA]. Either name may contain an equals sign. Raises InputError."""
    cuts = [place for place, char in enumerate(word) if char == "=" and names_file(word[:place])]
    name, schema = (word[: cuts[0]], word[cuts[0] + 1 :]) if cuts and not names_file(word) else (word, "")
    return further(name, Path(schema) if schema else None)


def further(file: str | Path, schema: Schema | Path | None = None, name: str | None = None) -> LazyTable:
    """Read a file by `schema`, else by NAME.schema.toml beside it, else by guessed types. Raises InputError."""
    if schema is not None:
        return of_files([file], schema, name)
    check_there([file])
    if names_file(schema_path([file])):
        return of_files([file], None, name)
    from cleave.propose.propose import propose  # noqa: PLC0415 - only for a file without a schema

    guessed = propose([file])
    columns = tuple(replace(each, kind=Kind.LOCAL) for each in guessed.columns)
    return of_files([file], Schema(columns, guessed.dialect), name)
