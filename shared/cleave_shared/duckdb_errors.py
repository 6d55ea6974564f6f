"""DuckDB's errors in our words: the one table for all that runs DuckDB, here and in the plain service.

While a statement is planned, over empty tables, DuckDB's message tells which name or type is wrong: `PLANNED` takes
names and types from it. While rows are read, a message may quote values: `FAILED` goes by the error's class.

What no row of `PLANNED` matches gets the words of its class. tests/conformance/test_duckdb_errors.py fails for it.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Final

from cleave_shared.errors import Code


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong. `why`: words of a message. `name`: the column, table or function."""

    code: Code
    why: str
    hint: str | None = None
    name: str | None = None


_CAST = "cast what does not fit, as in x::DOUBLE or '2024-01-31'::DATE"
_ALONE = "try each function and clause alone"
_OUTSIDE = "files, settings and extensions cannot be reached"
_AGAIN = "run it again; if it fails again, write the statement in another way"

FAILED: Final[dict[str, Fault]] = {
    "ConversionException": Fault(
        "conversion", "a value does not fit its type", "TRY_CAST gives NULL where a value does not fit"
    ),
    "OutOfRangeException": Fault(
        "out_of_range",
        "a result is too large for its type",
        "cast its columns to a wider type or to DOUBLE, as in SUM(x::DOUBLE * y)",
    ),
    "InvalidInputException": Fault(
        "not_computable",
        "a function does not take a value",
        "TRY(x) gives NULL where it fails, NULLIF(x, 0) where one divides",
    ),
    "TypeMismatchException": Fault("conversion", "a value has another type", _CAST),
    "DataError": Fault("not_computable", "a value does not fit", "TRY(x) gives NULL where it fails"),
    "SequenceException": Fault("refused", "there are no sequences", _ALONE),
    "ConstraintException": Fault("not_computable", "a value breaks a rule of its column", None),
    "IntegrityError": Fault("not_computable", "a value breaks a rule of its column", None),
    "OutOfMemoryException": Fault("exhausted", "there is not enough memory", "select fewer rows or columns"),
    "BinderException": Fault("refused", "a name, a type or the place of an expression does not fit", _ALONE),
    "CatalogException": Fault("refused", "there is no such function, type or table", _OUTSIDE),
    "ParserException": Fault("syntax", "DuckDB cannot read it", "the dialect is DuckDB's"),
    "SyntaxException": Fault("syntax", "DuckDB cannot read it", "the dialect is DuckDB's"),
    "InvalidTypeException": Fault("no_type", "a type does not fit", _CAST),
    "ProgrammingError": Fault("refused", "the statement does not fit", _ALONE),
    "NotImplementedException": Fault("refused", "DuckDB does not have this yet", _ALONE),
    "NotSupportedError": Fault("refused", "DuckDB does not have this yet", _ALONE),
    "PermissionException": Fault("refused", "it reads something other than the tables", _OUTSIDE),
    "IOException": Fault("refused", "it reads something other than the tables", _OUTSIDE),
    "HTTPException": Fault("refused", "it reads something other than the tables", _OUTSIDE),
    "DependencyException": Fault("refused", "something else depends on it", _ALONE),
    "TransactionException": Fault("refused", "a transaction was in its way", _AGAIN),
    "ConnectionException": Fault("not_computable", "DuckDB stopped", _AGAIN),
    "ResourceInUseException": Fault("not_computable", "DuckDB is at work on it", _AGAIN),
    "SerializationException": Fault("refused", "DuckDB cannot write the statement down", _AGAIN),
    "InterruptException": Fault("not_computable", "it was interrupted", _AGAIN),
    "InternalException": Fault("not_computable", "DuckDB fails at it", _AGAIN),
    "InternalError": Fault("not_computable", "DuckDB fails at it", _AGAIN),
    "FatalException": Fault("not_computable", "DuckDB fails at it", _AGAIN),
    "OperationalError": Fault("not_computable", "DuckDB fails at it", _AGAIN),
    "DatabaseError": Fault("not_computable", "DuckDB fails at it", _AGAIN),
    "Error": Fault("not_computable", "DuckDB fails at it", _AGAIN),
}
"""By the class of DuckDB's error. Nothing is read from the message."""

