"""Types of encrypted columns, known before a value is read: a layout is planned from these types alone.

An exact column holds integers from 0 to a limit that may exceed 64 bits, a real one float64. Their values follow as
arrays: 64-bit words (words, rows), least significant first, or doubles (rows,).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]  # (words, rows)
Doubles = NDArray[np.float64]  # (rows,)
Flags = NDArray[np.bool_]  # (rows,)


@dataclass(frozen=True, slots=True)
class Domain:
    """Range of an argument's values. The values of an exact one (integer, decimal, boolean) are counted in units of
    its last decimal and lie within `lower`..`upper`; doubles within `low`..`high`, infinite where nothing is declared.
    """

    decimals: int | None  # digits after the point of exact types (integers and booleans 0), None for doubles
    lower: int = 0
    upper: int = 0
    nullable: bool = True
    low: float = -math.inf
    high: float = math.inf

    @property
    def is_exact(self) -> bool:
        return self.decimals is not None

    @property
    def width(self) -> int:
        return self.upper - self.lower

    @property
    def middle(self) -> int:
        return (self.lower + self.upper) // 2

    @property
    def unit(self) -> int:
        """How many units of the last decimal make 1."""
        unit: int = 10 ** (self.decimals or 0)  # an int: the exponent is not negative
        return unit


@dataclass(frozen=True, slots=True)
class Exact:
    """Every value is an integer from 0 to `limit`."""

    limit: int


@dataclass(frozen=True, slots=True)
class Real:
    """Every value is a finite double, by declaration at most `reach` in magnitude.

    `least`: of every row, the argument's own magnitude is this much or more; 0 where that is not declared.
    """

    reach: float = math.inf
    least: float = 0.0


Column = Exact | Real


@dataclass(frozen=True, slots=True)
class Values:
    """An argument's value in every row: int64 or uint64 in units of the last decimal, or doubles.

    Exact values of more than 64 bits come as two's complement words (words, rows). `valid` None: no NULLs.
    """

    values: NDArray[np.generic]
    valid: Flags | None

    @property
    def rows(self) -> int:
        rows: int = self.values.shape[-1]
        return rows
