"""What is said where the arithmetic of a query fails on the groups' figures."""

from __future__ import annotations

from cleave_shared.errors import QueryRefused

_TRY = "TRY_CAST and NULLIF(x, 0) give NULL instead of an error"


def failed(reason: str) -> QueryRefused:
    return QueryRefused(f"the arithmetic over the groups' aggregates failed ({reason})", hint=_TRY)
