"""Exact expressions that are measures times numbers, added up: their totals follow from those of the measures.

`2 * x - y + 1` over integers or decimals, where DuckDB's own arithmetic is exact: each step must fit its type for all
values that the schema allows, for else DuckDB fails in some row, which a total would not tell.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from cleave.sql.judge import Types
from cleave.sql.nodes import Call, Constant, Node
from cleave.sql.ranges import Range, range_of_type
from cleave.sql.read import canonical
from cleave.sql.write import write
from cleave.store import measures as of_measures
from cleave.store.manifest import Measure
from cleave.table.types import decimals_of

_MOST = 60  # nodes


@dataclass(frozen=True, slots=True)
class Linear:
    """`terms`: measures by number, times what. `range` of all its values."""

    terms: dict[int, Fraction]
    constant: Fraction
    range: Range

    @property
    def ends(self) -> tuple[Fraction, Fraction]:
        return self.range.lower, self.range.upper

    def times(self, factor: Fraction) -> Linear:
        scaled = self.range * Range(factor, factor)
        return Linear({each: factor * by for each, by in self.terms.items()}, factor * self.constant, scaled)

    def plus(self, other: Linear) -> Linear:
        terms = dict(self.terms)
        for number, factor in other.terms.items():
            terms[number] = terms.get(number, Fraction(0)) + factor
        return Linear(terms, self.constant + other.constant, self.range + other.range)


def linear(node: Node, known: dict[str, int], measures: Sequence[Measure], types: Types) -> Linear | None:
    """`known`: measures by their canonical spelling. None where it is not surely exact, or NULL where a sum is not."""
    nodes = list(_operations(node, known))
    if not nodes or len(nodes) > _MOST:
        return None
    held = dict(zip(map(id, nodes), types([write(each) for each in nodes]), strict=True))
    found = _read(node, known, measures, held)
    if found is None or not found.terms or not all(found.terms.values()):
        return None
    nullable = [number for number in found.terms if measures[number].nullable]
    return None if nullable and len(found.terms) > 1 else found


def _operations(node: Node, known: dict[str, int]) -> Iterator[Node]:
    """Return the operations that DuckDB computes step by step."""
    if canonical(node) not in known and isinstance(node, Call) and node.name in ("+", "-", "*"):
        yield node
        for each in node.arguments:
            yield from _operations(each, known)


def _read(node: Node, known: dict[str, int], measures: Sequence[Measure], held: dict[int, str]) -> Linear | None:
    number = known.get(canonical(node))
    if number is not None:
        domain = of_measures.domain_of(measures[number])
        if not domain.is_exact:
            return None
        values = Range(Fraction(domain.lower, domain.unit), Fraction(domain.upper, domain.unit))
        return Linear({number: Fraction(1)}, Fraction(0), values)
    if isinstance(node, Constant) and node.is_number and node.text.removeprefix("-").replace(".", "", 1).isdecimal():
        value = Fraction(node.text)
        return Linear({}, value, Range(value, value))
    found = _step(node, known, measures, held)
    if found is None:
        return None
    type_ = held[id(node)]
    whole = range_of_type(type_)
    fits = whole is not None and whole.lower <= found.range.lower and found.range.upper <= whole.upper
    return found if fits and decimals_of(type_) is not None else None


def _step(node: Node, known: dict[str, int], measures: Sequence[Measure], held: dict[int, str]) -> Linear | None:
    if not isinstance(node, Call) or node.name not in ("+", "-", "*"):
        return None
    read = [_read(each, known, measures, held) for each in node.arguments]
    one, two = read[0], read[-1]
    if one is None or two is None:
        return None
    if len(read) == 1:
        return one.times(Fraction(-1)) if node.name == "-" else one
    if node.name == "*":
        if one.terms and two.terms:
            return None
        return two.times(one.constant) if not one.terms else one.times(two.constant)
    whole = range_of_type(held[id(node)])  # to which both sides are cast before
    if whole is None or any(not whole.lower <= end <= whole.upper for each in (one, two) for end in each.ends):
        return None
    return one.plus(two if node.name == "+" else two.times(Fraction(-1)))