_COLUMN, _TYPES = '"(?P<name>[^"]+)"', r"(?P<types>[^\n]+?)"
PLANNED: Final[tuple[tuple[str, Code, str, str | None], ...]] = (
    # pattern at the start of DuckDB's message; code; our words; our hint, if Session has no better one
    (f"Referenced column {_COLUMN} (?:not found|was not found)", "no_column", "there is no column {name!r}", None),
    (
        r'(?:Table|Values list) "(?P<table>[^"]+)" does not have a column named "(?P<name>[^"]+)"',
        "no_column",
        "there is no column {name!r} in {table!r}",
        None,
    ),
    (rf"Column {_COLUMN} in \w+ list not found", "no_column", "there is no column {name!r}", None),
    (
        f"Column {_COLUMN} does not exist on (?:left|right) side of join",
        "no_column",
        "there is no column {name!r} on both sides of the join",
        None,
    ),
    (
        rf"Column {_COLUMN} referenced by generated column does not exist",
        "no_column",
        "there is no column {name!r}",
        None,
    ),
    (r"Circular dependency", "no_column", "its expression reads the column itself", None),
    (r"No matching columns|Star expression|SELECT list is empty", "no_column", "a star selects no column", None),
    (r"Could not find key|Cannot extract field", "no_column", "a struct has no such field", "write struct_extract"),
    (f"Referenced table {_COLUMN} not found", "no_table", "there is no table or field {name!r}", None),
    (r'Table with name "?(?P<name>[^\s"!]+)"? does not exist', "no_table", "there is no table {name!r}", None),
    (f"Circular reference to CTE {_COLUMN}", "no_table", "{name!r} reads itself", "write WITH RECURSIVE"),
    (
        r'[\w ]*Function with name "?(?P<name>[^\s"]+?)"? (?:does not exist|is not in the catalog)',
        "no_function",
        "there is no function {name}",
        None,
    ),
    (
        r'(?P<what>[\w ]+) with name "?(?P<name>[^\s"]+?)"? (?:does not exist|is not in the catalog)',
        "no_type",
        "there is no {what} {name}",
        None,
    ),
    (
        r"No function matches the given name and argument types '(?P<call>[^\n]*)'\.",
        "no_match",
        "there is no {call}",
        f"look at the number and types of its arguments; {_CAST}",
    ),
    (
        r'Could not choose a best candidate function for the function call "(?P<call>[^\n]*)"\.',
        "no_match",
        "several functions fit {call}",
        f"say which type is meant; {_CAST}",
    ),
    (r"Macro (?P<name>\w+)\(\) does not support", "no_match", "there is no {name} of these arguments", _CAST),
    (r"Cannot unpivot columns", "no_match", "UNPIVOT takes columns of one type", _CAST),
    (r"Cannot deduce template type", "no_match", "the types of a list or of arguments differ", _CAST),
    (rf"Cannot compare values of type {_TYPES} - an", "no_match", "{types} cannot be compared", _CAST),
    (
        rf"Cannot (?:mix|combine) (?:values|types) of (?:type )?{_TYPES}(?: -|$)",
        "no_match",
        "{types} do not fit",
        _CAST,
    ),
    (r"UNNEST\(\) can only be applied", "no_match", "UNNEST takes a list or a struct", None),
    (r"Subquery returns (?P<count>\d+) columns", "no_match", "a subquery gives {count} columns where one fits", None),
    (
        r"Set operations can only apply|UNION types",
        "no_match",
        "both sides of UNION, INTERSECT and EXCEPT need the same number of columns",
        None,
    ),
    (r"collations are only supported", "no_match", "COLLATE takes text", None),
    (r"table \"[^\"]+\" has \d+ columns available", "no_match", "a table has fewer columns than names", None),
    (r"DECIMAL type (?:width|scale)|Width must be|Scale ", "no_type", "DECIMAL has 1 to 38 digits", None),
    (
        r'column "?(?P<name>[^"]+?)"? must appear in the GROUP BY clause',
        "ungrouped",
        "column {name!r} is neither in GROUP BY nor in an aggregate",
        "name it in GROUP BY, or select ANY_VALUE of it",
    ),
    (
        r"(?P<clause>[A-Z][A-Z /]*?)(?: clause)? cannot contain aggregates",
        "misplaced",
        "{clause} cannot hold an aggregate",
        "HAVING filters groups",
    ),
    (
        r"(?P<clause>[A-Z][A-Z /]*?)(?: clause)? cannot contain window functions",
        "misplaced",
        "{clause} cannot hold a window function",
        "QUALIFY filters by one",
    ),
    (
        r"aggregate function calls cannot",
        "misplaced",
        "an aggregate cannot be inside another aggregate",
        "query the inner one by itself",
    ),
    (r"Aggregate functions are not supported here", "misplaced", "an aggregate cannot be here", None),
    (r"aggregate functions are not allowed in (?P<clause>\w+)", "misplaced", "{clause} cannot hold an aggregate", None),
    (
        r"Nested UNNEST calls",
        "misplaced",
        "UNNEST cannot be inside another one",
        "UNNEST(x, recursive := true) does both",
    ),
    (r"STAR expression is not supported", "misplaced", "a star cannot be here", None),
    (r"UNNEST not supported here", "misplaced", "UNNEST cannot be here", "use it in SELECT or FROM"),
    (r"Expression of generated column", "misplaced", "a subquery cannot be here", None),
    (r"window functions are not allowed", "misplaced", "a window cannot hold a window function", None),
    (r"window function calls cannot", "misplaced", "a window function cannot be inside another one", None),
    (r"Window functions are not supported here", "misplaced", "a window function needs OVER (...)", None),
    (
        r'Function "[^"]+" is a \w+ Function. "DISTINCT"',
        "misplaced",
        "only aggregates take DISTINCT, FILTER and ORDER BY",
        None,
    ),
    (r"GROUPING ", "misplaced", "GROUPING() takes what the query groups by", "name a key of GROUP BY"),
    (
        r"QUALIFY |at least one window function must",
        "misplaced",
        "QUALIFY needs a window function",
        "HAVING filters groups",
    ),
    (
        r"(?P<clause>ORDER|GROUP BY) term out of range - should be between 1 and (?P<count>\d+)",
        "no_place",
        "a number in {clause} is that of a select item, 1 to {count}",
        None,
    ),
    (r"Positional reference", "no_place", "a number behind # is that of a column", None),
    (
        rf"Ambiguous reference to column name {_COLUMN} \(use: (?P<uses>[^)]*)\)",
        "ambiguous",
        "{name!r} is in several tables",
        "write {uses}",
    ),
    (r'Ambiguous reference to \w+ "(?:\w+\.main\.)?(?P<name>[^"]+)"', "ambiguous", "{name!r} is meant twice", None),
    (r".*LIMIT/OFFSET cannot be negative", "constant", "LIMIT and OFFSET take 0 or more", None),
    (r".*QUANTILE can only take parameters", "constant", "a quantile is between 0 and 1", None),
    (r".*must be a? ?constant", "constant", "an argument of a function must be a constant", None),
    (r"Failed to parse format specifier", "constant", "a format of strftime or strptime is none", None),
    (r"Values were not provided", "parameter", "a parameter has no value", "write the value itself"),
    (r"SELECT clause without selection list", "syntax", "SELECT has no columns", "for example: SELECT COUNT(*) FROM t"),
    (r"unterminated", "syntax", "the query holds a quote or comment that does not end", None),
    (r"Sample sample_size", "constant", "a sample has 0% to 100% of the rows", None),
    (r'window "(?P<name>[^"]+)" does not exist', "no_type", "there is no window {name}", "WINDOW {name} AS (...)"),
    (r"(?:Missing|Multiple) ASOF JOIN", "syntax", "an ASOF join has one inequality", None),
    (r"Unknown ordered aggregate|Cannot use multiple ORDER BY", "syntax", "WITHIN GROUP does not fit", None),
    (r"VALUES lists must all", "syntax", "rows of VALUES have different numbers of columns", None),
    (r"DISTINCT requires at least one argument", "syntax", "DISTINCT needs an argument", None),
    (r"syntax error", "syntax", "the syntax is wrong", None),
)
"""Messages of planning, the first that matches."""

