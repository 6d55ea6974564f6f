"""MySQL's functions in DuckDB's SQL, where sqlglot does not translate them, or changes what they return."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlglot import exp, parse_one

from cleave_shared.errors import QueryRefused

_NOW: Final = "CAST(now() AS TIMESTAMP)"
_TEMPLATES: Final = {  # by name and number of arguments: DuckDB's SQL over the arguments a0, a1
    ("NOW", 0): _NOW,
    ("NOW", 1): _NOW,
    ("SYSDATE", 0): _NOW,
    ("UNIX_TIMESTAMP", 0): "CAST(floor(epoch(now())) AS BIGINT)",
    ("UNIX_TIMESTAMP", 1): "CAST(floor(epoch(CAST(a0 AS TIMESTAMP))) AS BIGINT)",
    ("MAKEDATE", 2): "make_date(CAST(a0 AS INTEGER), 1, 1) + CAST(a1 AS INTEGER) - 1",
    ("ADDDATE", 2): "CAST(a0 AS TIMESTAMP) + a1",
    ("SUBDATE", 2): "CAST(a0 AS TIMESTAMP) - a1",
    ("TIMEDIFF", 2): "CAST(a0 AS TIMESTAMP) - CAST(a1 AS TIMESTAMP)",
    ("WEEKDAY", 1): "isodow(CAST(a0 AS TIMESTAMP)) - 1",
}
_DAY_OF_WEEK: Final = "isodow(a0) % 7 + 1"  # Sunday is 1
_WEEKS: Final = {"0": "CAST(strftime(a0, '%U') AS INTEGER)", "3": "weekofyear(a0)"}
_SUNDAY: Final = "CAST(date_trunc('week', CAST(a0 AS TIMESTAMP) + INTERVAL 1 DAY) - INTERVAL 1 DAY AS DATE)"
_FIRST_MATCH: Final = "nullif(regexp_extract(a0, a1), '')"
_EPOCH: Final = "TIMESTAMP '1970-01-01 00:00:00' + a0"


def in_duckdb(node: exp.Expr) -> exp.Expr | None:
    """Translate a function of MySQL whose arguments are translated; None: sqlglot's translation is right.

    Raises QueryRefused for what is neither.
    """
    match node:
        case exp.Anonymous(this=str(name)) if template := _TEMPLATES.get((name.upper(), len(node.expressions))):
            return _filled(template, node.expressions)
        case exp.Anonymous(this=str(name)) if name.upper() == "TIME_FORMAT" and len(node.expressions) == 2:
            moment, form = node.expressions
            shown = parse_one(f"DATE_FORMAT('', {form.sql('mysql')})", read="mysql")
            shown.set("this", _filled(_EPOCH, [moment]))
            return shown
        case exp.DayOfWeek():
            return _filled(_DAY_OF_WEEK, [node.this])
        case exp.Week():
            mode = node.args.get("mode")
            if (template := _WEEKS.get(mode.name if mode else "0")) is None:
                raise QueryRefused("WEEK() is answered with mode 0 or 3 only")
            return _filled(template, [node.this])
        case exp.StrToDate(this=exp.Concat(expressions=[exp.Anonymous() as week, exp.Literal(this=" Sunday")])):
            if week.name.upper() == "YEARWEEK" and node.text("format") == "%X%V %A" and len(week.expressions) == 1:
                return _filled(_SUNDAY, week.expressions)
        case exp.RegexpSubstr() if set(node.args) <= {"this", "expression"}:
            return _filled(_FIRST_MATCH, [node.this, node.expression])
        case exp.UnixToTime() if node.args.get("format"):
            raise QueryRefused("FROM_UNIXTIME() takes one argument here", hint="DATE_FORMAT(FROM_UNIXTIME(...), ...)")
        case exp.ConvertTimezone():
            for zone in ("source_tz", "target_tz"):
                if node.text(zone) == "+00:00":
                    node.set(zone, exp.Literal.string("UTC"))
    return None


def _filled(template: str, arguments: Sequence[exp.Expr]) -> exp.Expr:
    def put(node: exp.Expr) -> exp.Expr:
        is_argument = isinstance(node, exp.Column) and node.name in ("a0", "a1") and not node.table
        return arguments[int(node.name[1])].copy() if is_argument else node

    return exp.Paren(this=parse_one(template, read="duckdb").transform(put))
