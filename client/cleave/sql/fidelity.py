"""Whether a statement still means the same after sqlglot read and wrote it, as DuckDB's own parser sees both.

sqlglot understands most of DuckDB's grammar, not all: it reads list(x)[1] as the list of 1. Everything sent or computed
here is written by it, so a statement that comes out with another tree is refused.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal, InvalidOperation
from typing import Any

from cleave_shared import duckdb

_SAME_FUNCTION = {"^": "power", "**": "power", "pow": "power", "@": "abs"}
_SAME_TYPE = {
    "text": "varchar",
    "string": "varchar",
    "char": "varchar",
    "bpchar": "varchar",
    "int": "integer",
    "int1": "tinyint",
    "int2": "smallint",
    "int4": "integer",
    "int8": "bigint",
    "int16": "smallint",
    "int32": "integer",
    "int64": "bigint",
    "int128": "hugeint",
    "signed": "integer",
    "short": "smallint",
    "long": "bigint",
    "real": "float",
    "float4": "float",
    "float8": "double",
    "numeric": "decimal",
    "dec": "decimal",
    "bool": "boolean",
    "logical": "boolean",
    "datetime": "timestamp",
    "timestamptz": "timestamp with time zone",
}
_INTERVALS = frozenset(
    f"to_{unit}s"
    for unit in "year month week day hour minute second millisecond microsecond".split()  # noqa: SIM905
)
_NEGATED = {
    "OPERATOR_IS_NOT_NULL": ("OPERATOR_IS_NULL", "OPERATOR"),
    "COMPARE_NOT_IN": ("COMPARE_IN", "OPERATOR"),
    "COMPARE_DISTINCT_FROM": ("COMPARE_NOT_DISTINCT_FROM", "COMPARISON"),
}
_IGNORED = frozenset({"query_location", "query_location_length", "qualified_name", "is_operator", "syntax_type"})


def same_statement(connection: duckdb.DuckDBPyConnection, one: str, other: str) -> bool:
    """Equal but for places in the text, the case of names, and spellings that DuckDB takes for one another."""
    return bool(_tree(connection, one) == _tree(connection, other))


def _tree(connection: duckdb.DuckDBPyConnection, sql: str) -> Any:
    row = connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [sql]).fetchone()
    return _plain(json.loads(row[0])) if row else None


def _plain(node: Any) -> Any:
    """`node` with one spelling where DuckDB has several for the same."""
    if isinstance(node, list):
        return [_plain(each) for each in node]
    if not isinstance(node, dict):
        return node
    plain = {key: _plain(value) for key, value in node.items() if key not in _IGNORED}
    kind, group = plain.get("type"), plain.get("class")
    if (interval := _interval(plain)) is not None:
        return interval
    if kind in _NEGATED:
        return {"type": "OPERATOR_NOT", "class": "OPERATOR", "alias": plain["alias"], "children": [_positive(plain)]}
    if group == "FUNCTION":
        name = plain["function_name"].lower()
        plain["function_name"] = _SAME_FUNCTION.get(name, name)
        if name == "date_part":  # EXTRACT(year FROM x)
            plain["arguments"] = [json.loads(json.dumps(plain["arguments"][0]).lower()), *plain["arguments"][1:]]
    elif group == "COLUMN_REF":
        plain["column_names"] = [name.lower() for name in plain["column_names"]]
    elif group == "CAST" and _type_of(plain) == "double":
        plain["child"] = _number(plain["child"])
    elif "type_name" in plain:
        name = plain["type_name"].lower()
        plain["type_name"] = _SAME_TYPE.get(name, name)
        plain["children"] = _parameters(plain)
    elif "null_order" in plain:  # how an unset DuckDB orders
        plain["null_order"] = plain["null_order"].replace("ORDER_DEFAULT", "NULLS LAST")
        plain["type"] = plain["type"].replace("ORDER_DEFAULT", "ASCENDING")
    elif kind == "BASE_TABLE":
        plain["table_name"] = plain["table_name"].lower()
    elif kind == "VALUE_CONSTANT":
        return _number(plain, strings=False)
    return plain


def _positive(negated: dict[str, Any]) -> dict[str, Any]:
    kind, group = _NEGATED[negated["type"]]
    return {**negated, "type": kind, "class": group, "alias": ""}


def _type_of(cast: dict[str, Any]) -> Any:
    return cast.get("type_expr", {}).get("type_name")


def _parameters(type_: dict[str, Any]) -> Any:
    if type_["type_name"] == "varchar":
        return []  # DuckDB takes no notice of a length
    if type_["type_name"] == "decimal" and not type_["children"]:
        return ["18", "3"]
    return type_["children"]


def _number(constant: Any, *, strings: bool = True) -> Any:
    """A numeric constant as its value."""
    literal = constant.get("literal") if isinstance(constant, dict) else None
    if not isinstance(literal, dict) or constant.get("alias") or (literal.get("kind") == "STRING" and not strings):
        return constant
    try:
        return str(Decimal(str(literal.get("text")).replace("_", "")))
    except InvalidOperation:
        return constant


def _interval(plain: dict[str, Any]) -> Any:
    """INTERVAL '3 days', INTERVAL '3' DAY and INTERVAL 3 DAY: (3, day)."""
    if plain.get("class") == "CAST" and _type_of(plain) == "interval" and isinstance(plain["child"], dict):
        literal = plain["child"].get("literal")
        text = literal.get("text") if isinstance(literal, dict) else None
        found = re.fullmatch(r"\s*(-?\d+)\s*([a-z]+?)s?\s*", str(text).lower())
        return (found[1], found[2]) if found and not plain["alias"] else None
    name = str(plain.get("function_name")).lower()
    if plain.get("class") != "FUNCTION" or name not in _INTERVALS or plain["alias"]:
        return None
    inner = plain["arguments"][0]["expression"]
    while isinstance(inner, dict) and (inner.get("class") == "CAST" or inner.get("function_name") == "trunc"):
        inner = inner["child"] if inner.get("class") == "CAST" else inner["arguments"][0]["expression"]
    return (inner, name[3:-1]) if isinstance(inner, str) else None
