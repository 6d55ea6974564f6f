"""INSECURE, for measurement only: Nemesis, encryption from one cached ciphertext, and its break.

Zhao, "Nemesis: Noise-randomized Encryption with Modular Efficiency and Secure Integration in Machine Learning
Systems" (arXiv 2412.14392), over SEAL's CKKS. A new ciphertext is the cached one times the encoded ratio of its values
to the cached ones, plus Gaussian noise. Noise enters the first polynomial only: the second is cached.c1 * ratio, and
the cached ciphertext's c1 is seen by whoever sees it or can be divided out by whoever knows one plaintext.
`ratios` and `base_of` do so. What is sound instead, a pool of encryptions of zero used once each, is in
benchmarks.encryption.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cleave_shared import seal
from cleave_shared.seal import Ring

BASE_SCALE, RATIO_SCALE = 2.0**28, 2.0**22
DEVIATION = 3.2  # of a noise polynomial's coefficients
NOISES = 64

Doubles = NDArray[np.float64]


class InsecureNemesis:
    """`cached` holds the values of the base, one per slot, none of them 0; `encryptor` has a public key."""

    def __init__(self, ring: Ring, encryptor: Any, cached: Doubles, random: np.random.Generator) -> None:
        self._ring = ring
        self._encoder = seal.api.CKKSEncoder(ring.context)
        self._cached = cached
        self._random = random
        self.base = seal.api.Ciphertext()
        encryptor.encrypt(encoded(self._encoder, cached, BASE_SCALE), self.base)
        noises = np.rint(random.normal(0, DEVIATION, (NOISES, ring.degree))).astype(np.int64)
        self._noises = ring.plaintexts(list(noises))
        for noise in self._noises:
            noise.scale = BASE_SCALE * RATIO_SCALE

    def reconstruct(self, values: Doubles) -> Any:
        """The cached ciphertext times the encoded ratio, (N / 2,) values."""
        made = seal.api.Ciphertext()
        ratio = encoded(self._encoder, values / self._cached[: len(values)], RATIO_SCALE)
        self._ring.evaluator.multiply_plain(self.base, ratio, made)
        return made

    def randomise(self, ciphertext: Any) -> None:
        self._ring.evaluator.add_plain_inplace(ciphertext, self._noises[self._random.integers(NOISES)])


def encoded(encoder: Any, values: Doubles, scale: float) -> Any:
    plaintext = seal.api.Plaintext()
    encoder.encode(values.tolist(), scale, plaintext)
    return plaintext


def second(ring: Ring, ciphertext: Any) -> list[int]:
    """What a passer-by reads: c1, its N values in NTT form."""
    return [int(value) for value in polynomials(ring, ciphertext)[1]]


def polynomials(ring: Ring, ciphertext: Any) -> NDArray[np.uint64]:
    """(2, N), from SEAL's own file of the ciphertext."""
    # 73 bytes of a ciphertext's head, 16 of the inner file's, 8 of its length: cleave_shared.seal
    inside = seal.inside(seal.save(ciphertext), 97 + 16 * ring.degree)
    return np.frombuffer(inside, np.uint64, 2 * ring.degree, 97).reshape(2, ring.degree)


def ratios(ring: Ring, base: Sequence[int], other: Sequence[int]) -> Doubles:
    """(N / 2,) values over cached ones, from the c1 of the cached ciphertext and of one made from it. Nothing else."""
    quotient = [theirs * pow(ours, -1, ring.modulus) % ring.modulus for ours, theirs in zip(base, other, strict=True)]
    plaintext = ring.plaintext(np.array(quotient, np.uint64))
    plaintext.scale = RATIO_SCALE
    return np.array(seal.api.CKKSEncoder(ring.context).decode_double(plaintext))


def base_of(ring: Ring, known: Sequence[int], values: Doubles, cached: Doubles) -> list[int]:
    """The c1 of a cached ciphertext nobody showed, from the c1 of one made from it that holds the `values`."""
    ratio = seal.plaintext_values(encoded(seal.api.CKKSEncoder(ring.context), values / cached, RATIO_SCALE))
    return [each * pow(int(value), -1, ring.modulus) % ring.modulus for each, value in zip(known, ratio, strict=True)]
