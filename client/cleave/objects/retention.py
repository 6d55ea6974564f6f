"""How long a store can restore deleted or replaced objects, by its own rules."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

_DAY: Final = datetime.timedelta(days=1)
_ONLY_BY_PREFIX: Final = {"Prefix"}


@dataclass(frozen=True, slots=True)
class Retention:
    """A store's rules for old versions of objects.

    `keeps`: whether old versions exist. `rules`: (prefix of names, days) of each rule that deletes them.
    """

    keeps: bool
    rules: tuple[tuple[str, int], ...] = ()

    def days(self, names: Iterable[str]) -> int | None:
        """Days until all old versions of these objects are deleted; 0 if none are kept; None: they are kept forever."""
        if not self.keeps:
            return 0
        most = 0
        for name in names:
            days = [days for prefix, days in self.rules if name.startswith(prefix)]
            if not days:
                return None
            most = max(most, min(days))  # S3 follows the rule that ends first
        return most


def of_bucket(prefix: str, rules: Iterable[Mapping[str, Any]]) -> Retention:
    """The retention of objects below `prefix` in a versioned bucket. `rules`: its lifecycle, as S3 returns it.

    A rule counts only if it deletes every old version below a prefix. A rule that filters by tags or sizes, or keeps a
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
    """When a rule of this many days deletes what was deleted at `start`: S3 rounds up to the next midnight, UTC."""
    if not days:
        return start
    end = (start + days * _DAY).astimezone(datetime.UTC)
    midnight = end.replace(hour=0, minute=0, second=0, microsecond=0)
    return midnight if midnight == end else midnight + _DAY
