"""The sums of products of a model's columns: the Gram matrix X'WX, with X'Wy and y'Wy beside it.

An entry is a total of a product of columns over a group of factor levels. It is exact for integers and decimals. If a
product does not fit a type of DuckDB, its remainders modulo primes are added up, and the Chinese remainder theorem
gives the total. For doubles it is a ball that also covers the rounding of each product in DuckDB, see `Gram.entry`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from flint import arb, fmpq, fmpz

from cleave.aggregates.balls import Number, precision, rational
from cleave.aggregates.base import UNIT
from cleave.models.design import DesignColumn
from cleave.models.sums import KeyedGroup, ModelSums, Total
from cleave.sql.aligned import aligned, product
from cleave.sql.nodes import ColumnRef, write
from cleave.sql.ranges import range_of_type
from cleave.sql.read import expression_of
from cleave.table.duck import identifier
from cleave.table.schema import Column
from cleave.table.types import FLOATS, decimals_of, is_integer
from cleave_shared.errors import QueryRefused

_MOST_ROWS = 1 << 40
_HUGEINT, _DECIMAL = 1 << 127, 10**38
_LARGEST_PRIME = (1 << 56) - 5  # a product of two smaller numbers fits a HUGEINT
_MOST_PRIMES = 32
_CASTS = 3  # roundings of a decimal that becomes a double
_SMALLEST = Fraction(1, 1 << 1074)  # the smallest double: an underflow loses less


@dataclass(frozen=True)
class ProductTotal:
    """The total of a product of `columns`, over rows where the columns `nullable` have a value.

    `rows`: at most. `is_kept`: its own sum fits, since the table keeps it.
    """

    columns: tuple[Column, ...]
    nullable: tuple[str, ...]
    rows: int
    is_kept: bool = False

    @cached_property
    def primes(self) -> list[int]:
        """The moduli of the sums; none if one sum of the product itself holds the total."""
        if self.is_float:
            return []
        size = _magnitude(self.columns)
        limit = _HUGEINT if all(is_integer(each.type) for each in self.columns) else _DECIMAL
        if len(self.columns) < 3:  # a table may keep these totals, and few columns without bounds are so large
            is_small = self.is_kept or not self._is_bounded or size * self.rows < limit
        else:
            is_small = size * _MOST_ROWS < limit
        if is_small and product(self.columns) is not None:
            return []
        primes: list[int] = []
        prime, covered = _LARGEST_PRIME, 1
        while covered <= 2 * size * _MOST_ROWS:
            if len(primes) == _MOST_PRIMES:
                names = " * ".join(each.name for each in self.columns)
                raise QueryRefused(
                    f"the product {names} is too large for exact sums",
                    hint="declare narrower `lower` and `upper` of the columns in the schema, or use lower powers",
                )
            primes.append(prime)
            covered *= prime
            prime = next(each for each in range(prime - 2, 0, -2) if fmpz(each).is_prime())
        return primes

    @property
    def is_float(self) -> bool:
        return any(each.type in FLOATS for each in self.columns)

    @property
    def _is_bounded(self) -> bool:
        return all(None not in (each.lower, each.upper) for each in self.columns)

    @property
    def is_square(self) -> bool:
        return len(self.columns) == 2 and self.columns[0] == self.columns[1]

    @property
    def roundings(self) -> int:
        """How often DuckDB rounds a double to compute the product of one row."""
        if not self.is_float:
            return 0
        casts = sum(1 if is_integer(each.type) else _CASTS for each in self.columns if each.type not in FLOATS)
        return len(self.columns) - 1 + casts

    @property
    def figures(self) -> list[str]:
        """SQL of the sums that the total is computed from."""
        if not self.primes:
            return [f"SUM({self._whole()})"]
        return [f"SUM({aligned(self._remainder(prime), self.nullable)})" for prime in self.primes]

    def _whole(self) -> str:
        """SQL of the product. A square is that of an aligned column, whose totals a stored table keeps."""
        text = product(self.columns) or ""
        if self.is_square:
            column = expression_of(aligned(identifier(self.columns[0].name), self.nullable))
            return write(expression_of(text).replaced(lambda node: column if isinstance(node, ColumnRef) else None))
        return aligned(text, self.nullable)

    def _remainder(self, prime: int) -> str:
        """SQL of the product modulo a prime, in units of the last decimals. It has the product's sign."""
        product, bound = "", 1
        for column in self.columns:
            factor, size = f"CAST({_units(column)} AS HUGEINT)", _magnitude([column])
            if size > prime:
                factor, size = f"({factor} % {prime})", prime
            if bound * size >= _HUGEINT:
                product, bound = f"({product}) % {prime}", prime
            product, bound = f"({product}) * {factor}" if product else factor, bound * size
        return f"({product}) % {prime}"

    def total(self, totals: Sequence[Total]) -> Total:
        """Return the total from those of `figures`."""
        if not self.primes or any(each.value is None for each in totals):
            return next((each for each in totals if each.value is None), totals[0])
        whole, modulus = fmpz(0), fmpz(1)
        for total, prime in zip(totals, self.primes, strict=True):
            assert isinstance(total.value, fmpq)  # noqa: S101 - sums of integers
            step = (total.value.p - whole) * pow(int(modulus), -1, prime) % prime
            whole, modulus = whole + modulus * step, modulus * prime
        if 2 * whole > modulus:
            whole -= modulus
        return Total(fmpq(whole, 10 ** sum(each.decimals or 0 for each in self.columns)))