_HIDDEN = "..."
_EXPRESSION = re.compile(r"['()]|^[-+]?[\d.]+(?:e[-+]?\d+)?$", re.IGNORECASE)
_WORDS = {"STRING_LITERAL": "text", "INTEGER_LITERAL": "number"}


def failed(error: Exception) -> Fault:
    """What is wrong while rows are read. `error`: DuckDB's."""
    return FAILED.get(type(error).__name__, FAILED["Error"])


def planned(error: Exception) -> Fault:
    """What is wrong with a statement that DuckDB does not plan over empty tables: a wrong value is a constant there."""
    fault = _read(type(error).__name__, message_of(error))
    if fault.code not in ("conversion", "out_of_range", "not_computable"):
        return fault
    return Fault("constant", "a constant of the statement does not fit its type or function", fault.hint)


def unparsed(message: str) -> Fault:
    """What is wrong with a text that DuckDB does not parse. `message`: of json_serialize_sql."""
    return _read("ParserException", message)


def _read(kind: str, message: str) -> Fault:
    for pattern, code, words, hint in PLANNED:
        if match := re.match(pattern, message):
            found = {name: _shown(name, text) for name, text in match.groupdict("").items()}
            name = found.get("name") or (match["call"].partition("(")[0] if "call" in found else None)
            return Fault(code, words.format(**found), hint and hint.format(**found), None if name == _HIDDEN else name)
    return FAILED.get(kind, FAILED["Error"])


