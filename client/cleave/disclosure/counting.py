"""Which columns a threshold uses to count a question's rows (rules P2 to P4)."""

from __future__ import annotations

from cleave.sql.plan import Counting, QueryPlan
from cleave.table.privacy import CONTRIBUTOR
from cleave.table.schema import Schema
from cleave_shared.errors import QueryRefused


def counting_of(cut: QueryPlan, schema: Schema, party: str = "") -> Counting | None:
    """What a threshold counts; None if the groups' numbers of rows are enough. `party`: the column of contributors.

    Raises QueryRefused if only the contributor identifies a person, and the table has no contributors.
    """
    named = schema.privacy.entity
    entity = tuple(name for name in named if schema.find(name) or party)
    if named and not entity:
        raise QueryRefused(
            f"a minimum group size counts people by {CONTRIBUTOR!r}, and this table has no contributors",
            hint="name the column of the people with --entity",
        )
    return Counting(entity, party) if entity or party or cut.maybe_null else None


def why_rows(cut: QueryPlan, counting: Counting) -> str:
    """Why a threshold needs rows of a stored table where `cut` alone does not; "" if it needs none."""
    if counting.entity:
        return f"a minimum group size counts people ({', '.join(counting.entity)}), and only rows tell them apart"
    if cut.maybe_null:
        return "a minimum group size counts the rows that have a value, and an argument may be NULL"
    return ""
