"""Refusals of a query, or a part of it, by the services. DuckDB on this machine may still answer it."""

from __future__ import annotations

import difflib

from cleave.aggregates import DECLARED
from cleave.sql.functions import BY_TEXT, BY_TEXT_HINT, COMPARES_VALUES, COUNTS_EQUAL_VALUES
from cleave.table.functions import FUNCTIONS, UNSTEADY
from cleave.table.schema import Column, Kind
from cleave.table.types import FLOATS, decimals_of
from cleave_shared.errors import QueryRefused

SUPPORTED = "aggregates over encrypted columns: " + ", ".join(name for each in DECLARED for name in each.names[:1])


class Uncut(QueryRefused):
    """The services cannot answer. The message is the reason; the hint is the nearest query that they can answer."""


class OnlyLocal(Uncut):
    """No service can compute an aggregate: this machine computes the output, HAVING or ORDER BY term that reads it."""


def no_service(what: str, hint: str | None = None) -> Uncut:
    return Uncut(f"no service answers {what}", hint=hint)


def too_deep() -> QueryRefused:
    return QueryRefused("the query is nested too deeply", hint="use fewer levels of brackets")


def no_function(name: str) -> QueryRefused:
    """The refusal of a function that does not exist in DuckDB or may not be called."""
    of_sample = [f"{name}_samp"]  # the usual word for a sample's variance lacks it
    near = of_sample if FUNCTIONS.issuperset(of_sample) else difflib.get_close_matches(name, sorted(FUNCTIONS), n=1)
    hint = f"did you mean {near[0].upper()}?" if near else "the functions are DuckDB's, of their arguments alone"
    return QueryRefused(f"there is no function {name.upper()}", hint=hint)


def require_by_text(name: str) -> None:
    """Refuse an aggregate named by a text. The text may be a parameter's value, so no message quotes it."""
    if not name:
        raise Uncut(BY_TEXT, hint=BY_TEXT_HINT)
    if name in UNSTEADY or name not in FUNCTIONS:
        raise QueryRefused("a text names an aggregate that cannot be called", hint=BY_TEXT_HINT)


def single_value(name: str) -> QueryRefused:
    return Uncut(
        f"{name!r} is encrypted: services compute its aggregates, never single values",
        hint=f"use an aggregate, such as SUM({name}) or AVG({name})",
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
