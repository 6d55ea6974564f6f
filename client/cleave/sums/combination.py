"""Arguments of aggregates whose sums follow from totals of cells: sums of measures and their squares, times numbers.

An example is `2 * x - y * y + 1` over integers or decimals, where DuckDB's arithmetic is exact. Each step must fit its
type for all values that the schema allows. Otherwise DuckDB could fail in some row, and a total would not show that.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache

from cleave.aggregates.base import Decoding, Estimate, Facts, Moment
from cleave.aggregates.group import Aggregate
from cleave.aggregates.moments import UNIT
from cleave.sql.bounds import Types
from cleave.sql.nodes import NULL, Call, Case, Cast, Constant, Node, write
from cleave.sql.plan import Argument
from cleave.sql.ranges import Range, range_of_type
from cleave.sql.read import canonical, expressions_of
from cleave.store import measures as of_measures
from cleave.store.manifest import Measure
from cleave.table.types import decimals_of

_LARGEST = Fraction(sys.float_info.max)
_SMALLEST = Fraction(1, 1 << 1074)  # double above 0

TotalOf = tuple[int, str]  # number of a measure, and which of its totals: count, sum or square
ReadMoments = Callable[[Mapping[TotalOf, int], int], dict[Moment, Estimate]]  # (totals, number of values) -> moments


@dataclass(frozen=True, slots=True)
class Combination:
    """`terms`: numbers of measures, and their factors; `squares`: likewise of squared measures; `constant` is added.
    Only cells where `filter` holds count.

    It is NULL where a term is, so with several measures none may be NULL. Without terms it is a constant, or only
    counted.
    """

    terms: tuple[tuple[int, Fraction], ...] = ()
    constant: Fraction = Fraction(0)
    filter: str | None = None  # SQL over by columns
    squares: tuple[tuple[int, Fraction], ...] = ()

    @property
    def numbers(self) -> frozenset[int]:
        """The measures that it reads."""
        return frozenset(number for number, _ in (*self.terms, *self.squares))

    def counted(self, measures: Sequence[Measure]) -> int | None:
        """The measure with the same number of non-NULL values; None if every row has one."""
        return next((number for number in sorted(self.numbers) if measures[number].nullable), None)

    def needs(self, aggregate: Aggregate, measures: Sequence[Measure]) -> list[TotalOf] | str:
        """The totals that `aggregate` of this argument needs, or the reason why they do not suffice."""
        counted = self.counted(measures)
        totals: list[TotalOf] = [] if counted is None else [(counted, "count")]
        for moment in aggregate.moments:
            part = of_measures.part_of(moment)
            if part is None or (part == "square" and (len(self.terms) > 1 or self.squares)):
                return "sums and squares of single columns do not give it"
            for number, _ in self.terms:
                totals.append((number, part))
            for number, _ in self.squares:
                totals += [(number, "sum"), (number, "square")]
        return totals

    def facts(self, arguments: Sequence[Argument], measures: Sequence[Measure]) -> list[Facts]:
        (argument,) = arguments
        centre = self.constant
        for number, factor in self.terms:
            centre += factor * of_measures.facts(measures[number]).centre
        return [Facts(argument.domain, centre)]

    def moments(self, aggregate: Aggregate, measures: Sequence[Measure]) -> ReadMoments:
        """A function that computes the aggregate's moments from totals."""
        readings = {}
        for moment in aggregate.moments:
            part = of_measures.part_of(moment) or ""
            terms = tuple(
                (
                    (number, part),
                    of_measures.decoding(measures[number], part),
                    factor if part == "sum" else factor**2,
                )
                for number, factor in self.terms
            )
            squares = tuple((SquareOf.measure(number, measures), factor) for number, factor in self.squares)
            constant = self.constant if part == "sum" else Fraction(0)
            readings[moment] = _MomentTerms(terms, squares, constant)
        return lambda total, count: {moment: each.estimate(total, count) for moment, each in readings.items()}


@dataclass(frozen=True, slots=True)
class SquareOf:
    """The sum of squares of a measure, whose totals are of squares about its centre.

    `is_rounded`: DuckDB computes each square as a double.
    """

    number: int
    centre: Fraction
    is_rounded: bool
    sum: Decoding
    square: Decoding

    @classmethod
    def measure(cls, number: int, measures: Sequence[Measure]) -> SquareOf:
        measure = measures[number]
        decodings = (of_measures.decoding(measure, part) for part in ("sum", "square"))
        return cls(number, of_measures.facts(measure).centre, measure.decimals is None, *decodings)

    def estimate(self, total: Mapping[TotalOf, int], count: int) -> Estimate:
        """The sum of x^2: of (x - c)^2, plus 2 c times that of x, minus c^2 for each value."""
        squares = self.square.estimate(Estimate(Fraction(total[self.number, "square"])), count)
        sums = self.sum.estimate(Estimate(Fraction(total[self.number, "sum"])), count)
        value = squares.value + 2 * self.centre * sums.value - count * self.centre**2
        bound = squares.bound + 2 * abs(self.centre) * sums.bound
        if self.is_rounded:
            bound += UNIT * (abs(value) + bound) + count * _SMALLEST
        return Estimate(value, bound)


