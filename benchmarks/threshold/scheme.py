"""For measurement only: sums that n parties can decrypt together, and no n - 1 of them (n-out-of-n, CKKS).

Party i has a secret s_i and publishes b_i = -(a s_i + e_i), after all have published a commitment to theirs. Anyone
encrypts under the sum of all b_i, by SEAL's own encryptor, and a service without a key adds. For a total (c0, c1) each
party publishes c1 s_i plus flooding; all of these and c0 add up to the phase.

Limits: all parties answer, and answer honestly, or there is no total. A party answers each total once, but does not
know what it is the total of: it must add up the contributions itself. Source: Mouchet, Troncoso-Pastoriza, Bossuat and
Hubaux, "Multiparty Homomorphic Encryption from Ring-Learning-with-Errors" (PETS 2021); additive shares of the secret.
"""

from __future__ import annotations

import hashlib
import math
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from benchmarks.threshold.arithmetic import Arithmetic, Polynomial, context_of
from cleave.ckks.layout import SIGMAS_EXACT
from cleave_shared import seal

DEGREE = 8192
PRIME_BITS = (60, 60, 60)  # the special prime last
SPARE_BITS = 20
FLOODING = 40  # log2 of how little a share says about the noise: statistical distance 2^-40


class ThresholdError(Exception):
    """The protocol was not followed."""


@dataclass(frozen=True, slots=True)
class Opening:
    """What a commitment was to: the party's number, a nonce and its public polynomial b."""

    number: int
    nonce: bytes
    key: Polynomial

    @property
    def commitment(self) -> bytes:
        return hashlib.sha256(self.number.to_bytes(4, "big") + self.nonce + self.key.tobytes()).digest()


@dataclass(frozen=True)
class Setup:
    """What all agree on first. `contributions`: the most ciphertexts in a total. `flooding`: see FLOODING."""

    parties: int
    contributions: int
    seed: bytes = b"a seed that all agree on"
    prime_bits: tuple[int, ...] = PRIME_BITS
    flooding: int = FLOODING

    @cached_property
    def context(self) -> Any:
        """Encrypts, adds, and has no secret."""
        return context_of(DEGREE, self._moduli[:-1])

    @cached_property
    def _moduli(self) -> list[Any]:
        """With one prime more, which `Arithmetic` needs."""
        return list(seal.api.CoeffModulus.Create(DEGREE, [*self.prime_bits, SPARE_BITS]))

    @cached_property
    def keys(self) -> Arithmetic:
        """Over all primes, the special one included, as public keys are."""
        return Arithmetic(DEGREE, self._moduli[:-1], self._moduli[-1])

    @cached_property
    def data(self) -> Arithmetic:
        return Arithmetic(DEGREE, self._moduli[:-2], self._moduli[-1])

    @cached_property
    def shared(self) -> Polynomial:
        """The polynomial a."""
        return self.keys.uniform(self.seed)

    @property
    def noise(self) -> float:
        """Bound on a total's noise. SEAL rounds when it drops the special prime, and roundings (r0, r1) add r0 + r1 s.

        The secret s is a sum of ternary ones. Roundings are assumed to be independent.
        """
        variance = (1 + self.parties * DEGREE * 2 / 3) / 12
        return SIGMAS_EXACT * math.sqrt(self.contributions * variance)

    @property
    def flooding_bits(self) -> int:
        """Flooding is uniform in +-2^bits. Over N coefficients the distance is at most N noise / 2^bits."""
        return math.ceil(math.log2(self.noise)) + self.flooding + int(math.log2(DEGREE))

    @property
    def guard(self) -> int:
        """Values are multiples of 2^guard, more than twice all flooding and noise."""
        return 1 + math.ceil(math.log2(self.parties * 2.0**self.flooding_bits + self.noise))

    @property
    def value_bits(self) -> int:
        """A total stays below 2^value_bits, a quarter of the data modulus. Negative: flooding alone is larger."""
        return sum(self.prime_bits[:-1]) - 2 - self.guard


