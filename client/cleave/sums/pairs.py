"""Pairs of columns: sums over the rows where both have a value, from the totals of columns and of their products.

A table may keep totals of `x * y`, and of x in the rows where y has a value, which `cleave derive --products` adds. If
neither column may be NULL, the totals of the columns are enough beside those of the product.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

from cleave.aggregates.base import Decoding, Estimate, Facts, Moment
from cleave.aggregates.group import Aggregate
from cleave.aggregates.moments import UNIT, Cross, Power, Sum, X, Y
from cleave.sql.aligned import product
from cleave.sql.nodes import Call, Cast, ColumnRef, Node, Operator
from cleave.sql.plan import Argument
from cleave.sql.read import canonical, expression_of, expressions_of
from cleave.store import measures as of_measures
from cleave.store.manifest import Measure
from cleave.sums.combination import Combination, ReadMoments, TotalOf, filtered
from cleave.table.schema import Column, Kind
from cleave.table.types import FLOATS, decimals_of

_LOST = 16 * UNIT  # relative: two casts to doubles of up to 8 roundings, one of them exact, and the product
_UNDERFLOW = Fraction(1, 1 << 1000)

_ReadMoment = Callable[[Mapping[TotalOf, int], int], Estimate]  # (totals, number of values) -> moment


@dataclass(frozen=True, slots=True)
class Pair:
    """Two columns, (y, x), in the rows where both have a value.

    `y` and `x`: measures with the totals of the columns in these rows; None if there are none. `product`: the total of
    their products, or of the squares of a column beside itself; None if it is not kept. `lost`: the error of each
    product. `count`: a measure with as many values as there are such rows; None if all rows are. Only cells where
    `filter` holds count.
    """

    y: int | None
    x: int | None
    product: TotalOf | None
    count: int | None
    lost: Fraction = Fraction(0)
    filter: str | None = None

    @property
    def numbers(self) -> frozenset[int]:
        """The measures that it reads."""
        both = self.product[0] if self.product else None
        return frozenset(each for each in (self.y, self.x, both, self.count) if each is not None)

    def counted(self, measures: Sequence[Measure]) -> int | None:  # noqa: ARG002 - as for one column
        return self.count

    def needs(self, aggregate: Aggregate, measures: Sequence[Measure]) -> list[TotalOf] | str:  # noqa: ARG002 - likewise
        """The totals that `aggregate` needs, or the reason why they do not suffice."""
        totals: list[TotalOf] = [] if self.count is None else [(self.count, "count")]
        for moment in aggregate.moments:
            for which in self._totals_of(moment):
                if which is None:
                    return "they are kept of each column alone"
                totals.append(which)
        return totals

    def facts(self, arguments: Sequence[Argument], measures: Sequence[Measure]) -> list[Facts]:
        return [
            Facts(argument.domain, Fraction(0)) if number is None else of_measures.facts(measures[number])
            for argument, number in zip(arguments, (self.y, self.x), strict=True)
        ]

    def moments(self, aggregate: Aggregate, measures: Sequence[Measure]) -> ReadMoments:
        """A function that computes the aggregate's moments from totals."""
        readings = {each: self._reading(each, measures) for each in aggregate.moments}
        return lambda total, count: {moment: read(total, count) for moment, read in readings.items()}

    def _totals_of(self, moment: Moment) -> list[TotalOf | None]:
        match moment:
            case Sum(of=of):
                return [self._total(of, "sum")]
            case Power(degree=2, of=of):
                return [self._total(of, "square")]
            case Cross() if self.product and self.product[1] == "square":
                return [self.product]
            case Cross():
                return [self.product, self._total(Y, "sum"), self._total(X, "sum")]
        return [None]

    def _total(self, of: int, part: str) -> TotalOf | None:
        number = self.x if of == X else self.y
        return None if number is None else (number, part)

    def _reading(self, moment: Moment, measures: Sequence[Measure]) -> _ReadMoment:
        needed = [which for which in self._totals_of(moment) if which is not None]
        of_each = [_decoded(which, of_measures.decoding(measures[which[0]], which[1])) for which in needed]
        if len(of_each) == 1:
            return of_each[0]
        read_product, read_y, read_x = of_each
        centre_y, centre_x = (of_measures.facts(measures[number]).centre for number, _ in needed[1:])

        def cross(total: Mapping[TotalOf, int], count: int) -> Estimate:
            """The sum of (y - c)(x - c')."""
            both, y, x = read_product(total, count), read_y(total, count), read_x(total, count)
            value = both.value - centre_x * y.value - centre_y * x.value + count * centre_x * centre_y
            bound = both.bound + count * self.lost + abs(centre_x) * y.bound + abs(centre_y) * x.bound
            return Estimate(value, bound)

        return cross


def _decoded(which: TotalOf, decoding: Decoding) -> _ReadMoment:
    return lambda total, count: decoding.estimate(Estimate(Fraction(total[which])), count)


AggregateOperand = Combination | Pair
"""What an aggregate is of: one argument, or two."""


