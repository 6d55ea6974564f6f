"""Which part of a statement DuckDB cannot compute: a constant that somebody wrote, or values of columns."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import duckdb

from cleave.table.duck import parts_of, tree_of
from cleave_shared.duckdb_errors import Fault, failed, message_of, span_of
from cleave_shared.errors import Code, NotComputable, QueryRefused

_TYPES = {
    **{"BOOL": "BOOLEAN", "INT8": "TINYINT", "INT16": "SMALLINT", "INT32": "INTEGER", "INT64": "BIGINT"},
    **{"INT128": "HUGEINT", "UINT8": "UTINYINT", "UINT16": "USMALLINT", "UINT32": "UINTEGER", "UINT64": "UBIGINT"},
    **{name: name for name in ("DATE", "TIME", "TIMESTAMP", "INTERVAL", "UUID", "DOUBLE", "FLOAT", "INTEGER")},
    **{name: name for name in ("BIGINT", "SMALLINT", "TINYINT", "HUGEINT", "BOOLEAN", "TIMESTAMP WITH TIME ZONE")},
}
_EXAMPLES = {"DATE": "'2024-01-31'", "TIME": "'10:30:00'", "TIMESTAMP": "'2024-01-31 10:30:00'", "BOOLEAN": "true"}
_TO = re.compile(r"(?:-> | to (?:the destination type )?| type )([A-Z][A-Z0-9 ]*)\)?(?: when casting from .*)?$")
_COMPARED = re.compile(r"Cannot (?:compare|mix) values of type ([^\n]+?) and (?:type )?([^\n]+?)(?: - | in )")
_FIELD = re.compile(r"(?:invalid )?(date|timestamp|time|interval) field")


class WrongConstant(QueryRefused):
    """A constant of the statement does not fit. `constant`: its SQL, which is in no message."""

    code: Code = "constant"

    def __init__(self, message: str, constant: str, *, hint: str | None = None, name: str | None = None) -> None:
        super().__init__(message, hint=hint, name=name)
        self.constant = constant


def blamed(error: duckdb.Error, executed: str, select: str) -> Fault | WrongConstant:
    """What is wrong, with the names of columns, or the constant. `executed` ended in `select` and raised `error`."""
    fault = failed(error)
    span = span_of(error)
    if fault.code != "conversion" or span is None:
        return fault
    before = len(executed.encode()) - len(select.encode())
    tree = tree_of(select)
    part = next((each for each in parts_of(tree) if _place(each) == (span[0] - before, span[1])), None)
    if part is None:
        return fault
    type_ = _type_in(message_of(error))
    inside = list(parts_of(part))
    names = dict.fromkeys(str(each["column_names"][-1]) for each in inside if each.get("class") == "COLUMN_REF")
    if names:
        shown = " and ".join(map(repr, names))
        why = f"a value of {shown} is no {type_}" if type_ else f"a value of {shown} does not fit its type"
        return replace(fault, why=why, name=next(iter(names)) if len(names) == 1 else None)
    if not any(each.get("class") == "CONSTANT" for each in inside):
        return fault
    start = span[0] - before
    return _wrong(select.encode()[start : start + span[1]].decode(errors="replace"), type_, _compared(tree, part))


def incomparable(error: duckdb.Error, executed: str, select: str) -> WrongConstant | None:
    """The constant that DuckDB does not compare with a column of another type, as in day > 2025; None if `error` is
    another one. `executed` ended in `select` and raised it.
    """
    found, span = _COMPARED.match(message_of(error)), span_of(error)
    if found is None or span is None:
        return None
    before = len(executed.encode()) - len(select.encode())
    part = next((each for each in parts_of(tree_of(select)) if _place(each) == (span[0] - before, span[1])), None)
    sides = _sides(part) if part else []
    constants = [each for each in sides if each.get("class") == "CONSTANT"]
    columns = [str(each["column_names"][-1]) for each in sides if each.get("class") == "COLUMN_REF"]
    if not constants or len(columns) != 1:
        return None
    start, size = _place(constants[0])
    types = [_TYPES[each] for each in found.groups() if each in _TYPES]
    type_ = types[0] if len(types) == 1 else None
    return _wrong(select.encode()[start : start + size].decode(errors="replace"), type_, columns[0])


def _wrong(constant: str, type_: str | None, compared: str | None) -> WrongConstant:
    what = f"the constant that is compared with {compared!r}" if compared else "a constant of the statement"
    return WrongConstant(
        f"{what} is no {type_}" if type_ else f"{what} does not fit its type",
        constant,
        hint=f"write it like {_EXAMPLES[type_]}" if type_ in _EXAMPLES else None,
        name=compared,
    )


def not_computable(what: str, fault: Fault) -> NotComputable:
    """The error for `what`, such as "x + y cannot be computed in some row"."""
    return NotComputable(f"{what}: {fault.why}", hint=fault.hint, code=fault.code, name=fault.name)


def _place(node: Mapping[str, Any]) -> tuple[Any, Any]:
    return node.get("query_location"), node.get("query_location_length")


def _type_in(message: str) -> str | None:
    """The type that a value does not fit. Only words of `_TYPES` are taken from DuckDB's message."""
    if field := _FIELD.match(message):
        return field[1].upper()
    found = _TO.search(message)
    return _TYPES.get(found[1]) if found else None


def _compared(tree: Any, part: Mapping[str, Any]) -> str | None:
    """The column that a comparison in `tree` has beside `part`."""
    for node in parts_of(tree):
        if node.get("class") not in ("COMPARISON", "BETWEEN", "OPERATOR"):
            continue
        sides = _sides(node)
        if any(each is part for each in sides):
            named = [each for each in sides if each.get("class") == "COLUMN_REF"]
            return str(named[0]["column_names"][-1]) if named else None
    return None


def _sides(node: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """What a comparison compares."""
    sides = [node.get(each) for each in ("left", "right", "input", "lower", "upper")]
    return [each for each in (*sides, *(node.get("children") or ())) if each]
