"""Schema of a stored table: the stored part of a file's schema, and the expressions with totals."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal

from cleave.sql.plan import Argument
from cleave.sql.planner import plan_query
from cleave.sql.read import canonical, expression_of, spellings
from cleave.store.manifest import RESERVED, Manifest
from cleave.table.derived import Derived
from cleave.table.duck import identifier
from cleave.table.privacy import NO_PRIVACY
from cleave.table.schema import Column, Kind, Schema, read_schema
from cleave.table.types import FLOATS, is_number
from cleave_shared.errors import InputError, QueryRefused


def stored_schema(schema: Schema, name: str) -> Schema:
    """The stored part of a schema: local columns are not stored.

    Raises InputError for a schema that cannot be stored.
    """
    columns = tuple(column for column in schema.columns if column.kind is not Kind.LOCAL)
    if not columns:
        raise InputError(
            "every column is local: nothing may be stored", hint="make the others plain, encrypted or sealed"
        )
    _refuse_reserved(columns)
    for column in map(schema.find, schema.privacy.entity):
        if column is not None and column.kind is Kind.LOCAL:
            raise InputError(
                f"column {column.name!r} is local, and names whom a row is about: thresholds count its values",
                hint="make it sealed, which no service sees, or name another column in [privacy] entity",
            )
    return replace(schema.only({column.name for column in columns}), table=name, privacy=schema.privacy)


def load_stored_schema(manifest: Manifest) -> Schema:
    return read_stored_schema(manifest.schema_toml, manifest.table)


def schema_of_rows(manifest: Manifest) -> Schema:
    """The schema of appended rows: the table's, and the columns that are not stored."""
    schema = load_stored_schema(manifest)
    names = {each.lower() for each in schema.names}
    local = (Column(each, Kind.LOCAL, "VARCHAR") for each in manifest.local if each.lower() not in names)
    return replace(schema, columns=(*schema.columns, *local))


def read_stored_schema(toml: str, table: str) -> Schema:
    schema = read_schema(tomllib.loads(toml, parse_float=Decimal), f"stored table {table!r}")
    _refuse_reserved(schema.columns)
    return replace(schema, stored=table)


def _refuse_reserved(columns: Sequence[Column]) -> None:
    for column in columns:
        if column.name.lower() in RESERVED:
            raise InputError(
                f"column {column.name!r}: stored tables keep this name for themselves",
                hint="rename it in the file and in its schema, or leave it here: kind local",
            )


def half_of(column: Column) -> str:
    """How a column is stored: encrypted, sealed or plain. Encrypted dates and times are sealed."""
    if column.kind is Kind.ENCRYPTED:
        return "encrypted" if is_number(column.type) or column.type == "BOOLEAN" else "sealed"
    return str(column.kind)


def check_by(by: Sequence[str], schema: Schema) -> tuple[str, ...]:
    """The by columns, spelled as in the schema. Raises InputError for a column that cannot distinguish cells."""
    return _comparable(by, schema, "cell", BY)


def check_key(key: Sequence[str], schema: Schema) -> tuple[str, ...]:
    """The key columns, spelled as in the schema. Raises InputError for a type whose equal values may have different
    forms.
    """
    return _comparable(key, schema, "key", "--key-columns takes columns that name one row: texts, dates, whole numbers")


def _comparable(names: Sequence[str], schema: Schema, what: str, hint: str) -> tuple[str, ...]:
    spelled = []
    for name in names:
        column = schema.column(name)
        if column.type in FLOATS:
            raise InputError(f"column {column.name!r} is {column.type}: equal values of it are no {what}", hint=hint)
        if column.type == "INTERVAL":
            raise InputError(f"column {column.name!r} is INTERVAL: equal values have several spellings", hint=hint)
        if column.name in spelled:
            raise InputError(f"column {column.name!r} is named twice", hint=hint)
        spelled.append(column.name)
    return tuple(spelled)


BY = "--by takes columns of few values: categories, dates, whole numbers"


def arguments_of(schema: Schema, expressions: Sequence[str]) -> tuple[Argument, ...]:
    """The expressions as arguments of sums. Raises QueryRefused unless each is a number over encrypted columns."""
    if not expressions:
        return ()
    sums = ", ".join(f"SUM({each})" for each in expressions)
    cut = plan_query(f"SELECT {sums} FROM t", schema, "t", cloud_only=True).sums()
    if cut is None:
        raise InputError("a measure must be an expression over the table's columns")
    return cut.arguments


def measured(schema: Schema) -> list[tuple[str, Argument, Derived | None]]:
    """Names and arguments of a schema's measures: encrypted columns, then derived ones."""
    names = [each.name for each in schema.columns if half_of(each) == "encrypted"]
    columns = zip(names, arguments_of(schema, [identifier(name) for name in names]), strict=True)
    derived = _derived_arguments(schema)
    return [*((name, argument, None) for name, argument in columns), *((each.name, of, each) for each, of in derived)]


def _derived_arguments(schema: Schema) -> list[tuple[Derived, Argument]]:
    """The derived columns with totals, without repetitions: numbers over encrypted columns."""
    arguments: dict[str, tuple[Derived, Argument]] = {}
    for each in schema.derived:
        with suppress(QueryRefused):
            for argument in arguments_of(schema.only(each.columns), [identifier(each.name)]):
                arguments.setdefault(canonical(expression_of(argument.sql)), (each, argument))
    columns = spellings(tuple(identifier(column.name) for column in schema.columns))
    return [pair for spelled, pair in arguments.items() if spelled not in columns]


def _difference(mine: Schema, stored: Schema) -> str:
    """The first difference of two schemas, as text."""
    others = {column.name.lower(): column for column in mine.columns}
    for column in stored.columns:
        other = others.pop(column.name.lower(), None)
        if other is None:
            return f"column {column.name!r} is missing"
        if (other.kind, other.type) != (column.kind, column.type):
            return f"column {column.name!r} is {other.kind} {other.type}, and {column.kind} {column.type} there"
    return f"column {next(iter(others.values())).name!r} is none of its columns"


def check_fits(rows: Schema, stored: Schema, name: str, *, invited: bool = False) -> None:
    """Raises InputError unless `rows` may be added to stored table `name`: their stored columns must be the same, and
    must not allow a value or NULL that does not fit the table's fields. `invited`: a contributor adds them.
    """
    mine = stored_schema(replace(rows, privacy=NO_PRIVACY), name)  # the table has its own
    if mine.hash() != stored.hash():
        if invited:
            raise InputError(
                f"the schema is not the one that the owner of {name!r} invites to",
                hint="leave --schema out, or let it differ in local columns alone",
            )
        raise InputError(
            f"the schema is not that of stored table {name!r}: {_difference(mine, stored)}",
            hint=f"`cleave show {name}` has it",
        )
    columns = {each.name.lower(): each for each in mine.columns}
    for column in stored.columns:
        other = columns[column.name.lower()]
        below = column.lower is not None and (other.lower is None or other.lower < column.lower)
        above = column.upper is not None and (other.upper is None or other.upper > column.upper)
        if below or above or (other.nullable and not column.nullable):
            raise InputError(
                f"column {column.name!r}: its bounds are wider than those of stored table {name!r}",
                hint="declare them as they were when it was put, or put it again with --replace",
            )
