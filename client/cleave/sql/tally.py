"""Counts the selected rows for a threshold: by finest group, NULLs of the arguments, party and person.

The people in a union of groups are not a sum, so every distinct combination is listed. All of it stays on this machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cleave.sql.plan import Counting, QueryPlan
from cleave.table.duck import identifier
from cleave_shared.errors import QueryRefused

NOBODY: Final = -1
_MOST_ARGUMENTS: Final = 62  # bits of a pattern


@dataclass(frozen=True, slots=True)
class Tally:
    """Distinct combinations, one per index of the arrays: finest group; pattern, whose bit i is set if argument i of
    the plan's maybe_null has a value; number of the party; number of the person, NOBODY if a column of the entity is
    NULL; number of rows. `people` None: rows are counted.
    """

    groups: NDArray[np.int64]
    patterns: NDArray[np.uint64]
    parties: NDArray[np.int64]
    people: NDArray[np.int64] | None
    rows: NDArray[np.int64]

    @property
    def counted(self) -> str:
        """What is counted: "people" or "rows"."""
        return "rows" if self.people is None else "people"

    def __getitem__(self, chosen: NDArray[np.bool_]) -> Tally:
        people = None if self.people is None else self.people[chosen]
        return Tally(self.groups[chosen], self.patterns[chosen], self.parties[chosen], people, self.rows[chosen])


def tally_of_rows(counts: Sequence[int]) -> Tally:
    """The tally of groups with only their row counts: no argument is NULL."""
    groups = np.arange(len(counts), dtype=np.int64)
    rows = np.asarray(counts, np.int64)
    tally = Tally(groups, np.zeros(len(rows), np.uint64), np.zeros(len(rows), np.int64), None, rows)
    return tally[rows > 0]


def tallied(
    plan: QueryPlan, counting: Counting, relation: str, run: Callable[..., Any], fetch: Callable[..., Any]
) -> Tally:
    """Count the rows of `relation`, which are already selected. If there are keys, the table "grouped" numbers their
    groups.

    `run` runs a statement; `fetch` also returns its columns as arrays.
    """
    if len(plan.maybe_null) > _MOST_ARGUMENTS:
        raise QueryRefused(
            f"under a minimum group size, {len(plan.maybe_null)} arguments of aggregates may be NULL; at most "
            f"{_MOST_ARGUMENTS} are supported",
            hint="ask for fewer at a time",
        )
    keys = [f"k{i}" for i in range(len(plan.keys))]
    person = [f"w{i}" for i in range(len(counting.entity))]
    bits = [f"(CAST(({sql}) IS NOT NULL AS UBIGINT) << {i})" for i, sql in enumerate(plan.maybe_null)]
    selected = [f"({key}) AS {name}" for key, name in zip(plan.keys, keys, strict=True)]
    selected += [f"{identifier(column)} AS {name}" for column, name in zip(counting.entity, person, strict=True)]
    selected += [f"CAST({' | '.join(bits) or '0'} AS UBIGINT) AS pattern"]
    selected += [f"{identifier(counting.party)} AS party"] if counting.party else []
    named = " AND ".join(f"{name} IS NOT NULL" for name in person)
    group = " AND ".join(f"told.{key} IS NOT DISTINCT FROM grouped.{key}" for key in keys)
    who = " AND ".join(f"told.{name} = people.{name}" for name in person)
    try:
        run(
            "CREATE OR REPLACE TABLE told AS SELECT *, count(*) AS size "
            f"FROM (SELECT {', '.join(selected)} FROM {relation}) GROUP BY ALL"
        )
        if person:
            run(
                "CREATE OR REPLACE TABLE people AS SELECT *, row_number() OVER () - 1 AS person "
                f"FROM (SELECT DISTINCT {', '.join(person)} FROM told WHERE {named})"
            )
        columns: Mapping[str, NDArray[Any]] = fetch(
            f"SELECT {'grouped.number' if keys else '0'} AS number, pattern, "
            f"{'dense_rank() OVER (ORDER BY party) - 1' if counting.party else '0'} AS party, "
            f"{f'coalesce(people.person, {NOBODY})' if person else '0'} AS person, told.size AS size FROM told"
            + (f" JOIN grouped ON {group}" if keys else "")
            + (f" LEFT JOIN people ON {who}" if person else "")
        )
    finally:
        for name in ("told", "people"):
            run(f"DROP TABLE IF EXISTS {name}")
    return Tally(
        columns["number"].astype(np.int64),
        columns["pattern"].astype(np.uint64),
        columns["party"].astype(np.int64),
        columns["person"].astype(np.int64) if person else None,
        columns["size"].astype(np.int64),
    )
