"""The evaluator's protocol on plain integers: the same polynomials modulo X^N + 1, no encryption."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cleave_shared.errors import WireError
from cleave_shared.moments import Polynomial

Integers = NDArray[np.int64]


class PlaintextEvaluator:
    """Coefficients are int64 and wrap: only coefficients that hold no total ever do."""

    def __init__(self, degree: int) -> None:
        self.degree = degree

    def load(self, blob: bytes | memoryview) -> Integers:
        if len(blob) != 8 * self.degree:
            raise WireError("not a plaintext polynomial of this degree")
        return np.frombuffer(blob, np.int64)

    def masks(self, polynomials: Sequence[Polynomial]) -> list[Polynomial]:
        return list(polynomials)

    def multiply(self, ciphertext: Integers, mask: Polynomial) -> Integers:
        product = np.zeros(self.degree, np.int64)
        for shift in np.flatnonzero(mask):
            product[shift:] += mask[shift] * ciphertext[: self.degree - shift]
            product[:shift] -= mask[shift] * ciphertext[self.degree - shift :]
        return product

    def add(self, total: Integers, ciphertext: Integers) -> Integers:
        return total + ciphertext

    def dump(self, ciphertext: Integers, coefficients: int) -> bytes:
        kept = ciphertext.copy()
        kept[coefficients:] = 0
        return kept.tobytes()
