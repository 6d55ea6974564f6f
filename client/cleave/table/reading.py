"""A source (file, frame or table) read under a schema: SQL of its rows, and the first value that does not fit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager

from cleave.table.cast import FieldCast
from cleave.table.duck import identifier
from cleave.table.schema import Column, Schema
from cleave_shared.errors import InputError


class SourceReading(ABC):
    """One source under `schema`. The file is opened at first use. Any method may raise InputError."""

    def __init__(self, source: object, schema: Schema) -> None:
        """`source`: messages name it by its text."""
        self.source = source
        self.schema = schema
        self._mark = self.mark()

    @property
    def is_changed(self) -> bool:
        """True if the source was written since this object was made."""
        return self._mark != self.mark()

    @property
    @abstractmethod
    def casts(self) -> Sequence[FieldCast]:
        """One cast per column of the schema, over the columns of `rows`."""

    @abstractmethod
    def rows(self) -> AbstractContextManager[str]:
        """SQL of the source's rows, valid within the block."""

    @abstractmethod
    def place(self, row: int) -> str:
        """The position of row `row` (from 0), in words."""

    @abstractmethod
    def fault(self) -> InputError:
        """The error for the first value that does not fit the schema. Called after DuckDB failed to read the source."""

    def mark(self) -> object:
        """Return a value that changes when the source is written."""
        return None

    def miscounted(self, rows: int) -> InputError | None:  # noqa: ARG002 - of a CSV
        """The error if a second count does not find `rows` rows, else None."""
        return None

    @contextmanager
    def select(self, columns: Sequence[Column]) -> Iterator[str]:
        """SQL of these columns of the schema, with their names, valid within the block."""
        names = {column.name for column in columns}
        values = [
            f"{one.value} AS {identifier(column.name)}"
            for one, column in zip(self.casts, self.schema.columns, strict=True)
            if column.name in names
        ]
        with self.rows() as rows:
            yield f"SELECT {', '.join(values) or '1 AS one'} FROM {rows}"


def unique_names(header: Sequence[str]) -> tuple[str, ...]:
    """Unique names of columns: an empty one becomes "column3" (counted from 0), a repeated "age" becomes "age_1"."""
    names: list[str] = []
    taken: set[str] = set()
    for index, field in enumerate(header):
        stem = field.strip() or f"column{index}"
        name, repeats = stem, 0
        while name.lower() in taken:
            repeats += 1
            name = f"{stem}_{repeats}"
        taken.add(name.lower())
        names.append(name)
    return tuple(names)


def places_of(header: str, names: Sequence[str], schema: Schema) -> list[int]:
    """The index in the file of each of the schema's columns. `header` names the header line in errors. Raises
    InputError.
    """
    places = {name.lower(): index for index, name in enumerate(names)}
    declared_names = {column.name.lower() for column in schema.columns}
    # if no name matches, the header may be a first row of values, which no message may quote
    if declared_names.isdisjoint(places):
        raise InputError(
            f"{header}: names none of the schema's columns",
            hint="is the line with the names missing? else check delimiter under [csv], and that this is its schema",
        )
    if unknown := [name for name in names if name.lower() not in declared_names]:
        raise InputError(
            f"{header}, column {unknown[0]!r}: is not named in the schema{_and_others(unknown)}",
            hint=_twice(unknown[0], places) or (_NEW_IN_STORED if schema.stored else _NEW).format(schema.stored),
        )
    if missing := [column.name for column in schema.columns if column.name.lower() not in places]:
        raise InputError(
            f"{header}, column {missing[0]!r}: is in the schema and not in the file{_and_others(missing)}",
            hint=(_GONE_IN_STORED if schema.stored else _GONE).format(schema.stored),
        )
    return [places[column.name.lower()] for column in schema.columns]


_NEW = 'add it to the schema, with kind = "local" if it must not leave; `cleave schema` proposes'
_NEW_IN_STORED = "`cleave alter {} --add` adds it to the stored table; --schema names a file in which it is local"
_GONE = "remove it from the schema, or check delimiter and header under [csv]"
_GONE_IN_STORED = "add it to the file, empty for NULL; `cleave alter {} --drop` deletes it from the table"


def _twice(name: str, places: Mapping[str, int]) -> str:
    """Hint for the second of two columns with one name, which DuckDB renamed to NAME_1; else ""."""
    first, _, number = name.lower().rpartition("_")
    if not (number.isdecimal() and first in places and places[first] < places[name.lower()]):
        return ""
    return f"if the file has two columns {first!r}, rename the second, which is called so; else add it to the schema"


def _and_others(names: list[str]) -> str:
    return f" (nor are {len(names) - 1} others)" if len(names) > 1 else ""
