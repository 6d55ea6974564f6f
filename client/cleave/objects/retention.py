"""How long a store can bring back objects that were deleted or replaced, as its own rules say."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

_DAY: Final = datetime.timedelta(days=1)
_ONLY_BY_PREFIX: Final = {"Prefix"}


@dataclass(frozen=True, slots=True)
class Retention:
    """Rules of a store for old versions of objects.

    `keeps`: whether there are any. `rules`: prefix of names and days, of each rule that removes them.
    """

    keeps: bool
    rules: tuple[tuple[str, int], ...] = ()

    def days(self, names: Iterable[str]) -> int | None:
        """Days until no old version of these objects is left, 0 if none is kept. None: they stay for ever."""
        if not self.keeps:
            return 0
        most = 0
        for name in names:
            days = [days for prefix, days in self.rules if name.startswith(prefix)]
            if not days:
                return None
            most = max(most, min(days))  # S3 obeys the rule that ends first
        return most


def of_bucket(prefix: str, rules: Iterable[Mapping[str, Any]]) -> Retention:
    """The retention of objects below `prefix` in a bucket with versions. `rules`: its lifecycle, as S3 returns it.

    A rule counts if it removes every old version below a prefix. One that asks for tags or sizes, or that leaves a
    number of versions, may leave some.
    """
    counting = []
    for rule in rules:
        expiry = rule.get("NoncurrentVersionExpiration", {})
        if rule.get("Status") != "Enabled" or "NoncurrentDays" not in expiry or expiry.get("NewerNoncurrentVersions"):
            continue
        filter_ = rule.get("Filter") or {"Prefix": rule.get("Prefix", "")}
        if filter_.keys() - _ONLY_BY_PREFIX:
            continue
        start = str(filter_.get("Prefix", ""))
        if start.startswith(prefix) or prefix.startswith(start):
            counting.append((start[len(prefix) :], int(expiry["NoncurrentDays"])))
    return Retention(keeps=True, rules=tuple(counting))


def end_of(days: int, start: datetime.datetime) -> datetime.datetime:
    """When a rule of so many days removes what was deleted at `start`: S3 rounds up to the next midnight, UTC."""
    if not days:
        return start
    end = (start + days * _DAY).astimezone(datetime.UTC)
    midnight = end.replace(hour=0, minute=0, second=0, microsecond=0)
    return midnight if midnight == end else midnight + _DAY