@dataclass(frozen=True, slots=True)
class _MomentTerms:
    """One moment: its totals, how each is decoded, and its factor. `constant` is added per value."""

    terms: tuple[tuple[TotalOf, Decoding, Fraction], ...]
    squares: tuple[tuple[SquareOf, Fraction], ...]
    constant: Fraction

    def estimate(self, total: Mapping[TotalOf, int], count: int) -> Estimate:
        """Skips factors of 0 and 1, because fractions are slow."""
        value = bound = Fraction(0)
        for place, (part, decoding, scale) in enumerate(self.terms):
            taken = decoding.estimate(Estimate(Fraction(total[part])), count)
            if scale != 1:
                taken = Estimate(scale * taken.value, abs(scale) * taken.bound)
            value, bound = (value + taken.value, bound + taken.bound) if place else (taken.value, taken.bound)
        for square, scale in self.squares:
            taken = square.estimate(total, count)
            value, bound = value + scale * taken.value, bound + abs(scale) * taken.bound
        if self.constant:
            value += self.constant * count
        return Estimate(value, bound)


def combination_of(
    node: Node, numbers: dict[str, int], measures: Sequence[Measure], types: Types
) -> Combination | None:
    """A measure, or a sum of measures and their squares times numbers; None for anything else. `numbers`: measures by
    canonical spelling.
    """
    measure = numbers.get(canonical(node))
    if measure is not None:
        return Combination(((measure, Fraction(1)),))
    number = _squared_double(node, numbers, measures)
    if number is not None:
        return Combination(squares=((number, Fraction(1)),))
    result = linear(node, numbers, measures, types)
    if result is None:
        return None
    return Combination(tuple(result.terms.items()), result.constant, squares=tuple(result.squares.items()))


def _squared_double(node: Node, numbers: dict[str, int], measures: Sequence[Measure]) -> int | None:
    """The measure of doubles of which `node` is the square, computed as a DOUBLE; None for anything else."""
    if not (isinstance(node, Call) and node.name == "*" and len(node.arguments) == 2):
        return None
    one, two = node.arguments
    value = one.operand if isinstance(one, Cast) and not one.may_fail and one.type.upper() == "DOUBLE" else one
    number = numbers.get(canonical(value))
    if number is None or canonical(value) != canonical(two):
        return None
    measure = measures[number]
    is_double = measure.type == "DOUBLE" or (measure.type == "FLOAT" and value is not one)
    return number if is_double and of_measures.reach(measure) ** 2 < _LARGEST else None


def filtered(node: Node) -> tuple[Node, Node] | None:
    """The value and condition of `CASE WHEN condition THEN value END`, the planner's form of a filter; else None."""
    if not isinstance(node, Case) or node.default != NULL or len(node.branches) != 1:
        return None
    ((condition, value),) = node.branches
    return value, condition


@lru_cache(64)
def filtered_spellings(texts: tuple[str, ...]) -> Mapping[str, Mapping[str, int]]:
    """Indices of expressions such as `CASE WHEN condition THEN value END`: by the spelling of their condition, then of
    their value.
    """
    found: dict[str, dict[str, int]] = {}
    for place, node in enumerate(expressions_of(texts)):
        if (taken := filtered(node)) is not None:
            value, condition = map(canonical, taken)
            found.setdefault(condition, {})[value] = place
    return found


_MOST = 60  # nodes


