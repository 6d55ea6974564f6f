"""Work that is no sum, shared over the sensitive service's workers: each gives a list of byte strings for its share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from cleave_services.sensitive import workers
from cleave_services.sensitive.evaluate import Results

Work = Callable[[Sequence[Any]], list[bytes]]
_MOST = 1000  # byte strings of a share


class Sharing:
    def __init__(self, of: Work, items: Sequence[Any]) -> None:
        self._of, self._items = of, list(items)

    def work(self, items: Sequence[Any]) -> int:
        return workers.MIN_WORK * len(items)

    def part(self, _: Sequence[Any]) -> Sharing:
        return self

    def evaluate(self, share: Sequence[Any]) -> Results:
        first = _MOST * self._items.index(share[0])
        return Results({first + number: each for number, each in enumerate(self._of(share))})

    def merge(self, parts: Sequence[Results]) -> Results:
        return Results({number: each for part in parts for number, each in part.files.items()})


def spread(work: Work, items: Sequence[Any], count: int, seconds: float | None = None) -> list[list[bytes]]:
    """What `work` makes of each share, in order."""
    found: dict[int, list[bytes]] = {}
    for number, each in workers.evaluate(Sharing(work, items), items, count, seconds).files.items():
        found.setdefault(number // _MOST, []).append(each)
    return list(found.values())
