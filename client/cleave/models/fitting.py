"""Fit a linear model: ask for the sums of its design, check that they may be used, and compute every statistic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import flint
from flint import arb, fmpq, fmpq_mat

from cleave.aggregates.balls import Number, nearest, rational, root
from cleave.models.certified import NONE, Certified, certified, given_level, given_number
from cleave.models.chances import f_tail, t_quantile, t_tail
from cleave.models.design import DesignColumn, Formula, read_formula
from cleave.models.gram import Gram, LevelTotals, Products
from cleave.models.linear import Coefficient, LinearModel
from cleave.models.solve import Solution, solved
from cleave.models.sums import KeyedGroup, ModelSums
from cleave.table.duck import identifier
from cleave.table.schema import Column, Schema
from cleave.table.types import is_number
from cleave.text.quantities import counted
from cleave_shared.errors import InputError, QueryRefused, UsageError

_BITS = 256
_PEOPLE_A_PARAMETER = 3  # at least, where a threshold is in force
_RIDGE_DIGITS = 200  # on each side of the point: results stay within doubles
_ONE = "the constant"

Ridge = int | float | Decimal | Fraction | str


def fit_linear(sums: ModelSums, text: str, weights: str | None, ridge: Ridge, level: float) -> LinearModel:
    """Fit the formula `text` to the table of `sums`.

    Raises InputError for a formula, an option or a column that is wrong, QueryRefused for a model that these sums do
    not give, or that would say too much about too few people.
    """
    penalty, chosen = _ridge(ridge), given_level(level)
    formula = read_formula(text, sums.schema)
    weighting = None if weights is None else _weights(sums.schema, weights)
    products = Products(dict(formula.columns), weighting, formula.response, sums)
    response = DesignColumn(formula.response.name, (formula.response.name,), ())
    constant = DesignColumn(_ONE, (), ())
    of_terms = [term.numbers for term in formula.terms] + [response.numbers, constant.numbers]
    for place, one in enumerate(of_terms):
        for two in of_terms[place:]:
            products.add((*one, *two))
    cells, people = _cells(sums, formula, products)
    whole = cells.get(frozenset())
    n = whole.used or 0 if whole else 0
    if sums.released:  # it does not tell whose rows they are
        people = n
    if not n:
        raise QueryRefused("there are no rows with values in all columns of the model")
    levels = _levels_of(formula, cells)
    columns = formula.design(levels)
    if n <= len(columns):
        raise QueryRefused(
            f"the model has as many parameters ({len(columns)}) as rows, or more",
            hint="leave terms out, or use coarser factors",
        )
    if people is not None and _PEOPLE_A_PARAMETER * len(columns) > people:
        raise QueryRefused(
            f"the model has {counted(len(columns), 'parameter')}, more than a third of the {sums.other_people}: "
            "such a model says much about single ones (rule P2)",
            hint="leave terms out, or use coarser factors; the rule holds where small groups are left out of answers",
        )
    asked = [frozenset(each) for each in formula.sets]
    gram = Gram([*columns, response, constant], cells, products, weighting is not None, asked)
    return _Fit(gram, len(columns), n, penalty, chosen).model(
        sums, formula, weights, levels, _left_out(sums, formula, whole, n)
    )


def require_gaussian(family: str) -> None:
    """Raises QueryRefused for a model that does not follow from sums."""
    if str(family).lower() != "gaussian":
        raise QueryRefused(
            f"a model of the family {str(family)!r} needs rows: it does not follow from sums",
            hint="fetch the rows with a query and fit them on this machine, as docs/models.md shows",
        )


def _cells(
    sums: ModelSums, formula: Formula, products: Products
) -> tuple[dict[frozenset[tuple[str, Any]], LevelTotals], int | None]:
    """Ask for all totals, by the factors and levels of their group, and for the people that they are about.

    Raises QueryRefused if a threshold hides some.
    """
    names = list(formula.factors)
    keys = [identifier(formula.factors[name].name) for name in names]
    sets = [tuple(names.index(factor) for factor in each) for each in formula.sets]
    present = [f"{key} IS NOT NULL" for key, name in zip(keys, names, strict=True) if formula.factors[name].nullable]
    if sums.released:
        sums.require_exact()
        _require_released(products)
    groups, people = sums.ask_and_count(keys, sets, products.figures, " AND ".join(present))
    found = {}
    for group in groups:
        cell = products.cell(group)
        found[frozenset(zip((names[each] for each in sets[group.set]), group.keys, strict=True))] = cell
    nullable = [formula.factors[name].nullable for name in names]
    _require_shown(sums, formula, products, groups, list(found.values()))
    if sums.missing(keys, sets, nullable, products.nullable) is None:
        raise _few_missing(sums, formula, products)
    return found, people


def _require_released(products: Products) -> None:
    """Raises QueryRefused for products that no release has: it has sums, and sums of squares."""
    needed = [each.columns for each in products.of.values() if len(each.columns) > 1 and not each.is_square]
    if needed:
        names = ", ".join("*".join(column.name for column in columns) for columns in needed)
        raise QueryRefused(
            f"the model needs totals of {names}, and products of columns are in no release (rule R4)",
            hint="fit a response by factors alone, such as bill ~ C(ward), or ask the owner to fit the model",
        )


def _require_shown(
    sums: ModelSums, formula: Formula, products: Products, groups: Sequence[KeyedGroup], cells: Sequence[LevelTotals]
) -> None:
    """Raises QueryRefused if a group or figure of the design is hidden. No level is named."""
    few = f"fewer than {sums.min_group} {sums.people}"
    if sums.released and any(cell.hidden for cell in cells):
        raise QueryRefused(
            "the release withholds a total that the model needs: squares are of three times as many people as sums, "
            "and never of derived columns (rule R4)",
            hint="use coarser factors and a stored response, or ask the owner to fit the model",
        )
    if any(cell.hidden for cell in cells):
        raise _few_missing(sums, formula, products)
    if not sums.left_out:
        return
    rows = [sum(group.rows for group in groups if group.set == number) for number in range(len(formula.sets))]
    short = [each for each, count in zip(formula.sets, rows, strict=True) if count < max(rows)]
    terms = ", ".join(":".join(each) for each in short if each) or ", ".join(formula.factors)
    if not terms:
        raise QueryRefused(
            f"the whole table has {few}, and the threshold leaves it out (rules P2 and P3)",
            hint="a model needs so many; with contributors, so many besides those of each party",
        )
    raise QueryRefused(
        f"a level of {terms} has {few}, or could be computed from one that has: the threshold leaves it out "
        "(rules P2 and P3)",
        hint="use a coarser column, or leave the term out",
    )


def _few_missing(sums: ModelSums, formula: Formula, products: Products) -> QueryRefused:
    factors = [each.name for each in formula.factors.values() if each.nullable]
    names = dict.fromkeys([*products.nullable, *factors])
    return QueryRefused(
        f"in some cell of the model fewer than {sums.min_group} {sums.people} lack a value, or have one (rule A1)",
        hint=f"use columns without missing values instead of some of {', '.join(names)}",
    )


def _left_out(sums: ModelSums, formula: Formula, whole: LevelTotals | None, n: int) -> int | None:
    """How many rows lack a value; None under a threshold, where the number may tell about few."""
    if sums.min_group or sums.released or whole is None:
        return None
    needs_count = any(each.nullable for each in formula.factors.values())  # else all rows are in the model's answer
    return (sums.count("COUNT(*)") or 0 if needs_count else whole.rows) - n


def _levels_of(formula: Formula, cells: Mapping[frozenset[tuple[str, Any]], LevelTotals]) -> dict[str, list[Any]]:
    """The levels of each factor that have rows, sorted."""
    found: dict[str, set[Any]] = {name: set() for name in formula.factors}
    for key, cell in cells.items():
        if cell.used:
            for factor, level in key:
                found[factor].add(level)
    return {name: sorted(levels) for name, levels in found.items()}


def _weights(schema: Schema, name: str) -> Column:
    column = schema.column(name)
    if not is_number(column.type):
        raise InputError(f"the weights {column.name!r} are {column.type}, not numbers")
    if column.lower is None or column.lower < 0:
        raise QueryRefused(
            f"the weights {column.name!r} may be negative by their declared bounds",
            hint="set lower = 0 in the schema, if they cannot be",
        )
    return column


def _ridge(ridge: Ridge) -> fmpq:
    try:
        number = given_number(ridge, _RIDGE_DIGITS)
    except ValueError:
        raise UsageError("ridge is a number, 0 or more", name="--ridge") from None
    if number is None:
        raise UsageError(f"ridge is 0, or between 1e-{_RIDGE_DIGITS} and 1e{_RIDGE_DIGITS}", name="--ridge")
    if number < 0:
        raise UsageError("ridge is a number, 0 or more", name="--ridge")
    return rational(number)


class _Fit:
    """The statistics of one model. The last two columns of `gram` are the response and the constant."""

    def __init__(self, gram: Gram, size: int, n: int, ridge: fmpq, level: fmpq) -> None:
        self._gram, self._size, self._n, self._ridge, self._level = gram, size, n, ridge, level
        self._columns = list(gram.columns[:size])
        self._response, self._constant = size, size + 1
        places = range(size)
        entries = [[gram.entry(one, two) if one <= two else fmpq(0) for two in places] for one in places]
        self._matrix = [[entries[min(one, two)][max(one, two)] for two in places] for one in places]
        self._square = gram.entry(self._response, self._response)
        cross = [gram.entry(place, self._response) for place in places]
        terms = [column.term for column in self._columns]
        is_intercept = [not column.numbers and not column.levels for column in self._columns]
        penalty = [[ridge if one == two and not is_intercept[one] else fmpq(0) for two in places] for one in places]
        self._solution = solved(terms, self._matrix, cross, self._square, penalty)
        self._centred = any(is_intercept) or self._spans_constant()

    def _spans_constant(self) -> bool:
        """Check whether the constant is a combination of the columns, by sums that are exact."""
        places = [place for place in range(self._size) if self._is_exact(place)]
        if not places:
            return False
        count, counts = self._counts(places)
        part = fmpq_mat(len(places), len(places), [each for row in counts for each in row])
        right = fmpq_mat(len(places), 1, [count[place] for place in places])
        try:
            found = part.solve(right)
        except ZeroDivisionError:
            return False
        return sum((found[k, 0] * right[k, 0] for k in range(len(places))), fmpq(0)) == count[self._constant]

    def _is_exact(self, place: int) -> bool:
        """True for a column of levels alone, whose sums without weights are counts."""
        return not self._columns[place].numbers

    def _counts(self, places: Sequence[int]) -> tuple[dict[int, fmpq], list[list[fmpq]]]:
        counted = self._gram.counted
        right = {place: fmpq(counted(place, self._constant)) for place in [*places, self._constant]}
        return right, [[fmpq(counted(one, two)) for two in places] for one in places]

    def model(
        self,
        sums: ModelSums,
        formula: Formula,
        weights: str | None,
        levels: Mapping[str, Sequence[Any]],
        left_out: int | None,
    ) -> LinearModel:
        with flint.ctx.workprec(_BITS):
            solution, gram = self._solution, self._gram
            degrees = self._n - self._size
            total = self._square
            if self._centred:
                total -= gram.entry(self._constant, self._response) ** 2 / gram.entry(self._constant, self._constant)
            plain = self._ridge == 0
            scale = solution.residual / degrees if plain else None
            r2 = None if _may_be_zero(total) else 1 - solution.residual / total
            explained = self._size - self._centred
            adjusted = None
            if plain and r2 is not None:
                adjusted = 1 - (1 - r2) * fmpq(self._n - self._centred, degrees)
            f = None
            if scale is not None and explained and not _may_be_zero(scale):
                f = (total - solution.residual) / explained / scale
            return LinearModel(
                formula=formula.text,
                n=self._n,
                left_out=left_out,
                df_model=explained,
                df_resid=degrees,
                level=nearest(self._level),
                ridge=nearest(self._ridge),
                weights=weights,
                coefficients=self._coefficients(solution, scale, degrees),
                r2=certified(r2),
                adjusted_r2=certified(adjusted),
                scale=certified(scale),
                deviation=_root(scale),
                f=certified(f),
                f_p=NONE if f is None else certified(f_tail(f, explained, degrees)),
                residual=certified(solution.residual),
                total=certified(total),
                **sums.asked(),
                _columns=tuple(self._columns),
                _solution=solution,
                _formula=formula,
                _levels=levels,
                _scale=scale,
            )

    def _coefficients(self, solution: Solution, scale: Number | None, degrees: int) -> dict[str, Coefficient]:
        found = {}
        quantile = None if scale is None else t_quantile((1 + self._level) / 2, degrees)
        for place, column in enumerate(self._columns):
            estimate = solution.coefficients[place]
            if scale is None or quantile is None:
                found[column.name] = Coefficient(certified(estimate), NONE, NONE, NONE, NONE, NONE)
                continue
            variance = scale * solution.inverse[place][place]
            error = _ball_root(variance)
            t = None if _may_be_zero(variance) else estimate / error
            found[column.name] = Coefficient(
                certified(estimate),
                _root(variance),
                certified(t),
                NONE if t is None else certified(t_tail(t, degrees)),
                certified(estimate - quantile * error),
                certified(estimate + quantile * error),
            )
        return found


def _may_be_zero(value: Number) -> bool:
    return value == 0 if isinstance(value, fmpq) else bool(value.contains(0))


def _ball_root(value: Number) -> arb:
    ball = arb(value)
    lower = ball.lower()
    return (lower.sqrt() if lower > 0 else arb(0)).union(arb(ball.upper()).sqrt())


def _root(value: Number | None) -> Certified:
    if value is None:
        return NONE
    figure = root(value)
    return Certified(float(figure.value), figure.bound) if figure.exact else certified(figure.ball)  # type: ignore[arg-type]