class Pairs:
    """The pairs of columns among `measures`."""

    def __init__(self, measures: Sequence[Measure]) -> None:
        self._measures = measures
        self._kept = _kept_of(tuple(measures))

    def of(self, y: Node, x: Node) -> Pair | None:
        """The pair of two encrypted columns; None for others, or if the rows with both values are not counted."""
        kept, measures = self._kept, self._measures
        one, two = (kept.columns.get(canonical(each)) for each in (y, x))
        if one is None or two is None:
            return None
        if one == two:
            return Pair(one, one, (one, "square"), one if measures[one].nullable else None)
        in_y = one if not measures[two].nullable else kept.aligned.get((one, two))
        in_x = two if not measures[one].nullable else kept.aligned.get((two, one))
        product = kept.products.get(frozenset((one, two)))
        count = None
        if measures[one].nullable or measures[two].nullable:
            counting = (each for each in (in_y, in_x, product) if each is not None and self._is_of_both(each, one, two))
            count = next(counting, None)
            if count is None:
                return None
        lost = Fraction(0) if product is None else _lost(measures[product], measures[one], measures[two])
        return Pair(in_y, in_x, None if product is None else (product, "sum"), count, lost)

    def may_be_kept(self, nodes: Sequence[Node]) -> bool:
        """True if `cleave derive --products` keeps what an aggregate of these arguments needs: two encrypted columns, a
        product of two, or a column in the rows where others have a value.
        """
        if len(nodes) > 1:
            return self._are_two_columns(nodes)
        (node,) = nodes
        if products := [each for each in node.find(Call) if each.name == "*"]:
            return all(self._are_two_columns(each.arguments) for each in products)
        taken = filtered(node)
        there = [] if taken is None else [each for each in taken[1].walk() if not isinstance(each, Operator)]
        return taken is not None and all(canonical(each) in self._kept.columns for each in (taken[0], *there))

    def product_in(self, node: Node) -> str:
        """SQL of the first product of two columns in `node` that is kept in another spelling: with a cast, so that it
        fits its type. "" if there is none.
        """
        for call in node.find(Call):
            if call.name == "*" and self._are_two_columns(call.arguments):
                spelled = product([self._column(of) for of in call.arguments])
                if spelled is not None and canonical(expression_of(spelled)) != canonical(call):
                    return spelled
        return ""

    def _column(self, node: Node) -> Column:
        """The declaration of the column that is a factor."""
        number = _factor(node, self._kept.columns, self._measures)
        assert number is not None  # noqa: S101 - a factor is one of the columns
        of = self._measures[number]
        ends = (of.lower, of.upper) if of.decimals is not None else (None, None)
        lower, upper = (None if end is None else Decimal(f"{end}e-{of.decimals}") for end in ends)
        return Column(of.name, Kind.ENCRYPTED, of.type, lower, upper)

    def _are_two_columns(self, nodes: Sequence[Node]) -> bool:
        columns = {_factor(each, self._kept.columns, self._measures) for each in nodes}
        return len(columns) == 2 and None not in columns

    def _is_of_both(self, number: int, one: int, two: int) -> bool:
        """True if a measure has as many values as there are rows with both columns."""
        others = {one, two} - {number}
        return number not in (one, two) or not any(self._measures[each].nullable for each in others)


def _lost(product: Measure, one: Measure, other: Measure) -> Fraction:
    """The error of each product of two columns."""
    if product.decimals is not None:
        return Fraction(0)
    share = UNIT if {one.type, other.type} <= {*FLOATS} else _LOST
    return share * of_measures.reach(product) + _UNDERFLOW


class _Kept:
    """Measures: `columns` by their spelling; `products` of two of these; `aligned`: (x, y) -> x where y has a value."""

    def __init__(self, measures: Sequence[Measure]) -> None:
        self.columns: dict[str, int] = {}
        self.products: dict[frozenset[int], int] = {}
        self.aligned: dict[tuple[int, int], int] = {}
        nodes = expressions_of([each.sql for each in measures])
        for number, node in enumerate(nodes):
            if isinstance(node, ColumnRef):
                self.columns[canonical(node)] = number
        for number, node in enumerate(nodes):
            factors = [_factor(each, self.columns, measures) for each in node.operands]
            taken = filtered(node)
            if isinstance(node, Call) and node.name == "*" and len(factors) == 2 and None not in factors:
                one, two = factors
                if (
                    one is not None and two is not None and measures[number].type != "FLOAT"
                ):  # whose products round more
                    self.products.setdefault(frozenset((one, two)), number)
            elif taken is not None and isinstance(taken[1], Operator) and taken[1].name == "IS NOT NULL":
                value, there = (self.columns.get(canonical(each)) for each in (taken[0], taken[1].operands[0]))
                if value is not None and there is not None:
                    self.aligned.setdefault((value, there), number)


_kept_of = lru_cache(64)(_Kept)


def _factor(node: Node, columns: Mapping[str, int], measures: Sequence[Measure]) -> int | None:
    """The column that is a factor, or that is cast without a change of exact values; None for others."""
    if not isinstance(node, Cast):
        return columns.get(canonical(node))
    number = columns.get(canonical(node.operand))
    if number is None or node.may_fail:
        return None
    before, after = decimals_of(measures[number].type), decimals_of(node.type)
    keeps = node.type == "DOUBLE" or (before is not None and after is not None and before <= after)
    return number if keeps and node.type != "BOOLEAN" else None
