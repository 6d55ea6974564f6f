"""Ring packing: one number each of many results in one ciphertext, by automorphisms and no secret.

Only the laboratory has it: it needs an evaluation key.

A result's number is its coefficient 0; what stands at the others is of no use. Two ciphertexts whose numbers stand at
the multiples of N / 2^(l-1) become one with theirs at the multiples of N / 2^l:

    out = (a + X^(N/2^l) b) + sigma(a - X^(N/2^l) b),    sigma: X -> X^(2^l + 1)

for sigma leaves the coefficients at even multiples of N / 2^l as they are and turns the sign of the odd ones. What `a`
had at odd ones, and `b` at even ones, is gone; the numbers are doubled. So 2^levels results take 2^levels - 1 of these
steps and stand, each 2^levels times, at the multiples of N / 2^levels: result i at i N / 2^levels. The trace down to
these coefficients, which full packing ends with, is left out: it doubles the numbers log2(N) - levels times more, and
what it would clear is cut off here.

Room is made before: a result is multiplied by 2^-shift modulo q, which is exact, and comes out 2^(levels - shift)
times. sigma adds the error of a key switch, each time (see `noise`).
Source: Chen, Dai, Kim and Song, ACNS 2021, algorithm 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from cleave.ckks.layout import FRESH_VARIANCE, SIGMAS_EXACT
from cleave_shared import seal
from cleave_shared.moments import Polynomial


def elements(levels: int) -> list[int]:
    """The Galois elements that packing 2^levels results takes."""
    return [(1 << level) + 1 for level in range(1, levels + 1)]


def ciphertexts(results: int, levels: int) -> int:
    """That so many results take: the last place of each stays empty, by which damage shows."""
    return -(-results // ((1 << levels) - 1))


def noise(degree: int, levels: int) -> float:
    """Bound of what key switches add to a packed number, which holds with probability 1 - 2^-128.

    The error of each of `levels` switches is doubled by all that follow: (4^levels - 1) / 3 in variance. One switch
    errs by the product of a polynomial d below q, divided by p > q, and the key's error: at most 10.5 |d / q|^2, where
    for d uniform modulo q the sum of N squares is below (1/3 + t) N, t = sqrt(K^2 / (4 N)), by Hoeffding; and by the
    rounding of both polynomials.
    """
    squares = 1 / 3 + math.sqrt(SIGMAS_EXACT**2 / (4 * degree))
    variance = FRESH_VARIANCE * squares * degree + (1 + degree) / 12
    return SIGMAS_EXACT * math.sqrt(variance * (4**levels - 1) / 3)


class Packer:
    """Packs results of a ring under the Galois keys of `elements`, 2^levels - 1 of them in a ciphertext."""

    def __init__(self, of: seal.Ring, keys: Any, levels: int) -> None:
        self._ring = of
        self._keys = keys
        self._levels = levels
        self._plaintexts: dict[tuple[int, int], Any] = {}

    def pack(self, results: Sequence[Any], shifts: Sequence[int]) -> Any:
        """One ciphertext of at most 2^levels - 1 results (2 polynomials each, in NTT form).

        `shifts`: of each result, so that it comes out 2^(levels - shift) times.
        """
        if not 0 < len(results) < 1 << self._levels:
            raise ValueError(f"{len(results)} results in a ciphertext of {1 << self._levels} places")
        return self._merged(list(zip(results, shifts, strict=True)), self._levels)

    def file(self, packed: Any) -> bytes:
        """Of its phase, the coefficients at which results stand, and 0 elsewhere."""
        if packed.is_ntt_form():
            self._ring.evaluator.transform_from_ntt_inplace(packed)
        found = self._ring._polynomials(packed)
        step, polynomials = self._ring.degree >> self._levels, found.copy()
        polynomials[0] = 0
        polynomials[0, ::step] = found[0, ::step]
        return self._ring._ciphertext_file(polynomials, ntt_form=False, compress=True)

    def _merged(self, results: list[tuple[Any, int]], level: int, exponent: int = 0) -> Any:
        """`results` in one, times X^exponent."""
        if level == 0:
            ((result, shift),) = results
            return self._times(result, exponent, shift)
        evaluator, element = self._ring.evaluator, (1 << level) + 1
        low = self._merged(results[0::2], level - 1)
        if others := results[1::2]:
            moved = self._merged(others, level - 1, self._ring.degree >> level)
            high = seal.api.Ciphertext()
            evaluator.add(low, moved, high)
            evaluator.sub_inplace(low, moved)
            evaluator.apply_galois_inplace(low, element, self._keys)
            evaluator.add_inplace(high, low)
        else:
            high = low
            low = seal.api.Ciphertext()
            evaluator.apply_galois(high, element, self._keys, low)
            evaluator.add_inplace(high, low)
        return self._times(high, exponent, 0)

    def _times(self, ciphertext: Any, exponent: int, shift: int) -> Any:
        """Times X^exponent 2^-shift."""
        if exponent == shift == 0:
            return ciphertext
        if (exponent, shift) not in self._plaintexts:
            self._plaintexts[exponent, shift] = self._ring.plaintexts([self._monomial(exponent, shift)])[0]
        self._ring.evaluator.multiply_plain_inplace(ciphertext, self._plaintexts[exponent, shift])
        return ciphertext

    def _monomial(self, exponent: int, shift: int) -> Polynomial:
        modulus = self._ring.modulus
        polynomial = np.zeros(self._ring.degree, np.int64)
        value = pow(2, -shift, modulus)
        polynomial[exponent] = value - modulus if value > modulus // 2 else value
        return polynomial
