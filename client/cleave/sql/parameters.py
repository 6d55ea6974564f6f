"""Parameters of a statement, written as `?` (DB-API's style "qmark").

Each `?` is a node of DuckDB's tree, and a value replaces that node; it never becomes SQL text. All later steps treat it
like a typed constant, so the plain service sees the values in its part.
"""

from __future__ import annotations

import datetime
import math
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import Any

import numpy as np

from cleave.table.duck import is_unicode, parts_of, tree_of
from cleave.table.trees import MutableTree, mapped
from cleave.text.quantities import counted
from cleave_shared.errors import QueryRefused


class Items(list[object]):
    """A parameter that is a list."""


@dataclass(frozen=True, slots=True)
class Typed:
    """A parameter that DuckDB reads from a text as a type. `text` None is a NULL of that type."""

    text: str | None
    type: str


def with_values(tree: Mapping[str, Any], parameters: Sequence[object]) -> Mapping[str, Any]:
    """DuckDB's `tree` of a statement with a constant for each parameter.

    Raises QueryRefused for a wrong number of parameters or an unsupported type.
    """
    if isinstance(parameters, str | bytes) or not isinstance(parameters, Sequence):
        raise QueryRefused("parameters are a sequence, one for each ? of the statement", code="parameter")
    if tree.get("error"):
        return tree
    places = {str(each["identifier"]) for each in parts_of(tree) if each.get("class") == "PARAMETER"}
    if places != {str(number) for number in range(1, len(parameters) + 1)}:
        marks = counted(len(places), "placeholder")
        raise QueryRefused(f"the statement has {marks}, and values of {len(parameters)} are given", code="parameter")
    constants = {str(number): _constant_of(value, number) for number, value in enumerate(parameters, 1)}

    def put(node: MutableTree) -> MutableTree:
        if node.get("class") == "PARAMETER":
            place = {key: node[key] for key in ("alias", "query_location", "query_location_length") if key in node}
            return constants[str(node["identifier"])] | place
        return node | {"named_param_map": []} if "named_param_map" in node else node

    bound: MutableTree = mapped(tree, put)
    return bound


def _constant_of(value: object, number: int) -> MutableTree:
    if isinstance(value, np.generic):
        value = value.item()
    match value:
        case None:
            return _constant("NULL_LITERAL", "")
        case bool():
            return _constant("BOOLEAN", str(value).lower())
        case int():
            return _constant("INTEGER", str(value))
        case float() if math.isfinite(value):
            text = repr(value)
            return _constant("NUMERIC", text if "e" in text else f"{text}e0")  # without exponent 1.5 would be a DECIMAL
        case float():
            return _cast("DOUBLE", str(value))
        case Decimal() if value.is_finite():
            text = f"{value:f}"
            return _constant("NUMERIC" if "." in text else "INTEGER", text)
        case str() if "\0" not in value and is_unicode(value):
            return _constant("STRING", value)
        case datetime.datetime():
            return _cast("TIMESTAMP" if value.tzinfo is None else "TIMESTAMPTZ", value.isoformat(sep=" "))
        case datetime.date():
            return _cast("DATE", value.isoformat())
        case datetime.time() if value.tzinfo is None:
            return _cast("TIME", value.isoformat())
        case datetime.timedelta():
            span = _example("to_microseconds(1)")
            (argument,) = span["arguments"]
            given = _constant("INTEGER", str(value // datetime.timedelta(microseconds=1)))
            return span | {"arguments": [argument | {"expression": given}]}
        case uuid.UUID():
            return _cast("UUID", str(value))
        case Typed() if value.text is None or ("\0" not in value.text and is_unicode(value.text)):
            return _cast(value.type, value.text)
        case Items():
            items = [{"name": "", "expression": _constant_of(each, number)} for each in value]
            return _example("list_value()") | {"arguments": items}
        case bytes() | bytearray():
            return _cast("BLOB", "".join(f"\\x{byte:02X}" for byte in value))
    raise QueryRefused(f"parameter {number}: this {type(value).__name__} has no literal in SQL", code="parameter")


def _constant(kind: str, text: str) -> MutableTree:
    return _example("1") | {"literal": {"kind": kind, "text": text}}


def _cast(type_: str, text: str | None) -> MutableTree:
    child = _constant("NULL_LITERAL", "") if text is None else _constant("STRING", text)
    return _example(f"CAST('' AS {type_})") | {"child": child}


@cache
def _example(sql: str) -> MutableTree:
    """DuckDB's tree of an expression, which is constant in this file."""
    node: MutableTree = tree_of(f"SELECT {sql}")["statements"][0]["node"]["select_list"][0]
    return node
