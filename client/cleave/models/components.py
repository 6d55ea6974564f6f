"""Principal components from sums: means, the covariance or correlation matrix, its eigenvalues and eigenvectors.

Covariances are exact fractions where sums are. Arb finds the eigenvalues and proves that each ball holds exactly one
(Rump, "Computational error bounds for multiple or nearly multiple eigenvalues", 2001). The matrix is symmetric, so all
are real. Equal eigenvalues have no directions of their own: they are refused.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import flint
from flint import acb, acb_mat, arb, fmpq, fmpq_mat, fmpq_poly

from cleave.aggregates.balls import Number, not_negative
from cleave.models.design import DesignColumn
from cleave.models.gram import Gram, Products
from cleave.models.sums import ModelSums
from cleave.table.schema import Column
from cleave.table.types import is_number
from cleave_shared.errors import InputError, QueryRefused, UsageError

MOST_COLUMNS = 50
_BITS = (192, 384, 768, 1536)
_PEOPLE_A_PARAMETER = 3  # at least, where a threshold is in force


@dataclass(frozen=True, slots=True)
class Covariances:
    """Means and covariances of columns over `n` rows, divided by n - 1. `left_out`: rows without a value in one of
    them; None where a threshold forbids counting them.
    """

    columns: tuple[str, ...]
    n: int
    left_out: int | None
    means: tuple[Number, ...]
    covariance: tuple[tuple[Number, ...], ...]


@dataclass(frozen=True, slots=True)
class Direction:
    """An eigenvalue, and its eigenvector of length 1. Of the components that may be the largest in size, the first is
    positive.
    """

    variance: Number
    vector: tuple[arb, ...]


def moments(sums: ModelSums, names: Sequence[str]) -> Covariances:
    """Ask for the sums of the columns and of their products, over rows where all have a value.

    Raises InputError for columns that are no numbers, QueryRefused where there are too few people.
    """
    columns = _columns(sums, names)
    products = Products({each.name: each for each in columns}, None, columns[0], sums)
    for each in columns:
        products.add((each.name,))
    for one, two in itertools.combinations_with_replacement(columns, 2):
        products.add((one.name, two.name))
    if sums.released:
        sums.require_exact()
        raise QueryRefused(
            "principal components need sums of products of columns, which are in no release (rule R4)",
            hint="ask the owner of the table to compute them",
        )
    groups, people = sums.ask_and_count([], [()], products.figures)
    cell = products.cell(groups[0]) if groups else None
    if cell is None or cell.hidden or sums.missing([], [()], [], products.nullable) is None:
        raise QueryRefused(
            f"fewer than {sums.min_group} {sums.people} have values in all columns, or lack some (rule A1)",
            hint="use columns without missing values",
        )
    n = cell.used or 0
    if n < 2:
        raise QueryRefused("variances need at least two rows with values in all columns")
    _require_people(sums, people, len(columns))
    places, constant = range(len(columns)), len(columns)
    design = [DesignColumn(each.name, (each.name,), ()) for each in columns] + [DesignColumn("1", (), ())]
    gram = Gram(design, {frozenset(): cell}, products, weighted=False)
    with flint.ctx.workprec(_BITS[0]):
        totals = [gram.entry(place, constant) for place in places]
        covariance = [
            [(gram.entry(min(a, b), max(a, b)) - totals[a] * totals[b] / n) / (n - 1) for b in places] for a in places
        ]
        means = tuple(total / n for total in totals)
    left_out = None if sums.min_group else cell.rows - n
    return Covariances(tuple(each.name for each in columns), n, left_out, means, tuple(map(tuple, covariance)))


def _columns(sums: ModelSums, names: Sequence[str]) -> list[Column]:
    columns = [sums.schema.column(name) for name in names]
    if len(columns) < 2 or len({each.name for each in columns}) < len(columns):
        raise UsageError("principal components need at least two different columns")
    if len(columns) > MOST_COLUMNS:
        raise UsageError(f"principal components of at most {MOST_COLUMNS} columns are computed")
    for each in columns:
        if not is_number(each.type):
            raise InputError(f"column {each.name!r} is {each.type}, not a number", hint="name columns of numbers")
    return columns


def _require_people(sums: ModelSums, people: int | None, columns: int) -> None:
    """Raises QueryRefused under a threshold if there are more numbers than a third of the people."""
    parameters = columns + columns * (columns + 1) // 2
    if people is not None and _PEOPLE_A_PARAMETER * parameters > people:
        raise QueryRefused(
            f"{columns} means and {parameters - columns} covariances are more than a third of the {sums.other_people}: "
            "they say much about single ones (rule P2)",
            hint="use fewer columns; the rule holds where small groups are left out of answers",
        )


def directions(found: Covariances, *, standardize: bool) -> list[Direction]:
    """The eigenvalues and eigenvectors, the largest first.

    Raises QueryRefused if a column to standardize is constant, and if two eigenvalues are equal or may be.
    """
    if standardize:
        _require_varying(found)
    exact = all(isinstance(each, fmpq) for row in found.covariance for each in row)
    for bits in _BITS:
        with flint.ctx.workprec(bits):
            try:
                values, vectors = acb_mat(_matrix(found, standardize=standardize)).eig(right=True, algorithm="rump")
            except ValueError:  # not isolated
                if exact:
                    _require_simple(found, standardize=standardize)
                    continue
                break
            size = range(len(values))
            pairs = [Direction(not_negative(values[k].real), _unit([vectors[i, k] for i in size])) for k in size]
        pairs.sort(key=lambda each: float(arb(each.variance).mid()), reverse=True)
        if exact and _rational(found, standardize=standardize).rank() < len(pairs):
            pairs[-1] = Direction(fmpq(0), pairs[-1].vector)
        return pairs
    raise QueryRefused(
        "two components explain almost the same variance, and the error bounds leave open whether it is the same: "
        "their directions are not determined",
        hint="leave out a column, or use whole or decimal columns, whose sums are exact",
    )


def _require_varying(found: Covariances) -> None:
    for place, name in enumerate(found.columns):
        variance = found.covariance[place][place]
        if isinstance(variance, fmpq) and not variance:
            raise QueryRefused(f"column {name!r} is constant and cannot be standardized", hint="leave it out")
        if isinstance(variance, arb) and not variance > 0:
            raise QueryRefused(
                f"column {name!r} is constant within the error bounds and cannot be standardized", hint="leave it out"
            )


def _matrix(found: Covariances, *, standardize: bool) -> list[list[acb]]:
    size = range(len(found.columns))
    balls = [[arb(each) for each in row] for row in found.covariance]
    if not standardize:
        return [[acb(each) for each in row] for row in balls]
    roots = [balls[place][place].sqrt() for place in size]
    return [
        [acb(1) if one == two else acb(balls[one][two] / (roots[one] * roots[two])) for two in size] for one in size
    ]


def _rational(found: Covariances, *, standardize: bool) -> fmpq_mat:
    """A matrix of fractions with the eigenvalues of the covariance or correlation matrix, to which it is similar."""
    rows: Any = [  # fractions, if all covariances are
        [each / found.covariance[place][place] if standardize else each for each in row]
        for place, row in enumerate(found.covariance)
    ]
    return fmpq_mat(rows)


def _require_simple(found: Covariances, *, standardize: bool) -> None:
    """Raises QueryRefused if two eigenvalues are equal: the characteristic polynomial then has a factor twice."""
    polynomial: fmpq_poly = _rational(found, standardize=standardize).charpoly()
    if polynomial.gcd(polynomial.derivative()).degree() > 0:
        raise QueryRefused(
            "two components explain exactly the same variance: their directions are not determined",
            hint="leave out a column; of columns that follow from others, or of fewer rows than columns, several "
            "components explain nothing",
        )


def _unit(vector: Sequence[acb]) -> tuple[arb, ...]:
    """An eigenvector of a real symmetric matrix, which is real up to a factor, as a real one of length 1."""
    sizes = [abs(each) for each in vector]
    largest = max(each.lower() for each in sizes)
    pivot = next(place for place, each in enumerate(sizes) if each.upper() >= largest)
    real = [arb(1) if place == pivot else (each / vector[pivot]).real for place, each in enumerate(vector)]
    length = sum((each * each for each in real), arb(0)).sqrt()
    return tuple(each / length for each in real)