def _units(column: Column) -> str:
    """SQL of a column as a whole number of units of its last decimal."""
    name, decimals = identifier(column.name), column.decimals
    return f"CAST({name} AS DECIMAL(38,{decimals})) * {10**decimals}" if decimals else name


def _magnitude(columns: Iterable[Column]) -> int:
    """The largest possible product, in units of the last decimals."""
    size = 1
    for column in columns:
        whole = range_of_type(column.type)
        assert whole is not None  # noqa: S101 - an exact type
        ends = (
            whole.lower if column.lower is None else max(whole.lower, Fraction(column.lower)),
            whole.upper if column.upper is None else min(whole.upper, Fraction(column.upper)),
        )
        size *= int(max(abs(each) for each in ends) * 10 ** (decimals_of(column.type) or 0)) + 1
    return size


class Products:
    """The products that a model needs. `weights` is a factor of each; `nullable` columns have a value in its rows.
    A sum that the table of `sums` keeps is asked for as it is.
    """

    def __init__(
        self, columns: Mapping[str, Column], weights: Column | None, response: Column, sums: ModelSums
    ) -> None:
        self._columns = columns
        self._sums = sums
        self._rows = _MOST_ROWS if sums.rows is None else sums.rows
        self._weights = weights
        every = [*columns.values(), *([weights] if weights else [])]
        self.nullable = tuple(sorted({each.name for each in every if each.nullable}))
        self._response = response
        self.of: dict[tuple[str, ...], ProductTotal] = {}

    def add(self, numbers: Iterable[str]) -> None:
        """Make sure that the product of the columns `numbers` is asked for."""
        key = tuple(sorted(numbers))
        columns = [self._columns[name] for name in key] + ([self._weights] if self._weights else [])
        if columns and key not in self.of:
            asked = ProductTotal(tuple(columns), self.nullable, self._rows)
            kept = replace(asked, is_kept=True)
            is_kept = asked.primes and not kept.primes and self._sums.keeps(kept.figures[0])
            self.of[key] = kept if is_kept else asked

    @property
    def figures(self) -> list[str]:
        """SQL of the number of rows with all values, and of the sums of all products."""
        count = f"COUNT({aligned(identifier(self._response.name), self.nullable)})" if self.nullable else "COUNT(*)"
        return [count, *(figure for each in self.of.values() for figure in each.figures)]

    def cell(self, group: KeyedGroup) -> LevelTotals:
        """Return the totals of one group."""
        counted, *totals = group.totals
        sums, place = {}, 0
        for key, each in self.of.items():
            width = max(1, len(each.primes))
            sums[key] = each.total(totals[place : place + width])
            place += width
        rows = None if counted.value is None else int(rational(counted.value).p)  # type: ignore[arg-type]
        return LevelTotals(group.rows, rows, sums)


