"""What packing many results into one ciphertext costs: room above a result, noise below it (docs/ckks.md section 6).

A result's number v comes out as d v + e, d = 2^(levels - shift), modulo q. It is read as its fields' totals where

    d (largest v) + 2 noise < q            it neither wraps nor meets what is below 0
    noise < d 2^(guard - 1)                rounding to a multiple of d 2^guard finds the fields

with noise = d (that of the sum itself) + (that of key switching). Both follow from numbers of rows and from limits of
columns, and are decided before anything is asked.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cleave.ckks.layout import FRESH_VARIANCE, SIGMAS_EXACT, Layout, noise
from cleave_shared import limits
from cleave_shared.dataclass import dataclass
from cleave_shared.errors import CheckFailed
from cleave_shared.packing import ciphertexts

Coefficients = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Packing:
    """2^levels places of a ciphertext, the last of them empty; sums are multiplied by 2^-shift before.

    `checks`: of a scan, how many groups each check result is of.
    """

    levels: int
    shift: int
    checks: tuple[int, ...] = ()

    @property
    def factor(self) -> int:
        """A sum comes out so many times."""
        return 1 << (self.levels - self.shift)


def switch_noise(degree: int, levels: int) -> float:
    """What key switches add to a packed number: less than this with probability 1 - 2^-128.

    Of each of `levels` switches that a number passes, the error is doubled by all that follow: (4^levels - 1) / 3 in
    variance. One switch errs by the product of a polynomial d below q, divided by p > q, and the key's error: at most
    10.5 |d / q|^2, where for d uniform modulo q the sum of N squares is below (1/3 + t) N, t = sqrt(K^2 / (4 N)), by
    Hoeffding; and by the rounding of both polynomials, as public keys do (`layout.public_variance`).
    """
    squares = 1 / 3 + math.sqrt(SIGMAS_EXACT**2 / (4 * degree))
    variance = FRESH_VARIANCE * squares * degree + (1 + degree) / 12
    return SIGMAS_EXACT * math.sqrt(variance * (4**levels - 1) / 3)


def largest(layout: Layout, lane: int, rows: int) -> int:
    """A sum of so many rows of a lane is at most this, but for its noise."""
    return sum(field.largest * rows << field.offset for field in layout.fields if field.lane == lane) << layout.guard


def fit(layout: Layout, lanes: Sequence[int], rows: int, results: int, degree: int, modulus: int) -> Packing | None:
    """How `results` sums of at most `rows` rows each fit into the fewest ciphertexts. None: not at all."""
    most = max(largest(layout, lane, rows) for lane in lanes)
    found: Packing | None = None
    for levels in range(2, limits.MAX_PACKING_LEVELS + 1):
        packing = _room(layout, most, rows, levels, degree, modulus)
        if packing and (found is None or ciphertexts(results, levels) < ciphertexts(results, found.levels)):
            found = packing
    return found


def _room(layout: Layout, most: int, rows: int, levels: int, degree: int, modulus: int) -> Packing | None:
    for shift in range(levels + 1):
        packing = Packing(levels, shift)
        off = noise_of(layout, packing, rows, degree)
        if packing.factor * most + 2 * off < modulus:  # a larger shift leaves more room, and more noise
            return packing if off < packing.factor * (1 << (layout.guard - 1)) else None
    return None


def noise_of(layout: Layout, packing: Packing, rows: int, degree: int) -> float:
    """Of a packed sum of so many rows."""
    return packing.factor * noise(rows, layout.variance) + switch_noise(degree, packing.levels)


def numbers(coefficients: Coefficients, count: int, packing: Packing) -> Coefficients:
    """The `count` packed numbers in decrypted ciphertexts (k, N), times their factors, centred.

    Raises CheckFailed unless all places that hold none are empty.
    """
    degree = coefficients.shape[1]
    places = coefficients[:, :: degree >> packing.levels]
    found = places[:, :-1].ravel()
    if (np.abs(np.concatenate([places[:, -1], found[count:]])) > switch_noise(degree, packing.levels)).any():
        raise CheckFailed("residual", "a place of a packed answer that holds no result is not empty")
    return found[:count]


def sums(
    found: Coefficients, rows: NDArray[np.int64], layout: Layout, packing: Packing, degree: int, modulus: int
) -> Coefficients:
    """The sums behind packed numbers, freed of noise: multiples of 2^guard. `rows`: of each.

    Raises CheckFailed where one is farther from a multiple than its noise allows.
    """
    fresh = packing.factor * SIGMAS_EXACT * np.sqrt(layout.variance * rows)
    allowed = fresh + switch_noise(degree, packing.levels)
    above = np.where(found < -allowed, found + modulus, found)  # numbers are up to q, and none is below 0
    bits = layout.guard + packing.levels - packing.shift
    rounded = (above + (1 << (bits - 1))) >> bits
    if (np.abs(above - (rounded << bits)) > allowed).any():
        raise CheckFailed("residual", "a packed sum is not an integer within its noise")
    integers: Coefficients = rounded << layout.guard
    return integers
