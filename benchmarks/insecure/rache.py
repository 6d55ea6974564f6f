"""INSECURE, for measurement only: Rache, a value's ciphertext as a sum of cached ones of the powers of a radix.

Tawose, Dai, Yang, Zhao, "Toward Efficient Homomorphic Encryption for Outsourced Databases through Parallel Caching"
(SIGMOD 2023), radix 2, over SEAL's CKKS. Randomised by Enc(2^(i+1)) - 2 Enc(2^i) for a random choice of i. Every
ciphertext is a small integer combination of the few cached ones: `recovered` reads any from their second polynomials,
by linear algebra over known plaintexts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.insecure.nemesis import second
from cleave_shared import seal
from cleave_shared.seal import Ring


class InsecureRache:
    """Integers below 2^`bits`, as multiples of `unit`, each in a ciphertext of its own."""

    def __init__(
        self, ring: Ring, encryptor: Any, bits: int, unit: float, scale: float, random: np.random.Generator
    ) -> None:
        self._ring = ring
        self._random = random
        self._powers = []
        encoder = seal.api.CKKSEncoder(ring.context)
        for power in range(bits + 1):
            plaintext, ciphertext = seal.api.Plaintext(), seal.api.Ciphertext()
            encoder.encode(unit * 2.0**power, scale, plaintext)
            encryptor.encrypt(plaintext, ciphertext)
            self._powers.append(ciphertext)

    def reconstruct(self, value: int) -> Any:
        """The sum of the cached ciphertexts of the bits set in `value`, which is not 0."""
        made = seal.api.Ciphertext()
        self._ring.evaluator.add_many(
            [self._powers[power] for power in range(value.bit_length()) if value >> power & 1], made
        )
        return made

    def randomise(self, ciphertext: Any) -> None:
        for power in np.flatnonzero(self._random.integers(0, 2, len(self._powers) - 1)):
            self._ring.evaluator.add_inplace(ciphertext, self._powers[power + 1])
            for _ in range(2):
                self._ring.evaluator.sub_inplace(ciphertext, self._powers[power])


def recovered(ring: Ring, known: Sequence[Any], values: Sequence[int], other: Any) -> int | None:
    """The integer in ciphertext `other`, from ciphertexts `known` of `values`; None where those do not span it.

    No key and no cached ciphertext: c1 is linear in how often each cached one was added, and so is the value.
    """
    q, places = ring.modulus, 2 * len(known)  # some coordinates of c1 are as good as all
    columns = [second(ring, each)[:places] for each in (*known, other)]
    rows = [list(row) for row in zip(*columns, strict=True)]  # sum_j factor_j * known_j = other
    pivots: list[int] = []
    for column in range(len(known)):
        at = next((at for at in range(len(pivots), places) if rows[at][column]), None)
        if at is None:
            continue
        here = len(pivots)
        rows[here], rows[at] = rows[at], rows[here]
        inverse = pow(rows[here][column], -1, q)
        rows[here] = [entry * inverse % q for entry in rows[here]]
        for row in range(places):
            factor = rows[row][column]
            if row != here and factor:
                rows[row] = [(a - factor * b) % q for a, b in zip(rows[row], rows[here], strict=True)]
        pivots.append(column)
    if any(row[-1] for row in rows[len(pivots) :]):
        return None
    return sum(rows[here][-1] * values[column] for here, column in enumerate(pivots)) % q