class Party:
    def __init__(self, setup: Setup, number: int) -> None:
        self._setup, self._number = setup, number
        self._nonce = secrets.token_bytes(32)
        self._secret = setup.keys.secret()
        keys = setup.keys
        self._key = keys.negate(keys.add(keys.multiply(setup.shared, self._secret), keys.noise()))
        self._answered: set[bytes] = set()

    @property
    def commitment(self) -> bytes:
        return self._opening.commitment

    @property
    def _opening(self) -> Opening:
        return Opening(self._number, self._nonce, self._key)

    def opening(self, commitments: Sequence[bytes]) -> Opening:
        """Shows the key once all commitments are there. Raises ThresholdError before."""
        if len({*commitments}) != self._setup.parties or commitments[self._number] != self.commitment:
            raise ThresholdError("a commitment is missing or not of its party: no key is shown yet")
        return self._opening

    def share(self, total: Any) -> Polynomial:
        """This party's part of a total's decryption, flooded. Raises ThresholdError for the same total again."""
        mark = hashlib.sha256(self._setup.data.polynomials(total).tobytes()).digest()
        if mark in self._answered:
            raise ThresholdError("this total was answered: two shares of it would average the flooding out")
        self._answered.add(mark)
        return share(self._setup, self._secret, total, self._setup.flooding_bits)


def share(setup: Setup, secret: Polynomial, total: Any, flooding_bits: int | None) -> Polynomial:
    """c1 s, and flooding unless `flooding_bits` is None, which is INSECURE. `secret` may have the special prime too."""
    data = setup.data
    product = data.multiply(data.polynomials(total)[1], np.ascontiguousarray(secret[: len(data.primes)]))
    if flooding_bits is None:
        return product
    span = 1 << flooding_bits
    return data.add(product, data.of_integers([secrets.randbelow(2 * span + 1) - span for _ in range(DEGREE)]))


def joint_key(setup: Setup, commitments: Sequence[bytes], openings: Sequence[Opening]) -> Any:
    """SEAL's public key under the sum of all secrets. Raises ThresholdError for a key that was not committed to."""
    if len(commitments) != setup.parties or len(openings) != setup.parties:
        raise ThresholdError("a party's commitment or key is missing")
    for number, (commitment, opening) in enumerate(zip(commitments, openings, strict=True)):
        if opening.number != number or opening.commitment != commitment:
            raise ThresholdError(f"party {number} shows another key than it committed to")
    return unchecked_key(setup, [each.key for each in openings])


def unchecked_key(setup: Setup, keys: Sequence[Polynomial]) -> Any:
    """INSECURE without the checks of `joint_key`: see `benchmarks.threshold.attacks`."""
    file = setup.keys.ciphertext_file(setup.keys.add(*keys), setup.shared)
    return seal.restore(seal.api.PublicKey(), setup.context, file)


def encrypt(setup: Setup, key: Any, values: Sequence[int]) -> Any:
    """A contribution of up to N integers, in coefficients; SEAL's encryption."""
    data = setup.data
    padded = [int(each) << setup.guard for each in values] + [0] * (DEGREE - len(values))
    file = data.plaintext_file(data.of_integers(padded))
    plaintext = seal.restore(seal.api.Plaintext(), setup.context, file)
    ciphertext = seal.api.Ciphertext()
    seal.api.Encryptor(setup.context, key).encrypt(plaintext, ciphertext)
    return ciphertext


def added(setup: Setup, contributions: Sequence[Any]) -> Any:
    """The sum, without any key. Raises ThresholdError for more contributions than the flooding is for."""
    if len(contributions) > setup.contributions:
        raise ThresholdError("more contributions than agreed on")
    total = seal.api.Ciphertext()
    seal.api.Evaluator(setup.context).add_many(list(contributions), total)
    return total


def phase(setup: Setup, total: Any, shares: Sequence[Polynomial]) -> list[int]:
    """The N coefficients with all flooding and noise. INSECURE to publish without flooding: see `attacks`."""
    return setup.data.integers(setup.data.add(setup.data.polynomials(total)[0], *shares))


def combine(setup: Setup, total: Any, shares: Sequence[Polynomial]) -> list[int]:
    """The N totals, exact. Meaningless unless all parties' shares are there: nothing detects it here."""
    half = 1 << (setup.guard - 1)
    return [(each + half) >> setup.guard for each in phase(setup, total, shares)]
