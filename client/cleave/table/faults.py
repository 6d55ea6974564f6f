"""Errors for files that cannot be read: position, reason and hint. No message contains a value.

Other modules find the faults; nothing here reads a file.
"""

from __future__ import annotations

import re

from cleave.table.cast import accounting_pattern, number_pattern, unit_pattern
from cleave.table.constraints import Violation
from cleave.table.schema import Column, CsvDialect
from cleave.table.types import INTEGERS, digits_of
from cleave_shared.errors import InputError

_INFINITE = re.compile(r"\s*[+-]?(inf|infinity|nan)\s*", re.IGNORECASE)
_ENDS = {"\n": "LF", "\r\n": "CR LF", "\r": "CR"}


class TooLargeError(InputError):
    """The rows do not fit in the memory for this work."""

    def __init__(self, source: object) -> None:
        super().__init__(f"{source}: does not fit in memory", hint="close other programs, or split the file")


class AnotherWidthError(InputError):
    """A record has another number of fields than the first: it may be no part of the table."""


def changed(source: object) -> InputError:
    return InputError(f"{source}: changed while it was read", hint="try again when no one writes to it")


def unreadable_csv(source: object) -> InputError:
    return InputError(f"{source}: cannot be read as CSV", hint="check [csv] in the schema")


def unreadable_typed(source: object, format_: str) -> InputError:
    """The error for a file of a format that states types."""
    return InputError(f"{source}: cannot be read as {format_}", hint="is the file complete?")


def undecodable(place: str, encoding: str) -> InputError:
    hint = 'set encoding under [csv] ("cp1252" is usual for files from Windows), or save the file as UTF-8'
    return InputError(f"{place}: is not {encoding} text", hint=hint)


def unread(place: str) -> InputError:
    """The error for a file that has text after its header but is read as no rows."""
    return InputError(
        f"{place}: this line and all later ones are read as no row",
        hint="check [csv] in the schema: delimiter, quote, header and encoding",
    )


def miscounted(source: object, rows: int, records: int) -> InputError:
    """The error for a file in which two readers count different numbers of rows."""
    return InputError(
        f"{source}: is read as {rows:,} row{'' if rows == 1 else 's'}, but a second count finds {records:,}",
        hint="check [csv] in the schema: delimiter, quote and encoding; or write every line end as LF",
    )


def damaged_rows(source: object, rows: int, stated: int) -> InputError:
    """The error for a file that has another number of rows than its footer states."""
    return InputError(
        f"{source}: is read as {rows:,} row{'' if rows == 1 else 's'}, but its footer states {stated:,}",
        hint="the file is damaged: write it again",
    )


def unclosed(place: str) -> InputError:
    return InputError(
        f"{place}: a quoted field that begins here is not closed, or has text after its closing quote",
        hint='inside quotes, write a quote twice: "a ""b"" c"',
    )


def too_long(place: str) -> InputError:
    return InputError(
        f"{place}: a field that begins here is longer than 8 MB",
        hint="a quote may not be closed; longer fields are not supported",
    )


def of_another_width(source: object, place: str, fields: int, width: int) -> InputError:
    return AnotherWidthError(
        f"{place}: has {fields} field{'s' if fields > 1 else ''}, the first record has {width}",
        hint="put quotes around a field that contains the delimiter; delete lines that are not records",
        name=str(source),
    )


def mixed_ends(place: str, end: str, usual: str) -> InputError:
    return InputError(
        f"{place}: ends in {_ENDS[end]}, the lines before it in {_ENDS[usual]}",
        hint="convert all line ends to one kind, for instance with dos2unix; put a field with a line break in quotes",
    )


def ruled_out(place: str, broken: Violation, stored: str = "") -> InputError:
    """The error for a value or NULL that breaks a constraint. `stored`: name of the stored table with that schema, or
    "".
    """
    if broken.null:
        hint = "fill the field, or set nullable = true in the schema"
        if stored:
            hint = "fill the field: a stored column without NULL stays so until the table is put again with --replace"
    else:
        alter = f"`cleave alter {stored or 'NAME'} --widen`"
        where = alter if stored else f"in the schema, or with {alter} for a table that is stored"
        hint = f"correct the value, or widen the bound{': ' if not stored else ' with '}{where}"
    return InputError(f"{place}, column {broken.column.name!r}: {broken.problem}", hint=hint)


def not_the_type(place: str, column: Column, stated: str) -> InputError:
    """The error for a typed value that would change in the type of `column`. `stated`: which type the source states."""
    return InputError(
        f"{place}, column {column.name!r}: is no {column.type} without a change of its value ({stated})",
        hint="correct it, or change the column's type in the schema; NaN and infinity cannot be encrypted",
    )


def unreadable_field(place: str, column: Column, dialect: CsvDialect, field: str) -> InputError:
    """The error for the text `field`, which `column` cannot hold."""
    problem, hint = _describe(field, column, dialect)
    return InputError(f"{place}, column {column.name!r}: {problem}", hint=hint)


def _describe(field: str, column: Column, dialect: CsvDialect) -> tuple[str, str]:
    """Message and hint for a field that cannot be read. Neither contains the field."""
    general = "correct it, add its spelling to null_tokens under [csv] if it means NULL, or change the column's type"
    if _INFINITE.fullmatch(field):
        return (
            f"is infinite or NaN, which {column.type} in a column of kind {column.kind} cannot hold",
            'leave the field empty, add "nan" to null_tokens under [csv], or make the column local',
        )
    if column.unit:
        if not re.fullmatch(unit_pattern(column.unit), field):
            return f"is no number with the unit {column.unit!r}, which the schema states", "correct it, or the schema"
        field = re.sub(r"^([+(-])\s+", r"\1", field.replace(column.unit, "").strip())
    if column.format is not None:
        return f"is not a {column.type} written {column.format}, as the schema states", general
    if column.decimals is None or column.type == "BOOLEAN":
        return f"is not a {column.type} as [csv] in the schema describes them", general
    if not _is_number(field, dialect, None) or not re.search("[0-9]", field):
        return f"is not a number as [csv] in the schema writes them, {column.type} expected", general
    if "e" in field.lower():
        return "has an exponent, which may have cost digits", "write all digits, or change the type to DOUBLE"
    if not _is_number(field, dialect, column.decimals):
        if column.type in INTEGERS:
            return f"is not a whole number, {column.type} expected", "correct it, or declare decimals: DECIMAL(18,2)"
        decimals = f"{column.decimals} digit{'s' if column.decimals != 1 else ''} after the point"
        return f"has more than the declared {decimals}", "declare more, or change the type to DOUBLE"
    size = f"{digits_of(column.type)} digits" if digits_of(column.type) else f"{INTEGERS[column.type]} bits"
    return f"is too large for {column.type} ({size})", "widen the type, or for a long identifier use VARCHAR and sealed"


def _is_number(text: str, dialect: CsvDialect, decimals: int | None) -> bool:
    patterns = number_pattern(dialect, decimals), accounting_pattern(dialect, decimals)
    return any(re.fullmatch(one, text, re.ASCII) for one in patterns)
