"""Queries that are not in the audit logs of their tables yet."""

from __future__ import annotations

import datetime
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pydantic import JsonValue

_MOST_ANSWERS: Final = 200  # in one record; further queries are only counted


class Queries:
    """Per table: query counts by user, and the first 200 queries as (time, user, rows of the answer).

    For users without rows, also facts that they may not see (rules A3 and G3): (time, user, hidden groups, hidden
    figures, bytes read, seconds). It contains no SQL and no value. A query that failed while rows were read has None
    instead of its rows, because the failure may depend on a sealed value.
    """

    def __init__(self) -> None:
        self._users: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._answers: defaultdict[str, list[JsonValue]] = defaultdict(list)
        self._hidden: defaultdict[str, list[JsonValue]] = defaultdict(list)

    def add(self, tables: list[str], user: str, rows: int | None, hidden: Sequence[JsonValue] = ()) -> None:
        at = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        for table in tables:
            self._users[table][user] += 1
            self._answers[table].append([at, user, rows])
            del self._answers[table][_MOST_ANSWERS:]
            if hidden:
                self._hidden[table].append([at, user, *hidden])
                del self._hidden[table][_MOST_ANSWERS:]

    def put_back(self, table: str, earlier: Queries) -> None:
        """Add the queries of `table` that could not be recorded in `earlier`."""
        self._users[table] += earlier._users[table]
        self._answers[table] = [*earlier._answers[table], *self._answers[table]][:_MOST_ANSWERS]
        self._hidden[table] = [*earlier._hidden[table], *self._hidden[table]][:_MOST_ANSWERS]

    def details(self) -> dict[str, dict[str, JsonValue]]:
        """The details of one audit record per table."""
        records: dict[str, dict[str, JsonValue]] = {}
        for table, users in self._users.items():
            records[table] = {"users": dict(users), "answers": self._answers[table]}
            if hidden := self._hidden[table]:
                records[table]["hidden"] = hidden
        return records
