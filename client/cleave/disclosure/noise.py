"""Noisy releases: which numbers a cell gets, how far one person moves each, and the noise that hides it.

Each person has at most `most_rows` rows, and every value lies within its clamp. So one person, added or taken out,
changes all cells of one statistic together by at most its sensitivity (L1). Discrete Laplace noise of scale
sensitivity / epsilon gives it epsilon; those of all statistics add up to the epsilon of the release. Everything here
follows from the schema and the arguments of a release, never from rows.

Source: Dwork, McSherry, Nissim, Smith, "Calibrating Noise to Sensitivity in Private Data Analysis" (TCC 2006); Ghosh,
Roughgarden, Sundararajan, "Universally Utility-Maximizing Privacy Mechanisms" (STOC 2009) for integers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Final, Literal

from cleave.table.privacy import MICRO, MOST_EPSILON
from cleave.text.nearest import did_you_mean
from cleave_shared.errors import InputError

StatisticKind = Literal["rows", "count", "sum", "square"]

MOST_TABLE_ROWS: Final = 1 << 24  # of a table that is read for a noisy release, all on this machine
MOST_CELLS: Final = 1 << 16
MOST_NUMBERS: Final = 1 << 20  # of all cells: a draw takes 20 microseconds
MOST_ROWS: Final = 1 << 20  # that a release may keep of a person
_LARGEST: Final = 1 << 62  # OpenDP's integers have 63 bits and saturate beyond, without an error
_REACH: Final = 64  # scales of noise; it goes farther in one of 10^27 draws
_FACTOR: Final = math.log(20) / math.sqrt(2)  # half of a 95% interval, in deviations of one Laplace draw


@dataclass(frozen=True, slots=True)
class Clamp:
    """Bounds of a measure, in units of its last decimal: a value outside counts as the nearer one."""

    name: str
    low: int
    high: int
    decimals: int
    nullable: bool

    @property
    def reach(self) -> int:
        """The largest magnitude of a clamped value."""
        return max(abs(self.low), abs(self.high))


@dataclass(frozen=True, slots=True)
class Statistic:
    """A number of each cell. `measure`: its place among the clamps; None: rows are counted. `sensitivity`: in units;
    of a sum of squares in their squares.
    """

    name: str
    part: StatisticKind
    measure: int | None
    sensitivity: int
    epsilon: Fraction

    @property
    def scale(self) -> float:
        """Scale of the noise: the double that is not below sensitivity / epsilon."""
        exact = self.sensitivity / self.epsilon
        scale = float(exact)
        return scale if Fraction(scale) >= exact else math.nextafter(scale, math.inf)


def statistics(
    clamps: Sequence[Clamp], most_rows: int, epsilon: Fraction, *, squares: bool, split: Mapping[str, int]
) -> tuple[Statistic, ...]:
    """The numbers that a release has of each cell. `split`: shares of epsilon by name of a statistic; others have 1.

    Raises InputError for a clamp whose totals or noise 64 bits may not hold, and for names in `split` that are none.
    """
    parts: list[tuple[str, StatisticKind, int | None, int]] = [("rows", "rows", None, 1)]
    for place, clamp in enumerate(clamps):
        parts.append((f"{clamp.name}.sum", "sum", place, clamp.reach))
        if clamp.nullable:
            parts.append((f"{clamp.name}.count", "count", place, 1))
        if squares:
            parts.append((f"{clamp.name}.squares", "square", place, clamp.reach**2))
    names = [name for name, *_ in parts]
    for name in split:
        if name not in names:
            raise InputError(
                f"--split: there is no statistic {name!r}",
                hint=did_you_mean(name, names) or f"the release has {', '.join(names)}",
            )
    shares = [split.get(name, 1) for name in names]
    numbers = tuple(
        Statistic(name, part, place, most_rows * reach, epsilon * share / sum(shares))
        for (name, part, place, reach), share in zip(parts, shares, strict=True)
    )
    for statistic, (_, _, _, reach) in zip(numbers, parts, strict=True):
        _require_fits(statistic, reach)
    return numbers


def _require_fits(statistic: Statistic, reach: int) -> None:
    if max(statistic.sensitivity, MOST_TABLE_ROWS * reach) > _LARGEST:
        raise InputError(
            f"{statistic.name}: up to {MOST_TABLE_ROWS:,} values of up to {reach:,} units do not fit in 62 bits",
            hint="give a narrower --clamp, or leave --squares out",
        )
    if _REACH * statistic.sensitivity / statistic.epsilon > _LARGEST:
        raise InputError(
            f"{statistic.name}: noise of this size does not fit in 62 bits",
            hint="give a narrower --clamp, a lower --most-rows, or a larger --epsilon",
        )


def variance(scale: float) -> float:
    """The variance of a draw of discrete Laplace noise: 2p / (1 - p)^2, where p = exp(-1 / scale)."""
    p = math.exp(-1 / scale)
    return 2 * p / math.expm1(-1 / scale) ** 2


def half_width(deviation: float, step: float = 1.0) -> float:
    """Half of a 95% interval around noise of this standard deviation that is a sum of Laplace draws, weighted or not.

    It is that of one draw, rounded up to a multiple of `step`; sums of several draws lie within it more often (97% of
    many).
    """
    return math.ceil(_FACTOR * deviation / step) * step


def factor() -> float:
    """Half of a 95% interval, in standard deviations."""
    return _FACTOR


def micros(text: str, option: str) -> int:
    """An epsilon in millionths. Raises InputError for what is not above 0, too large, or has more than six decimals."""
    try:
        value = Decimal(text)
    except InvalidOperation:
        value = Decimal(0)
    is_right = value.is_finite() and 0 < value <= MOST_EPSILON
    if not is_right or value * MICRO != int(value * MICRO):
        raise InputError(
            f"{option} {text}: must be a number above 0, at most {MOST_EPSILON:,}, with up to six decimals",
            hint="smaller is more private; 1 is usual",
        )
    return int(value * MICRO)
