"""Exact expressions that are measures times numbers, added up: their totals follow from those of the measures.

`2 * x - y + 1` over integers or decimals, where DuckDB's own arithmetic is exact: each step must fit its type for all
values that the schema allows, for else DuckDB fails in some row, which a total would not tell.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

from sqlglot import exp

from cleave.sql.canonical import canonical
from cleave.sql.dialect import write
from cleave.sql.kept import Types
from cleave.sql.ranges import Range, range_of_type
from cleave.store import measures as of_measures
from cleave.store.manifest import Measure
from cleave.table.types import decimals_of
from cleave_shared.dataclass import dataclass

_STEPS = (exp.Add, exp.Sub, exp.Mul)
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


def linear(node: exp.Expression, known: dict[str, int], measures: Sequence[Measure], types: Types) -> Linear | None:
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


def _operations(node: exp.Expression, known: dict[str, int]) -> Iterator[exp.Expression]:
    """What DuckDB computes step by step."""
    if canonical(node) in known:
        return
    if isinstance(node, exp.Paren | exp.Neg):
        yield node
        yield from _operations(node.this, known)
    elif isinstance(node, _STEPS):
        yield node
        yield from _operations(node.this, known)
        yield from _operations(node.expression, known)


def _read(
    node: exp.Expression, known: dict[str, int], measures: Sequence[Measure], held: dict[int, str]
) -> Linear | None:
    number = known.get(canonical(node))
    if number is not None:
        domain = of_measures.domain_of(measures[number])
        if not domain.is_exact:
            return None
        values = Range(Fraction(domain.lower, domain.unit), Fraction(domain.upper, domain.unit))
        return Linear({number: Fraction(1)}, Fraction(0), values)
    if isinstance(node, exp.Literal) and not node.is_string and node.name.replace(".", "", 1).isdecimal():
        value = Fraction(node.name)
        return Linear({}, value, Range(value, value))
    found = _step(node, known, measures, held)
    if found is None:
        return None
    type_ = held[id(node)]
    whole = range_of_type(type_)
    fits = whole is not None and whole.lower <= found.range.lower and found.range.upper <= whole.upper
    return found if fits and decimals_of(type_) is not None else None


def _step(
    node: exp.Expression, known: dict[str, int], measures: Sequence[Measure], held: dict[int, str]
) -> Linear | None:
    if isinstance(node, exp.Paren):
        return _read(node.this, known, measures, held)
    if isinstance(node, exp.Neg):
        inner = _read(node.this, known, measures, held)
        return inner.times(Fraction(-1)) if inner else None
    if not isinstance(node, _STEPS):
        return None
    one, two = (_read(each, known, measures, held) for each in (node.this, node.expression))
    if one is None or two is None:
        return None
    if isinstance(node, exp.Mul):
        if one.terms and two.terms:
            return None
        return two.times(one.constant) if not one.terms else one.times(two.constant)
    whole = range_of_type(held[id(node)])  # to which both sides are cast before
    if whole is None or any(not whole.lower <= end <= whole.upper for each in (one, two) for end in each.ends):
        return None
    return one.plus(two if isinstance(node, exp.Add) else two.times(Fraction(-1)))
