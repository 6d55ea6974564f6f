"""Type objects and constructors of PEP 249; a `type_code` is DuckDB's name of the type, equal to one of the objects."""

from __future__ import annotations

import datetime

Date, Time, Timestamp, Binary = datetime.date, datetime.time, datetime.datetime, bytes
DateFromTicks, TimestampFromTicks = datetime.date.fromtimestamp, datetime.datetime.fromtimestamp


def TimeFromTicks(ticks: float) -> datetime.time:  # noqa: N802 - PEP 249 names it so
    return datetime.datetime.fromtimestamp(ticks).time()  # noqa: DTZ006 - local time, as PEP 249 has it


class TypeObject:
    """Equal to the type codes whose names begin as one of `names`."""

    def __init__(self, *names: str) -> None:
        self._names = names

    def __eq__(self, other: object) -> bool:
        if isinstance(other, TypeObject):
            return self._names == other._names
        return isinstance(other, str) and other.split("(")[0] in self._names

    def __hash__(self) -> int:
        return hash(self._names)


_INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
STRING = TypeObject("VARCHAR")
BINARY = TypeObject("BLOB")
NUMBER = TypeObject(*_INTEGERS, *(f"U{name}" for name in _INTEGERS), "FLOAT", "DOUBLE", "DECIMAL", "BOOLEAN")
DATETIME = TypeObject("DATE", "TIME", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "INTERVAL")
ROWID = TypeObject()
