"""Content of a noisy release: of each cell of declared values, numbers with noise, and the scale of that noise."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Literal

from cleave.disclosure.noise import MOST_CELLS, MOST_NUMBERS, StatisticKind
from cleave.releases.release import ReleasedTotals
from cleave.sql.rejoin import Texts
from cleave.store.manifest import Count, StoredModel
from cleave.store.padding import padded
from cleave.table.duck import identifier

_MOST_DECIMALS = 38
_INT64 = range(-(1 << 63), 1 << 63)
_DIGITS = 21  # of a number, with its sign and comma
_NOISE = 64  # of epsilon and scale of a statistic


class NoisyStatistic(StoredModel):
    """What one list of numbers counts or adds up.

    `measure`: index of the measure; None for a number of rows. `scale`: of the noise. `epsilon`: a fraction, as "1/3".
    """

    part: StatisticKind
    measure: Count | None
    sensitivity: Count
    epsilon: str
    scale: float


class NoisyTotals(ReleasedTotals):
    """The numbers of one noisy release.

    `values`: those of each by column. The cells are all combinations, and the last column changes fastest. `measures`
    have the clamps as bounds. `epsilon`: in millionths, for all `statistics` together. `numbers`: by statistic, then by
    cell.
    """

    kind: Literal["noisy"] = "noisy"
    values: tuple[Texts, ...]
    number: Count  # of the release that drew them
    at: str
    epsilon: Count
    most_rows: Count
    statistics: tuple[NoisyStatistic, ...]
    numbers: tuple[tuple[int, ...], ...]

    @property
    def cells(self) -> int:
        return math.prod(map(len, self.values))

    def keys(self) -> Iterator[Texts]:
        return itertools.product(*self.values)

    def is_consistent(self) -> bool:
        """Check whether each cell has a number, each statistic has a measure, and all are within limits."""
        cells, count = self.cells, len(self.statistics)
        places = [(each.part, each.measure) for each in self.statistics]
        sums = [("sum", place) for place in range(len(self.measures))]
        return (
            len(self.values) == len(self.by)
            and 0 < cells <= MOST_CELLS
            and cells * count <= MOST_NUMBERS
            and len(set(places)) == len(self.numbers) == count
            and {("rows", None), *sums} <= set(places)
            and all(each is None or each < len(self.measures) for _, each in places)
            and all(0 < each.scale < _INT64.stop for each in self.statistics)
            and all(len(each) == cells and all(number in _INT64 for number in each) for each in self.numbers)
            and all(each.sql == identifier(each.name) and not each.derived for each in self.measures)
            and all(each.decimals is not None and 0 <= each.decimals <= _MOST_DECIMALS for each in self.measures)
            and all(
                isinstance(end, int) and end in _INT64 for each in self.measures for end in (each.lower, each.upper)
            )
            and all(("count", place) in places for place, each in enumerate(self.measures) if each.nullable)
        )

    def dump(self) -> bytes:
        """JSON, padded to a size that follows from the schema and the number of cells."""
        unsized = tuple(each.model_copy(update={"epsilon": "", "scale": 0.0}) for each in self.statistics)
        rest = self.model_copy(update={"numbers": (), "epsilon": 0, "statistics": unsized}).model_dump_json()
        room = _DIGITS + len(self.statistics) * (self.cells * _DIGITS + 2 + _NOISE)
        return self.model_dump_json().encode().ljust(padded(len(rest.encode()) + room))