def _shown(group: str, text: str) -> str:
    """Names and types as a message may have them: without the values of an ENUM, or of a column that DuckDB named after
    its expression.
    """
    if group == "clause":
        return text if text != "ORDER" else "ORDER BY"
    if group == "what":
        return text.lower()
    if group in ("name", "table") and _EXPRESSION.search(text):
        return _HIDDEN
    if group not in ("call", "types"):
        return text
    text = re.sub(r"'[^']*'", "...", text).replace(" and type ", " and ")
    for word, ours in _WORDS.items():
        text = text.replace(word, ours)
    operator = re.fullmatch(r"([^\w\s(]+)\(([^(),]+), ([^(),]+)\)", text)
    return f"{operator[2]} {operator[1]} {operator[3]}" if operator else text


def facts_of(error: Exception) -> dict[str, Any]:
    """DuckDB's facts of an error, if it was set to write errors as JSON; else its message."""
    text = str(error).partition(": ")[2]
    try:
        facts = json.loads(text)
    except ValueError:
        facts = None
    return facts if isinstance(facts, dict) else {"exception_message": text}


def message_of(error: Exception) -> str:
    return str(facts_of(error).get("exception_message", ""))


def span_of(error: Exception) -> tuple[int, int] | None:
    """First byte and number of bytes of the part of the statement that an error is about, if DuckDB says it."""
    try:
        start, size = json.loads(facts_of(error)["location"])
    except (KeyError, ValueError, TypeError):
        return None
    return (start, size) if type(start) is int and type(size) is int else None