@dataclass(frozen=True, slots=True)
class LevelTotals:
    """The totals of one group: its rows, those `used` since all values are there (None: hidden), and all sums."""

    rows: int
    used: int | None
    sums: Mapping[tuple[str, ...], Total]

    @property
    def hidden(self) -> bool:
        return self.used is None or any(each.hidden for each in self.sums.values())


@dataclass(frozen=True)
class Gram:
    """Sums of products of `columns`, pair by pair. `cells` has the totals of each group, by its factors and levels, for
    the `sets` of factors; by default, of none.
    """

    columns: Sequence[DesignColumn]
    cells: Mapping[frozenset[tuple[str, Any]], LevelTotals]
    products: Products
    weighted: bool
    sets: Collection[frozenset[str]] = (frozenset(),)

    def entry(self, one: int, two: int) -> Number:
        """The sum over all rows of column `one` times column `two`, times the weight.

        A product of doubles is rounded in each row, and doubles of plain columns are added in any order: relative to
        the sum of absolute values, the error is at most k * u / (1 - k * u) for k roundings (Higham, Accuracy and
        Stability of Numerical Algorithms, 2002, chapters 3 and 4). By Cauchy and Schwarz that sum is at most the root
        of the product of both columns' own entries.
        """
        value, cell, roundings = self._raw(one, two)
        if not roundings or cell is None:
            return value
        with precision():
            gamma = _gamma(roundings)
            size = (self._upper(one) * self._upper(two)).sqrt()
            lost = gamma * size + arb(rational(cell.rows * roundings * _SMALLEST))
            return arb(value) + arb(0, 1) * lost

    def _upper(self, place: int) -> arb:
        """At least the sum of the squares of a column."""
        value, cell, roundings = self._raw(place, place)
        with precision():
            largest = arb(value).abs_upper()
            if cell is None or not roundings:
                return largest
            lost = arb(rational(cell.rows * roundings * _SMALLEST))
            return ((largest + lost) / (1 - _gamma(roundings))).upper()

    def _raw(self, one: int, two: int) -> tuple[Number, LevelTotals | None, int]:
        """An entry as answered, its cell (None if no row is in both), and the number of roundings it does not cover."""
        first, second = self.columns[one], self.columns[two]
        cell = self._cell(first, second)
        if cell is None:
            return fmpq(0), None, 0
        key = tuple(sorted((*first.numbers, *second.numbers)))
        if not key and not self.weighted:
            return fmpq(cell.used or 0), cell, 0
        total = cell.sums[key]
        assert total.value is not None  # noqa: S101 - refused before
        return total.value, cell, self.products.of[key].roundings + (cell.rows if total.loose else 0)

    def counted(self, one: int, two: int) -> int:
        """The number of rows in the levels of both columns."""
        cell = self._cell(self.columns[one], self.columns[two])
        return cell.used or 0 if cell else 0

    def _cell(self, one: DesignColumn, two: DesignColumn) -> LevelTotals | None:
        """The totals of the rows in the levels of both columns; None if there are no such rows."""
        levels = dict(one.levels)
        if any(levels.setdefault(factor, level) != level for factor, level in two.levels):
            return None
        if frozenset(levels) not in self.sets:
            raise KeyError("groups of these factors were not asked for")
        cell = self.cells.get(frozenset(levels.items()))
        return cell if cell and cell.used else None


def _gamma(roundings: int) -> arb:
    lost = arb(roundings) * arb(UNIT)
    return lost / (1 - lost)