@dataclass(frozen=True, slots=True)
class _Ranged:
    """`terms`: numbers of measures, and their factors. `squares`: of squared ones. `range`: of all its values."""

    terms: dict[int, Fraction]
    constant: Fraction
    range: Range
    squares: dict[int, Fraction] = field(default_factory=dict)

    @property
    def ends(self) -> tuple[Fraction, Fraction]:
        return self.range.lower, self.range.upper

    @property
    def is_constant(self) -> bool:
        return not (self.terms or self.squares)

    def times(self, factor: Fraction) -> _Ranged:
        terms, squares = ({each: factor * by for each, by in of.items()} for of in (self.terms, self.squares))
        return _Ranged(terms, factor * self.constant, self.range * Range(factor, factor), squares)

    def plus(self, other: _Ranged) -> _Ranged:
        terms, squares = _added(self.terms, other.terms), _added(self.squares, other.squares)
        return _Ranged(terms, self.constant + other.constant, self.range + other.range, squares)

    def product(self, other: _Ranged) -> _Ranged | None:
        """The product with a constant, or of two multiples of one measure; else None."""
        if self.is_constant or other.is_constant:
            return other.times(self.constant) if self.is_constant else self.times(other.constant)
        if self.constant or other.constant or self.squares or other.squares:
            return None
        if len(self.terms) != 1 or self.terms.keys() != other.terms.keys():
            return None
        ((number, one),), (two,) = self.terms.items(), other.terms.values()
        range_ = self.range.power(2) if one == two else self.range * other.range
        return _Ranged({}, Fraction(0), range_, {number: one * two})


def _added(one: Mapping[int, Fraction], other: Mapping[int, Fraction]) -> dict[int, Fraction]:
    return {each: one.get(each, Fraction(0)) + other.get(each, Fraction(0)) for each in (*one, *other)}


def linear(node: Node, numbers: dict[str, int], measures: Sequence[Measure], types: Types) -> _Ranged | None:
    """Read a sum of measures and their squares times numbers. None if it may be inexact, or NULL where the sum of a
    term is not.

    `numbers`: measures by canonical spelling.
    """
    nodes = list(_operations(node, numbers))
    if not nodes or len(nodes) > _MOST:
        return None
    held = dict(zip(map(id, nodes), types([write(each) for each in nodes]), strict=True))
    result = _read(node, numbers, measures, held)
    if result is None or result.is_constant or not all((*result.terms.values(), *result.squares.values())):
        return None
    read = {*result.terms, *result.squares}
    return None if len(read) > 1 and any(measures[number].nullable for number in read) else result


def _operations(node: Node, numbers: dict[str, int]) -> Iterator[Node]:
    """The operations and casts that DuckDB computes step by step."""
    is_step = (isinstance(node, Call) and node.name in ("+", "-", "*")) or isinstance(node, Cast)
    if is_step and canonical(node) not in numbers:
        yield node
        for each in node.operands:
            yield from _operations(each, numbers)


def _read(node: Node, numbers: dict[str, int], measures: Sequence[Measure], held: dict[int, str]) -> _Ranged | None:
    number = numbers.get(canonical(node))
    if number is not None:
        domain = of_measures.domain_of(measures[number])
        if not domain.is_exact:
            return None
        values = Range(Fraction(domain.lower, domain.unit), Fraction(domain.upper, domain.unit))
        return _Ranged({number: Fraction(1)}, Fraction(0), values)
    if isinstance(node, Constant) and node.is_number and node.text.removeprefix("-").replace(".", "", 1).isdecimal():
        value = Fraction(node.text)
        return _Ranged({}, value, Range(value, value))
    if isinstance(node, Cast):
        return _cast(node, numbers, measures, held)
    result = _step(node, numbers, measures, held)
    return result if result is not None and _fits(result, held[id(node)]) else None


def _fits(values: _Ranged, type_: str) -> bool:
    whole = range_of_type(type_)
    return whole is not None and whole.lower <= values.range.lower and values.range.upper <= whole.upper


def _cast(node: Cast, numbers: dict[str, int], measures: Sequence[Measure], held: dict[int, str]) -> _Ranged | None:
    """A cast that changes no value; else None."""
    inner = _read(node.operand, numbers, measures, held)
    if inner is None or node.may_fail or not _fits(inner, held[id(node)]):
        return None
    number = numbers.get(canonical(node.operand))
    type_ = held.get(id(node.operand)) if number is None else measures[number].type
    before, after = decimals_of(type_ or ""), decimals_of(held[id(node)])
    is_exact = before is not None and after is not None and before <= after and held[id(node)] != "BOOLEAN"
    return inner if is_exact else None


def _step(node: Node, numbers: dict[str, int], measures: Sequence[Measure], held: dict[int, str]) -> _Ranged | None:
    if not isinstance(node, Call) or node.name not in ("+", "-", "*"):
        return None
    read = [_read(each, numbers, measures, held) for each in node.arguments]
    one, two = read[0], read[-1]
    if one is None or two is None:
        return None
    if len(read) == 1:
        return one.times(Fraction(-1)) if node.name == "-" else one
    if node.name == "*":
        return one.product(two)
    whole = range_of_type(held[id(node)])  # both sides are cast to this type first
    if whole is None or any(not whole.lower <= end <= whole.upper for each in (one, two) for end in each.ends):
        return None
    return one.plus(two if node.name == "+" else two.times(Fraction(-1)))
