"""What an argument of a question is made of, where the totals of cells give its sums: measures times numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from sqlglot import exp

from cleave.aggregates.base import Aggregate, Estimate, Facts, Moment
from cleave.sql.canonical import canonical
from cleave.sql.kept import Types
from cleave.sql.plan import Argument
from cleave.store import measures as of_measures
from cleave.store.linear import linear
from cleave.store.manifest import Measure
from cleave_shared.dataclass import dataclass

Part = tuple[int, str]  # of a measure: its number and count, sum or square


@dataclass(frozen=True, slots=True)
class Source:
    """`terms`: measures by number, and what each is multiplied with; `constant` is added. In the cells where `filter`
    holds. `each`: what DuckDB's own arithmetic may round a value of it by.

    NULL where a term is, so of several terms none may be. No terms: a constant, or what is only counted.
    """

    terms: tuple[tuple[int, Fraction], ...] = ()
    constant: Fraction = Fraction(0)
    filter: str | None = None  # SQL over by columns
    each: Fraction = Fraction(0)

    def counted(self, measures: Sequence[Measure]) -> int | None:
        """The measure whose values are as many as this has; None: as many as there are rows."""
        return next((number for number, _ in self.terms if measures[number].nullable), None)

    def needs(self, aggregate: Aggregate, measures: Sequence[Measure]) -> list[Part] | str:
        """The totals that `aggregate` of this takes, or why there are none."""
        counted = self.counted(measures)
        parts: list[Part] = [] if counted is None else [(counted, "count")]
        for moment in aggregate.moments:
            part = of_measures.part_of(moment)
            if part is None or (part == "square" and len(self.terms) > 1):
                return "sums and squares of single columns do not give it"
            for number, _ in self.terms:
                if part == "square" and not measures[number].square:
                    return f"squares of {measures[number].name} are not kept"
                parts.append((number, part))
        return parts

    def facts(self, argument: Argument, measures: Sequence[Measure]) -> Facts:
        centre = self.constant
        for number, factor in self.terms:
            centre += factor * of_measures.facts(measures[number]).centre
        return Facts(argument.domain, centre)

    def moments(
        self, aggregate: Aggregate, total: Mapping[Part, int], count: int, measures: Sequence[Measure]
    ) -> dict[Moment, Estimate]:
        """Of `count` values whose totals are `total`."""
        found: dict[Moment, Estimate] = {}
        for moment in aggregate.moments:
            part = of_measures.part_of(moment) or ""
            value, bound = (self.constant * count if part == "sum" else Fraction(0)), Fraction(0)
            for number, factor in self.terms:
                taken = of_measures.reading(measures[number], part).estimate(
                    Estimate(Fraction(total[number, part])), count
                )
                scale = factor if part == "sum" else factor**2
                value, bound = value + scale * taken.value, bound + abs(scale) * taken.bound
            found[moment] = Estimate(value, bound + self._rounded(part, count, measures))
        return found

    def _rounded(self, part: str, count: int, measures: Sequence[Measure]) -> Fraction:
        """How far DuckDB's roundings of single values may lead."""
        if not self.each or part == "sum":
            return self.each * count
        reach = sum((abs(factor) * of_measures.reach(measures[number]) for number, factor in self.terms), Fraction(0))
        return (2 * reach + self.each) * self.each * count


def source_of(node: exp.Expression, known: dict[str, int], measures: Sequence[Measure], types: Types) -> Source | None:
    """A measure, or measures times numbers added up. `known`: measures by their canonical spelling."""
    measure = known.get(canonical(node))
    if measure is not None:
        return Source(((measure, Fraction(1)),))
    found = linear(node, known, measures, types)
    return Source(tuple(found.terms.items()), found.constant) if found else None


def filtered(node: exp.Expression) -> tuple[exp.Expression, exp.Expression] | None:
    """The value and the condition of `CASE WHEN condition THEN value END`, as which the planner writes a filter."""
    if not isinstance(node, exp.Case) or node.this or node.args.get("default") or len(node.args["ifs"]) != 1:
        return None
    (branch,) = node.args["ifs"]
    return branch.args["true"], branch.this
