"""The refusal of a question, or of a part of one, that no service can answer and DuckDB on this machine may."""

from __future__ import annotations

from cleave_shared.errors import QueryRefused


class Uncut(QueryRefused):
    """Its message is the reason why, its hint the nearest question a service can answer."""


class OnlyHere(Uncut):
    """Of an aggregate: the output, HAVING or ORDER BY term it stands in is computed here, beside the others."""


def no_service(what: str, hint: str | None = None) -> Uncut:
    return Uncut(f"no service answers {what}", hint=hint)
