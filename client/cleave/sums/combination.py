"""Arguments of aggregates whose sums follow from totals of cells: sums of measures times numbers.

An example is `2 * x - y + 1` over integers or decimals, where DuckDB's arithmetic is exact. Each step must fit its type
for all values that the schema allows. Otherwise DuckDB could fail in some row, and a total would not show that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from cleave.aggregates.base import Decoding, Estimate, Facts, Moment
from cleave.aggregates.group import Aggregate
from cleave.sql.judge import Types
from cleave.sql.nodes import NULL, Call, Case, Constant, Node, write
from cleave.sql.plan import Argument
from cleave.sql.ranges import Range, range_of_type
from cleave.sql.read import canonical
from cleave.store import measures as of_measures
from cleave.store.manifest import Measure
from cleave.table.types import decimals_of

TotalOf = tuple[int, str]  # number of a measure, and which of its totals: count, sum or square
ReadMoments = Callable[[Mapping[TotalOf, int], int], dict[Moment, Estimate]]  # (totals, number of values) -> moments


@dataclass(frozen=True, slots=True)
class Combination:
    """`terms`: numbers of measures, and their factors; `constant` is added. Only cells where `filter` holds count.

    It is NULL where a term is, so with several terms none may be NULL. Without terms it is a constant, or only counted.
    """

    terms: tuple[tuple[int, Fraction], ...] = ()
    constant: Fraction = Fraction(0)
    filter: str | None = None  # SQL over by columns

    def counted(self, measures: Sequence[Measure]) -> int | None:
        """The measure with the same number of non-NULL values; None if every row has one."""
        return next((number for number, _ in self.terms if measures[number].nullable), None)

    def needs(self, aggregate: Aggregate, measures: Sequence[Measure]) -> list[TotalOf] | str:
        """The totals that `aggregate` of this argument needs, or the reason why they do not suffice."""
        counted = self.counted(measures)
        totals: list[TotalOf] = [] if counted is None else [(counted, "count")]
        for moment in aggregate.moments:
            part = of_measures.part_of(moment)
            if part is None or (part == "square" and len(self.terms) > 1):
                return "sums and squares of single columns do not give it"
            for number, _ in self.terms:
                totals.append((number, part))
        return totals

    def facts(self, argument: Argument, measures: Sequence[Measure]) -> Facts:
        centre = self.constant
        for number, factor in self.terms:
            centre += factor * of_measures.facts(measures[number]).centre
        return Facts(argument.domain, centre)

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
            constant = self.constant if part == "sum" else Fraction(0)
            readings[moment] = _MomentTerms(terms, constant)
        return lambda total, count: {moment: each.estimate(total, count) for moment, each in readings.items()}


@dataclass(frozen=True, slots=True)
class _MomentTerms:
    """One moment: its totals, how each is decoded, and its factor. `constant` is added per value."""

    terms: tuple[tuple[TotalOf, Decoding, Fraction], ...]
    constant: Fraction

    def estimate(self, total: Mapping[TotalOf, int], count: int) -> Estimate:
        """Skips factors of 0 and 1, because fractions are slow."""
        value = bound = Fraction(0)
        for place, (part, decoding, scale) in enumerate(self.terms):
            taken = decoding.estimate(Estimate(Fraction(total[part])), count)
            if scale != 1:
                taken = Estimate(scale * taken.value, abs(scale) * taken.bound)
            value, bound = (value + taken.value, bound + taken.bound) if place else (taken.value, taken.bound)
        if self.constant:
            value += self.constant * count
        return Estimate(value, bound)


def combination_of(
    node: Node, numbers: dict[str, int], measures: Sequence[Measure], types: Types
) -> Combination | None:
    """A measure, or a sum of measures times numbers; None for anything else. `numbers`: measures by canonical
    spelling.
    """
    measure = numbers.get(canonical(node))
    if measure is not None:
        return Combination(((measure, Fraction(1)),))
    result = linear(node, numbers, measures, types)
    return Combination(tuple(result.terms.items()), result.constant) if result else None


def filtered(node: Node) -> tuple[Node, Node] | None:
    """The value and condition of `CASE WHEN condition THEN value END`, the planner's form of a filter; else None."""
    if not isinstance(node, Case) or node.default != NULL or len(node.branches) != 1:
        return None
    ((condition, value),) = node.branches
    return value, condition


_MOST = 60  # nodes


@dataclass(frozen=True, slots=True)
class _Ranged:
    """`terms`: numbers of measures, and their factors. `range`: of all its values."""

    terms: dict[int, Fraction]
    constant: Fraction
    range: Range

    @property
    def ends(self) -> tuple[Fraction, Fraction]:
        return self.range.lower, self.range.upper

    def times(self, factor: Fraction) -> _Ranged:
        scaled = self.range * Range(factor, factor)
        return _Ranged({each: factor * by for each, by in self.terms.items()}, factor * self.constant, scaled)

    def plus(self, other: _Ranged) -> _Ranged:
        terms = dict(self.terms)
        for number, factor in other.terms.items():
            terms[number] = terms.get(number, Fraction(0)) + factor
        return _Ranged(terms, self.constant + other.constant, self.range + other.range)


def linear(node: Node, numbers: dict[str, int], measures: Sequence[Measure], types: Types) -> _Ranged | None:
    """Read a sum of measures times numbers. None if it may be inexact, or NULL where the sum of a term is not.

    `numbers`: measures by canonical spelling.
    """
    nodes = list(_operations(node, numbers))
    if not nodes or len(nodes) > _MOST:
        return None
    held = dict(zip(map(id, nodes), types([write(each) for each in nodes]), strict=True))
    result = _read(node, numbers, measures, held)
    if result is None or not result.terms or not all(result.terms.values()):
        return None
    nullable = [number for number in result.terms if measures[number].nullable]
    return None if nullable and len(result.terms) > 1 else result


def _operations(node: Node, numbers: dict[str, int]) -> Iterator[Node]:
    """The operations that DuckDB computes step by step."""
    if canonical(node) not in numbers and isinstance(node, Call) and node.name in ("+", "-", "*"):
        yield node
        for each in node.arguments:
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
    result = _step(node, numbers, measures, held)
    if result is None:
        return None
    type_ = held[id(node)]
    whole = range_of_type(type_)
    fits = whole is not None and whole.lower <= result.range.lower and result.range.upper <= whole.upper
    return result if fits and decimals_of(type_) is not None else None


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
        if one.terms and two.terms:
            return None
        return two.times(one.constant) if not one.terms else one.times(two.constant)
    whole = range_of_type(held[id(node)])  # both sides are cast to this type first
    if whole is None or any(not whole.lower <= end <= whole.upper for each in (one, two) for end in each.ends):
        return None
    return one.plus(two if node.name == "+" else two.times(Fraction(-1)))
