"""Refusals of a query, or a part of it, by the services. DuckDB on this machine may still answer it."""

from __future__ import annotations

import difflib

from cleave.aggregates import DECLARED
from cleave.sql.functions import BY_TEXT, BY_TEXT_HINT, COMPARES_VALUES, COUNTS_EQUAL_VALUES
from cleave.table.functions import FUNCTIONS, UNSTEADY
from cleave.table.schema import Column, Kind
from cleave.table.trees import Tree
from cleave.table.types import FLOATS, decimals_of
from cleave_shared.duckdb_errors import Fault, unparsed
from cleave_shared.errors import QueryRefused

RESERVED = 'a name that SQL also uses, such as "at" or "semi", needs double quotes'
SUPPORTED = "aggregates over encrypted columns: " + ", ".join(name for each in DECLARED for name in each.names[:1])


class Uncut(QueryRefused):
    """The services cannot answer. The message is the reason; the hint is the nearest query that they can answer."""


class OnlyLocal(Uncut):
    """No service can compute an aggregate: this machine computes the output, HAVING or ORDER BY term that reads it."""


def no_service(what: str, hint: str | None = None) -> Uncut:
    return Uncut(f"no service answers {what}", hint=hint)


def refused(fault: Fault) -> QueryRefused:
    """The refusal of a statement that DuckDB does not plan."""
    return QueryRefused(fault.why, hint=fault.hint, code=fault.code, name=fault.name)


def no_sql(text: str, tree: Tree, hint: str) -> QueryRefused:
    """The refusal of a text that DuckDB does not parse. `tree`: of `text`."""
    message = str(tree.get("error_message"))
    if "depth" in message:
        return too_deep()
    fault = unparsed(message)
    if "position" not in tree:
        return refused(fault)
    before = text.encode()[: int(tree["position"])].decode(errors="replace")
    if message.startswith("unterminated"):
        return QueryRefused(fault.why, code="syntax", at=len(before))
    place = f"at line {before.count(chr(10)) + 1}, column {len(before) - before.rfind(chr(10))}"
    return QueryRefused(f"syntax error {place}", hint=hint, code="syntax", at=len(before))


def several(count: int) -> QueryRefused:
    if not count:
        return QueryRefused("the query is empty", hint="for example: SELECT COUNT(*) FROM t", code="syntax")
    return QueryRefused(f"{count} statements, one at a time", hint="run them one by one", code="syntax")


def too_deep() -> QueryRefused:
    return QueryRefused("the query is nested too deeply", hint="use fewer levels of brackets", code="limit")


def no_function(name: str) -> QueryRefused:
    """The refusal of a function that does not exist in DuckDB or may not be called."""
    of_sample = [f"{name}_samp"]  # the usual word for a sample's variance lacks it
    near = of_sample if FUNCTIONS.issuperset(of_sample) else difflib.get_close_matches(name, sorted(FUNCTIONS), n=1)
    hint = f"did you mean {near[0].upper()}?" if near else "the functions are DuckDB's, of their arguments alone"
    return QueryRefused(f"there is no function {name.upper()}", hint=hint, code="no_function", name=name)


def require_by_text(name: str) -> None:
    """Refuse an aggregate named by a text. The text may be a parameter's value, so no message quotes it."""
    if not name:
        raise Uncut(BY_TEXT, hint=BY_TEXT_HINT)
    if name in UNSTEADY or name not in FUNCTIONS:
        raise QueryRefused("a text names an aggregate that cannot be called", hint=BY_TEXT_HINT, code="no_function")


def single_value(name: str) -> QueryRefused:
    return Uncut(
        f"{name!r} is encrypted: services compute its aggregates, never single values",
        hint=f"use an aggregate, such as SUM({name}) or AVG({name})",
        name=name,
    )


def over(column: Column) -> str:
    return f"over {column.name!r}, which is {column.kind}"


def selected_by(column: Column) -> str:
    return (
        f"over rows that {column.name!r} selects, which is {column.kind}: only you may know them, so they can only be "
        "summed"
    )


def stays_local(column: Column) -> OnlyLocal:
    """The refusal to send anything of a sealed or local column."""
    reason = "no service computes on it" if column.kind is Kind.SEALED else "it never leaves this machine"
    return OnlyLocal(
        f"column {column.name!r} is {column.kind}: {reason}",
        hint="declare it plain or encrypted in the schema if services may compute on it",
        name=column.name,
    )


def not_declared(name: str, why: str) -> OnlyLocal:
    """The refusal of an aggregate. `why` it needs encryption: see `over` and `selected_by`."""
    if name.lower() in COMPARES_VALUES:
        reason = "values cannot be compared under encryption"
    elif name.lower() in COUNTS_EQUAL_VALUES:
        reason = "equal values cannot be recognised under encryption"
    else:
        reason = "it is not one of the aggregates that can be computed under encryption"
    return OnlyLocal(f"{name} {why}: {reason}", hint=SUPPORTED)


def encodable(type_: str) -> OnlyLocal | None:
    """The refusal of a type whose values cannot be encrypted; None if they can."""
    if decimals_of(type_) is not None or type_ in FLOATS:
        return None
    if type_ == "BIGNUM":
        return OnlyLocal(
            f"an encrypted argument is {type_}, at most 128 bits can be encrypted",
            hint="cast it to HUGEINT or to DOUBLE",
        )
    return OnlyLocal(
        f"an encrypted argument is {type_}, which is not a number", hint="cast it to a number, or use COUNT"
    )
