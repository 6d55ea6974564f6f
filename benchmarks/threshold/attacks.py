"""INSECURE, for measurement only: what threshold decryption loses without commitments, or without flooding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.threshold.arithmetic import Polynomial
from benchmarks.threshold.scheme import Setup


def rogue_key(setup: Setup, others: Sequence[Polynomial]) -> tuple[Polynomial, Polynomial]:
    """A secret, and the key of a last party that saw the others' keys first. It cancels them: the sum of all keys is
    the key of this secret alone.
    """
    keys = setup.keys
    secret = keys.secret()
    own = keys.negate(keys.add(keys.multiply(setup.shared, secret), keys.noise()))
    return secret, keys.add(own, keys.negate(keys.add(*others)))


def missing_secret(setup: Setup, total: Any, phase: Sequence[int], known: Sequence[Polynomial]) -> Polynomial:
    """The one secret not among `known`, from a total's unflooded phase: N equations of N unknowns, c1 s = phase - c0
    - c1 (all known secrets). Something else if the phase is flooded or rounded.
    """
    data = setup.data
    c0, c1 = data.polynomials(total)
    together = np.ascontiguousarray(setup.keys.add(*known)[: len(data.primes)])
    product = data.add(data.of_integers(phase), data.negate(data.add(c0, data.multiply(c1, together))))
    inverse = np.array(
        [[pow(each, -1, prime) for each in row] for row, prime in zip(c1.tolist(), data.primes, strict=True)],
        np.uint64,
    )
    return data.multiply(product, inverse)


def averaged(setup: Setup, shares: Sequence[Polynomial]) -> list[int]:
    """Shares of one total with fresh flooding each, as coefficients. The flooding of k shares is sqrt(k) times smaller.

    Differences from the first share are averaged: they are small, so that their sum does not wrap.
    """
    data, count = setup.data, len(shares)
    first, *others = shares
    steps = data.integers(data.add(*others, *[data.negate(first)] * len(others)))
    return [low + (2 * step + count) // (2 * count) for low, step in zip(data.integers(first), steps, strict=True)]
