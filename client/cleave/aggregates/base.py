"""What an aggregate over an encrypted column declares.

The sensitive service computes totals of encrypted columns and nothing else. An aggregate says which moments of its
argument it needs and how the answer and its error bound follow from them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Protocol

UNIT = 2.0**-53  # unit roundoff of a float64
SIGMAS = 7.54  # sqrt(2 ln(2 / 2^-40)): the factor of every statistical bound (docs/ckks.md section 3)


class Moment(StrEnum):
    """A total over the rows of a group where the argument x is not NULL. c is the client's own."""

    COUNT = "count"  # number of rows
    SUM = "sum"  # x - c
    SQUARE = "square"  # (x - c)^2
    LOG = "log"  # ln|x|, 0 where x = 0
    NEGATIVE = "negative"  # 1 where x < 0
    ZERO = "zero"  # 1 where x = 0


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with `|value - truth| <= bound`; exact means the bound is 0 by construction."""

    value: Fraction
    bound: Fraction = Fraction(0)

    @property
    def exact(self) -> bool:
        return self.bound == 0


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """What the client knows of an argument over the whole job, needed to bound what float64 engines lose."""

    type: str  # DuckDB type of the argument
    decimals: int | None  # digits after the point for exact types (integers: 0), None for floats
    centre: Fraction  # c
    largest: float  # max |x|
    lowest: float = -math.inf  # min x, where known: narrows the bounds of SUM and AVG
    smallest: float = 0.0  # smallest |x| other than 0, where known: narrows the bound of PRODUCT

    @property
    def is_exact(self) -> bool:
        return self.decimals is not None


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of one group, as DuckDB types it. `value` None is SQL NULL; bound in the units of the value."""

    value: int | float | Fraction | None
    bound: float
    exact: bool


class Aggregate(Protocol):
    """One declaration a file; `cleave.aggregates.AGGREGATES` maps each SQL name to one."""

    @property
    def names(self) -> tuple[str, ...]: ...  # SQL names in upper case, DuckDB's spelling and its synonyms

    @property
    def formula(self) -> str: ...  # for `cleave plan` and the documentation

    @property
    def leaks(self) -> str: ...  # what the result tells whoever sees it

    def needs(self, decimals: int | None) -> frozenset[Moment]: ...

    def result_type(self, argument_type: str) -> str:
        """DuckDB's type of the result for an argument of `argument_type`."""
        ...

    def finish(self, moments: Mapping[Moment, Estimate], facts: ColumnFacts, rows: int) -> Figure:
        """The answer for one group of `rows` rows (NULLs included)."""
        ...


def widen(value: float) -> float:
    """`value` rounded outwards, so that a bound computed in float64 stays a bound."""
    return math.nextafter(value * (1 + 4 * UNIT), math.inf) if value else 0.0
