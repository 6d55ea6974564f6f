"""sqlglot's DuckDB dialect, made to write back what it read.

As it comes sqlglot translates: log10(x) to LOG(10, x), which is another double; IFNULL to COALESCE; and so on. Here
every function keeps its name and arguments (a test runs hundreds of expressions both ways through DuckDB).
"""

from __future__ import annotations

from typing import Any, ClassVar

from sqlglot import ErrorLevel, exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.generators.duckdb import DuckDBGenerator
from sqlglot.parsers import duckdb as parsers
from sqlglot.parsers.duckdb import DuckDBParser

from cleave.sql import sources

sources.require(parsers)


def _substring(parser: Any) -> exp.Anonymous:
    """SUBSTRING(x FROM 1 FOR 2), which DuckDB too takes for substring(x, 1, 2)."""
    read = DuckDBParser._parse_substring(parser)
    return _call("substring", read.this, read.args.get("start"), read.args.get("length"))


def _trim(parser: Any) -> exp.Anonymous:
    """TRIM(LEADING 'x' FROM y), which DuckDB too takes for ltrim(y, 'x')."""
    read = DuckDBParser._parse_trim(parser)
    name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(read.args.get("position") or "", "trim")
    return _call(name, read.this, read.expression)


def _call(name: str, *arguments: exp.Expression | None) -> exp.Anonymous:
    return exp.Anonymous(this=name, expressions=[each for each in arguments if each])


class FaithfulDuckDB(DuckDB):
    DATE_PART_MAPPING: dict[str, str] = {}  # noqa: RUF012 - sqlglot declares it so

    class Parser(DuckDBParser):
        FUNCTIONS: ClassVar[dict[str, Any]] = {}
        NO_PAREN_FUNCTIONS: ClassVar[dict[Any, Any]] = {}
        FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
            name: parser
            for name, parser in DuckDBParser.FUNCTION_PARSERS.items()
            if name in ("CAST", "TRY_CAST", "EXTRACT")
        } | {"SUBSTRING": _substring, "TRIM": _trim}
        NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
            name: parser
            for name, parser in DuckDBParser.NO_PAREN_FUNCTION_PARSERS.items()
            if name in ("CASE", "ANY", "MAP", "@")
        }

    class Generator(DuckDBGenerator):
        MULTI_ARG_DISTINCT = True


def write(node: exp.Expression) -> str:
    """One line of DuckDB SQL.

    Raises sqlglot.errors.UnsupportedError for what could not be written as it was read.
    """
    return node.sql(FaithfulDuckDB, normalize_functions=False, comments=False, unsupported_level=ErrorLevel.RAISE)


def column(name: str) -> exp.Column:
    return exp.column(exp.to_identifier(name, quoted=True))


def identity(node: exp.Expression) -> str:
    """The same for expressions that differ in brackets and spaces only, once their names are resolved."""
    root = exp.Paren(this=node.copy())
    for paren in list(root.find_all(exp.Paren)):
        if paren is not root:
            paren.replace(paren.this)
    return repr(root)
