"""Types in PostgreSQL's protocol: the OID of each type of DuckDB, and DuckDB's type of each parameter.

types.csv has PostgreSQL's types with DuckDB's of the same values. Three more are the catalog's: OID, INT2VECTOR and
OIDVECTOR. A list of them, or of fixed length, is an array. Lists of lists, structs and maps are JSON. Unions, and
structs and maps of lists of JSON, are texts: DuckDB does not read its own text of these.
"""

from __future__ import annotations

import csv
import re
import struct
from collections.abc import Sequence
from importlib.resources import files
from typing import Final

from cleave.table.types import decimals_of, digits_of
from cleave_shared.errors import QueryRefused

TEXT: Final = 25
JSON: Final = 114
NUMERIC: Final = 1700
TYPES: Final = list(csv.DictReader(files(__package__).joinpath("types.csv").read_text().splitlines()))
_OIDS: Final = {type_: int(each["oid"]) for each in TYPES for type_ in each["columns"].split("|")}
_ARRAYS: Final = {int(each["oid"]): int(each["array_oid"]) for each in TYPES}
VECTORS: Final = {22: 21, 30: 26}
"""Types of PostgreSQL's catalog that are arrays and have another text, by the OID of their elements."""
ARRAYS: Final = {array: element for element, array in _ARRAYS.items() if array} | VECTORS
"""OIDs of arrays, by the OID of their elements."""
_SIZES: Final = {int(each["oid"]): int(each["size"]) for each in TYPES}
_PARAMETERS: Final = {0: "VARCHAR"} | {int(each["oid"]): each["parameter"] for each in TYPES if each["parameter"]}
_LIST: Final = re.compile(r"(.*)\[\d*\]", re.DOTALL)
_NESTED: Final = re.compile(r"(?:STRUCT|MAP|TUPLE)\(|.*\[\d*\]$", re.DOTALL)
_UNREADABLE: Final = re.compile(r"\bUNION\(|\(.*\bJSON\[|\bJSON(?:\[\d*\]){2}", re.DOTALL)


def oid_of(type_: str) -> int:
    """The OID of PostgreSQL's type for a DuckDB type; text if there is none.

    >>> oid_of("DECIMAL(9,2)"), oid_of("DECIMAL(9,2)[]"), oid_of("DATE[3]"), oid_of("STRUCT(a INTEGER)")
    (1700, 1231, 1182, 114)
    >>> oid_of("INTEGER[][]"), oid_of("ENUM('a')"), oid_of("UNION(a INTEGER)[]"), oid_of("STRUCT(a JSON[])")
    (114, 25, 25, 25)
    """
    if _UNREADABLE.search(type_):
        return TEXT
    if element := element_of(type_):
        return _ARRAYS[oid_of(element)]
    if _NESTED.match(type_):
        return JSON
    return NUMERIC if type_.startswith("DECIMAL(") else _OIDS.get(type_, TEXT)


def element_of(type_: str) -> str:
    """The type of the elements of a list that is an array in PostgreSQL; "" for other types."""
    found = _LIST.fullmatch(type_)
    return found[1] if found and not _UNREADABLE.search(type_) and not _NESTED.match(found[1]) else ""


def modifier_of(type_: str) -> int:
    """PostgreSQL's type modifier: digits and decimals of a DECIMAL, also of an array's elements; else -1."""
    type_ = element_of(type_) or type_
    return -1 if (digits := digits_of(type_)) is None else (digits << 16 | (decimals_of(type_) or 0)) + 4


def size_of(oid: int) -> int:
    """Bytes of a value; -1 if variable."""
    return _SIZES.get(oid, -1)


def type_of(oid: int) -> str:
    """DuckDB's type of a parameter. Raises QueryRefused for an unsupported type."""
    if oid in ARRAYS:
        return f"{type_of(ARRAYS[oid])}[]"
    if oid not in _PARAMETERS:
        raise QueryRefused(f"parameters of the type with OID {oid} are not read", hint="cast a text", code="parameter")
    return str(_PARAMETERS[oid])


def described(columns: Sequence[tuple[str, str]], formats: Sequence[int]) -> bytes:
    """The content of a RowDescription."""
    parts = [struct.pack("!H", len(columns))]
    for (name, type_), form in zip(columns, formats, strict=True):
        oid = oid_of(type_)
        parts.append(name.encode("utf-8", "replace").replace(b"\0", b"") + b"\0")
        parts.append(struct.pack("!IhIhih", 0, 0, oid, size_of(oid), modifier_of(type_), form))
    return b"".join(parts)


def spread(formats: Sequence[int], count: int) -> list[int]:
    """One format per column, from none (all text), one for all, or one each. Raises ValueError for other counts."""
    given = list(formats) if len(formats) > 1 else list(formats or (0,)) * count
    if len(given) != count or not {*given} <= {0, 1}:
        raise ValueError
    return given
