"""Least squares from a Gram matrix: over the rationals where all sums are exact, else in balls.

Collinear columns are named. Where the bounds of the sums do not decide whether columns are, there is no solution.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import flint
from flint import arb, arb_mat, fmpq, fmpq_mat

from cleave.aggregates.balls import Number, not_negative
from cleave_shared.errors import QueryRefused

_BITS = (192, 384, 768, 1536)  # of midpoints: more are used where rounding, not the data, makes the radii
_ENOUGH = 0.99  # a smaller gain in radius needs no more bits

Matrix = Sequence[Sequence[Any]]  # of numbers


@dataclass(frozen=True)
class Solution:
    """`coefficients` solve A b = c for the Gram matrix A; `inverse` is that of A. `residual` is the sum of squared
    residuals, and `effective` the trace of the matrix that maps responses to fitted values.
    """

    coefficients: list[Number]
    inverse: Matrix
    residual: Number
    effective: Number


def solved(terms: Sequence[str], gram: Matrix, cross: Sequence[Number], square: Number, penalty: Matrix) -> Solution:
    """Solve the normal equations of columns of `terms`: `gram` is X'WX, `cross` X'Wy and `square` y'Wy. `penalty` is
    added to the Gram matrix for ridge regression.

    Raises QueryRefused for collinear columns, or where the bounds leave that open.
    """
    numbers = [*(each for row in gram for each in row), *cross, square]
    if all(isinstance(each, fmpq) for each in numbers):
        return _exact(terms, gram, cross, square, penalty)
    _require_independent(terms, gram, penalty)
    best: Solution | None = None
    for bits in _BITS:
        with flint.ctx.workprec(bits):
            found = _in_balls(gram, cross, square, penalty)
        if found is None:
            continue
        if best is not None and _width(found) > _ENOUGH * _width(best):
            return found
        best = found
    if best is None:
        raise _undecided(terms, gram, penalty)
    return best


def _exact(terms: Sequence[str], gram: Matrix, cross: Sequence[Any], square: Any, penalty: Matrix) -> Solution:
    size = len(terms)
    plain = fmpq_mat(size, size, [each for row in gram for each in row])
    full = plain + fmpq_mat(size, size, [each for row in penalty for each in row])
    try:
        inverse = full.inv()
    except ZeroDivisionError:
        raise _collinear(terms, full) from None
    right = fmpq_mat(size, 1, list(cross))
    solution = inverse * right
    fitted = plain * solution
    residual = square
    for place in range(size):
        residual += solution[place, 0] * (fitted[place, 0] - 2 * right[place, 0])
    both = inverse * plain
    effective = sum((both[place, place] for place in range(size)), fmpq(0))
    return Solution([solution[place, 0] for place in range(size)], inverse.tolist(), residual, effective)


def _in_balls(gram: Matrix, cross: Sequence[Number], square: Number, penalty: Matrix) -> Solution | None:
    """The solution with the current precision; None if the matrix may be singular."""
    size = len(cross)
    plain = arb_mat(size, size, [arb(each) for row in gram for each in row])
    full = plain + arb_mat(size, size, [arb(each) for row in penalty for each in row])
    right = arb_mat(size, 1, [arb(each) for each in cross])
    try:
        inverse, solution = full.inv(), full.solve(right, algorithm="precond")
    except ZeroDivisionError:
        return None
    middle = arb_mat(size, 1, [solution[place, 0].mid() for place in range(size)])
    apart, slope = solution - middle, plain * middle - right
    # the sum of squares at the middle, whose own error is small, and its change over the ball around it
    residual = arb(square) + _dot(middle, slope - right) + _dot(apart, 2 * slope + plain * apart)
    both = inverse * plain
    effective = sum((both[place, place] for place in range(size)), arb(0))
    found = [solution[place, 0] for place in range(size)]
    if not all(each.is_finite() for each in [*found, residual]):
        return None
    return Solution(list(found), inverse.tolist(), not_negative(residual), effective)


def _dot(one: arb_mat, two: arb_mat) -> arb:
    return (one.transpose() * two)[0, 0]


def _width(solution: Solution) -> arb:
    """The largest radius, relative to the size of its ball."""
    numbers = [*solution.coefficients, solution.residual]
    return max((arb(each).rad() / (arb(each).abs_upper() + 1) for each in numbers), default=arb(0))


def _require_independent(terms: Sequence[str], gram: Matrix, penalty: Matrix) -> None:
    """Raises QueryRefused if the columns whose own sums are all exact are collinear."""
    exact: list[int] = []
    for place in range(len(terms)):
        if all(isinstance(gram[place][other], fmpq) for other in [*exact, place]):
            exact.append(place)
    entries = [gram[one][two] + penalty[one][two] for one in exact for two in exact]
    part = fmpq_mat(len(exact), len(exact), entries)
    if part.rank() < len(exact):
        raise _collinear([terms[place] for place in exact], part)


def _collinear(terms: Sequence[str], gram: fmpq_mat) -> QueryRefused:
    """The error for a singular matrix: it terms the term of a column that is a combination of columns before it."""
    reduced, rank = gram.rref()
    pivots = [next(column for column in range(len(terms)) if reduced[row, column]) for row in range(rank)]
    place = next(column for column in range(len(terms)) if column not in pivots)
    parts = list(dict.fromkeys(terms[column] for row, column in enumerate(pivots) if reduced[row, place]))
    if not parts:
        return QueryRefused(
            f"a column of {terms[place]} is 0 in all rows: no row has its levels, or all its values are 0",
            hint="leave the term out, or use a coarser factor",
        )
    return QueryRefused(
        f"the columns of the model are collinear: {terms[place]} is a combination of {', '.join(parts)}",
        hint=f"leave one of them out: {', '.join(dict.fromkeys([*parts, terms[place]]))}",
    )


def _undecided(terms: Sequence[str], gram: Matrix, penalty: Matrix) -> QueryRefused:
    """The error where a matrix of balls may be singular: it terms the first column that may depend on others."""
    with flint.ctx.workprec(_BITS[-1]):
        for size in range(1, len(terms) + 1):
            part = arb_mat(size, size, [arb(gram[i][j]) + arb(penalty[i][j]) for i in range(size) for j in range(size)])
            try:
                part.inv()
            except ZeroDivisionError:
                break
    return QueryRefused(
        f"the error bounds leave open whether {terms[size - 1]} is a combination of the other columns",
        hint="leave it out, or declare its column as DECIMAL, whose sums are exact",
    )
